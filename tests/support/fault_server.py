"""A host of models that fails in one way: raw HTTP on the loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial

import attrs
import trio

BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)
OK_STREAM = (
    b'data: {"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."}}]}\n\n'
    b'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@attrs.define
class FaultServer:
    """Answers every request with the same bytes; then it closes the connection, or falls silent.

    Attributes:
        reply: what it sends.
        is_silent: it keeps the connection open, and sends nothing more.
        asked: how many requests came.
    """

    reply: bytes = b""
    is_silent: bool = False
    asked: int = 0
    # After so many faults it answers as it should.
    recovers_after: int = 1_000

    async def handle(self, stream: trio.SocketStream) -> None:
        with suppress(*BROKEN):
            if not await self._read(stream):
                return
            self.asked += 1
            if self.asked > self.recovers_after:
                await stream.send_all(response(200, OK_STREAM, "text/event-stream"))
                return
            await stream.send_all(self.reply)
            if self.is_silent:
                await stream.receive_some(1)

    async def _read(self, stream: trio.SocketStream) -> bool:
        """Read a whole request; return whether one came."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = await stream.receive_some()
            if not piece:
                return False
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        rest = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
        while rest > 0:
            rest -= len(await stream.receive_some())
        return True

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[int]:
        """Serve; give the port."""
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, self.handle, 0, host="127.0.0.1"))
            yield listeners[0].socket.getsockname()[1]
            nursery.cancel_scope.cancel(reason="the test is over")


def response(status: int, body: bytes | object, kind: str = "application/json", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(data)}", "connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def error(message: str, **facts: object) -> object:
    return {"error": {"message": message, **facts}}
