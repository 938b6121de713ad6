"""An HTTP/1.1 connection of the server: requests one after another, or one that becomes a WebSocket.

Heads are read and checked by us first (`request_head`, `access`), so that nothing is upgraded, and no token looked at,
for a name or a page that is refused. h11 then reads the same bytes, and writes the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol, final

import attrs
import h11
import trio

from engine.control.transport.access import AllowedAddresses, check_access
from engine.control.transport.message_transport import TransportClosed, send_piece
from engine.control.transport.request_head import END_OF_HEAD, HEAD_LIMIT, BadRequest, RequestHead, parse_head
from engine.control.transport.websocket import WebSocket

HEAD_SECONDS: Final = 10.0
_BODY_SECONDS: Final = 60.0
# An upload over a slow line takes longer; only clients with a token send so much.
_BODY_BYTES_PER_SECOND: Final = 64 * 1024
_IDLE_SECONDS: Final = 75.0
# What is left of an answer after the client has closed its half: one that only wanted no more requests reads it.
_HALF_CLOSED_SECONDS: Final = 0.5
_PIECE: Final = 64 * 1024

Fields = tuple[tuple[str, str], ...]


@attrs.frozen
class HttpRequest:
    """A request: its head has passed the checks, and its body is complete."""

    head: RequestHead
    body: bytes = attrs.field(repr=False, default=b"")


@attrs.frozen(kw_only=True)
class Response:
    """An answer that is sent at once."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    fields: Fields = ()


SendPiece = Callable[[bytes], Awaitable[None]]


@attrs.frozen(kw_only=True)
class Stream:
    """An answer that *write* sends piece by piece, until it returns; it is cancelled when the client goes."""

    write: Callable[[SendPiece], Awaitable[None]]
    content_type: str
    fields: Fields = ()


@attrs.frozen(kw_only=True)
class Upgrade:
    """The connection becomes a WebSocket, which *run* uses; it is closed after that.

    Attributes:
        run: uses it.
        subprotocol: what is chosen of those that the client offers.
        message_bytes: see `WebSocket`.
        pace: see `WebSocket`.
    """

    run: Callable[[WebSocket], Awaitable[None]]
    subprotocol: str | None = None
    message_bytes: int = 1024 * 1024
    pace: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint


class ResponseWriter(Protocol):
    """Sends the answer to one request: a whole one, or one that begins."""

    async def respond(self, response: Response, /) -> None:
        """Send a whole answer. A checkpoint."""
        ...

    async def begin(self, status: int, content_type: str, fields: Fields, /) -> SendPiece:
        """Send the head of an answer; return what sends the rest. A checkpoint."""
        ...


@attrs.frozen(kw_only=True)
class DeferredAnswer:
    """An answer of a kind that *run* decides while it works; it is cancelled when the client goes."""

    run: Callable[[ResponseWriter], Awaitable[None]]


Answer = Response | Stream | DeferredAnswer | Upgrade


class Handler(Protocol):
    """What the server does with requests."""

    def body_limit(self, head: RequestHead, /) -> int:
        """Return how long the body may be; raise `BadRequest` if the request is refused for its head alone."""
        ...

    async def answer(self, request: HttpRequest, /) -> Answer:
        """Answer *request*. Cancelled when the client goes. May raise `BadRequest`."""
        ...

    def refusal(self, error: BadRequest, /) -> Response:
        """Return the answer to a request that is refused."""
        ...


