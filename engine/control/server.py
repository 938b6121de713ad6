"""`ControlServer`: what all connections of a server share."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final, cast, final

import attrs
import trio

from engine.control.client_connection import HEARTBEAT, RESTART, REVOKED, ClientConnection
from engine.control.control_methods import Caller, Documents, Methods
from engine.control.credentials import ClientCredentials, Login, RateLimit
from engine.control.event_batches import EventTexts
from engine.control.event_stream import CONTENT_TYPE, FIELDS, EventStream
from engine.control.lingering_turns import Chain, LingeringTurns
from engine.control.presence import Presence
from engine.control.protocol.answer_methods import AttendParams, AttendResult
from engine.control.protocol.error_kinds import Refusal, is_fault
from engine.control.protocol.handshake import (
    HIGHEST,
    LOWEST,
    HelloParams,
    HelloResult,
    PingResult,
    Role,
    ServerInfo,
    WireLimits,
    common_version,
    lower_role,
    may,
)
from engine.control.protocol.json_schema import event_versions, schema_digest
from engine.control.protocol.server_methods import ServerDrainParams, ServerDrainResult
from engine.control.protocol.server_side import Call, ServerSide, note_text
from engine.control.protocol.session_methods import ClientRow, SessionGetResult, SessionHead
from engine.control.protocol.turn_methods import PromptParams, PromptResult
from engine.control.protocol.watch_methods import (
    ClientsNote,
    DrainingNote,
    SubscribeParams,
    SubscribeResult,
    UnsubscribeParams,
    UnsubscribeResult,
    WatchParams,
    WatchResult,
)
from engine.control.protocol.wire_converter import BadParams, Params
from engine.control.subscription import Subscription
from engine.control.transport.http_connection import SendPiece, Stream
from engine.control.transport.message_transport import MessageTransport
from engine.core.errors import EngineError
from engine.core.ids import RequestId, SessionId
from engine.core.version import __version__

_FAILED_LOGINS_PER_SECOND: Final = 10
# Of an answer over HTTP: where an event that was elided is fetched, the largest upload in it has room as base64.
_LARGEST_BODY: Final = 64 << 20
# What is not begun any more by a server that is about to end; what runs may still be steered and answered.
_NEW_WORK: Final = frozenset({"session.create", "session.fork", "prompt", "queue", "resume", "compact"})
_OF_CONNECTIONS: Final = frozenset({"hello", "subscribe", "unsubscribe", "watch", "attend", "rpc.cancel"})
_log = logging.getLogger("engine.control")


@final
class ControlServer:
    """A server: its clients, and what they may do.

    Attributes:
        credentials: who may connect.
        limits: of each connection.
        failed_logins: counts them by peer.
        instance: a random text, new for each start.
        started: when, in seconds since the epoch.
        drained: set once a client's `server.drain` has ended the connections, so that the host can end the engine.
    """

    def __init__(self, methods: Methods, credentials: ClientCredentials, *, limits: WireLimits | None = None) -> None:
        """Make it; it has no task of its own."""
        self.credentials = credentials
        self.limits: WireLimits = limits or WireLimits()
        self.failed_logins: RateLimit = RateLimit(_FAILED_LOGINS_PER_SECOND, now=trio.current_time)
        self.instance: str = secrets.token_hex(8)
        self.started: float = self.now()
        self._methods = methods
        self._texts = EventTexts()
        self._clients: dict[str, _Client] = {}
        self._streams: dict[EventStream, str] = {}
        self._number = 0
        self.drained: trio.Event = trio.Event()
        self._presence = Presence(lambda: [each.connection for each in self._clients.values()], self._announce)
        self._lingering = LingeringTurns(methods, self._start)
        self._nursery: trio.Nursery | None = None
        self._until: float | None = None
        self._drain_reason = ""
        self._drain_scope = trio.CancelScope()

    async def run_tasks(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run what is not of one connection, until cancelled. A checkpoint."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._presence.run)
            task_status.started()
            await trio.sleep_forever()

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        # None while the server ends, which ends no turn.
        if self._nursery is not None and not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(task)

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return time.time()

    @property
    def is_ready(self) -> bool:
        """Whether new work is taken."""
        return self._until is None

    # -- connections ---------------------------------------------------------------------------

    async def run_connection(self, transport: MessageTransport, login: Login | None, peer: str = "") -> None:
        """Serve a client until it goes. A checkpoint; cancelling it closes the connection.

        Failed logins are counted for *peer*, an address; empty: of the Unix socket.
        """
        if self.drained.is_set():
            await transport.close(RESTART, "the server ends")
            return
        self._number += 1
        name = f"c{self._number}"
        connection = ClientConnection(transport, self, connection_id=name, login=login, since=self.now(), peer=peer)
        self._clients[name] = _Client(connection)
        try:
            await connection.run()
        finally:
            del self._clients[name]
            self._presence.note_change()
            chain = _chain_of(connection)
            if not any(_chain_of(each.connection) == chain for each in self._clients.values()):
                self._lingering.note_end(chain)

    def log_in(self, connection: ClientConnection, hello: HelloParams) -> tuple[Role, HelloResult]:
        """Return the role of a client and the answer to its `hello`. Raises `Refusal`."""
        version = common_version(hello.protocol)
        if version is None:
            spoken = f"{LOWEST} to {HIGHEST}" if LOWEST < HIGHEST else str(HIGHEST)
            raise Refusal("unsupported", f"this server speaks version {spoken}", min=LOWEST, max=HIGHEST)
        if hello.ticket is not None:
            connection.login = self.credentials.use_socket_ticket(hello.ticket)
        if connection.login is None:
            self.failed_logins.add(connection.peer)
            raise Refusal("forbidden", "the ticket is not valid, or there is none")
        role = lower_role(connection.login.role, hello.role)
        connection.client_name, connection.instance = hello.client.name, hello.client.instance
        self._lingering.note_return(_chain_of(connection))
        self._presence.note_change()
        return role, HelloResult(
            protocol=version,
            server=ServerInfo(version=__version__, instance=self.instance, started=self.started),
            epoch=self._methods.epoch,
            time=self.now(),
            role=role,
            client_id=connection.id,
            heartbeat=HEARTBEAT,
            limits=self.limits,
            schema=schema_digest(),
            events=event_versions(),
            capabilities=self._methods.capabilities,
        )

    def revoke(self, names: frozenset[str]) -> None:
        """Close the connections of these tokens. Not a checkpoint."""
        for client in self._clients.values():
            login = client.connection.login
            if login is not None and login.name in names:
                client.connection.close(REVOKED, "the token was revoked")
        for stream, name in self._streams.items():
            if name in names:
                stream.scope.cancel(reason="the token was revoked")

    def close(self, code: int, reason: str) -> None:
        """Close all connections. Not a checkpoint."""
        for client in self._clients.values():
            client.connection.close(code, reason)

    # -- requests -------------------------------------------------------------------------------

    async def run(self, method: str, params: Params, connection: ClientConnection) -> object:
        """Run a method for a connection. A checkpoint. Raises errors of the engine and `Refusal`."""
        assert connection.login is not None
        caller = Caller(connection.client_name or connection.id, connection.login, connection)
        match params:
            case SubscribeParams():
                return await self._subscribe(params, caller, connection)
            case UnsubscribeParams():
                return self._unsubscribe(params, connection)
            case WatchParams():
                return self._watch(params, connection)
            case AttendParams():
                return self._attend(params, connection)
            case PromptParams() if params.on_disconnect == "cancel":
                result = await self._run(method, params, caller)
                assert isinstance(result, PromptResult)
                # No checkpoint since the turn was started: the connection is still known.
                self._lingering.add(
                    _chain_of(connection),
                    SessionId(params.session_id),
                    result.turn_id,
                    linger=params.linger,
                    by=caller.name,
                )
                return result
            case _:
                return await self._run(method, params, caller)

    async def run_frame(self, frame: str | bytes, login: Login) -> str | None:
        """Run the requests of a frame for a client without a connection; return the answer. A checkpoint."""
        side = ServerSide.of(self.limits, largest=_LARGEST_BODY)
        side.welcome(login.role)
        incoming = side.receive(frame)
        answers = list(incoming.sends)
        caller = Caller(login.name, login)

        async def answer(call: Call) -> None:
            try:
                text = side.answer(call, await self._run(call.method.name, call.params, caller))
            except Exception as error:  # noqa: BLE001  # one request; the server does not end by it
                text = side.fail(call, error, incident=self.incident(error))
            if text is not None:
                answers.append(text)

        async with trio.open_nursery() as nursery:
            for call in incoming.calls:
                nursery.start_soon(answer, call)
        # A batch has one answer, and so has anything else that a frame can hold.
        return answers[0] if answers else None

    def _check_possible(self, method: str, caller: Caller) -> None:
        """Raise `Refusal` if the server ends soon, or has no connection for what needs one."""
        if self._until is not None and method in _NEW_WORK:
            raise Refusal("draining", f"the server is about to end: {self._drain_reason}", until=self._until)
        if method in _OF_CONNECTIONS and caller.connection is None:
            raise Refusal("unsupported", f"{method} needs a connection: a WebSocket, or the Unix socket")

    async def _run(self, method: str, params: Params, caller: Caller) -> object:
        self._check_possible(method, caller)
        match params:
            case ServerDrainParams():
                return self._drain(params)
            case PromptParams() if params.on_disconnect == "cancel" and caller.connection is None:
                raise BadParams("on_disconnect", "expected continue: there is no connection to be lost")
            case _ if method == "clients":
                return self._presence.result
            case _ if method == "ping":
                return PingResult(time=self.now())
            case _ if method == "server.status":
                count = len(self._presence.rows)
                return attrs.evolve(self._methods.status(), connections=count, draining=not self.is_ready)
            case _ if method == "session.get":
                result = cast("SessionGetResult", await self._methods.run(method, params, caller))
                return attrs.evolve(result, head=self._with_clients(result.head))
            case _:
                return await self._methods.run(method, params, caller)

    def _attend(self, params: AttendParams, connection: ClientConnection) -> AttendResult:
        request_id = RequestId(params.request_id)
        self._methods.check_asked(request_id)
        return AttendResult(others=self._presence.attend(connection, request_id, params.seconds))

    def _announce(self, rows: tuple[ClientRow, ...]) -> None:
        """Tell those who watch a session who is there. Not a checkpoint."""
        text = note_text("clients", ClientsNote(clients=rows))
        for client in self._clients.values():
            if client.subscriptions:
                client.connection.send_soon(text)

    def _drain(self, params: ServerDrainParams) -> ServerDrainResult:
        """Take no new work, and end the connections after a while; a later call changes when. Not a checkpoint."""
        self._until = self.now() + params.seconds
        self._drain_reason = params.reason or "a client has asked for that"
        self._drain_scope.cancel(reason="another time was set")
        scope = self._drain_scope = trio.CancelScope()
        end = trio.current_time() + params.seconds
        text = note_text("server.draining", DrainingNote(until=self._until))
        for client in self._clients.values():
            client.connection.send_soon(text)

        async def wait() -> None:
            with scope:
                await trio.sleep_until(end)
                for client in self._clients.values():
                    client.connection.close_soon(RESTART, f"the server ends: {self._drain_reason}")
                for stream in self._streams:
                    stream.scope.cancel(reason="the server ends")
                self.drained.set()

        self._start(wait)
        return ServerDrainResult(until=self._until)

    def incident(self, error: Exception) -> str:
        """Log a fault; return the text to look for in the log. What is no fault is not logged."""
        if not is_fault(error):
            return ""
        name = secrets.token_hex(4)
        _log.error("incident %s: a request failed", name, exc_info=error)
        return name

    # -- for HTTP only -----------------------------------------------------------------------

    def upload(self, data: bytes, login: Login) -> str:
        """Keep *data* for a prompt; return its reference. Not a checkpoint. Raises `Refusal`."""
        if not may(login.role, "full"):
            raise Refusal("forbidden", "an upload needs the role full", role=login.role, needed="full")
        return self._methods.uploads.add(data)

    @property
    def documents(self) -> Documents:
        """What is read of sessions by other means than the protocol's methods."""
        return self._methods

    async def stream(self, params: SubscribeParams, login: Login) -> Stream:
        """Return a session's events as an answer of HTTP. A checkpoint. Raises errors of the engine."""
        followed = await self._methods.follow(params, Caller(login.name, login))
        subscription = Subscription("s1", params, followed.cursor, texts=self._texts, snapshot=followed.snapshot)
        stream = EventStream(subscription, self._with_clients(followed.result.head), now=self.now)

        async def write(send: SendPiece) -> None:
            if self.drained.is_set():
                return
            self._streams[stream] = login.name
            try:
                await stream.write(send)
            except EngineError as error:
                # The answer has begun, so it can only end; the client comes back, and is told.
                self.incident(error)
            finally:
                del self._streams[stream]

        return Stream(write=write, content_type=CONTENT_TYPE, fields=FIELDS)

    # -- subscriptions -----------------------------------------------------------------------------

    async def _subscribe(
        self, params: SubscribeParams, caller: Caller, connection: ClientConnection
    ) -> SubscribeResult:
        client = self._clients[connection.id]
        followed = await self._methods.follow(params, caller)
        name = self._new_sub(client)
        subscription = Subscription(name, params, followed.cursor, texts=self._texts, snapshot=followed.snapshot)
        head = self._with_clients(followed.result.head)

        async def run() -> None:
            try:
                await subscription.run(connection, head)
            finally:
                client.subscriptions.pop(name, None)

        client.subscriptions[name] = (subscription, connection.start(run))
        return attrs.evolve(followed.result, sub=name, head=head)

    def _with_clients(self, head: SessionHead) -> SessionHead:
        return attrs.evolve(head, clients=self._presence.rows)

    def _new_sub(self, client: _Client) -> str:
        if len(client.subscriptions) >= self.limits.subscriptions:
            raise Refusal("too_large", f"a connection has at most {self.limits.subscriptions} subscriptions")
        client.number += 1
        return f"s{client.number}"

    def _watch(self, params: WatchParams, connection: ClientConnection) -> WatchResult:
        client = self._clients[connection.id]
        name = self._new_sub(client)
        watch = self._methods.watch(params)

        async def run() -> None:
            try:
                while (note := await watch.next_note(name)) is not None:
                    await connection.send_note("sessions", note)
            finally:
                client.subscriptions.pop(name, None)

        client.subscriptions[name] = (None, connection.start(run))
        return WatchResult(sub=name)

    def _unsubscribe(self, params: UnsubscribeParams, connection: ClientConnection) -> UnsubscribeResult:
        entry = self._clients[connection.id].subscriptions.pop(params.sub, None)
        if entry is None:
            raise Refusal("not_found", f"there is no subscription {params.sub}", what="subscription")
        subscription, scope = entry
        scope.cancel(reason="unsubscribed")
        # A watched list has no position: it begins with what is there.
        return UnsubscribeResult(position="" if subscription is None else subscription.position)

    def heads(self, connection: ClientConnection) -> dict[str, int]:
        """Return the last event of each subscription of a connection."""
        client = self._clients.get(connection.id)
        return (
            {}
            if client is None
            else {name: each.seq for name, (each, _) in client.subscriptions.items() if each is not None}
        )


@attrs.define(eq=False)
class _Client:
    """A connection and its subscriptions."""

    connection: ClientConnection
    # None: of a watched list.
    subscriptions: dict[str, tuple[Subscription | None, trio.CancelScope]] = attrs.field(
        factory=dict[str, tuple[Subscription | None, trio.CancelScope]]
    )
    number: int = 0


def _chain_of(connection: ClientConnection) -> Chain:
    """Return what a client's connections have in common; one that does not say is a chain of its own."""
    login = "" if connection.login is None else connection.login.name
    return login, connection.instance or connection.id
