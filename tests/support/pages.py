"""The web on the loopback: pages as bytes, names as a table, and who is still connected."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from socket import AddressFamily, SocketKind
from typing import Literal

import attrs
import trio

from engine.core.exception_groups import public

PageMaker = Callable[[trio.SocketStream], Awaitable[None]]
Entry = (
    tuple[Literal[AddressFamily.AF_INET], SocketKind, int, str, tuple[str, int]]
    | tuple[Literal[AddressFamily.AF_INET6], SocketKind, int, str, tuple[str, int, int, int] | tuple[int, bytes]]
)
OPEN = "127.0.0.1"
# An address of this machine that no test allows.
CLOSED = "127.0.0.2"


@attrs.define(eq=False)
class Pages:
    """A server that answers each path with bytes, or as a function wants it. All else is 404.

    Attributes:
        heads: the heads of the requests it was sent.
        connections: how many are open.
    """

    routes: Mapping[str, bytes | PageMaker]
    port: int = 0
    heads: list[str] = attrs.field(factory=list[str])
    connections: int = 0
    _left: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def url(self, path: str = "/", host: str = OPEN) -> str:
        return f"http://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [head.split(" ")[1] for head in self.heads]

    async def wait_left(self) -> None:
        """Wait until nobody is connected."""
        while self.connections:
            await self._left.park()

    async def handle(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        try:
            with suppress(trio.BrokenResourceError):
                await self._answer(stream)
        finally:
            self.connections -= 1
            self._left.unpark_all()

    async def _answer(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := await stream.receive_some()):
                return
            head += data
        self.heads.append(head.decode("latin-1"))
        answer = self.routes.get(self.paths[-1], page("no such page", "text/plain", status="404 Not Found"))
        if isinstance(answer, bytes):
            await stream.send_all(answer)
        else:
            await answer(stream)
        await stream.send_eof()
        while await stream.receive_some():
            pass


@asynccontextmanager
async def web(routes: Mapping[str, bytes | PageMaker], *, host: str = OPEN, port: int = 0) -> AsyncGenerator[Pages]:
    """Serve pages on an address of this machine."""
    pages = Pages(routes)
    try:
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, pages.handle, port, host=host))
            pages.port = listeners[0].socket.getsockname()[1]
            yield pages
            nursery.cancel_scope.cancel(reason="the test is over")
    except BaseExceptionGroup as group:
        raise public(group) from None


def page(
    body: str | bytes = "",
    content_type: str | None = "text/html; charset=utf-8",
    *,
    status: str = "200 OK",
    **headers: str,
) -> bytes:
    """Return an answer of HTTP. Underscores in the names of headers are dashes."""
    data = body if isinstance(body, bytes) else body.encode()
    given = {"content-length": str(len(data)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    if content_type is not None:
        given["content-type"] = content_type
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return page("moved", status=status, location=location)


async def hang(stream: trio.SocketStream) -> None:
    """Say nothing, until the other side has left."""
    while await stream.receive_some():
        pass


@attrs.define(eq=False)
class Names(trio.abc.HostnameResolver):
    """What names mean: each look-up takes the next of the answers, the last one again and again.

    Attributes:
        asked: how often each name was looked up.
    """

    meanings: Mapping[str, list[list[str]]]
    asked: Counter[str] = attrs.field(factory=Counter[str])

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002  # trio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[Entry]:
        await trio.lowlevel.checkpoint()
        name = (host or b"").decode()
        if name not in self.meanings:
            raise trio.socket.gaierror(trio.socket.EAI_NONAME, "Name or service not known")
        answers = self.meanings[name]
        found = answers[min(self.asked[name], len(answers) - 1)]
        self.asked[name] += 1
        assert isinstance(port, int)
        return [_entry(address, port) for address in found]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        raise AssertionError("nobody asks for the name of an address")


def _entry(address: str, port: int) -> Entry:
    if ":" in address:
        return AddressFamily.AF_INET6, SocketKind.SOCK_STREAM, 6, "", (address, port, 0, 0)
    return AddressFamily.AF_INET, SocketKind.SOCK_STREAM, 6, "", (address, port)


@asynccontextmanager
async def names(**meanings: str | list[list[str]]) -> AsyncGenerator[Names]:
    """Let names mean these addresses; underscores are dots. No other name means anything meanwhile."""
    table = {name.replace("_", "."): [[meant]] if isinstance(meant, str) else meant for name, meant in meanings.items()}
    resolver = Names(table)
    trio.socket.set_custom_hostname_resolver(resolver)
    try:
        yield resolver
    finally:
        trio.socket.set_custom_hostname_resolver(None)