@final
class HttpConnection:
    """One connection; `serve` runs it."""

    def __init__(self, stream: trio.abc.Stream, allowed: AllowedAddresses, handler: Handler) -> None:
        """Make it of an accepted stream, which it closes."""
        self._stream = stream
        self._allowed = allowed
        self._handler = handler
        self._buffer = bytearray()

    async def serve(self) -> None:
        """Serve requests until one side ends the connection. A checkpoint; cancelling it closes the connection."""
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while await self._serve_one():
                    pass
        finally:
            await trio.aclose_forcefully(self._stream)

    async def _serve_one(self) -> bool:
        """Serve one request; return whether another may follow."""
        try:
            received = await self._read_head()
            if received is None:
                return False
            head = parse_head(received).below(self._allowed.base)
            check_access(head, self._allowed)
            limit = self._handler.body_limit(head)
            if head.length > limit:
                raise BadRequest(413, f"the body is longer than {limit} bytes", limit=limit)
            http = _h11_connection(received)
            body = await self._read_body(http, head)
            if body is None:
                return False
            websocket = WebSocket(self._stream) if head.is_upgrade else None
            if websocket is not None:
                websocket.read_request(received)
        except BadRequest as error:
            # What follows on the connection can't be trusted to be a request.
            writer = _Writer(h11.Connection(h11.SERVER), self._stream)
            await writer.respond(self._handler.refusal(error), is_last=True)
            await self._linger()
            return False
        return await self._answer(HttpRequest(head, body), _Writer(http, self._stream), websocket)

    async def _answer(self, request: HttpRequest, writer: _Writer, websocket: WebSocket | None) -> bool:
        """Answer *request*; return whether another may follow."""
        upgrade: Upgrade | None = None
        is_complete = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_when_gone, nursery.cancel_scope)
            # In here, since the nursery would put it into a group.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                upgrade = await self._write_answer(request, writer, websocket)
                is_complete = True
            nursery.cancel_scope.cancel(reason="the request is answered")
        if upgrade is not None and websocket is not None:
            with suppress(TransportClosed):
                await websocket.accept(upgrade.subprotocol, received=self._take(len(self._buffer)))
                await upgrade.run(websocket)
            return False
        return is_complete and request.head.keep_alive

    async def _write_answer(self, request: HttpRequest, writer: _Writer, websocket: WebSocket | None) -> Upgrade | None:
        """Send the answer; or return the upgrade that is the answer."""
        try:
            answer = await self._handler.answer(request)
        except BadRequest as error:
            answer = self._handler.refusal(error)
        if isinstance(answer, Upgrade):
            if websocket is not None:
                websocket.message_bytes, websocket.pace = answer.message_bytes, answer.pace
                return answer
            answer = self._handler.refusal(BadRequest(426, "open a WebSocket here"))
        has_body = request.head.method != "HEAD"
        if isinstance(answer, DeferredAnswer):
            await answer.run(writer)
            await writer.end()
        elif isinstance(answer, Stream):
            await writer.stream(answer, has_body=has_body)
        else:
            await writer.respond(answer, has_body=has_body, is_last=not request.head.keep_alive)
        return None

    async def _cancel_when_gone(self, scope: trio.CancelScope) -> None:
        """Read ahead while a request is answered, since that is how a client's end shows."""
        while len(self._buffer) <= HEAD_LIMIT:
            if not await self._fill():
                await trio.sleep(_HALF_CLOSED_SECONDS)
                scope.cancel(reason="the client has closed the connection")
                return

    async def _read_head(self) -> bytes | None:
        """Return the next head with its empty line; None if the client closes the connection, or sends nothing."""
        if not self._buffer:
            with trio.move_on_after(_IDLE_SECONDS):
                await self._fill()
            if not self._buffer:
                return None
        with trio.move_on_after(HEAD_SECONDS):  # noqa: ASYNC912  # none where the head is here
            while (end := self._buffer.find(END_OF_HEAD, 0, HEAD_LIMIT)) < 0:
                if len(self._buffer) >= HEAD_LIMIT:
                    raise BadRequest(431, f"the head is longer than {HEAD_LIMIT} bytes", limit=HEAD_LIMIT)
                if not await self._fill():
                    return None
            return self._take(end + len(END_OF_HEAD))
        raise BadRequest(408, f"the head took longer than {HEAD_SECONDS:g} seconds")

    async def _read_body(self, http: h11.Connection, head: RequestHead) -> bytes | None:
        """Return the body; None if the client closes the connection before its end."""
        if http.they_are_waiting_for_100_continue:
            await self._stream.send_all(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        seconds = _BODY_SECONDS + head.length / _BODY_BYTES_PER_SECOND
        with trio.move_on_after(seconds):  # noqa: ASYNC912  # none where the body is here
            while len(self._buffer) < head.length:
                if not await self._fill():
                    return None
            body = self._take(head.length)
            http.receive_data(body)
            while not isinstance(http.next_event(), h11.EndOfMessage):
                pass
            return body
        raise BadRequest(408, f"the body took longer than {seconds:.0f} seconds")

    async def _fill(self) -> bool:
        """Receive more; return whether there was more."""
        try:
            data = await self._stream.receive_some(_PIECE)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        self._buffer += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    async def _linger(self) -> None:
        """Wait for the client to read the last answer: closing with unread input would reset the connection."""
        with trio.move_on_after(1):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(_PIECE):
                pass


def _h11_connection(received: bytes) -> h11.Connection:
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    try:
        http.receive_data(received)
        http.next_event()
    except h11.RemoteProtocolError as error:
        raise BadRequest(400, f"{error}") from error
    return http


@final
class _Writer:
    """Writes the answer to one request."""

    def __init__(self, http: h11.Connection, stream: trio.abc.Stream) -> None:
        self._http = http
        self._stream = stream
        # Whether a part of what was sent may be missing.
        self._is_cut = False
        # Whether an answer has begun, and has no end yet.
        self._is_open = False

    async def respond(self, response: Response, *, has_body: bool = True, is_last: bool = False) -> None:
        """Send *response*, with its body if *has_body*. A checkpoint."""
        fields = [*response.fields]
        if response.status not in {204, 304}:  # which have no body, so it would be the length of another one
            fields.append(("content-length", str(len(response.body))))
        if is_last:
            fields.append(("connection", "close"))
        data = self._start(response.status, response.content_type, fields)
        if has_body and response.body:
            data += self._http.send(h11.Data(data=response.body)) or b""
        if has_body or not response.body:
            data += self._http.send(h11.EndOfMessage()) or b""
        await self._send(data)

    async def stream(self, answer: Stream, *, has_body: bool) -> None:
        """Send *answer* piece by piece. A checkpoint."""
        send = await self.begin(200, answer.content_type, answer.fields)
        if has_body:
            await answer.write(send)
            await self.end()

    async def begin(self, status: int, content_type: str, fields: Iterable[tuple[str, str]]) -> SendPiece:
        """Send the head of an answer; return what sends the rest. A checkpoint."""
        self._is_open = True
        await self._send(self._start(status, content_type, fields))
        return self._send_piece

    async def end(self) -> None:
        """End an answer that has begun. A checkpoint."""
        if self._is_cut:
            raise trio.BrokenResourceError("a piece was cut off: nothing can follow it")
        ending = self._http.send(h11.EndOfMessage()) or b"" if self._is_open else b""
        self._is_open = False
        await self._send(ending)

    async def _send_piece(self, data: bytes) -> None:
        await self._send(self._http.send(h11.Data(data=data)) or b"")

    def _start(self, status: int, content_type: str, fields: Iterable[tuple[str, str]]) -> bytes:
        kind = [("content-type", content_type)] if content_type else []
        every = [("date", formatdate(usegmt=True)), *kind, *fields]
        response = h11.Response(status_code=status, reason=HTTPStatus(status).phrase, headers=every)
        return self._http.send(response) or b""

    async def _send(self, data: bytes) -> None:
        view = memoryview(data)
        self._is_cut = True
        try:
            for start in range(0, len(view), _PIECE):
                await send_piece(self._stream, view[start : start + _PIECE])
        except TransportClosed as end:
            raise trio.BrokenResourceError(str(end)) from end
        self._is_cut = False
