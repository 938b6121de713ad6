"""`skill`: load instructions from a folder of skills."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final

import attrs

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.files.escaping import inert
from engine.prompt.skills import MAX_FILES, Skill, SkillError, Skills, find_skills, read_skill, skill_files, skill_list
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import NeedFunction, Tool, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description, metadata

PERMISSION: Final = "skill"
# The list is a part of every request.
MAX_LISTED_CHARS: Final = 16_000
# What the format recommends for a skill's text, which stays in the conversation.
MAX_LINES: Final = 500
MAX_TOKENS: Final = 5_000
_CHARS_PER_TOKEN: Final = 4
_ELSEWHERE: Final = "They are listed in your instructions, or in a reminder; a name that is not there can't be loaded."


@attrs.frozen(eq=False, repr=False)
class LoadSkill(Value):
    """Arguments of `skill`."""

    name: Annotated[str, doc("the skill's name, as the list has it")]


def skill_tool(skills: Skills | Iterable[str | os.PathLike[str]] | Callable[[str], Skills]) -> Tool:
    """Return the tool `skill`. Lists the folders now, which blocks.

    Args:
        skills: folders of skills, the most important first; or what `find_skills` found in
            them, which also tells what could not be used. Or a function, which blocks, that returns those of a
            working directory: then the prompt lists them, as that of `PromptLayers` does.
    """
    if callable(skills):
        skills_at = skills

        async def need_there(args: LoadSkill, ctx: ToolContext) -> Need:
            return _need(await ctx.to_thread(skills_at, ctx.cwd), args.name)

        return _tool(skills_at, _ELSEWHERE, need_there)
    table = skills if isinstance(skills, Skills) else find_skills(skills)
    listing = skill_list(table.available, MAX_LISTED_CHARS) or "(there are none)"
    return _tool(lambda _: table, listing, lambda args: _need(table, args.name))


def _tool(skills_at: Callable[[str], Skills], listing: str, need: NeedFunction[LoadSkill]) -> Tool:
    async def load(args: LoadSkill, ctx: ToolContext) -> ToolOutput:
        """Return a skill's text. A checkpoint; if cancelled, the reading thread is abandoned."""
        return await ctx.to_thread(_load, skills_at, ctx.cwd, args.name)

    return tool(
        name="skill",
        description=description("skill", skills=listing),
        read_only=True,
        need=need,
        permission=PERMISSION,
        protected=True,
    )(load)


def _need(table: Skills, name: str) -> Need:
    skill = table.get(name)
    # An unknown skill needs no permission: the call fails, and lists the existing ones.
    if skill is None:
        return Need(permission=PERMISSION, patterns=(name,), is_own=True)
    tools = (
        f"It expects to use: {', '.join(skill.allowed_tools)}. This allows none of them." if skill.allowed_tools else ""
    )
    return Need(permission=PERMISSION, patterns=(name,), detail=inert(tools))


def _load(skills_at: Callable[[str], Skills], cwd: str, name: str) -> ToolOutput:
    table = skills_at(cwd)
    skill = table.get(name)
    if skill is None:
        raise ToolError(_missing(table, name[:64]))
    try:
        text, files = read_skill(skill), skill_files(skill)
    except SkillError as error:
        raise ToolError(f"The skill {skill.name} can't be used: {error}.") from error
    return ToolOutput(text=f"({inert(_facts(skill, text, files))})\n\n{text}", metadata=metadata(skill.name))


def _facts(skill: Skill, text: str, files: Sequence[str]) -> str:
    """Return what the model should know of a skill besides its text."""
    facts = [f"The skill {skill.name}, from {skill.folder}."]
    if files:
        more = ", and more" if len(files) > MAX_FILES else ""
        facts.append(f"It comes with: {', '.join(files[:MAX_FILES])}{more}.")
    if skill.compatibility:
        facts.append(f"It needs: {skill.compatibility.rstrip('.')}.")
    if skill.allowed_tools:
        facts.append(f"It expects to use: {', '.join(skill.allowed_tools)}. That allows none of them.")
    lines, tokens = text.count("\n") + 1, len(text) // _CHARS_PER_TOKEN
    if lines > MAX_LINES or tokens > MAX_TOKENS:
        facts.append(
            f"Its text is long: {lines:,} lines, about {tokens:,} tokens; skills should have at most {MAX_LINES} lines and "
            f"{MAX_TOKENS:,} tokens, with the rest in files."
        )
    return " ".join(facts)


def _missing(table: Skills, name: str) -> str:
    why = table.problem(name)
    if why:
        return f"The skill {name} can't be used: {why}."
    names = [skill.name for skill in table.available]
    import difflib

    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6) or names
    return f"There is no skill named {name!r}. There is: {', '.join(close) or 'none'}."
