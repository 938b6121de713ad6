"""`ServerLink`: one connection to a server, from its `hello` to its end.

One task receives and never waits for anything else; one sends. A request puts its text into a queue and waits for the
answer, so that cancelling it leaves no half of a message on the way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast, final

import attrs
import trio

from engine.control.protocol.client_side import ClientSide, RequestOutcome, ServerNote
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.handshake import HelloParams, HelloResult
from engine.control.protocol.server_methods import RpcCancelParams
from engine.control.protocol.watch_methods import (
    EventsNote,
    HeadNote,
    ResyncNote,
    SubscribeParams,
    SubscribeResult,
    TickNote,
    TockParams,
    UnsubscribeParams,
)
from engine.control.protocol.wire_converter import Params
from engine.control.transport.message_transport import MessageTransport, TransportClosed
from engine.core.errors import EngineError
from engine.jsonrpc.rpc_messages import RpcId
from engine.jsonrpc.strict_json import FrameTooLarge

# How long the answer to `hello` may take.
_HELLO_SECONDS: Final = 10.0
# A server that is silent for so many heartbeats is gone.
_SILENT_HEARTBEATS: Final = 2.5
# Requests beyond those that callers have running: to end subscriptions.
_SPARE: Final = 4
_GONE: Final = 1006
_TOO_LARGE: Final = 1009

SubscriptionNote = HeadNote | EventsNote | ResyncNote


class Subscriber(Protocol):
    """What gets the notifications of a subscription. Nothing here is a checkpoint."""

    def subscribed(self, link: ServerLink, sub: str) -> None:
        """The subscription begins."""
        ...

    def receive(self, note: SubscriptionNote) -> None:
        """Take a notification."""
        ...

    def check_head(self, seq: int | None) -> None:
        """Compare the last event with the server's; None: the server has no such subscription any more."""
        ...

    def damaged(self, error: EngineError) -> None:
        """A notification can't be read: events may be missing."""
        ...

    def lost(self, end: TransportClosed) -> None:
        """The connection is lost, and the subscription with it."""
        ...


class LinkLost(Exception):  # an end, not a fault
    """The connection ended before the answer."""


@attrs.define(eq=False)
class _Pending:
    """A request without an answer."""

    on_outcome: Callable[[RequestOutcome], None] | None = None
    has_slot: bool = True
    done: trio.Event = attrs.field(factory=trio.Event)
    outcome: RequestOutcome | None = None
    is_abandoned: bool = False


