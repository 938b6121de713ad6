"""`apply_patch`: apply a patch in Codex's format to several files, as a whole or not at all."""

from __future__ import annotations

from typing import Annotated

import attrs

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.builtin.edit import EXACTLY, LOOSELY
from engine.tools.builtin.tools_by_model import writes_patches
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import EditReviewer, ToolContext
from engine.tools.tool_text import description


@attrs.frozen(eq=False, repr=False)
class ApplyPatch(Value):
    """Arguments of `apply_patch`."""

    patch: Annotated[str, doc("the whole patch, from *** Begin Patch to *** End Patch")]


def apply_patch_tool(*, fuzzy: bool = True, around: EditReviewer | None = None) -> Tool:
    """Make the tool. With *fuzzy* it accepts inexact matches; *around* runs around the change."""

    async def need_of(args: ApplyPatch, ctx: ToolContext) -> Need:
        from engine.tools.edit.edit_session import need
        from engine.tools.edit.patch_plan import paths_of, plan

        try:
            names = await ctx.to_thread(paths_of, args.patch)
        except ToolError:  # the call itself will report it
            names = []
        return await need(ctx, names, lambda basis: plan(args.patch, ctx.cwd, basis, fuzzy=fuzzy), otherwise=args.patch)

    async def apply_patch(args: ApplyPatch, ctx: ToolContext) -> ToolOutput:
        from engine.tools.edit.edit_session import revise
        from engine.tools.edit.patch_plan import paths_of, plan

        names = await ctx.to_thread(paths_of, args.patch)
        return await revise(ctx, names, lambda basis: plan(args.patch, ctx.cwd, basis, fuzzy=fuzzy), around)

    text = description("apply_patch", otherwise=LOOSELY if fuzzy else EXACTLY)
    return tool(name="apply_patch", description=text, need=need_of, permission="edit", offered=writes_patches)(
        apply_patch
    )


APPLY_PATCH = apply_patch_tool()
