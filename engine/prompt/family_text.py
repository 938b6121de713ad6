"""The first section: how to work. One text file per model family; the catalogue assigns models to families."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from engine.core.prompt_section import PromptSection

NAME: Final = "base"
HOST: Final = "the settings"
FAMILIES: Final = ("claude", "gpt", "gemini")
GENERAL: Final = "general"


def base_section(system: str, family: str) -> PromptSection:
    """Return the host's *system* prompt unchanged; if it is empty, the prompt for the *family* of models."""
    if system:
        return PromptSection(name=NAME, text=system, source=HOST, stability="static")
    family_name = family if family in FAMILIES else GENERAL
    return PromptSection(
        name=NAME, text=family_text(family_name), source=f"for {family_name} models", stability="static"
    )


@cache
def family_text(family: str) -> str:
    """Return the prompt for a family: a common part and the family's own. It blocks once."""
    folder = Path(__file__).with_name("families")
    core, own = ((folder / f"{name}.txt").read_text("utf-8").strip() for name in ("core", family))
    return f"{core}\n\nBesides\n{own}"
