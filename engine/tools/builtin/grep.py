"""`grep`: search the contents of files."""

from __future__ import annotations

from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.search_arguments import MAX_BYTES, MAX_LINE_CHARS, TIMEOUT, Grep
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description


async def grep(args: Grep, ctx: ToolContext) -> ToolOutput:
    """Search the contents of files. A checkpoint; if cancelled, the program that searches is ended first."""
    from engine.tools.search.content_search import search_contents
    from engine.tools.search.ripgrep import find_ripgrep

    return await search_contents(await find_ripgrep(), args, ctx)


async def _need(args: Grep, ctx: ToolContext) -> Need:
    from engine.tools.search.content_search import needed

    return await ctx.to_thread(needed, args, ctx.cwd)


GREP = tool(
    name="grep",
    description=description("grep", max_bytes=MAX_BYTES, max_line_chars=MAX_LINE_CHARS, timeout=TIMEOUT),
    read_only=True,
    need=_need,
    permission="read",
    direction="head",
)(grep)
