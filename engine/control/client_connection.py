"""`ClientConnection`: one client of the server, over any transport.

One task receives, and never waits for anything else. Each request runs in a task of its own, and so does each
subscription. What they send passes one lock: answers first, then one message of each subscription in turn, and a
subscription takes nothing from its cursor before it is its turn. So a client that reads slowly gets fewer, larger messages,
and one that reads nothing costs its own connection.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, final

import trio

from engine.control.credentials import Login, Peer, RateLimit
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.handshake import HelloParams, HelloResult, PingParams, PingResult, Role, WireLimits
from engine.control.protocol.server_methods import RpcCancelParams, RpcCancelResult
from engine.control.protocol.server_side import Call, Incoming, ServerSide, note_text
from engine.control.protocol.watch_methods import TickNote
from engine.control.protocol.wire_converter import Params
from engine.control.service.metrics import Metrics
from engine.control.time_slots import TimeSlots
from engine.control.transport.message_transport import STALLED, MessageTransport, TransportClosed
from engine.control.transport.send_lock import SendLock
from engine.core.ids import RequestId
from engine.jsonrpc.rpc_messages import RpcId
from engine.nursery.cleanup import close_bounded

FAULT: Final = 1011
RESTART: Final = 1012
_TOO_LARGE: Final = 1009
BAD_HELLO: Final = 4400
BAD_TOKEN: Final = 4401
REVOKED: Final = 4403
TOO_FAST: Final = 4429

HELLO_SECONDS: Final = 5.0
HEARTBEAT: Final = 15.0
# How long a tick may stay without an answer.
_UNANSWERED: Final = 2 * HEARTBEAT
_CLOSING: Final = 3.0
# Answers that a client has not read. Those to its requests are bounded, so the others are to what it sent in error.
_MOST_ANSWERS: Final = 256
_MOST_UNREAD: Final = 16 << 20
_REQUESTS_PER_SECOND: Final = 100
# Of messages of any kind: above the limit for requests, these are refused; a flood is not answered at all.
_MESSAGES_PER_SECOND: Final = 1000
# With which code a refused hello ends one: a client comes back after the second.
_REFUSED_HELLOS: Final = {"forbidden": BAD_TOKEN, "rate_limited": TOO_FAST}
# Why the protocol's rules end a connection.
_REASONS: Final = {_TOO_LARGE: "the message is too large", BAD_HELLO: "the hello is not valid"}

_log = logging.getLogger("engine.control")


class Service(Protocol):
    """What connections need of their server."""

    limits: WireLimits
    metrics: Metrics

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        ...

    def log_in(self, connection: ClientConnection, hello: HelloParams) -> tuple[Role, HelloResult]:
        """Return the role of a client and the answer to its `hello`. Raises `Refusal`."""
        ...

    async def run(self, method: str, params: Params, connection: ClientConnection) -> object:
        """Run a method; return the result that its row names. Raises errors of the engine and `Refusal`."""
        ...

    def heads(self, connection: ClientConnection) -> dict[str, int]:
        """Return the last event of each of its subscriptions."""
        ...

    def incident(self, error: Exception) -> str:
        """Log a fault; return the text to look for in the log."""
        ...


@final
class ClientConnection:
    """A client of the server; `run` serves it.

    Attributes:
        id: its name in `by` and in lists of clients.
        login: what its credentials give; None until `hello`, for browsers.
        peer: the other side.
        client_name: of the program, from its `hello`.
        since: when it connected.
        instance: of the program, from its `hello`: the same after it has reconnected; empty: it does not say.
        attending: the questions that its user looks at, and until when, on Trio's clock.
        kind: of its transport: `websocket`, `unix` or `stdio`.
    """

    def __init__(
        self,
        transport: MessageTransport,
        service: Service,
        *,
        connection_id: str,
        login: Login | None,
        since: float,
        refusals: TimeSlots,
        peer: Peer | None = None,
        kind: str = "websocket",
    ) -> None:
        """Make it of an open transport, which it closes. *refusals* says when to read on after what was refused."""
        self.id = connection_id
        self.login = login
        self.peer: Peer = peer or Peer()
        self.client_name = ""
        self.since = since
        self.instance = ""
        self.kind = kind
        self.attending: dict[RequestId, float] = {}
        self._transport = transport
        self._service = service
        self._refusals = refusals
        self._side = ServerSide.of(service.limits, count=partial(service.metrics.add, "engine_control_requests_total"))
        self._scope = trio.CancelScope()
        self._close: tuple[int, str] = (1000, "")
        self._answers: deque[str] = deque()
        self._unread = 0
        self._sending = SendLock()
        self._running: dict[RpcId, trio.CancelScope] = {}
        self._subscriptions: dict[trio.lowlevel.Task, trio.CancelScope] = {}
        # The subscription that sends now, if it is one; and whether it ends after that.
        self._sender: trio.CancelScope | None = None
        self._is_last = False
        self._nursery: trio.Nursery | None = None
        self._is_ending = False
        self._last_sent = trio.current_time()
        # When the first of those ticks was sent after which nothing has come.
        self._ticked = math.inf
        self._requests = RateLimit(_REQUESTS_PER_SECOND, now=trio.current_time)
        self._messages = RateLimit(_MESSAGES_PER_SECOND, now=trio.current_time)

    @property
    def role(self) -> Role | None:
        """What it may do; None before `hello`."""
        return self._side.role

    @property
    def is_busy(self) -> bool:
        """Whether a request of it runs, or an answer waits to be sent."""
        return bool(self._running or self._answers)

    @property
    def close_code(self) -> int:
        """With which code it was closed, once it is."""
        return self._close[0]

    async def run(self) -> None:
        """Serve the client until it goes, or is closed. A checkpoint; cancelling it closes the connection."""
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    # A program that started the server for itself may take its time: no other client waits.
                    if self.kind != "stdio":
                        self._nursery.start_soon(self._expect_hello)
                    self._nursery.start_soon(self._beat)
                    try:
                        await self._receive_all()
                    finally:
                        # From here on the nursery may close, while the server still knows the connection.
                        self._is_ending = True
                    self._nursery.cancel_scope.cancel(reason="the client has gone")
        finally:
            self._scope.cancel(reason="the connection ends")
            # Also if the host has cancelled it: the client reads the code, and knows whether to come back.
            await close_bounded(partial(self._transport.close, *self._close), _CLOSING)  # noqa: ASYNC102  # bounded: see cleanup.py

    def close(self, code: int, reason: str) -> None:
        """End the connection with that code. Not a checkpoint."""
        if not self._scope.cancel_called:
            self._close = (code, reason)
            self._scope.cancel(reason=f"closed with {code}: {reason}")

    def send_soon(self, text: str) -> None:
        """Send a notification without waiting for it. Not a checkpoint."""
        self._answer_soon(text)

    def start(self, task: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        """Run a subscription as a task of the connection; return what ends it. Not a checkpoint."""
        scope = trio.CancelScope()
        assert self._nursery is not None

        async def run() -> None:
            this = trio.lowlevel.current_task()
            self._subscriptions[this] = scope
            try:
                with scope:
                    await task()
            except Exception as error:  # noqa: BLE001  # of the store, say; other clients are not concerned
                self._service.incident(error)
                self.close(FAULT, "a subscription has failed")
            finally:
                del self._subscriptions[this]

        def stop() -> None:
            # Not in the middle of a message: what follows on the connection could not be read.
            if self._sender is scope:
                self._is_last = True
            else:
                scope.cancel(reason="unsubscribed")

        self._nursery.start_soon(run)
        return stop

    async def send_note(self, name: str, note: object) -> None:
        """Send a notification. A checkpoint."""
        text = note_text(name, note)
        await self.send_next(lambda: text)

    async def send_next(self, take: Callable[[], str | None]) -> None:
        """Send what *take* returns, which is asked when it is its turn. A checkpoint."""
        async with self._sending:
            self._sender = self._subscriptions.get(trio.lowlevel.current_task())
            try:
                await self._send_answers()
                text = None if self._is_last else take()
                if text is not None:
                    await self._send(text)
            finally:
                if self._sender is not None and self._is_last:
                    self._sender.cancel(reason="unsubscribed")
                self._sender, self._is_last = None, False

    # -- receiving -----------------------------------------------------------------------

    async def _receive_all(self) -> None:
        while True:
            try:
                text = await self._transport.receive()
            except TransportClosed as end:
                if end.code == _TOO_LARGE and self.kind != "websocket":
                    # Lines have no close codes: only an answer says why they end.
                    self._handle(self._side.refuse_frame(end.reason, self._service.limits.message_bytes))
                    await self._flush()
                self._close = (end.code, end.reason)
                return
            self._ticked = math.inf
            incoming = self._side.receive(text)
            self._messages.add("", 1 + len(incoming.calls))
            if self._messages.is_over(""):
                self._close = (TOO_FAST, f"more than {_MESSAGES_PER_SECOND} messages in a second")
                return
            self._handle(incoming)
            if incoming.close is not None:
                # The error goes first: it says what was wrong.
                await self._flush()
                self._close = (incoming.close, _REASONS[incoming.close])
                return
            if incoming.sends:
                # A flood of nonsense is read slowly, over however many connections it comes.
                await self._refusals.wait()

    def _handle(self, incoming: Incoming) -> None:
        """Start what a frame asks for. Not a checkpoint, so that pings are answered whatever the requests do."""
        for text in incoming.sends:
            self._answer_soon(text)
        for call in incoming.calls:
            self._start_call(call)
        for note in incoming.notes:
            if isinstance(note, RpcCancelParams):
                self._cancel_call(note.id)

    def _start_call(self, call: Call) -> None:
        refusal = self._refusal(call)
        if refusal is not None:
            self._answer_soon(self._side.fail(call, refusal))
            return
        self._requests.add("")
        match call.params:
            case HelloParams() as hello:
                self._say_hello(call, hello)
            case PingParams():
                self._answer_soon(self._side.answer(call, PingResult(time=self._service.now())))
            case RpcCancelParams() as params:
                self._answer_soon(self._side.answer(call, RpcCancelResult(cancelled=self._cancel_call(params.id))))
            case _:
                assert self._nursery is not None
                scope = self._running[call.id] = trio.CancelScope()
                self._nursery.start_soon(self._run_call, call, scope)

    def _refusal(self, call: Call) -> Refusal | None:
        """Return why a request is not run, if it is not."""
        if self._requests.is_over(""):
            limit = _REQUESTS_PER_SECOND
            return Refusal("rate_limited", f"more than {limit} requests in a second", retry_after=1.0)
        # An answer that was not read counts like a request that runs: else a client that reads nothing fills the memory.
        limit = self._service.limits.in_flight
        # A client with as many requests as it may have must be able to show that it is there, and to end one of them.
        running = 0 if isinstance(call.params, PingParams | RpcCancelParams) else len(self._running)
        if len(self._answers) + running >= limit or self._unread > _MOST_UNREAD:
            text = "read the answers" if self._answers else "wait for an answer"
            return Refusal("overloaded", f"{text} before you send more requests", limit=limit)
        return None

    def _say_hello(self, call: Call, hello: HelloParams) -> None:
        try:
            role, result = self._service.log_in(self, hello)
        except Refusal as error:
            self._answer_soon(self._side.fail(call, error))
            self.close_soon(_REFUSED_HELLOS.get(error.kind, BAD_HELLO), str(error))
            return
        self._side.welcome(role)
        self._answer_soon(self._side.answer(call, result))

    async def _run_call(self, call: Call, scope: trio.CancelScope) -> None:
        text: str | None = None
        with scope:
            try:
                text = self._side.answer(call, await self._service.run(call.method.name, call.params, self))
            except Refusal as error:
                text = self._side.fail(call, error)
            except Exception as error:  # noqa: BLE001  # one request; neither the connection nor the server ends by it
                text = self._side.fail(call, error, incident=self._service.incident(error))
        if scope.cancelled_caught and not self._scope.cancel_called:
            text = self._side.fail(call, Refusal("cancelled", "the request was cancelled"))
        self._running.pop(call.id, None)
        if text is not None:
            self._keep(text)
            await self._flush()

    def _cancel_call(self, key: RpcId) -> bool:
        scope = self._running.get(key)
        if scope is None:
            return False
        scope.cancel(reason="the client no longer wants the answer")
        return True

    # -- sending -------------------------------------------------------------------------

    def _answer_soon(self, text: str | None) -> None:
        """Send a text without waiting for it. Not a checkpoint."""
        if text is None or self._nursery is None or self._is_ending:
            return
        if len(self._answers) >= _MOST_ANSWERS:
            self.close(STALLED, "the answers are not read")
            return
        self._keep(text)
        if len(self._answers) == 1:
            self._nursery.start_soon(self._flush)

    def _keep(self, text: str) -> None:
        self._answers.append(text)
        self._unread += len(text)

    def close_soon(self, code: int, reason: str) -> None:
        """Close the connection after the answers that are waiting. Not a checkpoint."""

        async def close() -> None:
            await self._flush()
            self.close(code, reason)

        if self._nursery is not None and not self._is_ending:
            self._nursery.start_soon(close)

    async def _flush(self) -> None:
        async with self._sending:
            await self._send_answers()

    async def _send_answers(self) -> None:
        while self._answers:
            text = self._answers.popleft()
            await self._send(text)
            self._unread -= len(text)

    async def _send(self, text: str) -> None:
        try:
            await self._transport.send(text)
        except TransportClosed as end:
            self.close(end.code, end.reason)
        self._last_sent = trio.current_time()

    # -- liveness ------------------------------------------------------------------------

    async def _expect_hello(self) -> None:
        await trio.sleep(HELLO_SECONDS)
        if self.role is None:
            self.close(STALLED, "no hello came")

    async def _beat(self) -> None:
        """Send a `tick` where nothing else was sent, and close a connection that answers none."""
        while True:
            await trio.sleep_until(self._last_sent + HEARTBEAT)
            # Who gets events all the time is sent no tick, and has nothing to answer.
            if self.kind != "stdio" and trio.current_time() >= self._ticked + _UNANSWERED:
                self.close(STALLED, "no tick was answered")
            # Not the difference: rounded, it may stay below for ever, with a clock that stops at the deadline.
            elif trio.current_time() >= self._last_sent + HEARTBEAT:
                await self.send_next(self._tick)

    def _tick(self) -> str:
        """Return a tick. Asked when it is its turn: an event that went out before it would make it wrong."""
        self._ticked = min(self._ticked, trio.current_time())
        return note_text("tick", TickNote(time=self._service.now(), heads=self._service.heads(self)))
