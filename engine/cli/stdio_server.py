"""`serve_stdio`: the control server for the one program that has started it, over the two ends of a pipe."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import final

import trio

from engine.control.acceptor import OWNER
from engine.control.credentials import ClientCredentials
from engine.control.engine_methods import EngineMethods
from engine.control.listen import ServedAt
from engine.control.server import ControlServer
from engine.control.service.engine_meter import EngineMeter
from engine.control.service.metrics import Metrics
from engine.control.transport.line_transport import LineTransport
from engine.control.transport.message_transport import MessageTransport, TransportClosed
from engine.session.engine import Engine

_LOOK_SECONDS = 0.02


async def serve_stdio(
    engine: Engine,
    stream: trio.abc.Stream,
    *,
    drain_seconds: float = 10.0,
    task_status: trio.TaskStatus[ServedAt] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an open engine over *stream*, until that ends and the engine is closed. A checkpoint.

    The end of the input drains: requests that have come are answered, turns may go on for *drain_seconds*, and what happens
    meanwhile is still sent. `ServedAt.drained` then says when the host should close the engine.

    Args:
        engine: what is served.
        stream: lines come from it, and go to it; it is closed.
        drain_seconds: how long turns may go on.
        task_status: gets a handle by which it can be drained.
    """
    metrics = Metrics()
    meter = EngineMeter(engine, metrics)
    credentials = ClientCredentials(now=trio.current_time, random=secrets.token_bytes)
    server = ControlServer(EngineMethods(engine), credentials, metrics=metrics)

    async def drain() -> None:
        # Before the drain, which would refuse what has come and was not begun.
        while any(connection.is_busy for connection in server.clients):  # noqa: ASYNC110  # a moment; `drain` bounds the rest
            await trio.sleep(_LOOK_SECONDS)
        server.draining.begin(drain_seconds, "its input has ended")

    async def measure() -> None:
        await meter.run()
        server.draining.engine_closed.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(server.run_tasks)
        nursery.start_soon(measure)
        task_status.started(ServedAt("", None, server, lambda: ""))
        transport = _OpenEnded(LineTransport(stream, message_bytes=server.limits.message_bytes), drain)
        await server.run_connection(transport, OWNER, kind="stdio")
        # The other side may have closed its end of the output first.
        if server.draining.until is None:
            server.draining.begin(drain_seconds, "its client has gone")
        await server.draining.ended.wait()
        nursery.cancel_scope.cancel(reason="the server has ended")


@final
class _OpenEnded:
    """A transport whose input may end before its output."""

    def __init__(self, transport: MessageTransport, on_end: Callable[[], Awaitable[None]]) -> None:
        self._transport = transport
        self._on_end = on_end
        self.send = transport.send
        self.close = transport.close

    async def receive(self) -> str | bytes:
        """Return the next message; after the last one, wait until the connection is closed. A checkpoint."""
        try:
            return await self._transport.receive()
        except TransportClosed as end:
            if end.code != 1006:  # too long a line
                raise
        await self._on_end()
        await trio.sleep_forever()
        raise AssertionError
