"""`ControlServer`: what all connections of a server share."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final, cast, final

import attrs
import trio

from engine.control.client_connection import HEARTBEAT, RESTART, ClientConnection
from engine.control.client_subscriptions import ClientSubscriptions
from engine.control.connected_clients import ConnectedClients
from engine.control.control_methods import Caller, Methods
from engine.control.credentials import ClientCredentials, Login, Peer, RateLimit
from engine.control.lingering_turns import Chain, LingeringTurns
from engine.control.presence import Presence
from engine.control.protocol.answer_methods import (
    AttendParams,
    AttendResult,
    QuestionListParams,
    QuestionListResult,
)
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
)
from engine.control.protocol.json_schema import event_versions, schema_digest
from engine.control.protocol.server_methods import ServerDrainParams, ServerDrainResult, ServerStatusResult
from engine.control.protocol.server_side import note_text
from engine.control.protocol.session_methods import SessionGetResult, SessionHead
from engine.control.protocol.turn_methods import PromptParams, PromptResult, UploadParams
from engine.control.protocol.watch_methods import (
    ClientsNote,
    DrainingNote,
    SubscribeParams,
    UnsubscribeParams,
    WatchParams,
)
from engine.control.protocol.wire_converter import BadParams, Params
from engine.control.service.audit_log import audit
from engine.control.service.draining import ServerDrain
from engine.control.service.metrics import Metrics
from engine.control.subscription import SubscriptionShare
from engine.control.transport.message_transport import STALLED, MessageTransport
from engine.core.ids import RequestId, SessionId
from engine.core.version import __version__

_FAILED_LOGINS_PER_SECOND: Final = 10
MOST_OF_A_TOKEN: Final = 256
# What is not begun any more by a server that is about to end; what runs may still be steered and answered.
_NEW_WORK: Final = frozenset({"session.create", "session.fork", "prompt", "queue", "resume", "compact"})
_OF_CONNECTIONS: Final = frozenset({"hello", "subscribe", "unsubscribe", "watch", "attend", "rpc.cancel", "upload"})
_AUDITED: Final = {
    "permission.reply": "answer",
    "question.answer": "answer",
    "recovery.answer": "answer",
    "cancel": "cancel",
    "session.delete": "delete",
}
# How long the host may take to close the engine before the connections are closed.
_ENGINE_SECONDS: Final = 30.0
_log = logging.getLogger("engine.control")


@final
class ControlServer:
    """A server: its clients, and what they may do.

    Attributes:
        credentials: who may connect.
        limits: of each connection.
        failed_logins: counts them by peer.
        metrics: counts what clients do.
        clients: those that are connected.
        share: what they and their subscriptions share.
        info: which server this is.
        draining: how it ends.
        load: whether there is memory for new work.
    """

    def __init__(
        self,
        methods: Methods,
        credentials: ClientCredentials,
        *,
        limits: WireLimits | None = None,
        most_of_a_token: int = MOST_OF_A_TOKEN,
        metrics: Metrics | None = None,
    ) -> None:
        """Make it; it has no task of its own.

        Args:
            methods: what it serves.
            credentials: who may connect.
            limits: of each connection.
            most_of_a_token: how many connections may use the same token at once.
            metrics: count what clients do; None: only this server's own.
        """
        self.credentials = credentials
        self.limits: WireLimits = limits or WireLimits()
        self.failed_logins: RateLimit = RateLimit(_FAILED_LOGINS_PER_SECOND, now=trio.current_time)
        self.metrics: Metrics = metrics or Metrics()
        self.info: ServerInfo = ServerInfo(version=__version__, instance=secrets.token_hex(8), started=self.now())
        self.clients: ConnectedClients = ConnectedClients(methods.is_session_working, most_of_a_token)
        self.load: ServerLoad = ServerLoad(self.clients, methods)
        self.share: SubscriptionShare = SubscriptionShare(self.metrics, self.now, self.with_clients)
        self.draining: ServerDrain = ServerDrain(_Work(methods, self), self._announce_end, now=self.now)
        self._methods = methods
        self._number = 0
        self._presence = Presence(lambda: self.clients, self._announce_clients)
        self._lingering = LingeringTurns(methods, self._start)
        self._nursery: trio.Nursery | None = None

    async def run_tasks(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run what is not of one connection, until cancelled or ended. A checkpoint."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._presence.run)
            self._nursery.start_soon(self.draining.run)
            task_status.started()
            await self.draining.over.wait()
            with trio.move_on_after(_ENGINE_SECONDS):
                await self.draining.engine_closed.wait()
            await self.clients.close_after_last(f"the server ends: {self.draining.reason}")
            self.draining.ended.set()
            self._nursery.cancel_scope.cancel(reason="the server has ended")

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        # None while the server ends, which ends no turn.
        if self._nursery is not None and not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(task)

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return time.time()

    # -- connections ---------------------------------------------------------------------------

    async def run_connection(
        self, transport: MessageTransport, login: Login | None, peer: Peer | None = None, *, kind: str = "websocket"
    ) -> None:
        """Serve a client until it goes. A checkpoint; cancelling it closes the connection.

        Failed logins are counted for *peer*; None: of the Unix socket.
        """
        if self.draining.over.is_set():
            await transport.close(RESTART, "the server ends")
            return
        self._number += 1
        name = f"c{self._number}"
        connection = ClientConnection(
            transport,
            self,
            connection_id=name,
            login=login,
            since=self.now(),
            refusals=self.share.refusals,
            peer=peer,
            kind=kind,
        )
        self.clients.by_id[name] = ClientSubscriptions(connection, self._methods, self.share, self)
        try:
            await connection.run()
        finally:
            del self.clients.by_id[name]
            self._methods.uploads.drop_unfinished(name)
            self._presence.note_change()
            if connection.close_code == STALLED:
                self.metrics.add("engine_control_stalls_total")
            chain = _chain_of(connection)
            if connection.role is not None and self.clients.note_end(chain):
                self._lingering.note_end(chain)

    def log_in(self, connection: ClientConnection, hello: HelloParams) -> tuple[Role, HelloResult]:
        """Return the role of a client and the answer to its `hello`. Raises `Refusal`."""
        try:
            login, version = self._checked_login(connection, hello)
        except Refusal as refusal:
            self.note_refusal("hello" if refusal.kind == "unsupported" else refusal.kind, connection.login)
            raise
        connection.login = login
        connection.peer.is_known = True
        role = lower_role(login.role, hello.role)
        connection.client_name, connection.instance = hello.client.name, hello.client.instance
        audit("connect", client=hello.client.name, token=login.name, role=role, transport=connection.kind)
        chain = _chain_of(connection)
        self.clients.note_login(chain)
        self._lingering.note_return(chain)
        self._presence.note_change()
        return role, HelloResult(
            protocol=version,
            server=self.info,
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

    def _checked_login(self, connection: ClientConnection, hello: HelloParams) -> tuple[Login, int]:
        version = common_version(hello.protocol)
        if version is None:
            spoken = f"{LOWEST} to {HIGHEST}" if LOWEST < HIGHEST else str(HIGHEST)
            raise Refusal("unsupported", f"this server speaks version {spoken}", min=LOWEST, max=HIGHEST)
        login = connection.login
        if hello.ticket is not None:
            login = self.credentials.use_socket_ticket(hello.ticket)
        if login is None:
            if self.failed_logins.is_over(connection.peer.address):
                raise Refusal("rate_limited", "too many failed logins: wait a second", retry_after=1.0)
            self.failed_logins.add(connection.peer.address)
            has_ticket = hello.ticket is not None
            raise Refusal("forbidden", "the ticket is not valid" if has_ticket else "a token or a ticket is needed")
        if self.clients.is_full_for(login):
            most = self.clients.most_of_a_token
            raise Refusal("rate_limited", f"{most} connections use the token {login.name}", retry_after=5.0)
        return login, version

    def note_refusal(self, reason: str, login: Login | None = None) -> None:
        """Count a client or a request that was refused. Not a checkpoint."""
        self.metrics.add("engine_control_refused_total", reason)
        audit("refuse", token="" if login is None else login.name, reason=reason)

    def revoke(self, names: frozenset[str]) -> None:
        """Close the connections of these tokens. Not a checkpoint."""
        for name in sorted(names):
            audit("revoke", token=name)
        self.clients.close_revoked(names)

    # -- requests -------------------------------------------------------------------------------

    async def run(self, method: str, params: Params, connection: ClientConnection) -> object:
        """Run a method for a connection. A checkpoint. Raises errors of the engine and `Refusal`."""
        assert connection.login is not None
        caller = Caller(connection.client_name or connection.id, connection.login, connection)
        client = self.clients.by_id[connection.id]
        match params:
            case SubscribeParams():
                return await client.subscribe(params, caller)
            case UnsubscribeParams():
                return client.unsubscribe(params)
            case WatchParams():
                return client.watch(params)
            case AttendParams():
                return self._attend(params, connection)
            case UploadParams():
                return self._methods.uploads.receive(params, connection.id, self.limits.upload_bytes)
            case PromptParams() if params.on_disconnect == "cancel":
                result = await self.run_method(method, params, caller)
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
                return await self.run_method(method, params, caller)

    async def run_method(self, method: str, params: Params, caller: Caller) -> object:
        """Run a method that is not about the connection. A checkpoint. Raises errors of the engine and `Refusal`."""
        began = trio.current_time()
        self._check_open(method, caller)
        try:
            result = await self._run_open(method, params, caller)
        finally:
            self.metrics.observe("engine_control_request_seconds", trio.current_time() - began, method)
        if method in _AUDITED:
            session = str(getattr(params, "session_id", ""))
            audit(_AUDITED[method], client=caller.name, token=caller.login.name, session=session)
        return result

    def _check_open(self, method: str, caller: Caller) -> None:
        """Raise `Refusal` for what the server does not begin now, or not for this client."""
        draining = self.draining
        if draining.until is not None and method in _NEW_WORK:
            successor = {} if draining.successor is None else {"successor": draining.successor}
            text = f"the server is about to end: {draining.reason}"
            raise Refusal("draining", text, until=draining.until, **successor)
        if self.load.is_short_of_memory and method in _NEW_WORK:
            raise Refusal("overloaded", "the server is short of memory")
        if method in _OF_CONNECTIONS and caller.connection is None:
            raise Refusal("unsupported", f"{method} needs a connection: a WebSocket, or the Unix socket")

    async def _run_open(self, method: str, params: Params, caller: Caller) -> object:
        match params:
            case ServerDrainParams():
                reason = params.reason or "a client has asked for that"
                return ServerDrainResult(until=self.draining.begin(params.seconds, reason))
            case PromptParams() if params.on_disconnect == "cancel" and caller.connection is None:
                raise BadParams("on_disconnect", "expected continue: there is no connection to be lost")
            case _ if method == "clients":
                return self._presence.result
            case _ if method == "ping":
                return PingResult(time=self.now())
            case _ if method == "server.status":
                return await self._status(caller)
            case _ if method == "session.get":
                result = cast("SessionGetResult", await self._methods.run(method, params, caller))
                return attrs.evolve(result, head=self.with_clients(result.head))
            case _:
                return await self._methods.run(method, params, caller)

    async def _status(self, caller: Caller) -> ServerStatusResult:
        """Return what the server does. A checkpoint. Raises `StoreError`."""
        count = len(self._presence.rows)
        is_draining = self.draining.until is not None
        role = (caller.connection.role if caller.connection else None) or caller.login.role
        asked = cast("QuestionListResult", await self._methods.run("asked", QuestionListParams(), caller)).questions
        return attrs.evolve(
            self._methods.status(),
            questions=len(asked),
            waiting_since=asked[0].question.time if asked else None,
            connections=count,
            draining=is_draining,
            role=role,
        )

    def _attend(self, params: AttendParams, connection: ClientConnection) -> AttendResult:
        request_id = RequestId(params.request_id)
        self._methods.check_asked(request_id)
        return AttendResult(others=self._presence.attend(connection, request_id, params.seconds))

    async def _announce_clients(self, note: ClientsNote) -> None:
        """Tell those who watch a session who is there. A checkpoint."""
        await self.clients.announce_to_subscribers(note_text("clients", note))

    def _announce_end(self, until: float) -> None:
        """Tell all clients when the server ends. Not a checkpoint."""
        note = DrainingNote(until=until, successor=self.draining.successor)
        self.clients.announce(note_text("server.draining", note))

    def incident(self, error: Exception) -> str:
        """Log a fault; return the text to look for in the log. What is no fault is not logged."""
        if not is_fault(error):
            return ""
        name = secrets.token_hex(4)
        _log.error("incident %s: a request failed", name, exc_info=error)
        return name

    def with_clients(self, head: SessionHead) -> SessionHead:
        """Return *head* with those who are connected. Not a checkpoint."""
        return attrs.evolve(head, clients=self._presence.newest_rows)

    def heads(self, connection: ClientConnection) -> dict[str, int]:
        """Return the last event of each subscription of a connection."""
        client = self.clients.by_id.get(connection.id)
        return {} if client is None else client.heads


def _chain_of(connection: ClientConnection) -> Chain:
    """Return what a client's connections have in common; one that does not say is a chain of its own."""
    login = "" if connection.login is None else connection.login.name
    return login, connection.instance or connection.id


