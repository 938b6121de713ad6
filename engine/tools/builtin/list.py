"""`list`: show a folder as a tree."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.errors import ToolError
from engine.files.text_files import resolve
from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.search_arguments import MAX_ENTRIES, List
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description


async def list_folder(args: List, ctx: ToolContext) -> ToolOutput:
    """Show a folder as a tree. A checkpoint; if cancelled, the reading thread is abandoned, and ends soon."""
    from engine.files.cancellable_thread import to_halting_thread
    from engine.tools.search.folder_tree import FolderTree

    def look(halted: Callable[[], bool]) -> ToolOutput:
        tree = FolderTree(args.path, args.depth, args.include_ignored, halted)
        return tree.output(ctx.cwd, ctx.approved_paths)

    return await to_halting_thread(look)


async def _need(args: List, ctx: ToolContext) -> Need:
    return await ctx.to_thread(_needed, args, ctx.cwd)


LIST = tool(
    name="list",
    description=description("list", max_entries=MAX_ENTRIES),
    read_only=True,
    need=_need,
    permission="read",
    direction="head",
)(list_folder)


def _needed(args: List, cwd: str) -> Need:
    from engine.tools.search.search_paths import read_need

    try:
        return read_need(cwd, resolve(cwd, args.path))
    except ToolError:  # the call itself will report it
        return Need(permission="read", patterns=(args.path,))
