"""The right that a call needs, asked outside of a turn."""

from collections.abc import Awaitable
from typing import cast

from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool
from engine.tools.tool_context import ToolContext


def need_of(tool: Tool, arguments: object) -> Need:
    """Return what *tool* needs for *arguments*; it must tell at once, and without looking at its context."""
    need = tool.need(arguments, cast("ToolContext", None))
    assert isinstance(need, Need)
    return need


async def need_in(ctx: ToolContext, tool: Tool, arguments: object) -> Need:
    """Return what *tool* needs for *arguments* in a call."""
    need = tool.need(arguments, ctx)
    return await need if isinstance(need, Awaitable) else need


async def output_of(tool: Tool, arguments: object, ctx: ToolContext) -> ToolOutput:
    """Run the body of *tool*, and return what it returns, which is more than a text."""
    output = await tool.body(arguments, ctx)
    assert isinstance(output, ToolOutput)
    return output
