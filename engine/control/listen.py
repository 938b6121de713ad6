"""`serve`: the control server in a host's nursery."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, cast, final

import attrs
import trio

from engine.control.client_connection import RESTART
from engine.control.control_methods import Methods
from engine.control.credentials import ClientCredentials, Login, digest_of, new_secret
from engine.control.engine_methods import EngineMethods
from engine.control.http_api import HttpApi
from engine.control.protocol.handshake import HIGHEST, LOWEST, VersionRange
from engine.control.server import ControlServer
from engine.control.service.server_discovery import (
    SOCKET_NAME,
    ServerRecord,
    claim_folder,
    remove_record,
    store_label,
    write_record,
)
from engine.control.token_file import load_token, load_tokens, token_files_state
from engine.control.transport.access import AllowedAddresses
from engine.control.transport.http_connection import HttpConnection
from engine.control.transport.line_transport import LineTransport
from engine.core.errors import ConfigError
from engine.core.version import __version__
from engine.session.engine import Engine, engine_runtime

MOST_CONNECTIONS: Final = 10_240
# A revoked token is refused within a second.
_TOKENS_SECONDS: Final = 0.5
_OWNER: Final = Login("owner", "full")
_log = logging.getLogger("engine.control")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@final
class ServedAt:
    """Where a server is, and how to connect to it.

    Attributes:
        url: its address.
        token: what programs send as `Authorization: Bearer`.
        socket: the path of its Unix socket, which needs no token; None: it has none.
        drained: set once a client's `server.drain` has ended the connections: the host then ends the engine.
    """

    def __init__(
        self,
        url: str,
        token: str,
        socket_path: Path | None,
        credentials: ClientCredentials,
        drained: trio.Event,
    ) -> None:
        """Make it of a server that listens."""
        self.drained = drained
        self.url = url
        self.token = token
        self.socket = socket_path
        self._credentials = credentials

    def link(self) -> str | None:
        """Return a link for a browser: it works once, for ten minutes. None: too many are open."""
        ticket = self._credentials.link_ticket(_OWNER)
        return None if ticket is None else f"{self.url}/#k={ticket}"


@attrs.frozen(kw_only=True)
class ServeOptions:
    """How a server is reached.

    Attributes:
        host: the address to listen at.
        port: the port; 0: any free one.
        folder: where the tokens and the Unix socket are; None: a token for this server only, and no socket.
        names: further names by which clients call it: of this machine, say.
        public_url: the address at which a proxy passes requests on.
        origins: of browser extensions and other pages that may connect; they are compared exactly.
        tls: the certificate; required for an address that other machines can reach, unless `plain` is set.
        plain: listen there without encryption all the same: anybody who sees the traffic has the token.
    """

    host: str = "127.0.0.1"
    port: int = 0
    folder: str | os.PathLike[str] | None = None
    names: tuple[str, ...] = ()
    public_url: str | None = None
    origins: tuple[str, ...] = ()
    tls: ssl.SSLContext | None = None
    plain: bool = False

    def check(self) -> None:
        """Raise `ConfigError` if others could read the traffic, and that was not asked for."""
        if self.host not in _LOOPBACK and self.tls is None and not self.plain:
            raise ConfigError(
                f"other machines can reach {self.host}: give the server a certificate, or allow plain connections"
            )


async def serve(
    engine: Engine,
    options: ServeOptions | None = None,
    *,
    task_status: trio.TaskStatus[ServedAt] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an open engine until cancelled; `nursery.start` returns where. A checkpoint.

    Cancelling it closes the connections and ends no turn: turns are the engine's.

    Raises:
        ConfigError: the address can't be used, or the folder is not ours alone; `ServerRunning`: another server has
            the folder.
    """
    options = options or ServeOptions()
    options.check()
    folder = None if options.folder is None else Path(options.folder)
    place = engine_runtime(engine).setup.place
    store = store_label(place) if isinstance(place, str) else ""
    with contextlib.ExitStack() as stack:
        if folder is not None:
            stack.callback((await claim_folder(folder)).close)
        await _serve(EngineMethods(engine), options, folder, store, task_status)


async def _serve(
    methods: Methods, options: ServeOptions, folder: Path | None, store: str, task_status: trio.TaskStatus[ServedAt]
) -> None:
    credentials, token = await _credentials(folder)
    server = ControlServer(methods, credentials)
    listeners = await _tcp_listeners(options)
    port: int = listeners[0].socket.getsockname()[1]
    scheme = "http" if options.tls is None else "https"
    allowed = AllowedAddresses.on_port(port, scheme=scheme, names=(options.host, *options.names))
    if options.public_url is not None:
        allowed = allowed.and_url(options.public_url)
    acceptor = _Acceptor(server, allowed.and_origins(options.origins))
    shown = f"[{options.host}]" if ":" in options.host else options.host
    async with AsyncExitStack() as stack:
        # Opened before there is a nursery, which would put an error into a group.
        for listener in listeners:
            stack.push_async_callback(listener.aclose)
        path = None if folder is None else folder / SOCKET_NAME
        local = None if path is None else await stack.enter_async_context(_unix_listener(path))
        nursery = await stack.enter_async_context(trio.open_nursery())
        await nursery.start(server.run_tasks)
        if folder is not None:
            nursery.start_soon(_watch_tokens, folder, server)
        nursery.start_soon(trio.serve_listeners, acceptor.serve_http, _with_tls(listeners, options.tls))
        if local is not None:
            nursery.start_soon(trio.serve_listeners, acceptor.serve_local, [local])
        url = f"{scheme}://{shown}:{port}"
        if folder is not None:
            record = ServerRecord(
                pid=os.getpid(),
                started=server.started,
                instance=server.instance,
                version=__version__,
                protocol=VersionRange(min=LOWEST, max=HIGHEST),
                url=url,
                socket=os.fspath(folder / SOCKET_NAME),
                store=store,
            )
            stack.callback(remove_record, folder, server.instance)
            write_record(folder, record)
        task_status.started(ServedAt(url, token, path, credentials, server.drained))
        try:
            await trio.sleep_forever()
        finally:
            server.close(RESTART, "the server ends")


