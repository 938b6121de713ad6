"""A proxy on this machine that adds a token to each request, for clients that can't send one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio


@attrs.define
class TokenProxy:
    """Passes requests on to a server, under its name and with its token."""

    port: int
    target: int
    token: str

    async def serve(self, client: trio.SocketStream) -> None:
        try:
            async with (
                client,
                await trio.open_tcp_stream("127.0.0.1", self.target) as server,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(self._answer, server, client, nursery.cancel_scope)
                await self._pass_on(client, server)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, OSError):
            pass

    async def _answer(self, server: trio.SocketStream, client: trio.SocketStream, scope: trio.CancelScope) -> None:
        async for piece in server:
            await client.send_all(piece)
        scope.cancel()

    async def _pass_on(self, client: trio.SocketStream, server: trio.SocketStream) -> None:
        received = b""
        async for piece in client:
            received += piece
            while b"\r\n\r\n" in received:
                head, _, rest = received.partition(b"\r\n\r\n")
                lines = head.split(b"\r\n")
                size = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
                if len(rest) < size:
                    break
                await server.send_all(b"\r\n".join(self._fields(lines)) + b"\r\n\r\n" + rest[:size])
                received = rest[size:]

    def _fields(self, lines: list[bytes]) -> list[bytes]:
        """The fields of a request: what names the proxy names the server, and nothing else is changed."""
        ours, theirs = f":{self.port}".encode(), f":{self.target}".encode()
        named = [
            line.replace(ours, theirs) if line.lower().startswith((b"host:", b"origin:")) else line for line in lines
        ]
        return [named[0], f"Authorization: Bearer {self.token}".encode(), *named[1:]]


@asynccontextmanager
async def token_proxy(target: int, token: str) -> AsyncGenerator[int]:
    """Run a proxy for the block; return its port."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    proxy = TokenProxy(port, target, token)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, proxy.serve, listeners))
        yield port
        nursery.cancel_scope.cancel()
