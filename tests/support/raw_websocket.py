"""A WebSocket of a foreign client (wsproto), which may send any bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage

from tests.support.raw_http import raw_stream
from tests.support.served_engine import Server


@asynccontextmanager
async def raw_websocket(
    server: Server, token: str | None = None
) -> AsyncGenerator[tuple[trio.SocketStream, Callable[[str], Awaitable[None]]]]:
    """Open a WebSocket by wsproto, as a foreign client; yield its stream, and what sends a text."""
    protocol = WSConnection(ConnectionType.CLIENT)
    fields = [(b"Authorization", f"Bearer {token or server.at.token}".encode())]
    async with raw_stream(server.port) as stream:
        await stream.send_all(
            protocol.send(Request(host=f"127.0.0.1:{server.port}", target="/v1/socket", extra_headers=fields))
        )
        accepted = False
        while not accepted:
            protocol.receive_data(await stream.receive_some())
            accepted = any(isinstance(event, AcceptConnection) for event in protocol.events())

        async def send(message: str) -> None:
            await stream.send_all(protocol.send(TextMessage(message)))

        yield stream, send


async def read_close(stream: trio.SocketStream, code: int) -> bytes:
    """Read until the connection is closed with that code; return what came before."""
    data = b""
    while (frame := b"\x88") not in data or code.to_bytes(2) not in data.rpartition(frame)[2]:
        piece = await stream.receive_some()
        assert piece, data
        data += piece
    return data
