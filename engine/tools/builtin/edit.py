"""`edit`: replace a text in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import attrs

from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.builtin.tools_by_model import makes_edits
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import EditReviewer, ToolContext
from engine.tools.tool_text import counted, description

if TYPE_CHECKING:
    from engine.tools.edit.edit_session import Basis, Plan

LOOSELY: Final = (
    "What is not there exactly may be found all the same, if one place only differs from it in blanks, escapes or a few "
    "characters; the result then says so."
)
EXACTLY: Final = "Nothing is guessed: what is not there exactly is not found."


@attrs.frozen(eq=False, repr=False)
class Edit(Value):
    """Arguments of `edit`."""

    path: Annotated[str, doc("the file, relative to the working directory or absolute")]
    old_string: Annotated[str, doc("the text to replace, exactly as it stands in the file, without line numbers")]
    new_string: Annotated[str, doc("the text to put in its place")]
    replace_all: Annotated[bool, doc("replace every occurrence instead of the only one")] = False


def edit_tool(*, fuzzy: bool = True, around: EditReviewer | None = None) -> Tool:
    """Make the tool. With *fuzzy* it accepts inexact matches; *around* runs around each edit."""

    def planned(args: Edit, cwd: str, basis: Basis) -> Plan:
        return plan(args, cwd, basis, fuzzy=fuzzy)

    async def need_of(args: Edit, ctx: ToolContext) -> Need:
        from engine.files.diff import replacement
        from engine.tools.edit.edit_session import need

        otherwise = replacement(args.path, args.old_string, args.new_string)
        return await need(ctx, [args.path], lambda basis: planned(args, ctx.cwd, basis), otherwise=otherwise)

    async def edit(args: Edit, ctx: ToolContext) -> ToolOutput:
        from engine.tools.edit.edit_session import revise

        return await revise(ctx, [args.path], lambda basis: planned(args, ctx.cwd, basis), around)

    text = description("edit", otherwise=LOOSELY if fuzzy else EXACTLY)
    return tool(name="edit", description=text, need=need_of, permission="edit", offered=makes_edits)(edit)


def plan(args: Edit, cwd: str, basis: Basis, *, fuzzy: bool) -> Plan:
    """Return what the edit would change. It blocks. Raises `ToolError`."""
    from engine.tools.edit.edit_session import Plan, Revision, look
    from engine.tools.edit.replace import replace

    seen = look(cwd, args.path, basis)
    before = seen.text()
    done = replace(args.path, before.text, args.old_string, args.new_string, replace_all=args.replace_all, fuzzy=fuzzy)
    count = counted(done.count, "replacement")
    return Plan(
        revisions=(
            Revision(
                shown=args.path, path=seen.path, before=seen.data, after=attrs.evolve(before, text=done.text).data
            ),
        ),
        text=f"Edited {args.path}: {count} at {done.where}{f', {done.caution}' if done.caution else ''}.",
        summary=done.where,
        facts={"replacements": done.count, "tier": done.tier},
    )


EDIT = edit_tool()
