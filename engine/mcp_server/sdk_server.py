"""The SDK's server over the tools: it speaks both eras of the protocol."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import mcp_types as types
import trio
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError

from engine.control.protocol.error_kinds import Refusal
from engine.core.errors import EngineError
from engine.core.version import __version__
from engine.mcp_server.caller import McpCaller, input_required
from engine.mcp_server.engine_tools import EngineTools, ToolAnswer, ToolQuestion
from engine.mcp_server.http_endpoint import exchange_over
from engine.mcp_server.tool_table import TOOLS, ServedTool

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.context import ServerRequestContext
    from mcp.shared.message import SessionMessage

_NAME: Final = "engine"
_INSTRUCTIONS: Final = (
    "A coding agent. run gives it a task and returns its answer with the id of its session; pass that id to run again to "
    "continue. What the user does not allow is denied, and the result names the rule that would allow it."
)
# Longer than a question may wait: an answer that comes too late still gets the result of the turn.
_LATE_SECONDS: Final = 3_600.0
_GONE: Final = ToolAnswer("The client has gone.", is_error=True)


async def serve_tools(
    tools: EngineTools,
    streams: tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]],
    *,
    question_timeout: float,
) -> None:
    """Serve one client until it closes its end; requests that run then are cancelled. A checkpoint."""
    server = make_server(tools, question_timeout)
    await server.run(*streams, server.create_initialization_options())


def make_server(tools: EngineTools, question_timeout: float) -> Server[object]:
    """Return the server, for one client or for several over HTTP."""

    async def on_list(
        _: ServerRequestContext[object, object], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(tool) for tool in TOOLS])

    async def on_call(
        context: ServerRequestContext[object, object], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = next((tool for tool in TOOLS if tool.name == params.name), None)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name[:100]!r}")
        answer = await _until_over(
            exchange_over(context.request), partial(_answer, tools, McpCaller(context, params), tool)
        )
        if isinstance(answer, ToolQuestion):
            return input_required(answer.needed.questions, answer.state)
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)],
            structured_content=answer.structured,
            is_error=answer.is_error,
        )

    server: Server[object] = Server(
        _NAME, version=__version__, instructions=_INSTRUCTIONS, on_list_tools=on_list, on_call_tool=on_call
    )
    security = RequestStateSecurity.ephemeral(ttl=question_timeout + _LATE_SECONDS)
    server.middleware.append(RequestStateBoundary(security, default_audience=_NAME))
    return server


async def _until_over(
    over: trio.Event | None, call: Callable[[], Awaitable[ToolAnswer | ToolQuestion]]
) -> ToolAnswer | ToolQuestion:
    """Make a call, and cancel it when its client has gone. A checkpoint.

    The SDK does that itself for 2026-07-28; with an older client over HTTP, the call would go on for its session, which has
    no way to get the answer.
    """
    if over is None:
        return await call()
    answer: ToolAnswer | ToolQuestion = _GONE
    async with trio.open_nursery() as nursery:

        async def leave() -> None:
            await over.wait()
            nursery.cancel_scope.cancel(reason="the client has gone")

        nursery.start_soon(leave)
        answer = await call()
        nursery.cancel_scope.cancel(reason="the call is answered")
    return answer


async def _answer(tools: EngineTools, caller: McpCaller, tool: ServedTool) -> ToolAnswer | ToolQuestion:
    """Check a call and run it. A checkpoint if the arguments are valid."""
    problem = tool.checker.problem(caller.arguments)
    if problem is not None:
        return ToolAnswer(f"Wrong arguments for {tool.name}: {problem}", is_error=True)
    try:
        return await tools.handlers[tool.name](caller)
    except (EngineError, Refusal) as error:
        return ToolAnswer(str(error), is_error=True)


def _listed(tool: ServedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=cast("dict[str, object]", tool.input_schema),
        output_schema=None if tool.output is None else cast("dict[str, object]", dict(tool.output)),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.name == "run",
            open_world_hint=tool.name == "run",
        ),
    )


# With no handler at all, Python would print what the SDK logs.
for _logger in ("mcp", "server"):
    logging.getLogger(_logger).addHandler(logging.NullHandler())
