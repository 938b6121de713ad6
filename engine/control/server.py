"""`ControlServer`: what all connections of a server share."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol, final

import attrs
import trio

from engine.control.client_connection import HEARTBEAT, REVOKED, ClientConnection
from engine.control.credentials import ClientCredentials, Login, RateLimit
from engine.control.event_batches import EventSource, EventTexts
from engine.control.protocol.error_kinds import Refusal, is_fault
from engine.control.protocol.handshake import (
    HIGHEST,
    LOWEST,
    HelloParams,
    HelloResult,
    Role,
    ServerInfo,
    WireLimits,
    common_version,
    lower_role,
)
from engine.control.protocol.json_schema import event_versions, schema_digest
from engine.control.protocol.server_methods import ClientsResult
from engine.control.protocol.server_side import Call, ServerSide
from engine.control.protocol.session_methods import ClientRow
from engine.control.protocol.watch_methods import (
    FamilySnapshot,
    SubscribeParams,
    SubscribeResult,
    UnsubscribeParams,
    UnsubscribeResult,
)
from engine.control.protocol.wire_converter import Params
from engine.control.subscription import Subscription
from engine.control.transport.message_transport import MessageTransport
from engine.core.version import __version__
from engine.journal.state import Resync

_FAILED_LOGINS_PER_SECOND: Final = 10
_log = logging.getLogger("engine.control")


@attrs.frozen
class Caller:
    """Who makes a request.

    Attributes:
        name: what other clients are shown, and what the record keeps.
        login: what its credentials give.
        connection: its connection; None: it came by HTTP.
    """

    name: str
    login: Login
    connection: ClientConnection | None = None


@attrs.frozen
class Followed:
    """What a subscription is made of.

    Attributes:
        cursor: where it begins.
        result: the answer to `subscribe`, without the name of the subscription.
        snapshot: returns a `Resync` as clients get it.
    """

    cursor: EventSource
    result: SubscribeResult
    snapshot: Callable[[Resync], FamilySnapshot]


class Methods(Protocol):
    """The methods that are not about connections."""

    epoch: str

    async def run(self, method: str, params: Params, caller: Caller) -> object:
        """Return the result that the method's row names. Raises errors of the engine and `Refusal`."""
        ...

    async def follow(self, params: SubscribeParams, caller: Caller) -> Followed:
        """Return what a subscription is made of. Raises errors of the engine."""
        ...


