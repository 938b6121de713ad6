"""`write`: write a whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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


@attrs.frozen(eq=False, repr=False)
class Write(Value):
    """Arguments of `write`."""

    path: Annotated[str, doc("the file, relative to the working directory or absolute")]
    content: Annotated[str, doc("the whole text of the file")]


def write_tool(*, around: EditReviewer | None = None) -> Tool:
    """Make the tool; *around* runs around each change."""

    async def need_of(args: Write, ctx: ToolContext) -> Need:
        from engine.files.diff import whole_text
        from engine.tools.edit.edit_session import need

        otherwise = whole_text(args.path, args.content)
        return await need(ctx, [args.path], lambda basis: plan(args, ctx.cwd, basis), otherwise=otherwise)

    async def write(args: Write, ctx: ToolContext) -> ToolOutput:
        from engine.tools.edit.edit_session import revise

        return await revise(ctx, [args.path], lambda basis: plan(args, ctx.cwd, basis), around)

    return tool(name="write", description=description("write"), need=need_of, permission="edit", offered=makes_edits)(
        write
    )


def plan(args: Write, cwd: str, basis: Basis) -> Plan:
    """Return what would be written. It blocks. Raises `ToolError`."""
    from engine.tools.edit.edit_session import Plan, Revision, fitting, look

    seen = look(cwd, args.path, basis)
    after = fitting(seen, args.content).data
    lines = counted(args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content)), "line")
    done = "Created" if seen.data is None else "Replaced"
    note = f"{done} {args.path} ({lines})."
    if after == seen.data:
        note = f"{args.path} holds exactly that already ({lines}): nothing was written."
    return Plan(
        revisions=(Revision(shown=args.path, path=seen.path, before=seen.data, after=after),),
        text=note,
        summary=f"{done.lower()}, {lines}",
        facts={"created": seen.data is None},
        has_diff=False,
    )


WRITE = write_tool()
