"""A server behind a URL: streamable HTTP by the SDK, with our bounds around it.

Addresses are judged when a connection is made, after the name was looked up: private ones only for servers that the user's
own file names. A body is cut off at 16 MiB. A server that answers 401 needs a login, which no request of a turn begins.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import attrs
import httpx2
import trio
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from engine.mcp.message_gate import MessageGate
from engine.web.address_guard import AddressRefused, Guard
from engine.web.fetch import check_peer

if TYPE_CHECKING:
    import socket

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

MAX_BODY_BYTES: Final = 16 * 1024 * 1024

_CONNECT_SECONDS: Final = 30.0
_UNAUTHORIZED: Final = 401


class RefusedAddress(Exception):
    """The server's address is private, and nobody who may do so has named it."""


class _NetworkStream(Protocol):
    def get_extra_info(self, info: str) -> object: ...


@attrs.define(eq=False)
class HttpTransport:
    """The streams of a server behind a URL.

    Attributes:
        url: where it is.
        headers: sent with each request.
        guard: judges addresses; None: all are allowed.
        auth: adds the user's token to requests; None: there is none.
        gate: what judges its messages.
        ended: never set: each request is a connection of its own.
        needs_login: it has answered that the user must log in.
        reason: why its address is not connected to; empty: it is.
    """

    url: str
    headers: Mapping[str, str]
    guard: Guard | None
    auth: httpx2.Auth | None
    gate: MessageGate
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    needs_login: bool = attrs.field(default=False, init=False)
    reason: str = attrs.field(default="", init=False)

    @asynccontextmanager
    async def open(
        self,
    ) -> AsyncGenerator[
        tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
    ]:
        """Return the streams; nothing is connected yet. Always a checkpoint; if cancelled, nothing is left."""
        client = httpx2.AsyncClient(
            headers={**self.headers, "accept-encoding": "identity"},
            # How long an answer may take is decided for each call.
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
            auth=self.auth,
            event_hooks={"request": [self._prepare], "response": [self._check]},
        )
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        async with (
            client,
            streamable_http_client(self.url, http_client=client, max_sse_event_size=MAX_BODY_BYTES) as (
                incoming,
                outgoing,
            ),
            trio.open_nursery() as nursery,
        ):

            async def receive() -> None:
                with to_client:
                    async for item in incoming:
                        if isinstance(item, Exception) or self.gate.receive(item.message):
                            await to_client.send(item)

            async def send() -> None:
                with from_client:
                    async for item in from_client:
                        self.gate.send(item.message)
                        await outgoing.send(item)
                await trio.sleep(math.inf)

            nursery.start_soon(_until_closed, receive)
            nursery.start_soon(_until_closed, send)
            try:
                yield from_server, to_server
            finally:
                for stream in (from_client, from_server, to_server, to_client):
                    stream.close()
                nursery.cancel_scope.cancel(reason="the connection is closed")

    async def _prepare(self, request: httpx2.Request) -> None:
        """Have the address judged when the request's connection is made. Not a checkpoint, though the client awaits it."""
        if self.guard is not None and not _is_proxied(str(request.url)):
            host = request.url.host

            async def judge(event: str, info: Mapping[str, object]) -> None:
                if not event.endswith("connect_tcp.complete") or self.guard is None:
                    return
                stream = cast("_NetworkStream", info["return_value"])
                try:
                    check_peer(self.guard, host, cast("socket.socket", stream.get_extra_info("socket")))
                except AddressRefused as error:
                    self.reason = f"{error.objection}: only servers of the user's own configuration may be there"
                    raise RefusedAddress(self.reason) from error

            request.extensions["trace"] = judge

    async def _check(self, response: httpx2.Response) -> None:
        """Note what an answer says about the login, and bound its body. Not a checkpoint, though the client awaits it."""
        if response.status_code == _UNAUTHORIZED:
            self.needs_login = True
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            # A few bytes could become gigabytes.
            raise httpx2.DecodingError(
                "the server compresses its answers, which was not asked for", request=response.request
            )
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream), response.request)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with an error if it is too long."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: httpx2.Request) -> None:
        self._stream = stream
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _BoundedIterator(self._stream.__aiter__(), self._request)

    async def aclose(self) -> None:
        await self._stream.aclose()


@attrs.define(eq=False)
class _BoundedIterator:
    _chunks: AsyncIterator[bytes]
    _request: httpx2.Request
    _size: int = attrs.field(default=0, init=False)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._chunks.__anext__()
        self._size += len(chunk)
        if self._size > MAX_BODY_BYTES:
            raise httpx2.StreamError(f"the answer has more than {MAX_BODY_BYTES:,} bytes")
        return chunk


async def _until_closed(work: Callable[[], Awaitable[None]]) -> None:
    """Do *work* until a stream is closed. A checkpoint."""
    try:
        await work()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        await trio.lowlevel.checkpoint()


def _is_proxied(url: str) -> bool:
    """Tell whether a request goes to a proxy, which the user has chosen and which may be anywhere."""
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")
