"""What cancel_everywhere finds in code of others: ideas of Trio's documentation, httpcore, trio-websocket, on real sockets."""

import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpcore
import trio
import trio_websocket

from engine.testing import PromiseBroken, cancel_everywhere

# ---- after ideas of Trio's documentation -----------------------------------------------------------------------------


async def producers_and_consumers() -> None:
    send, receive = trio.open_memory_channel[str](0)

    async def produce(name: str, channel: trio.MemorySendChannel[str]) -> None:
        async with channel:
            for number in range(2):
                await channel.send(f"{name} {number}")
                await trio.sleep(0.1)

    async def consume(channel: trio.MemoryReceiveChannel[str]) -> None:
        async with channel:
            async for _ in channel:
                await trio.sleep(0.1)

    async with trio.open_nursery() as nursery, send, receive:
        for name in "AB":
            nursery.start_soon(produce, name, send.clone())
            nursery.start_soon(consume, receive.clone())


async def echo_server_and_client() -> None:
    async def echo(stream: trio.SocketStream) -> None:
        async with stream:
            async for data in stream:
                await stream.send_all(data)

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, echo, [listener])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"hello"
        nursery.cancel_scope.cancel()


async def own_synchronisation() -> None:
    lot, is_open = trio.lowlevel.ParkingLot(), False

    async def wait_open() -> None:
        while not is_open:
            await lot.park()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait_open)
        await trio.sleep(0.1)
        is_open = True
        lot.unpark_all()


async def written_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with await trio.open_file(f"{folder}/notes", "w") as file:
            await file.write("hello")


# ---- installed packages, on the loopback -----------------------------------------------------------------------------


async def answer_http(stream: trio.SocketStream) -> None:
    async with stream:
        async for _ in stream:
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


async def httpcore_pool() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(trio.serve_listeners, answer_http, [listener]))
        async with httpcore.AsyncConnectionPool(max_connections=1) as pool, trio.open_nursery() as requests:
            requests.start_soon(pool.request, "GET", url)
            requests.start_soon(pool.request, "GET", url)
        nursery.cancel_scope.cancel()


async def websocket() -> None:
    async def echo(request: trio_websocket.WebSocketRequest) -> None:
        connection = await request.accept()
        try:
            while True:
                await connection.send_message(await connection.get_message())
        except trio_websocket.ConnectionClosed:
            pass

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(trio_websocket.WebSocketServer(echo, [listener]).run)
        async with trio_websocket.open_websocket("127.0.0.1", port, "/", use_ssl=False) as connection:
            await connection.send_message("hello")
            assert await connection.get_message() == "hello"
        nursery.cancel_scope.cancel()


def show(function: Callable[[], Awaitable[None]], *by: str) -> None:
    name = f"{function.__name__}, by {' '.join(by)}"
    try:
        report = cancel_everywhere(function, by=by)
    except PromiseBroken as broken:
        failure = broken.failure
        assert failure is not None
        struck = failure.struck
        print(f"{name}: {len(failure.also_at)} of {failure.total} points; the first is {failure.injection}")
        print(f"    arrived at: {struck[1] if struck else 'nowhere'}")
        print(f"    broken: {failure.problems[0].partition(' fd=')[0].partition(' name=')[0][:72]}...")
    else:
        print(f"{name}: {report.points} points, nothing found")


def main() -> None:
    for function in (producers_and_consumers, echo_server_and_client, own_synchronisation, httpcore_pool):
        show(function, "scope", "deadline", "sibling", "thread", "interrupt")
    show(written_file, "scope", "deadline", "sibling", "thread")
    show(written_file, "interrupt")
    show(websocket, "scope")
    show(websocket, "interrupt")


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)  # the report names files from here
    logging.getLogger("trio-websocket").setLevel(logging.CRITICAL)
    main()
