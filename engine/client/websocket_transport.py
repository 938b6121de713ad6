"""The client's side of a WebSocket, by trio-websocket.

It brings the stream and closes it: a connection that the other side has closed would keep its socket (docs/design/0037).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, cast, final

import attrs
import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, HandshakeError, WebSocketConnection, wrap_client_stream
from wsproto.utilities import ProtocolError

from engine.control.transport.message_transport import MessageTransport, TransportClosed
from engine.core.errors import EngineError, ServerOffline, Unauthorized
from engine.core.exception_groups import first_of

# All that is received is taken at once: trio-websocket answers no ping while its queue is full.
_QUEUE: Final = 64
_RECEIVE_BYTES: Final = 64 * 1024
_HANDSHAKE_SECONDS: Final = 10.0
_CLOSING: Final = 2.0
_REFUSED: Final = frozenset({401, 403, 421})


@attrs.frozen(kw_only=True)
class WebSocketRequest:
    """What a client asks for.

    Attributes:
        host: for the header.
        resource: the path.
        token: the credential; None: none is sent.
        message_bytes: the largest message that it takes.
        where: the server, for messages.
    """

    host: str
    resource: str
    token: str | None = attrs.field(repr=False)
    message_bytes: int
    where: str


@asynccontextmanager
async def websocket(stream: trio.abc.Stream, request: WebSocketRequest) -> AsyncGenerator[MessageTransport]:
    """Open a WebSocket over *stream* for the length of a block. A checkpoint. Raises `ServerOffline`, `Unauthorized`."""
    failure: EngineError | None = None
    try:
        async with trio.open_nursery() as nursery:
            transport = await _handshake(nursery, stream, request)
            if transport is None:
                failure = ServerOffline(f"{request.where} ended the connection before it was open")
            else:
                yield transport
            nursery.cancel_scope.cancel(reason="the connection is over")
    except BaseExceptionGroup as group:
        # Raised by the reader of trio-websocket, in a task of its own.
        error = first_of(group, HandshakeError) or first_of(group, ProtocolError)
        if error is None:
            raise
        failure = _refusal(error, request.where)
    if failure is not None:
        raise failure


async def _handshake(
    nursery: trio.Nursery, stream: trio.abc.Stream, request: WebSocketRequest
) -> _WebSocketTransport | None:
    """Open it. A checkpoint. None: the other side has closed the stream, or says nothing."""
    headers = [] if request.token is None else [(b"Authorization", f"Bearer {request.token}".encode())]
    with trio.move_on_after(_HANDSHAKE_SECONDS) as scope:
        connection = await wrap_client_stream(
            nursery,
            # It asks for no more than any stream has.
            cast("trio.SocketStream", _EndingStream(stream, scope.cancel)),
            request.host,
            request.resource,
            extra_headers=headers,
            message_queue_size=_QUEUE,
            max_message_size=request.message_bytes,
            receive_buffer_size=_RECEIVE_BYTES,
        )
        return _WebSocketTransport(connection)
    return None


def _refusal(error: BaseException, where: str) -> EngineError:
    if not isinstance(error, ConnectionRejected):
        return ServerOffline(f"what answers at {where} is no server of this engine: {error}")
    body = (error.body or b"").decode("utf-8", "replace")[:500]
    answer = f"{where} answers with the status {error.status_code}" + (f": {body}" if body else "")
    return Unauthorized(answer) if error.status_code in _REFUSED else ServerOffline(answer)


@final
class _EndingStream(trio.abc.Stream):
    """A stream that says when it ends: trio-websocket would wait for the answer to its first request for ever."""

    def __init__(self, stream: trio.abc.Stream, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._stream.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._on_end()
            raise
        if not data:
            self._on_end()
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        self._on_end()
        await trio.aclose_forcefully(self._stream)


@final
class _WebSocketTransport:
    """A transport over an open WebSocket."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    async def receive(self) -> str:
        """Return the next message. A checkpoint; if cancelled, nothing is lost. Raises `TransportClosed`."""
        try:
            message = await self._connection.get_message()
        except ConnectionClosed as error:
            raise _closed(error) from None
        if isinstance(message, bytes):
            raise TransportClosed(1003, "the server sent bytes instead of text")
        return message

    async def send(self, text: str, /) -> None:
        """Send a message. A checkpoint; cancelled in the middle, it is broken. Raises `TransportClosed`."""
        try:
            await self._connection.send_message(text)
        except ConnectionClosed as error:
            raise _closed(error) from None
        except ProtocolError:
            raise TransportClosed(1006, "the server is closing the connection") from None

    async def close(self, code: int, reason: str) -> None:
        """Close it. A checkpoint, for two seconds at most."""
        with trio.move_on_after(_CLOSING), suppress(ProtocolError):  # noqa: ASYNC912  # none where it is closed
            await self._connection.aclose(code, reason)


def _closed(error: ConnectionClosed) -> TransportClosed:
    if error.reason is None:
        return TransportClosed(1006)
    return TransportClosed(int(error.reason.code), error.reason.reason or "")
