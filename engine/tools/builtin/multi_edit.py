"""`multi_edit`: several edits of one file, all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.builtin.edit import EXACTLY, LOOSELY
from engine.tools.builtin.tools_by_model import makes_edits
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import EditReviewer, ToolContext
from engine.tools.tool_text import counted, description

if TYPE_CHECKING:
    from engine.tools.edit.edit_session import Basis, Plan
    from engine.tools.edit.replace import Replaced


@attrs.frozen(eq=False, repr=False)
class Replacement(Value):
    """One of the edits."""

    old_string: Annotated[
        str, doc("the text to replace, exactly as it stands in the file by then, without line numbers")
    ]
    new_string: Annotated[str, doc("the text to put in its place")]
    replace_all: Annotated[bool, doc("replace every occurrence instead of the only one")] = False


@attrs.frozen(eq=False, repr=False)
class MultiEdit(Value):
    """Arguments of `multi_edit`."""

    path: Annotated[str, doc("the file, relative to the working directory or absolute")]
    edits: Annotated[list[Replacement], doc("the edits, in their order")] = attrs.field(
        validator=attrs.validators.min_len(1)
    )


def multi_edit_tool(*, fuzzy: bool = True, around: EditReviewer | None = None) -> Tool:
    """Make the tool. With *fuzzy* it accepts inexact matches; *around* runs around each change."""

    def planned(args: MultiEdit, cwd: str, basis: Basis) -> Plan:
        return plan(args, cwd, basis, fuzzy=fuzzy)

    async def need_of(args: MultiEdit, ctx: ToolContext) -> Need:
        from engine.files.diff import replacement
        from engine.tools.edit.edit_session import need

        pieces = [replacement(args.path, one.old_string, one.new_string) for one in args.edits]
        return await need(ctx, [args.path], lambda basis: planned(args, ctx.cwd, basis), otherwise="".join(pieces))

    async def multi_edit(args: MultiEdit, ctx: ToolContext) -> ToolOutput:
        from engine.tools.edit.edit_session import revise

        return await revise(ctx, [args.path], lambda basis: planned(args, ctx.cwd, basis), around)

    text = description("multi_edit", otherwise=LOOSELY if fuzzy else EXACTLY)
    make = tool(
        name="multi_edit", description=text, need=need_of, permission="edit", offered=makes_edits, aliases=["multiedit"]
    )
    return make(multi_edit)


def plan(args: MultiEdit, cwd: str, basis: Basis, *, fuzzy: bool) -> Plan:
    """Return what the edits would change. It blocks. Raises `ToolError` if an edit does not match."""
    from engine.tools.edit.edit_session import Plan, Revision, look
    from engine.tools.edit.replace import replace

    seen = look(cwd, args.path, basis)
    before = seen.text()
    text = before.text
    done: list[Replaced] = []
    for number, one in enumerate(args.edits, 1):
        try:
            replaced = replace(
                args.path, text, one.old_string, one.new_string, replace_all=one.replace_all, fuzzy=fuzzy
            )
        except ToolError as error:
            raise ToolError(f"Edit {number} of {len(args.edits)}: {error} None of the edits was made.") from error
        text = replaced.text
        done.append(replaced)
    places = [f"{n}. {one.where}{f', {one.caution}' if one.caution else ''}" for n, one in enumerate(done, 1)]
    count = counted(len(done), "edit")
    return Plan(
        revisions=(
            Revision(shown=args.path, path=seen.path, before=seen.data, after=attrs.evolve(before, text=text).data),
        ),
        text="\n".join([f"Edited {args.path}: {count}, made at", *places]),
        summary=count,
        facts={"edits": len(done), "fuzzy": sum(one.tier != "exact" for one in done)},
    )


MULTI_EDIT = multi_edit_tool()
