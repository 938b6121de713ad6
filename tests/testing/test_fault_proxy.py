"""The proxy that breaks connections: what passes is what was sent, and what is cut is cut as it says."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.testing import FaultProxy


@asynccontextmanager
async def echoed(proxy: FaultProxy, path: Path | None = None) -> AsyncGenerator[trio.SocketStream]:
    """A connection through *proxy* to a server that sends back what it gets."""

    async def echo(stream: trio.SocketStream) -> None:
        try:
            async for data in stream:
                await stream.send_all(data)
        except trio.BrokenResourceError:
            pass

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            listeners = await nursery.start(partial(trio.serve_tcp, echo, 0, host="127.0.0.1"))
            proxy.target = listeners[0].socket.getsockname()[1]
            port = await nursery.start(proxy.serve, path)
            stream = (
                await trio.open_tcp_stream("127.0.0.1", port) if path is None else await trio.open_unix_socket(path)
            )
            async with stream:
                yield stream
            nursery.cancel_scope.cancel()


async def receive(stream: trio.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await stream.receive_some()
        assert piece, "the stream has ended"
        data += piece
    return data


@pytest.mark.parametrize("is_local", [False, True])
async def test_pieces_arrive_whole_and_in_order(tmp_path: Path, is_local: bool) -> None:
    proxy = FaultProxy(seed=3)
    proxy.largest_piece, proxy.delay = 700, 0.001
    sent = bytes(range(256)) * 100
    async with echoed(proxy, tmp_path / "s" if is_local else None) as stream:
        await stream.send_all(sent)
        assert await receive(stream, len(sent)) == sent
        assert (proxy.accepted, proxy.connections) == (1, 1)
        await stream.send_eof()
        assert await stream.receive_some() == b""


async def test_stalled_connection_goes_on() -> None:
    proxy = FaultProxy()
    async with echoed(proxy) as stream:
        proxy.stall()
        await stream.send_all(b"x")
        with trio.move_on_after(0.2) as stalled:
            await stream.receive_some()
        assert stalled.cancelled_caught
        proxy.resume()
        assert await stream.receive_some() == b"x"


async def test_closed_connection_ends() -> None:
    proxy = FaultProxy()
    async with echoed(proxy) as stream:
        await stream.send_all(b"x")
        await stream.receive_some()
        proxy.cut("close")
        assert await stream.receive_some() == b""


async def test_reset_connection_is_an_error() -> None:
    proxy = FaultProxy()
    async with echoed(proxy) as stream:
        await stream.send_all(b"x")
        await stream.receive_some()
        proxy.cut("reset")
        with pytest.raises(trio.BrokenResourceError):
            await stream.receive_some()


async def test_silent_connection_never_ends() -> None:
    proxy = FaultProxy()
    async with echoed(proxy) as stream:
        await stream.send_all(b"x")
        await stream.receive_some()
        proxy.cut("silent")
        await stream.send_all(b"y")
        with trio.move_on_after(0.2) as silent:
            await stream.receive_some()
        assert silent.cancelled_caught
        assert proxy.connections == 1


async def test_connection_is_cut_after_so_many_bytes() -> None:
    proxy = FaultProxy()
    proxy.cuts = [5]
    async with echoed(proxy) as stream:
        await stream.send_all(b"123456789")
        assert await receive(stream, 5) == b"12345"
        assert await stream.receive_some() == b""


async def test_missing_server_closes_at_once() -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(FaultProxy().serve)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            assert await stream.receive_some() == b""
        nursery.cancel_scope.cancel()
