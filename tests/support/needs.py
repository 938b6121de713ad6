"""The right that a call needs, asked outside of a turn."""

from typing import cast

from engine.tools.context import ToolContext
from engine.tools.spec import Need, Tool


def need_of(tool: Tool, arguments: object) -> Need:
    """Return what *tool* needs for *arguments*; it must tell at once, and without looking at its context."""
    need = tool.need(arguments, cast("ToolContext", None))
    assert isinstance(need, Need)
    return need
