"""`HttpServer`: the engine as an MCP server behind HTTP, on this machine alone."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, final

import attrs
import trio
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from engine.control.acceptor import OWNER
from engine.control.credentials import ClientCredentials
from engine.control.service.listening_sockets import ListeningSockets
from engine.control.token_watch import TokenWatch
from engine.control.transport.access import AllowedAddresses
from engine.control.transport.http_connection import HttpConnection
from engine.mcp_server.engine_tools import EngineTools
from engine.mcp_server.http_endpoint import MAX_BODY_BYTES, PATH, HttpEndpoint
from engine.mcp_server.sdk_server import make_server

_HOST: Final = "127.0.0.1"
_METHODS: Final = frozenset({"GET", "POST", "DELETE"})
MOST_CONNECTIONS: Final = 256
# Of clients that speak an older protocol; half an hour after the last request one is forgotten.
_MOST_SESSIONS: Final = 256
_log = logging.getLogger("engine.mcp_server")


@final
class HttpServer:
    """Listens on the loopback interface; each request needs the token.

    Attributes:
        url: its address, once it runs.
        token: what clients send, once it runs.
    """

    def __init__(self, tools: EngineTools, *, port: int, folder: Path | None, question_timeout: float) -> None:
        """Make it.

        Args:
            tools: what it offers.
            port: to listen at; 0: a free one.
            folder: of the file with the token, which is made; None: the token is for this server alone.
            question_timeout: seconds after which an open question counts as denied.
        """
        self.url: str = ""
        self.token: str = ""
        self._port = port
        self._folder = folder
        self._tools = tools
        self._question_timeout = question_timeout
        self._running = trio.CancelScope()

    def leave(self) -> None:
        """End it: requests that run are cancelled. Not a checkpoint."""
        self._running.cancel(reason="the server was asked to end")

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `leave`. A checkpoint. Raises `ConfigError` if it can't listen, or the file with the token is bad."""
        sockets = ListeningSockets()
        credentials = ClientCredentials(now=trio.current_time, random=secrets.token_bytes)
        tokens = TokenWatch(credentials, self._folder, lambda _: None, OWNER)
        try:
            with self._running:
                await tokens.load()
                await sockets.complete(_HOST, self._port, None)
                port = sockets.address[1]
                self.url, self.token = f"http://{_HOST}:{port}{PATH}", tokens.token
                async with (
                    open_connections(self._tools, credentials, port, self._question_timeout) as serve,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(tokens.run)
                    task_status.started()
                    await trio.serve_listeners(serve, sockets.http)
        finally:
            sockets.close()


@asynccontextmanager
async def open_connections(
    tools: EngineTools, credentials: ClientCredentials, port: int, question_timeout: float
) -> AsyncGenerator[Callable[[trio.abc.Stream], Awaitable[None]]]:
    """Return what serves a connection, for the block; at its end, requests that run are cancelled. A checkpoint."""
    app = StreamableHTTPSessionManager(
        make_server(tools, question_timeout), max_request_body_size=MAX_BODY_BYTES, max_sessions=_MOST_SESSIONS
    )
    endpoint = HttpEndpoint(app, credentials)
    allowed = attrs.evolve(AllowedAddresses.on_port(port), methods=_METHODS)
    open_count = 0

    async def serve(stream: trio.abc.Stream) -> None:
        nonlocal open_count
        if open_count >= MOST_CONNECTIONS:
            await trio.aclose_forcefully(stream)
            return
        open_count += 1
        try:
            await HttpConnection(stream, allowed, endpoint).serve()
        except Exception:  # noqa: BLE001  # a fault ends one connection, and not the server
            _log.exception("a connection has ended by a fault")
        finally:
            open_count -= 1

    async with app.run():
        yield serve
