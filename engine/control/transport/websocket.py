"""The server's side of a WebSocket, over wsproto.

trio-websocket is what our client uses; a server that anyone may connect to needs what it does not offer
(docs/design/0037): frames of a bounded size, so that pings pass between them; a close code for each fault of the other
side; no task and no queue for each connection; a limit on the fragments of a message.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from io import StringIO
from typing import Final, final

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Ping, Request, TextMessage
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from engine.control.transport.message_transport import TransportClosed, send_piece
from engine.control.transport.request_head import BadRequest
from engine.control.transport.send_lock import SendLock

FRAME_CHARACTERS: Final = 16 * 1024  # at most 64 KiB as UTF-8
_RECEIVE_BYTES: Final = 64 * 1024
# More fragments than this are an attack: an empty one costs its sender six bytes.
_MOST_FRAGMENTS: Final = 1024
# How long the other side may take to answer our close.
_CLOSING: Final = 2.0
# Frames that bring nothing, pings, pongs and small fragments: so many at once, and one in a second, are read at any speed.
_FREE_FRAMES: Final = 20
# Of those beyond that, one in so many waits: each takes a tenth of the time that a refused message takes.
_PACED: Final = 16
_SMALL_FRAGMENT: Final = 1024
# What is dropped after a fault of the other side, until it is silent for so long.
_MOST_DROPPED: Final = 4 * 1024 * 1024
_SILENT: Final = 0.2


@final
class WebSocket:
    """A WebSocket of the server: one task receives, any task sends.

    Pings are answered by the receiving task, so it should not wait for anything else for long.

    Attributes:
        message_bytes: the longest message that it receives.
        pace: awaited after a frame that brings nothing, where those come often: thousands of them fit into what is
            received at once, and without a pause nothing else would run until all are read.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        """Make it of a stream, after the head of the request; `read_request`, then `accept` open it."""
        self.message_bytes = 1024 * 1024
        self.pace: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self._stream = stream
        self._protocol = WSConnection(ConnectionType.SERVER)
        self._message_lock = SendLock()  # frames of two messages must not mix
        self._byte_lock = SendLock()  # but control frames may pass between those of one
        self._message = _Message()
        self._end: TransportClosed | None = None
        self._is_broken = False
        # Frames that bring nothing; on Trio's clock, each moves the time on by a second.
        self._idle_frames = 0
        self._idle_until = -math.inf

    def read_request(self, head: bytes) -> tuple[str, ...]:
        """Take the request in *head*; return the subprotocols that the client offers.

        Raises:
            BadRequest: it is not a request for a WebSocket of version 13.
        """
        try:
            self._protocol.receive_data(head)
            for event in self._protocol.events():
                if isinstance(event, Request):
                    return tuple(event.subprotocols)
        except RemoteProtocolError as error:
            raise BadRequest(400, f"not a WebSocket request: {error}") from error
        raise BadRequest(400, "not a WebSocket request")

    async def accept(self, subprotocol: str | None = None, *, received: bytes = b"") -> None:
        """Accept the request. A checkpoint. *received* came after the head. Raises `TransportClosed`."""
        await self._send_event(AcceptConnection(subprotocol=subprotocol))
        if received:
            self._protocol.receive_data(received)

    async def receive(self) -> str:
        """Return the next text message. A checkpoint.

        If cancelled, nothing is lost. Raises `TransportClosed` at the end. What the other side does wrong (a broken
        frame, bytes instead of text, too much) ends the connection too, and has been answered with its code.
        """
        await trio.lowlevel.checkpoint()
        while True:
            for event in self._protocol.events():
                text = await self._handle(event)
                if text is not None:
                    return text
            if self._end is not None:
                raise self._closed()
            await self._fill()

    async def send(self, text: str) -> None:
        """Send a message, in frames of at most 64 KiB. A checkpoint.

        If cancelled in the middle, the connection is broken. Raises `TransportClosed`: see `MessageTransport`.
        """
        async with self._message_lock:
            for start in range(0, max(len(text), 1), FRAME_CHARACTERS):
                end = start + FRAME_CHARACTERS
                await self._send_event(TextMessage(data=text[start:end], message_finished=end >= len(text)))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection and the stream. A checkpoint; waits at most two seconds for the other side."""
        with trio.move_on_after(_CLOSING), suppress(TransportClosed):  # noqa: ASYNC912  # none where it is closed
            if self._protocol.state is ConnectionState.OPEN:
                await self._send_event(CloseConnection(code=code, reason=_short(reason)))
            if self._end is not None and self._protocol.state is ConnectionState.LOCAL_CLOSING:
                await self._drop_rest()
            while self._protocol.state is ConnectionState.LOCAL_CLOSING:
                await self.receive()
        self._end = self._end or TransportClosed(code, reason)
        await trio.aclose_forcefully(self._stream)

    def _closed(self) -> TransportClosed:
        """Return a new error each time, since raising one adds to its traceback."""
        return TransportClosed(1006) if self._end is None else TransportClosed(self._end.code, self._end.reason)

    async def _fill(self) -> None:
        try:
            data = bytes(await self._stream.receive_some(_RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if not data:
            self._end = TransportClosed(1006)
        elif self._protocol.state in {ConnectionState.OPEN, ConnectionState.LOCAL_CLOSING}:
            self._protocol.receive_data(data)

    async def _handle(self, event: Event) -> str | None:
        """Return the text that *event* completes."""
        match event:
            case TextMessage():
                fault = self._message.add(event, self.message_bytes)
                if fault is not None:
                    await self._fail(fault)
                if event.message_finished and event.frame_finished:
                    return self._message.take()
                if event.frame_finished and len(event.data) < _SMALL_FRAGMENT:
                    await self._slow_down()
            case BytesMessage():
                await self._fail(TransportClosed(1003, "send text, not bytes"))
            case Ping():
                with suppress(TransportClosed):
                    await self._send_event(event.response())
                await self._slow_down()
            case CloseConnection():
                await self._handle_close(event)
            case _:
                await self._slow_down()  # a pong
        return None

    async def _slow_down(self) -> None:
        """Pause after a frame that brings nothing, if there were many. A checkpoint then."""
        now = trio.current_time()
        self._idle_until = min(max(self._idle_until, now), now + _FREE_FRAMES) + 1
        self._idle_frames += 1
        if self._idle_until > now + _FREE_FRAMES and self._idle_frames % _PACED == 0:
            await self.pace()

    async def _handle_close(self, event: CloseConnection) -> None:
        reason = event.reason or ""
        match self._protocol.state:
            case ConnectionState.REMOTE_CLOSING:
                with suppress(TransportClosed):
                    await self._send_event(event.response())
                self._end = TransportClosed(int(event.code), reason)
            case ConnectionState.CLOSED:
                self._end = self._end or TransportClosed(int(event.code), reason)
            case _:
                # Not a close of the other side: so wsproto reports a frame that breaks the protocol.
                await self._fail(TransportClosed(int(event.code), reason))

    async def _fail(self, end: TransportClosed) -> None:
        """Close with the code of *end*; nothing further is received."""
        with suppress(TransportClosed):
            await self._send_event(CloseConnection(code=end.code, reason=_short(end.reason)))
        self._end = end
        raise end

    async def _drop_rest(self) -> None:
        """Receive what the other side has sent before it knows of our close. A checkpoint.

        Closing the stream with that unread would reset the connection, and the code would be lost on the way.
        """
        left = _MOST_DROPPED
        while left > 0:
            data = b""
            with trio.move_on_after(_SILENT), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                data = bytes(await self._stream.receive_some(_RECEIVE_BYTES))
            if not data:
                break
            left -= len(data)

    async def _send_event(self, event: Event) -> None:
        """Send *event*. A checkpoint. Raises `TransportClosed`."""
        async with self._byte_lock:
            # A cancel that comes before the first byte must not cost the connection, which is to be closed with a code.
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._is_broken or self._end is not None:
                raise self._closed()
            try:
                data = self._protocol.send(event)
            except LocalProtocolError:
                raise TransportClosed(1006, "the other side is closing") from None
            # Unless all of it is sent, a part of a frame may have gone out, and nothing can follow that.
            self._is_broken = True
            await send_piece(self._stream, data)
            self._is_broken = False


@final
class _Message:
    """The message that is being received."""

    def __init__(self) -> None:
        self._text = StringIO()
        self._size = 0
        self._fragments = 0

    def add(self, event: TextMessage, limit: int) -> TransportClosed | None:
        """Add a piece; return how the connection ends if it is too much."""
        self._size += len(event.data.encode())
        self._fragments += event.frame_finished
        self._text.write(event.data)
        if self._size > limit:
            return TransportClosed(1009, f"the message is longer than {limit} bytes")
        if self._fragments > _MOST_FRAGMENTS:
            return TransportClosed(1009, f"the message has more than {_MOST_FRAGMENTS} fragments")
        return None

    def take(self) -> str:
        """Return the whole text, and begin the next one."""
        text = self._text.getvalue()
        self._text, self._size, self._fragments = StringIO(), 0, 0
        return text


def _short(reason: str) -> str:
    """Return *reason* so that it fits into a close frame."""
    return reason.encode()[:120].decode(errors="ignore")
