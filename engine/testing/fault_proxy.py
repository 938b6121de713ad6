"""A proxy between a client and a server that does to their bytes what networks do: it delays, splits, stalls and cuts.

It knows nothing of what the bytes mean, and uses real sockets of this machine.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, final

import attrs
import trio

# "close": both sides see the end of the stream. "reset": both see an error. "silent": neither sees anything, as if a cable
# was pulled.
CutKind = Literal["close", "reset", "silent"]
_RECEIVE_BYTES: Final = 64 * 1024


@attrs.define(eq=False)
class _Pair:
    """A connection of a client, and the one to the server that belongs to it."""

    client: trio.SocketStream
    server: trio.SocketStream
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_silent: bool = False
    # Bytes of the server that may still pass; None: all.
    rest: int | None = None


@final
class FaultProxy:
    """A proxy; `serve` runs it.

    What is set here applies at once, also to connections that are open.

    Attributes:
        target: the server: a port of this machine, or the path of a Unix socket; None: there is none, so that each
            connection is closed as soon as it was made.
        delay: seconds that each piece takes.
        largest_piece: the largest piece that is passed on, in bytes; the sizes are random. None: no splitting.
        cuts: each new connection takes the first number out of this list, and is cut once the server has sent so many bytes.
        cut_kind: how.
        accepted: how many connections clients have made.
    """

    def __init__(self, target: int | str | os.PathLike[str] | None = None, *, seed: int = 0) -> None:
        """Make it; *seed* is for the sizes of pieces."""
        self.target = target
        self.delay: float = 0.0
        self.largest_piece: int | None = None
        self.cuts: list[int] = []
        self.cut_kind: CutKind = "close"
        self.accepted: int = 0
        self._random = random.Random(seed)
        self._pairs: set[_Pair] = set()
        self._open = trio.Event()
        self._open.set()

    async def serve(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Listen until cancelled, at a free port, which `nursery.start` returns; with *path*, at that Unix socket. A checkpoint."""
        if path is None:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        else:
            made = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            await made.bind(os.fspath(path))
            made.listen()
            listeners = [trio.SocketListener(made)]
        port: int = 0 if path is not None else listeners[0].socket.getsockname()[1]
        task_status.started(port)
        try:
            await trio.serve_listeners(self._handle, listeners)
        finally:
            if path is not None:
                Path(path).unlink(missing_ok=True)  # noqa: ASYNC240  # at the end of a test

    @property
    def connections(self) -> int:
        """The number of open connections, silent ones included."""
        return len(self._pairs)

    def cut(self, kind: CutKind = "close") -> None:
        """Cut all connections that are open. Not a checkpoint."""
        for pair in tuple(self._pairs):
            self._cut(pair, kind)

    def stall(self) -> None:
        """Pass nothing on until `resume`; the connections stay open. Not a checkpoint."""
        self._open = trio.Event()

    def resume(self) -> None:
        """Continue after `stall`. Not a checkpoint."""
        self._open.set()

    async def _handle(self, client: trio.SocketStream) -> None:
        self.accepted += 1
        server = await self._connect()
        if server is None:
            return
        pair = _Pair(client, server, rest=self.cuts.pop(0) if self.cuts else None)
        self._pairs.add(pair)
        try:
            async with server:
                with pair.scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._pass_on, pair, client, server)
                        await self._pass_on(pair, server, client)
                        # The end of the server's stream is that of the connection, whatever the client still sends.
                        nursery.cancel_scope.cancel(reason="the server has closed the connection")
        finally:
            self._pairs.discard(pair)

    async def _connect(self) -> trio.SocketStream | None:
        if self.target is None:
            return None
        try:
            if isinstance(self.target, int):
                return await trio.open_tcp_stream("127.0.0.1", self.target)
            return await trio.open_unix_socket(os.fspath(self.target))
        except OSError:
            return None

    async def _pass_on(self, pair: _Pair, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(_RECEIVE_BYTES):
                for piece in self._split(bytes(data)):
                    await self._wait(pair)
                    await self._send(pair, sink, piece)
            await self._wait(pair)
            await sink.send_eof()

    async def _wait(self, pair: _Pair) -> None:
        """Wait as long as a piece takes. A checkpoint; it never returns for a silent connection."""
        if self.delay:
            await trio.sleep(self.delay)
        while not self._open.is_set():
            await self._open.wait()
        if pair.is_silent:
            await trio.sleep_forever()

    async def _send(self, pair: _Pair, sink: trio.SocketStream, piece: bytes) -> None:
        if sink is pair.server or pair.rest is None:
            await sink.send_all(piece)
            return
        await sink.send_all(piece[: pair.rest])
        pair.rest = max(0, pair.rest - len(piece))
        if not pair.rest:
            self._cut(pair, self.cut_kind)
            await trio.sleep_forever()

    def _split(self, data: bytes) -> Iterator[bytes]:
        start = 0
        while start < len(data):
            size = len(data) if self.largest_piece is None else self._random.randint(1, self.largest_piece)
            yield data[start : start + size]
            start += size

    def _cut(self, pair: _Pair, kind: CutKind) -> None:
        if kind == "silent":
            pair.is_silent = True
            return
        if kind == "reset":
            for stream in (pair.client, pair.server):
                with suppress(OSError):
                    # Closing it then sends a reset instead of an end.
                    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        pair.scope.cancel(reason=f"cut: {kind}")