@final
class ControlServer:
    """A server: its clients, and what they may do.

    Attributes:
        credentials: who may connect.
        limits: of each connection.
        failed_logins: counts them by peer.
        instance: a random text, new for each start.
        started: when, in seconds since the epoch.
    """

    def __init__(self, methods: Methods, credentials: ClientCredentials, *, limits: WireLimits | None = None) -> None:
        """Make it; it has no task of its own."""
        self.credentials = credentials
        self.limits = limits or WireLimits()
        self.failed_logins = RateLimit(_FAILED_LOGINS_PER_SECOND, now=trio.current_time)
        self.instance = secrets.token_hex(8)
        self.started = self.now()
        self._methods = methods
        self._texts = EventTexts()
        self._clients: dict[str, _Client] = {}
        self._number = 0

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return time.time()

    @property
    def is_ready(self) -> bool:
        """Whether new work is taken."""
        return True

    # -- connections ---------------------------------------------------------------------------

    async def run_connection(self, transport: MessageTransport, login: Login | None) -> None:
        """Serve a client until it goes. A checkpoint; cancelling it closes the connection."""
        self._number += 1
        name = f"c{self._number}"
        connection = ClientConnection(transport, self, connection_id=name, login=login, since=self.now())
        self._clients[name] = _Client(connection)
        try:
            await connection.run()
        finally:
            del self._clients[name]

    def log_in(self, connection: ClientConnection, hello: HelloParams) -> tuple[Role, HelloResult]:
        """Return the role of a client and the answer to its `hello`. Raises `Refusal`."""
        version = common_version(hello.protocol)
        if version is None:
            spoken = f"{LOWEST} to {HIGHEST}" if LOWEST < HIGHEST else str(HIGHEST)
            raise Refusal("unsupported", f"this server speaks version {spoken}", min=LOWEST, max=HIGHEST)
        if hello.ticket is not None:
            connection.login = self.credentials.use_socket_ticket(hello.ticket)
        if connection.login is None:
            raise Refusal("forbidden", "the ticket is not valid, or there is none")
        role = lower_role(connection.login.role, hello.role)
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
        )

    def revoke(self, names: frozenset[str]) -> None:
        """Close the connections of these tokens. Not a checkpoint."""
        for client in self._clients.values():
            login = client.connection.login
            if login is not None and login.name in names:
                client.connection.close(REVOKED, "the token was revoked")

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
            case _:
                return await self._run(method, params, caller)

    async def run_frame(self, frame: str | bytes, login: Login) -> str | None:
        """Run the requests of a frame for a client without a connection; return the answer. A checkpoint."""
        side = ServerSide.of(self.limits)
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

    async def _run(self, method: str, params: Params, caller: Caller) -> object:
        match method:
            case "clients":
                return ClientsResult(clients=self.client_rows())
            case "subscribe" | "unsubscribe" | "watch" | "hello":
                raise Refusal("unsupported", f"{method} needs a WebSocket, or /v1/sessions/ID/stream")
            case _:
                return await self._methods.run(method, params, caller)

    def client_rows(self) -> tuple[ClientRow, ...]:
        """Return who is connected."""
        return tuple(
            ClientRow(
                client_id=each.connection.id,
                name=each.connection.client_name,
                role=each.connection.role,
                since=each.connection.since,
                attending=tuple(sorted(each.connection.attending)),
            )
            for each in self._clients.values()
            if each.connection.role is not None
        )

    def incident(self, error: Exception) -> str:
        """Log a fault; return the text to look for in the log. What is no fault is not logged."""
        if not is_fault(error):
            return ""
        name = secrets.token_hex(4)
        _log.error("incident %s: a request failed", name, exc_info=error)
        return name

    # -- subscriptions -----------------------------------------------------------------------------

    async def _subscribe(
        self, params: SubscribeParams, caller: Caller, connection: ClientConnection
    ) -> SubscribeResult:
        client = self._clients[connection.id]
        if len(client.subscriptions) >= self.limits.subscriptions:
            raise Refusal("too_large", f"a connection has at most {self.limits.subscriptions} subscriptions")
        followed = await self._methods.follow(params, caller)
        client.number += 1
        name = f"s{client.number}"
        subscription = Subscription(name, params, followed.cursor, texts=self._texts, snapshot=followed.snapshot)

        async def run() -> None:
            try:
                await subscription.run(connection, followed.result.head)
            finally:
                client.subscriptions.pop(name, None)

        client.subscriptions[name] = (subscription, connection.start(run))
        return attrs.evolve(followed.result, sub=name)

    def _unsubscribe(self, params: UnsubscribeParams, connection: ClientConnection) -> UnsubscribeResult:
        found = self._clients[connection.id].subscriptions.pop(params.sub, None)
        if found is None:
            raise Refusal("not_found", f"there is no subscription {params.sub}", what="subscription")
        subscription, scope = found
        scope.cancel(reason="unsubscribed")
        return UnsubscribeResult(position=subscription.position)

    def heads(self, connection: ClientConnection) -> dict[str, int]:
        """Return the last event of each subscription of a connection."""
        client = self._clients.get(connection.id)
        return {} if client is None else {name: each.seq for name, (each, _) in client.subscriptions.items()}


@attrs.define(eq=False)
class _Client:
    """A connection and its subscriptions."""

    connection: ClientConnection
    subscriptions: dict[str, tuple[Subscription, trio.CancelScope]] = attrs.field(
        factory=dict[str, tuple[Subscription, trio.CancelScope]]
    )
    number: int = 0