async def _credentials(folder: Path | None) -> tuple[ClientCredentials, str]:
    credentials = ClientCredentials(now=trio.current_time, random=secrets.token_bytes)
    if folder is None:
        token = new_secret(secrets.token_bytes)
        credentials.set_tokens({digest_of(token): _OWNER})
    else:
        token = await trio.to_thread.run_sync(load_token, folder)
        credentials.set_tokens(await trio.to_thread.run_sync(load_tokens, folder))
    return credentials, token


async def _watch_tokens(folder: Path, server: ControlServer) -> None:
    """Read the tokens again whenever their files change, until cancelled: a revoked one ends its connections."""
    # Also at first: they may have changed since the server began to start.
    read: object = None
    while True:
        await trio.sleep(_TOKENS_SECONDS)
        if (now := token_files_state(folder)) == read:
            continue
        read = now
        try:
            logins = await trio.to_thread.run_sync(load_tokens, folder)
        except ConfigError as error:
            # Whoever is connected stays: a file that is being edited must not end everything.
            _log.warning("the tokens stay as they were: %s", error)
        else:
            server.revoke(server.credentials.set_tokens(logins))


async def _tcp_listeners(options: ServeOptions) -> list[trio.SocketListener]:
    try:
        return await trio.open_tcp_listeners(options.port, host=options.host)
    except OSError as error:
        where = f"{options.host}, port {options.port}"
        raise ConfigError(f"the server can't listen at {where}: {error.strerror or error}") from error


def _open_unix_listener(path: Path) -> trio.SocketListener:
    """Listen at *path*, in a folder that is ours alone, and locked: so whatever is there was left by a dead server."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        made.bind(os.fspath(path))
        path.chmod(0o600)
        made.listen()
    except OSError as error:
        made.close()
        raise ConfigError(f"the server can't listen at {path}: {error.strerror or error}") from error
    return trio.SocketListener(trio.socket.from_stdlib_socket(made))


@contextlib.asynccontextmanager
async def _unix_listener(path: Path) -> AsyncGenerator[trio.SocketListener]:
    """Listen at *path*, and remove it afterwards."""
    with contextlib.ExitStack() as stack:
        listener = _open_unix_listener(path)
        stack.callback(path.unlink, missing_ok=True)
        async with listener:
            yield listener


def _with_tls(
    listeners: Iterable[trio.SocketListener], tls: ssl.SSLContext | None
) -> list[trio.abc.Listener[trio.abc.Stream]]:
    if tls is None:
        return list(listeners)
    return [trio.SSLListener(listener, tls, https_compatible=True) for listener in listeners]


@final
class _Acceptor:
    """Serves accepted connections."""

    def __init__(self, server: ControlServer, allowed: AllowedAddresses) -> None:
        self._server = server
        self._allowed = allowed
        self._open = 0

    async def serve_http(self, stream: trio.abc.Stream) -> None:
        """Serve a connection of the network. A checkpoint."""
        if self._open >= MOST_CONNECTIONS:
            await trio.aclose_forcefully(stream)
            return
        self._open += 1
        try:
            await HttpConnection(stream, self._allowed, HttpApi(self._server, _peer(stream))).serve()
        except Exception as error:  # noqa: BLE001  # a fault ends one connection, and neither the server nor its host
            self._server.incident(error)
        finally:
            self._open -= 1

    async def serve_local(self, stream: trio.SocketStream) -> None:
        """Serve a connection of the Unix socket, if it is ours. A checkpoint."""
        if _peer_uid(stream.socket) != os.geteuid():
            await trio.aclose_forcefully(stream)
            return
        transport = LineTransport(stream, message_bytes=self._server.limits.message_bytes)
        try:
            await self._server.run_connection(transport, _OWNER)
        except Exception as error:  # noqa: BLE001  # as above
            self._server.incident(error)


def _peer(stream: trio.abc.Stream) -> str:
    """Return the address of the other side, for counting failed logins."""
    inner: object = stream
    if isinstance(stream, trio.SSLStream):
        inner = cast("trio.SSLStream[trio.abc.Stream]", stream).transport_stream
    if not isinstance(inner, trio.SocketStream):
        return ""
    try:
        return str(inner.socket.getpeername()[0])
    except OSError:
        return ""  # it has gone already


def _peer_uid(connected: trio.socket.SocketType) -> int:
    """Return the user at the other end of a Unix socket."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid)
    # macOS: nobody else can reach the socket, whose folder is ours alone.
    return os.geteuid()
