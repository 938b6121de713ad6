"""The first section: how to work, as the model's family is best told. Text files, chosen by what the catalogue says."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from engine.core.prompt_section import PromptSection

NAME: Final = "base"
HOST: Final = "the settings"
FAMILIES: Final = ("claude", "gpt", "gemini")
GENERAL: Final = "general"


def base_section(system: str, family: str) -> PromptSection:
    """Return the host's own *system* prompt, exactly as it is; if it is empty, the one for a *family* of models."""
    if system:
        return PromptSection(name=NAME, text=system, source=HOST, stability="static")
    chosen = family if family in FAMILIES else GENERAL
    return PromptSection(name=NAME, text=family_text(chosen), source=f"for {chosen} models", stability="static")


@cache
def family_text(family: str) -> str:
    """Return what models of that family are told: what holds for all, and what these need besides. It blocks once."""
    folder = files("engine.prompt").joinpath("families")
    core, own = (folder.joinpath(f"{name}.txt").read_text("utf-8").strip() for name in ("core", family))
    return f"{core}\n\nBesides\n{own}"