@final
class _Work:
    """What a drain waits for."""

    def __init__(self, methods: Methods, server: ControlServer) -> None:
        self._methods = methods
        self._server = server

    def is_working(self) -> bool:
        """Return whether a turn or a request runs. Not a checkpoint."""
        return self._methods.is_working() or any(each.is_busy for each in self._server.clients)

    async def release_idle(self) -> None:
        """Let a successor have what nothing runs in here: sessions, and their clients. A checkpoint."""
        self._server.clients.close_unneeded(f"the server ends: {self._server.draining.reason}")
        await self._methods.release_idle()


@final
class ServerLoad:
    """What a server does without when there is too little memory.

    Attributes:
        is_short_of_memory: no new work is taken.
    """

    def __init__(self, clients: ConnectedClients, methods: Methods) -> None:
        self.is_short_of_memory: bool = False
        self._clients = clients
        self._methods = methods

    async def save_memory(self, *, idle_only: bool) -> None:
        """Take no new work, and close what only watches, or all that is subscribed to something. A checkpoint."""
        self.is_short_of_memory = True
        self._clients.close_to_save_memory(idle_only=idle_only)
        await self._methods.release_idle()

    def take_work(self) -> None:
        """Take new work again. Not a checkpoint."""
        self.is_short_of_memory = False
