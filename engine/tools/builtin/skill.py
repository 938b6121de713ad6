"""`skill`: loads instructions from a folder of skills."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import Annotated, Final

import attrs

from engine.errors import ToolError
from engine.tools.builtin.texts import description, metadata
from engine.tools.context import ToolContext
from engine.tools.schema import doc
from engine.tools.skills import MAX_FILES, Skill, SkillError, Skills, files_of, find_skills, read_skill
from engine.tools.spec import Need, Tool, ToolOutput, tool

PERMISSION: Final = "skill"
# The list is a part of every request.
MAX_LISTED_CHARS: Final = 16_000


@attrs.frozen
class LoadSkill:
    """Arguments of `skill`."""

    name: Annotated[str, doc("the skill's name, as the list has it")]


def skill_tool(skills: Skills | Iterable[str | os.PathLike[str]]) -> Tool:
    """Return the tool `skill`. It looks into the folders at once, which blocks.

    Args:
        skills: folders of skills, the most important first; or what `find_skills` found in
            them, which also tells what could not be used.
    """
    table = skills if isinstance(skills, Skills) else find_skills(skills)

    async def load(args: LoadSkill, ctx: ToolContext) -> ToolOutput:
        """Return what a skill says. A checkpoint; if cancelled, the thread that reads is abandoned."""
        found = table.get(args.name)
        if found is None:
            raise ToolError(_missing(table, args.name[:64]))
        return await ctx.to_thread(_load, found)

    def need(args: LoadSkill) -> Need:
        # Of one that is not there nobody needs to be asked: the call ends with the names of those that are.
        return Need(permission=PERMISSION, patterns=(args.name,), is_own=table.get(args.name) is None)

    return tool(
        name="skill",
        description=description("skill", skills=_listed(table)),
        read_only=True,
        need=need,
        permission="skill",
    )(load)


def _load(skill: Skill) -> ToolOutput:
    try:
        text, files = read_skill(skill), files_of(skill)
    except SkillError as error:
        raise ToolError(f"The skill {skill.name} can't be used: {error}.") from error
    more = ", and more" if len(files) > MAX_FILES else ""
    others = f" It comes with: {', '.join(files[:MAX_FILES])}{more}." if files else ""
    return ToolOutput(
        text=f"(The skill {skill.name}, from {skill.folder}.{others})\n\n{text}", metadata=metadata(skill.name)
    )


def _missing(table: Skills, name: str) -> str:
    why = table.problem(name)
    if why:
        return f"The skill {name} can't be used: {why}."
    names = [skill.name for skill in table.found]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6) or names
    return f"There is no skill named {name!r}. There is: {', '.join(close) or 'none'}."


def _listed(table: Skills) -> str:
    lines: list[str] = []
    room = MAX_LISTED_CHARS
    for skill in table.found:
        line = f"- {skill.name}: {skill.description}"
        room -= len(line)
        lines.append(line if room > 0 else f"- {skill.name}")
    return "\n".join(lines) or "(there are none)"
