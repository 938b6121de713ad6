"""`context`: show the model what fills its window."""

from __future__ import annotations

import attrs

from engine.core.value_base import Value
from engine.tools.call_values import ToolOutput
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description, metadata


@attrs.frozen(eq=False, repr=False)
class ContextArguments(Value):
    """Arguments of `context`: none."""


async def context(_: ContextArguments, ctx: ToolContext) -> ToolOutput:
    """Return what fills the window. Not a checkpoint."""
    report = ctx.context_report()
    return ToolOutput(
        text=report.as_text(),
        metadata=metadata(f"{report.tokens:,} of {report.usable:,} tokens", tokens=report.tokens, usable=report.usable),
    )


CONTEXT = tool(name="context", description=description("context"), read_only=True)(context)
