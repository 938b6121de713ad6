"""Tools whose work is done elsewhere: by a user interface, another machine, or a person who takes time."""

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

    The call is announced, judged and started like any other. A turn in which nothing else is left to do can be parked,
    and continues to wait in another engine. Raises `ConfigError`.

    Args:
        name: its name for the model.
        arguments: the attrs class of its arguments.
        description: its description for the model; None: the class's docstring.
        read_only: as for `engine.tool`, like all that follow.
        safe: whether it may wait in parallel with other safe calls; None: if it is read-only.
        timeout: seconds until the call is aborted; None: no limit. It starts again in another engine.
        permission: the right that it needs, by default one of its own name.
    """

    async def wait(_: attrs.AttrsInstance, ctx: ToolContext) -> ToolOutput:
        return await ctx.result_from_outside()

    # `engine.tool` reads the class from the annotation, which can't be written down here.
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
