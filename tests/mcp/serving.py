"""The lying server as a real process, and requests to it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import trio

from engine.config.mcp_config import McpServer
from engine.mcp.mcp_connection import McpConnection
from engine.mcp.server_memory import ServerMemory
from engine.mcp.server_requests import Ask, ServerRequest
from engine.mcp.server_task import ServerTask

LIAR = Path(__file__).with_name("lying_server.py")


def lying(**options: object) -> McpServer:
    """Return the configuration of a server that lies."""
    return McpServer(command=(sys.executable, str(LIAR), json.dumps(options)))


@asynccontextmanager
async def running(server: McpServer, folder: Path, *, retries: tuple[float, ...] = ()) -> AsyncGenerator[ServerTask]:
    """Run a server for the block; it is ready, or has failed."""
    task = ServerTask(
        name="liar",
        server=server,
        folder=str(folder),
        memory=ServerMemory(folder / "memory"),
        retries=retries,
        start_pause=0.0,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task.run)
        await task.wait_settled()
        yield task
        nursery.cancel_scope.cancel()


async def nobody(_: types.ElicitRequestParams) -> types.ElicitResult:
    raise AssertionError("nobody is there to ask")


def call(name: str, **arguments: object) -> ServerRequest[types.CallToolResult]:
    """Return a request that calls a tool."""
    return request_of(name, arguments)


def request_of(
    name: str,
    arguments: Mapping[str, object],
    *,
    timeout: float = 30.0,
    limit: float = 60.0,
    show: Callable[[str], None] = lambda _: None,
) -> ServerRequest[types.CallToolResult]:
    """Return a request that calls a tool, with limits."""

    async def work(connection: McpConnection, request: ServerRequest[types.CallToolResult]) -> types.CallToolResult:
        return await connection.call_tool(name, arguments, on_progress=request.report, elicit=request.ask)

    return ServerRequest(work=work, timeout=timeout, limit=limit, on_progress=show, owner="ses_1")


async def answer(
    task: ServerTask, request: ServerRequest[types.CallToolResult], ask: Ask = nobody
) -> types.CallToolResult:
    """Send a request, and return its result."""
    task.start_request(request)
    return await request.wait(ask)


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


def received(log: Path, line: str) -> int:
    """Return how often the server has received that."""
    return log.read_text().splitlines().count(line)
