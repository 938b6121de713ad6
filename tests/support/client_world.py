"""A served engine and ways to its clients: a WebSocket, the Unix socket, a pair in memory; each can be cut."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import attrs
import trio
from trio.testing import MemoryReceiveStream, memory_stream_pair

import engine
from engine.client import Client, SessionStream
from engine.client.control_client import connect_to
from engine.client.server_address import MESSAGE_BYTES, ServerAddress, SocketPath, parse_address
from engine.control.credentials import ClientCredentials, Login
from engine.control.engine_methods import EngineMethods
from engine.control.listen import ServeOptions, serve
from engine.control.protocol.handshake import WireLimits
from engine.control.server import ControlServer
from engine.control.transport.line_transport import LineTransport
from engine.control.transport.message_transport import MessageTransport
from engine.control.uploads import Uploads
from engine.core.errors import ServerOffline
from engine.core.events import Durable
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing import FaultProxy, ScriptedProvider
from engine.testing.script import Answer, done, text
from tests.support.checked_traffic import CheckedAddress

Transport = Literal["websocket", "unix", "pair"]
# With a clock that jumps: it does so while a thread is at work, too.
FOR_EVER = 1e9
TRANSPORTS: tuple[Transport, ...] = ("websocket", "unix", "pair")


@attrs.define(eq=False)
class PairAddress:
    """The address of a server in the same process: each connection is a pair of streams in memory."""

    server: ControlServer
    nursery: trio.Nursery
    is_up: bool = True
    is_stalled: bool = False
    accepted: int = 0
    _open: list[trio.StapledStream[Any, Any]] = attrs.field(factory=list)
    is_local: bool = True
    login: str = "owner"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MessageTransport]:
        await trio.lowlevel.checkpoint()
        if not self.is_up:
            raise ServerOffline("nothing listens")
        self.accepted += 1
        ours, theirs = memory_stream_pair()
        self._open.append(ours)
        transport = LineTransport(theirs, message_bytes=self.server.limits.message_bytes)
        self.nursery.start_soon(self.server.run_connection, transport, Login(self.login, "full"))
        try:
            yield LineTransport(ours, message_bytes=MESSAGE_BYTES)
        finally:
            self._open.remove(ours)
            await trio.aclose_forcefully(ours)

    @property
    def connections(self) -> int:
        return len(self._open)

    def cut(self) -> None:
        """End all connections."""
        for stream in tuple(self._open):
            receiver = stream.receive_stream
            assert isinstance(receiver, MemoryReceiveStream)
            receiver.put_eof()


@attrs.frozen
class ClientWorld:
    """A served engine.

    Attributes:
        engine: the engine.
        address: where clients connect.
        cut: ends all connections.
        proxy: what lies between them, unless they are in memory.
        pair: if they are.
        uploads: what the server of a pair keeps.
        nursery: of the server.
    """

    engine: engine.Engine
    address: ServerAddress
    cut: Callable[[], None]
    nursery: trio.Nursery
    proxy: FaultProxy | None = None
    pair: PairAddress | None = None
    uploads: Uploads | None = None

    def client(
        self, name: str = "test", *, address: ServerAddress | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Client]:
        return connect_to(address or CheckedAddress(self.address), name=name, **options)


def scripted(*script: Answer, repeat: bool = False, **opening: Any) -> dict[str, Any]:
    """The usual arguments of `open_engine`."""
    provider = ScriptedProvider(list(script) or [[*text("Hello."), *done()]], repeat=repeat or not script)
    return {"model": provider, "permissions": PermissionOptions(approver=AllowAll()), **opening}


@asynccontextmanager
async def client_world(
    folder: Path,
    transport: Transport,
    *script: Answer,
    repeat: bool = False,
    seconds: float = 120,
    limits: WireLimits | None = None,
    **opening: Any,
) -> AsyncGenerator[ClientWorld]:
    """Serve an engine over *transport*; *opening* is for `open_engine`, *limits* for a pair."""
    with trio.fail_after(seconds):
        async with (
            engine.open_engine(**scripted(*script, repeat=repeat, **opening)) as opened,
            trio.open_nursery() as nursery,
        ):
            yield await _serve(opened, nursery, transport, folder, limits)
            nursery.cancel_scope.cancel()


async def _serve(
    opened: engine.Engine, nursery: trio.Nursery, transport: Transport, folder: Path, limits: WireLimits | None
) -> ClientWorld:
    if transport == "pair":
        methods = EngineMethods(opened)
        credentials = ClientCredentials(now=trio.current_time, random=secrets.token_bytes)
        server = ControlServer(methods, credentials, limits=limits)
        await nursery.start(server.run_tasks)
        pair = PairAddress(server, nursery)
        return ClientWorld(opened, pair, pair.cut, nursery, pair=pair, uploads=methods.uploads)
    proxy = FaultProxy()
    path = folder / "proxy.sock" if transport == "unix" else None
    port = await nursery.start(proxy.serve, path)
    options = ServeOptions(folder=folder / "run", public_url=f"http://127.0.0.1:{port or 1}")
    at = await nursery.start(serve, opened, options)
    if path is not None:
        proxy.target = at.socket
        return ClientWorld(opened, SocketPath(path), proxy.cut, nursery, proxy=proxy)
    proxy.target = int(at.url.rpartition(":")[2])
    return ClientWorld(opened, parse_address(f"http://127.0.0.1:{port}", at.token), proxy.cut, nursery, proxy=proxy)


async def items_until(stream: SessionStream, kind: type[Any]) -> list[Any]:
    """Return the items up to the first of that class."""
    items: list[Any] = []
    async for item in stream:
        items.append(item)
        if isinstance(item, kind):
            return items
    raise AssertionError(f"the stream has ended before {kind.__name__}")


def numbers_of(items: list[Any]) -> list[int]:
    """Return the numbers of the events of a session without sub-agents."""
    return [item.seq for item in items if isinstance(item, get_args(Durable)) and item.seq is not None]
