"""`glob`: find files by name."""

from __future__ import annotations

from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.search_arguments import Glob
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description


async def glob(args: Glob, ctx: ToolContext) -> ToolOutput:
    """Find files by name. A checkpoint; if cancelled, the program that looks for them is ended first."""
    from engine.tools.search.name_search import search_names
    from engine.tools.search.ripgrep import find_ripgrep

    return await search_names(await find_ripgrep(), args, ctx)


async def _need(args: Glob, ctx: ToolContext) -> Need:
    from engine.tools.search.name_search import needed

    return await ctx.to_thread(needed, args, ctx.cwd)


GLOB = tool(
    name="glob", description=description("glob"), read_only=True, need=_need, permission="read", direction="head"
)(glob)
