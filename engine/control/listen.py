"""`serve`: the control server in a host's nursery."""

from __future__ import annotations

import logging
import os
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, final

import attrs
import trio

from engine.control.acceptor import OWNER, Acceptor, peer_uid
from engine.control.client_connection import RESTART
from engine.control.credentials import ClientCredentials, Peer
from engine.control.engine_methods import EngineMethods
from engine.control.http_api import HttpApi
from engine.control.http_service import HttpService
from engine.control.protocol.handshake import HIGHEST, LOWEST, VersionRange
from engine.control.server import MOST_OF_A_TOKEN, ControlServer
from engine.control.service import takeover
from engine.control.service.engine_meter import EngineMeter
from engine.control.service.listening_sockets import ListeningSockets, open_control
from engine.control.service.memory_guard import MemoryGuard
from engine.control.service.metrics import Metrics
from engine.control.service.question_notifier import QuestionNotifier
from engine.control.service.server_discovery import (
    SOCKET_NAME,
    ServerLock,
    ServerRecord,
    ServerRunning,
    claim_folder,
    last_port,
    remove_record,
    store_label,
    write_record,
)
from engine.control.service.tls_files import TlsFiles
from engine.control.token_watch import TokenWatch
from engine.control.transport.access import WILDCARDS, AllowedAddresses
from engine.control.transport.http_connection import Handler
from engine.core.errors import ConfigError
from engine.core.version import __version__
from engine.session.engine import Engine, engine_runtime

MOST_CONNECTIONS: Final = 10_240
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_IDLE_LOOKS: Final = 4
_log = logging.getLogger("engine.control")
HttpAdapter: TypeAlias = Callable[[Engine, ControlServer, HttpApi], Handler]


@final
class ServedAt:
    """Where a server is, and how to connect to it.

    Attributes:
        url: its address.
        socket: the path of its Unix socket, which needs no token; None: it has none.
        drained: set when it takes no new work, and nothing runs any more, or the time for that is up: the host then closes
            the engine. Clients get what that has left, their connections are closed, and `serve` returns.
    """

    def __init__(self, url: str, socket_path: Path | None, server: ControlServer, token: Callable[[], str]) -> None:
        """Make it of a server that listens; *token* returns the token of programs."""
        self.url = url
        self.socket = socket_path
        self.drained: trio.Event = server.draining.over
        self._server = server
        self._token = token

    @property
    def token(self) -> str:
        """What programs send as `Authorization: Bearer`."""
        return self._token()

    def link(self) -> str | None:
        """Return a link for a browser: it works once, for ten minutes. None: too many are open."""
        ticket = self._server.credentials.link_ticket(OWNER)
        return None if ticket is None else f"{self.url}/#k={ticket}"

    def drain(self, seconds: float, reason: str = "") -> None:
        """Take no new work, and give turns that run so many seconds; a later call changes that. Not a checkpoint.

        See `drained` for what comes then. *reason* is shown to clients.
        """
        self._server.draining.begin(seconds, reason or "it was asked to end")


@attrs.frozen(kw_only=True)
class ServeOptions:
    """How a server is reached, and what it may use.

    Attributes:
        host: the address to listen at.
        port: the port; 0: that of the last server in the folder, or else any free one.
        folder: where the tokens, the Unix socket and the lock are; None: a token for this server only, and no socket. One
            server at a time uses a folder.
        names: further names by which clients call it: of this machine, say.
        public_url: the address at which a proxy passes requests on.
        origins: of browser extensions and other pages that may connect; they are compared exactly.
        tls: the certificate; required for an address that other machines can reach, unless `plain` is set. `TlsFiles` can be
            read again while it serves.
        plain: listen there without encryption all the same: anybody who sees the traffic has the token.
        sockets: the names (`http`, `control`) and descriptors of sockets that another program has opened.
        takes_over: take the sockets of the server that runs in the folder, if there is one.
        store: what the file in the folder says of the store; by default what the engine was opened with.
        drain_seconds: how long turns may continue here once a successor has taken the sockets.
        exit_idle: drain after so many seconds without a client and without a turn; None: never.
        connections: how many connections there may be.
        token_connections: how many of them may use the same token.
        memory: of how many bytes the process should use at most; None: as many as it likes.
        notifier: a command line for bash, run for each question that waits while no client is connected that could answer.
        adapter: answers the requests of a connection, also at addresses of another protocol; it passes on what it does not
            know. `engine.control.opencode.opencode_api.OpencodeApi` is one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    folder: str | os.PathLike[str] | None = None
    names: tuple[str, ...] = ()
    public_url: str | None = None
    origins: tuple[str, ...] = ()
    tls: ssl.SSLContext | TlsFiles | None = None
    plain: bool = False
    sockets: Sequence[tuple[str, int]] = ()
    takes_over: bool = False
    store: str = ""
    drain_seconds: float = 10.0
    exit_idle: float | None = None
    connections: int = MOST_CONNECTIONS
    token_connections: int = MOST_OF_A_TOKEN
    memory: int | None = None
    notifier: str = ""
    adapter: HttpAdapter | None = None

    def check(self) -> None:
        """Raise `ConfigError` if others could read the traffic, and that was not asked for."""
        self.check_host(self.host)
        if self.public_url is not None:
            try:
                AllowedAddresses.on_port().and_url(self.public_url)
            except ValueError:
                raise ConfigError(
                    f"the public URL is an address such as https://engine.example.com/base, not {self.public_url!r}"
                ) from None
        if self.takes_over and (self.folder is None or self.sockets):
            raise ConfigError("a server takes over the sockets of the one in its folder, or gets them, but not both")

    def check_host(self, host: str) -> None:
        """Raise `ConfigError` if others could read the traffic at *host*, and that was not asked for."""
        if host not in _LOOPBACK and self.tls is None and not self.plain:
            raise ConfigError(
                f"other machines can reach {host}: give the server a certificate (--tls-cert, --tls-key), or allow plain connections (--insecure-plain)"
            )


async def serve(
    engine: Engine,
    options: ServeOptions | None = None,
    *,
    task_status: trio.TaskStatus[ServedAt] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an open engine until cancelled or drained; `nursery.start` returns where. A checkpoint.

    Cancelling it closes the connections and ends no turn: turns are the engine's.

    Raises:
        ConfigError: the address can't be used, or the folder is not ours alone; `ServerRunning`: another server has
            the folder.
    """
    options = options or ServeOptions()
    options.check()
    async with AsyncExitStack() as stack:
        serving = _Serving(engine, options)
        await serving.listen(stack)
        await serving.run(stack, task_status)


