"""`EventStream`: a subscription on its way to a client of HTTP, as server-sent events; and the answer that it is.

The `id:` of each event is a position: a client that was cut off sends it as `Last-Event-ID`, here or as `after` over a WebSocket.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol, final

import trio

from engine.control.client_connection import HEARTBEAT
from engine.control.connected_clients import EndableStream
from engine.control.credentials import Login
from engine.control.protocol.server_side import note_text
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.watch_methods import SubscribeParams, TickNote
from engine.control.protocol.wire_converter import read_params
from engine.control.server import ControlServer
from engine.control.service.audit_log import audit
from engine.control.service.metrics import Metrics
from engine.control.subscription import Subscription
from engine.control.transport.http_connection import Fields, SendPiece, Stream
from engine.control.transport.message_transport import STALLED, TransportClosed
from engine.control.transport.request_head import RequestHead
from engine.core.errors import EngineError
from engine.core.schema import Json

_CONTENT_TYPE: Final = "text/event-stream"
_FIELDS: Final[Fields] = (
    ("cache-control", "no-store, no-transform"),
    ("x-accel-buffering", "no"),
    ("x-content-type-options", "nosniff"),
)
# Milliseconds after which a client comes back.
_RETRY: Final = b"retry: 1000\n\n"
_METHOD: Final = re.compile(r'"method":"(\w+)"')


@final
class EventStream:
    """Sends the same texts as a WebSocket: `data:` is the whole notification, and `event:` its name."""

    def __init__(self, subscription: Subscription, head: SessionHead, *, now: Callable[[], float]) -> None:
        """Make it of a subscription that nothing else runs; *now* returns the time in seconds since the epoch."""
        self.scope: trio.CancelScope = trio.CancelScope()
        self._subscription = subscription
        self._head = head
        self._now = now
        self._sending = trio.StrictFIFOLock()
        self._last_sent = trio.current_time()
        self._send: SendPiece | None = None
        self._is_broken = False

    async def write(self, send: SendPiece) -> None:
        """Send events until the session or the server ends. A checkpoint. Raises what *send* does for a lost client."""
        self._send = send
        with self.scope:
            await send(_RETRY)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                await self._subscription.run(self, self._head)
                nursery.cancel_scope.cancel(reason="the session has ended")
        if self._is_broken:
            raise trio.BrokenResourceError

    async def send_note(self, name: str, note: object) -> None:
        """Send a notification. A checkpoint."""
        text = note_text(name, note)
        await self.send_next(lambda: text)

    async def send_next(self, take: Callable[[], str | None]) -> None:
        """Send what *take* returns, which is asked when it is its turn. A checkpoint."""
        async with self._sending:
            text = take()
            if text is None:
                return
            method = _METHOD.search(text, 0, 100)
            assert method is not None
            assert self._send is not None
            event = f"id: {self._subscription.position}\nevent: {method[1]}\ndata: {text}\n\n"
            try:
                await self._send(event.encode())
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                # Raised by `write`: in here, a nursery would put it into a group.
                self._is_broken = True
                self.scope.cancel(reason="the client has gone")
            self._last_sent = trio.current_time()

    async def _beat(self) -> None:
        """Send a `tick` where nothing else was sent."""
        while True:
            await trio.sleep_until(self._last_sent + HEARTBEAT)
            # Not the difference: rounded, it may stay below for ever, with a clock that stops at the deadline.
            if trio.current_time() >= self._last_sent + HEARTBEAT:
                await self.send_next(self._tick)

    def _tick(self) -> str:
        """Return a tick. Asked when it is its turn: an event that went out before it would make it wrong."""
        heads = {self._subscription.id: self._subscription.seq}
        return note_text("tick", TickNote(time=self._now(), heads=heads))


class WritableStream(EndableStream, Protocol):
    """Events that are sent until there are no more."""

    async def write(self, send: SendPiece) -> None:
        """Send them. A checkpoint. Raises what *send* does for a lost client, and `EngineError`."""
        ...


def stream_answer(
    server: ControlServer, stream: WritableStream, login: Login, token: object, *, session: str = ""
) -> Stream:
    """Return the answer that sends *stream*, until its client goes, or the server or its token ends. Not a checkpoint.

    *token* is that of *login* when the client was let in. Sending the head takes as long as the client lets it, and the token
    may be revoked in that time.
    """

    async def write(send: SendPiece) -> None:
        if server.draining.over.is_set() or server.credentials.token_named(login.name) != token:
            return
        audit("connect", client=login.name, token=login.name, session=session, role=login.role, transport="sse")
        server.clients.streams[stream] = login
        try:
            await stream.write(_counting_stalls(send, server.metrics))
        except EngineError as error:
            # The answer has begun, so it can only end; the client comes back, and gets the error.
            server.incident(error)
        finally:
            del server.clients.streams[stream]

    return Stream(write=write, content_type=_CONTENT_TYPE, fields=_FIELDS)


def _counting_stalls(send: SendPiece, metrics: Metrics) -> SendPiece:
    async def send_counted(data: bytes) -> None:
        try:
            await send(data)
        except trio.BrokenResourceError as error:
            if isinstance(error.__cause__, TransportClosed) and error.__cause__.code == STALLED:
                metrics.add("engine_control_stalls_total")
            raise

    return send_counted


def stream_params(session_id: str, head: RequestHead) -> SubscribeParams:
    """Return what a request for a stream asks for. Raises `BadParams`."""
    params: dict[str, Json] = {"session_id": session_id}
    for name, text in head.query.items():
        if name in {"tree", "live"} and text in {"0", "1", "false", "true"}:
            params[name] = text in {"1", "true"}
        elif name in {"interval", "elide"} and text.isascii() and text.isdigit():
            params[name] = int(text[:12])
        else:
            params[name] = text
    if last := head.fields.get("last-event-id"):
        # What a browser or a program sends by itself when it comes back, to the address it had first.
        params["after"] = last
    return read_params(params, SubscribeParams)
