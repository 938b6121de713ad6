"""The section with the skills: what there is, and how to get at it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.core.prompt_section import PromptSection
from engine.files.escaping import inert
from engine.prompt.skills import Skill, listed

NAME: Final = "skills"
TOOL: Final = "skill"
MAX_CHARS: Final = 16_000
_INTRO: Final = (
    "Skills: instructions, made for this user or this project, for kinds of work. Load one with the tool `skill` as "
    "soon as the task fits its description, before you begin."
)


def skill_section(skills: Iterable[Skill]) -> PromptSection | None:
    """Return the section that lists *skills*; None if there are none."""
    lines = inert(listed(skills, MAX_CHARS))
    return PromptSection(name=NAME, text=f"{_INTRO}\n{lines}", source="folders of skills") if lines else None