@final
class _Serving:
    """One call of `serve`."""

    def __init__(self, engine: Engine, options: ServeOptions) -> None:
        self._engine = engine
        self._options = options
        self._folder = None if options.folder is None else Path(options.folder)
        self._sockets = ListeningSockets()
        self._lock: ServerLock | None = None
        self._url = ""
        # None: there is no folder, or a successor has taken the sockets.
        self._successors: trio.SocketListener | None = None
        metrics = Metrics()
        self._meter = EngineMeter(engine, metrics)
        self._methods = EngineMethods(engine)
        self._credentials = ClientCredentials(now=trio.current_time, random=secrets.token_bytes)
        self._server = ControlServer(
            self._methods,
            self._credentials,
            most_of_a_token=options.token_connections,
            metrics=metrics,
        )

    # -- before it serves ----------------------------------------------------------------------

    async def listen(self, stack: AsyncExitStack) -> None:
        """Take the folder, and open the sockets; *stack* closes both. A checkpoint. Raises `ConfigError`."""
        options, folder = self._options, self._folder
        if options.sockets:
            self._sockets = ListeningSockets.adopt(options.sockets)
        stack.callback(self._close_sockets)
        if folder is not None:
            await self._claim(folder)
            stack.callback(self._release)
        path = None if folder is None else folder / SOCKET_NAME
        preferred = 0 if folder is None else await trio.to_thread.run_sync(last_port, folder)
        await self._sockets.complete(options.host, options.port, path, preferred=preferred)
        for host, _ in self._sockets.addresses:
            options.check_host(host)

    async def _claim(self, folder: Path) -> None:
        try:
            self._lock = await claim_folder(folder)
        except ServerRunning:
            if not self._options.takes_over:
                raise
            inheritance = await takeover.take_over(folder)
            self._lock, self._sockets = inheritance.lock, inheritance.sockets
            # The socket that the first of these servers has made, and the last one removes.
            own = folder / SOCKET_NAME
            self._sockets.own_path = own if self._sockets.control_path == os.fspath(own) else None

    def _close_sockets(self) -> None:
        # Not `self._sockets.close` on the stack: a predecessor's may have taken their place.
        self._sockets.close()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- while it serves -----------------------------------------------------------------------

    async def run(self, stack: AsyncExitStack, task_status: trio.TaskStatus[ServedAt]) -> None:
        """Serve. A checkpoint."""
        options, server = self._options, self._server
        host, port = self._sockets.address
        tokens = TokenWatch(self._credentials, self._folder, server.revoke, OWNER)
        await tokens.load()
        scheme = "http" if options.tls is None else "https"
        http = HttpService(server, self._methods, self._meter.samples)
        allowed = self._allowed(scheme)
        answers = partial(self._answers, http)
        acceptor = Acceptor(server, answers, allowed, most=options.connections, tls=options.tls)
        shown = options.host if options.host in _LOOPBACK else WILDCARDS.get(host, host)
        self._url = f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{port}"
        if self._folder is not None:
            await self._publish(self._folder, stack)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run_tasks)
            nursery.start_soon(tokens.run)
            nursery.start_soon(self._measure)
            nursery.start_soon(self._stop_when_drained, acceptor)
            for task in self._optional_tasks(acceptor):
                nursery.start_soon(task)
            nursery.start_soon(acceptor.run, self._sockets, nursery)
            path = Path(self._sockets.control_path) if self._sockets.control else None
            self._warn_of_plain_addresses()
            task_status.started(ServedAt(self._url, path, server, lambda: tokens.token))
            try:
                await server.draining.ended.wait()
                nursery.cancel_scope.cancel(reason="the server was drained")
            finally:
                server.clients.close(RESTART, "the server ends")

    def _answers(self, http: HttpService, peer: Peer) -> Handler:
        """Return what answers the requests of a connection."""
        api, adapter = HttpApi(http, peer), self._options.adapter
        return api if adapter is None else adapter(self._engine, self._server, api)

    def _warn_of_plain_addresses(self) -> None:
        for host, port in self._sockets.addresses:
            if self._options.tls is None and host not in _LOOPBACK:
                _log.warning(
                    "warning: other machines can reach %s, port %d, without encryption: "
                    "anybody who sees the traffic can use the token",
                    host,
                    port,
                )

    def _allowed(self, scheme: str) -> AllowedAddresses:
        options = self._options
        hosts, ports = zip(*self._sockets.addresses, strict=True)
        allowed = AllowedAddresses.on_port(*ports, scheme=scheme, names=(*hosts, options.host, *options.names))
        if options.public_url is not None:
            allowed = allowed.and_url(options.public_url)
        if options.adapter is not None:
            # Addresses that are not ours: a client of them deletes by a method of its own, and sends no empty documents.
            allowed = attrs.evolve(allowed, methods=allowed.methods | {"DELETE"}, untyped=True)
        return allowed.and_origins(options.origins)

    async def _publish(self, folder: Path, stack: AsyncExitStack) -> None:
        """Say where the server is, and wait for a successor there; *stack* ends both. A checkpoint. Raises `ConfigError`."""
        self._successors = open_control(folder / takeover.SOCKET_NAME)
        stack.callback(self._close_successors)
        place = engine_runtime(self._engine).setup.place
        record = ServerRecord(
            pid=os.getpid(),
            started=self._server.info.started,
            instance=self._server.info.instance,
            version=__version__,
            protocol=VersionRange(min=LOWEST, max=HIGHEST),
            url=self._url,
            socket=self._sockets.control_path,
            store=self._options.store or (store_label(place) if isinstance(place, str) else ""),
        )
        stack.callback(remove_record, folder, self._server.info.instance)
        # Not abandoned: the record must not appear after it was removed.
        await trio.to_thread.run_sync(write_record, folder, record)

    def _optional_tasks(self, acceptor: Acceptor) -> Iterator[Callable[[], Awaitable[None]]]:
        options = self._options
        if self._successors is not None:
            yield partial(self._wait_for_successor, self._successors, acceptor)
        if options.exit_idle is not None:
            yield partial(self._exit_when_idle, options.exit_idle, acceptor)
        if options.memory is not None:
            yield MemoryGuard(self._server.load, options.memory).run
        if options.notifier:
            clients = self._server.clients
            yield QuestionNotifier(self._engine, options.notifier, lambda: clients.has_one_who_answers).run

    async def _measure(self) -> None:
        """Measure the engine until it is closed. A checkpoint."""
        await self._meter.run()
        self._server.draining.engine_closed.set()
        if self._server.draining.until is None:
            self._server.draining.begin(0, "the engine was closed")

    async def _stop_when_drained(self, acceptor: Acceptor) -> None:
        """Let connections wait for the next server, if there is one, once this one does nothing more. A checkpoint."""
        await self._server.draining.over.wait()
        acceptor.stop()

    async def _exit_when_idle(self, seconds: float, acceptor: Acceptor) -> None:
        """Drain after *seconds* without clients and turns. A checkpoint."""
        since = trio.current_time()
        while trio.current_time() - since < seconds:
            await trio.sleep(min(1.0, seconds / _IDLE_LOOKS))
            if acceptor.open or not self._server.clients.is_empty or self._methods.is_working():
                since = trio.current_time()
        # No checkpoint since the last look: a connection that comes now waits for the next server.
        acceptor.stop()
        self._server.draining.begin(0, "it was idle for too long")

    async def _wait_for_successor(self, listener: trio.SocketListener, acceptor: Acceptor) -> None:
        """Hand the sockets to the first successor that takes them, then drain. A checkpoint."""
        assert self._lock is not None

        def stop() -> None:
            acceptor.stop()
            # Both are the successor's now.
            self._sockets.own_path = None
            self._release()
            self._successors = None
            self._server.draining.begin(
                self._options.drain_seconds, "another server takes its place", successor=self._url
            )

        while self._successors is not None:
            stream = await listener.accept()
            if peer_uid(stream.socket) == os.geteuid():
                await takeover.hand_over(stream, self._lock, self._sockets, stop)
            else:
                await trio.aclose_forcefully(stream)
        listener.socket.close()

    def _close_successors(self) -> None:
        """Remove the socket for successors, unless there is one, which has its own at that path by now."""
        if self._successors is not None:
            assert self._folder is not None
            (self._folder / takeover.SOCKET_NAME).unlink(missing_ok=True)
            self._successors.socket.close()
