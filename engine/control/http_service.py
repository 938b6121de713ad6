"""`HttpService`: what a server does for clients of HTTP, which have no connection that lasts."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, final

import attrs
import trio

from engine.control.control_methods import Caller, Documents, Methods
from engine.control.credentials import BrowserProofs, ClientCredentials, Login, Peer, RateLimit
from engine.control.event_stream import EventStream, stream_answer
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.handshake import WireLimits, may
from engine.control.protocol.server_side import Call, ServerSide
from engine.control.protocol.watch_methods import SubscribeParams
from engine.control.server import ControlServer
from engine.control.service.metrics import Sample
from engine.control.subscription import Subscription
from engine.control.transport.http_connection import Stream
from engine.control.transport.message_transport import MessageTransport

# Of an answer: where an event that was elided is fetched, the largest upload in it has room as base64.
_LARGEST_BODY: Final = 64 << 20


@final
class HttpService:
    """The HTTP side of a server; one for all its connections.

    Attributes:
        credentials: who may connect.
        proofs: of pages that sign in again.
        limits: of each connection.
        failed_logins: counts them by peer.
        pace: waits for its turn to read on after what brought nothing, of all connections together.
    """

    def __init__(
        self, server: ControlServer, methods: Methods, sample_engine: Callable[[], Awaitable[Iterable[Sample]]]
    ) -> None:
        """Make it.

        Args:
            server: whose side it is.
            methods: what is served.
            sample_engine: returns the metrics of the engine that are looked up when they are asked for.
        """
        self.credentials: ClientCredentials = server.credentials
        self.proofs: BrowserProofs = BrowserProofs(server.credentials, now=server.now, random=secrets.token_bytes)
        self.limits: WireLimits = server.limits
        self.failed_logins: RateLimit = server.failed_logins
        self.pace: Callable[[], Awaitable[None]] = server.share.refusals.wait
        self._server = server
        self._methods = methods
        self._sample_engine = sample_engine

    @property
    def is_ready(self) -> bool:
        """Whether new work is taken, and can be kept."""
        return self._server.draining.until is None and self._methods.is_ready()

    async def run_connection(self, transport: MessageTransport, login: Login | None, peer: Peer) -> None:
        """Serve a client until it goes. A checkpoint."""
        await self._server.run_connection(transport, login, peer)

    def is_full_for(self, login: Login) -> bool:
        """Return whether as many connections use a token as may."""
        return self._server.clients.is_full_for(login)

    def until_revoked(self, login: Login) -> AbstractContextManager[None]:
        """Return what cancels its body once a token is revoked. Raises `BadRequest` then."""
        return self._server.clients.until_revoked(login)

    def note_refusal(self, reason: str) -> None:
        """Count a request that was refused. Not a checkpoint."""
        self._server.note_refusal(reason)

    def incident(self, error: Exception) -> str:
        """Log a fault; return the text to look for in the log."""
        return self._server.incident(error)

    async def run_frame(self, frame: str | bytes, login: Login) -> str | None:
        """Run the requests of a frame; return the answer. A checkpoint."""
        count = partial(self._server.metrics.add, "engine_control_requests_total")
        # The body was measured on arrival; the addresses of HTTP add a method to it.
        limits = attrs.evolve(self.limits, message_bytes=2 * self.limits.message_bytes)
        side = ServerSide.of(limits, largest=_LARGEST_BODY, count=count)
        side.welcome(login.role)
        incoming = side.receive(frame)
        answers = list(incoming.sends)
        caller = Caller(login.name, login)

        async def answer(call: Call) -> None:
            try:
                text = side.answer(call, await self._server.run_method(call.method.name, call.params, caller))
            except Exception as error:  # noqa: BLE001  # one request; the server does not end by it
                text = side.fail(call, error, incident=self.incident(error))
            if text is not None:
                answers.append(text)

        async with trio.open_nursery() as nursery:
            for call in incoming.calls:
                nursery.start_soon(answer, call)
        # A batch has one answer, and so has anything else that a frame can hold.
        return answers[0] if answers else None

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
        """Return a session's events as an answer. A checkpoint. Raises errors of the engine."""
        server, token = self._server, self.credentials.token_named(login.name)
        followed = await self._methods.follow(params, Caller(login.name, login))
        subscription = Subscription("s1", params, followed, share=server.share)
        stream = EventStream(subscription, server.with_clients(followed.result.head), now=server.now)
        return stream_answer(server, stream, login, token, session=params.session_id)

    async def metrics_text(self) -> str:
        """Return all metrics, as Prometheus has them. A checkpoint."""
        engine = await self._sample_engine()
        return self._server.metrics.text([*engine, *self._samples()])

    def _samples(self) -> Iterator[Sample]:
        for status, count in self._methods.status().sessions.items():
            yield "engine_sessions", (status,), count
        yield "engine_control_upload_bytes", (), self._methods.uploads.size
        yield from self._server.clients.samples()