@final
class ServerLink:
    """A connection; `run` serves it.

    Attributes:
        hello: the answer to `hello`; None before it has come.
        refused: why the server did not let this client in.
    """

    def __init__(self, transport: MessageTransport, *, on_note: Callable[[ServerNote], None]) -> None:
        """Make it of an open transport, which it closes; *on_note* gets notifications that are of no subscription."""
        self.hello: HelloResult | None = None
        self.refused: EngineError | None = None
        self._transport = transport
        self._on_note = on_note
        self._side = ClientSide()
        self._outgoing: deque[str] = deque()
        self._has_outgoing = trio.Event()
        self._pending: dict[RpcId, _Pending] = {}
        self._slots = trio.Semaphore(1)
        self._subscribers: dict[str, Subscriber] = {}
        # Notifications that have overtaken the answer to their `subscribe`.
        self._early: dict[str, list[SubscriptionNote]] = {}
        self._over: set[str] = set()
        self._subscribing = 0
        self._end: TransportClosed | None = None
        self._scope = trio.CancelScope()
        self._last_received = trio.current_time()

    async def run(self, hello: HelloParams, on_ready: Callable[[], None]) -> TransportClosed:
        """Say hello, then serve the connection until it ends; return how it ended. A checkpoint.

        *on_ready* is called once the server has let this client in; if it does not, `refused` says why.
        """
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_all)
                    nursery.start_soon(self._greet, hello, on_ready)
                    await self._receive_all()
        finally:
            # Before the other side has answered a close: who waits learns it now.
            end = self._finish()
        await self._transport.close(end.code, end.reason)
        return end

    def end(self, code: int, reason: str) -> None:
        """End the connection. Not a checkpoint."""
        self._end = self._end or TransportClosed(code, reason)
        self._scope.cancel(reason=f"the connection ends: {code} {reason}")

    # -- requests ------------------------------------------------------------------------------

    async def request(self, name: str, params: Params, *, is_read: bool) -> object:
        """Send a request and return its result. A checkpoint.

        If cancelled, a reading request is cancelled at the server too; one that changes something may be carried out.

        Args:
            name: the method.
            params: of the class that its row names.
            is_read: it changes nothing.

        Raises `LinkLost`, `Refusal` and errors of the engine.
        """
        return await self._request(name, params, _Pending(), is_read=is_read)

    async def _request(self, name: str, params: Params, pending: _Pending, *, is_read: bool) -> object:
        # As many at once as the server runs: it would refuse more.
        await self._slots.acquire()
        if self._end is not None:
            self._slots.release()
            raise LinkLost
        key = self._start(name, params, pending)
        try:
            await pending.done.wait()
        except trio.Cancelled:
            pending.is_abandoned = True
            if is_read and not pending.done.is_set():
                self._send(self._side.notify("rpc.cancel", RpcCancelParams(id=key)))
            raise
        if pending.outcome is None:
            raise LinkLost
        if pending.outcome.error is not None:
            raise pending.outcome.error
        return pending.outcome.value

    def _start(self, name: str, params: Params, pending: _Pending) -> RpcId:
        key, text = self._side.request(name, params)
        limit = self.hello.limits.message_bytes if self.hello is not None else None
        if limit is not None and len(text.encode()) > limit:
            self._side.abandon(key)
            self._slots.release()
            raise Refusal(
                "too_large",
                f"the request is larger than the {limit:,} bytes that the server takes. Next: send a file, or a shorter text",
                limit=limit,
            )
        self._pending[key] = pending
        self._subscribing += isinstance(params, SubscribeParams)
        self._send(text)
        return key

    async def subscribe(self, params: SubscribeParams, subscriber: Subscriber) -> None:
        """Begin a subscription. A checkpoint; if cancelled, it ends at once. Raises as `request` does."""
        pending = _Pending(lambda outcome: self._begin(outcome, pending, subscriber))
        await self._request("subscribe", params, pending, is_read=True)

    def _begin(self, outcome: RequestOutcome, pending: _Pending, subscriber: Subscriber) -> None:
        """Begin a subscription, as soon as its answer is there: notifications follow at once."""
        self._subscribing -= 1
        early = self._early
        if not self._subscribing:
            self._early = {}
        if outcome.error is not None:
            return
        sub = cast("SubscribeResult", outcome.value).sub
        if pending.is_abandoned:
            self.unsubscribe(sub)
            return
        self._subscribers[sub] = subscriber
        subscriber.subscribed(self, sub)
        for note in early.pop(sub, ()):
            subscriber.receive(note)

    def unsubscribe(self, sub: str) -> None:
        """End a subscription; what comes of it still is ignored. Not a checkpoint."""
        self._subscribers.pop(sub, None)
        self._over.add(sub)
        if self._end is None:
            key, text = self._side.request("unsubscribe", UnsubscribeParams(sub=sub))
            self._pending[key] = _Pending(has_slot=False)
            self._send(text)

    # -- receiving -----------------------------------------------------------------------------

    async def _receive_all(self) -> None:
        while True:
            try:
                text = await self._transport.receive()
            except TransportClosed as end:
                self.end(end.code, end.reason)
                return
            self._last_received = trio.current_time()
            try:
                for message in self._side.receive(text):
                    self._handle(message)
            except FrameTooLarge as error:
                self.end(_TOO_LARGE, str(error))
                return

    def _handle(self, message: RequestOutcome | ServerNote) -> None:
        if isinstance(message, RequestOutcome):
            self._handle_outcome(message)
            return
        match message.value:
            case HeadNote() | EventsNote() | ResyncNote() as note:
                self._pass_on(note)
            case TickNote() as tick:
                self._send(self._side.notify("tock", TockParams(time=tick.time)))
                for sub, subscriber in tuple(self._subscribers.items()):
                    subscriber.check_head(tick.heads.get(sub))
            case _:
                self._on_note(message)

    def _handle_outcome(self, outcome: RequestOutcome) -> None:
        if outcome.id is None:
            assert outcome.error is not None
            for subscriber in tuple(self._subscribers.values()):
                subscriber.damaged(outcome.error)
            return
        pending = self._pending.pop(outcome.id)
        pending.outcome = outcome
        if pending.on_outcome is not None:
            pending.on_outcome(outcome)
        if pending.has_slot:
            self._slots.release()
        pending.done.set()

    def _pass_on(self, note: SubscriptionNote) -> None:
        subscriber = self._subscribers.get(note.sub)
        if subscriber is not None:
            subscriber.receive(note)
        elif self._subscribing and note.sub not in self._over:
            self._early.setdefault(note.sub, []).append(note)

    # -- sending -------------------------------------------------------------------------------

    def _send(self, text: str) -> None:
        """Send a message without waiting for it. Not a checkpoint."""
        self._outgoing.append(text)
        self._has_outgoing.set()

    async def _send_all(self) -> None:
        while True:
            await self._has_outgoing.wait()
            self._has_outgoing = trio.Event()
            while self._outgoing:
                try:
                    await self._transport.send(self._outgoing.popleft())
                except TransportClosed as end:
                    # What the other side has sent before it closed is still received; its code comes last.
                    if end.code == _GONE:
                        return
                    self.end(end.code, end.reason)
                    return

    # -- life ----------------------------------------------------------------------------------

    async def _greet(self, hello: HelloParams, on_ready: Callable[[], None]) -> None:
        """Say hello; then end the connection once nothing has come for too long. A checkpoint."""
        with trio.move_on_after(_HELLO_SECONDS):  # noqa: ASYNC912  # the request
            try:
                self.hello = cast("HelloResult", await self.request("hello", hello, is_read=False))
            except LinkLost:
                return
            except EngineError as error:
                self.refused = error
                self.end(1000, "the server does not let this client in")
                return
        if self.hello is None:
            self.end(_GONE, f"the server did not answer for {_HELLO_SECONDS:g} seconds")
            return
        # The one that `hello` had is free again.
        for _ in range(self.hello.limits.in_flight - _SPARE - 1):
            self._slots.release()
        on_ready()
        await self._watch_silence(_SILENT_HEARTBEATS * self.hello.heartbeat)

    async def _watch_silence(self, limit: float) -> None:
        """End the connection once nothing has come for *limit* seconds: it may be cut without a sign of that."""
        # An event for each message would cost more than to look again now and then.
        while trio.current_time() < self._last_received + limit:  # noqa: ASYNC110
            await trio.sleep_until(self._last_received + limit)
        self.end(_GONE, f"nothing came from the server for {limit:g} seconds")

    def _finish(self) -> TransportClosed:
        """Wake all who wait; return how it ended. Not a checkpoint."""
        self._end = self._end or TransportClosed(1000, "the client ends")
        for pending in self._pending.values():
            pending.done.set()
        self._pending.clear()
        subscribers, self._subscribers = tuple(self._subscribers.values()), {}
        for subscriber in subscribers:
            subscriber.lost(self._end)
        # Each that waits for a slot finds the end, and wakes the next.
        self._slots.release()
        return self._end
