"""Tools whose work is done elsewhere: by a user interface, another machine, a person with time."""

from __future__ import annotations

import attrs

from engine.tools.call_values import ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext


def external_tool(
    name: str,
    arguments: type[attrs.AttrsInstance],
    *,
    description: str | None = None,
    read_only: bool = False,
    safe: bool | None = None,
    timeout: float | None = None,
    permission: str | None = None,
) -> Tool:
    """Return a tool whose calls wait until the host brings their results with `session.settle`.

    The call is announced, judged and started as any other. A turn in which nothing else is
    left to do can be parked, and waits on in another engine. Raises `ConfigError`.

    Args:
        name: what the model calls it.
        arguments: the attrs class of its arguments.
        description: what the model reads of it; None: the class's docstring.
        read_only: as for `engine.tool`; so are all that follow.
        safe: may it wait beside other safe calls? None: if it is read-only.
        timeout: seconds, then the call is aborted; None: as long as it takes. It starts again in another engine.
        permission: the right that it needs, if that is not of its own name.
    """

    async def wait(_: attrs.AttrsInstance, ctx: ToolContext) -> ToolOutput:
        return await ctx.result_from_outside()

    # What `engine.tool` reads the class from; it is not known when this function is written.
    wait.__annotations__["_"] = arguments
    return tool(
        name=name,
        description=description,
        read_only=read_only,
        safe=safe,
        timeout=timeout,
        permission=permission,
        resumable=True,
    )(wait)
