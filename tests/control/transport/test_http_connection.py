"""HTTP/1.1 connections: over memory with virtual time, and over a socket with foreign clients."""

import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import httpx
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair
from trio_websocket import ConnectionClosed, wrap_client_stream

from engine.control.transport.access import AllowedAddresses
from engine.control.transport.http_connection import (
    Answer,
    HttpConnection,
    HttpRequest,
    Response,
    SendPiece,
    Stream,
    Upgrade,
)
from engine.control.transport.request_head import BadRequest, RequestHead
from engine.control.transport.websocket import WebSocket


@attrs.define
class Echo:
    """A handler for each kind of answer."""

    port: int = 80
    answered: list[str] = attrs.field(factory=list)
    gone: list[str] = attrs.field(factory=list)

    @property
    def allowed(self) -> AllowedAddresses:
        return AllowedAddresses.on_port(self.port)

    def body_limit(self, head: RequestHead) -> int:
        if head.path == "/secret":
            raise BadRequest(401, "no token")
        return 100_000

    async def answer(self, request: HttpRequest) -> Answer:
        self.answered.append(request.head.target)
        match request.head.path:
            case "/socket":
                return Upgrade(run=self._echo, message_bytes=1000)
            case "/stream":
                return Stream(write=self._count, content_type="text/event-stream")
            case "/wait":
                try:
                    await trio.sleep_forever()
                finally:
                    self.gone.append(request.head.target)
            case "/missing":
                raise BadRequest(404, "not here")
            case _:
                return Response(body=request.body or b"hello", content_type="text/plain", fields=(("x-y", "z"),))

    def refusal(self, error: BadRequest) -> Response:
        return Response(status=error.status, body=error.reason.encode(), content_type="text/plain")

    async def _echo(self, websocket: WebSocket) -> None:
        while True:
            await websocket.send(await websocket.receive())

    async def _count(self, send: SendPiece) -> None:
        try:
            for number in range(3):
                await send(f"data: {number}\n\n".encode())
            await trio.sleep(5)
            await send(b"data: end\n\n")
        finally:
            self.gone.append("/stream")


Client = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]


def run(scenario: Callable[[Client, Echo], Awaitable[None]]) -> Echo:
    """Run *scenario* beside a served connection, in virtual time; the connection must end with its client."""
    echo = Echo()

    async def main() -> None:
        mine, client = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(HttpConnection(mine, echo.allowed, echo).serve)
            await scenario(client, echo)
            await client.aclose()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return echo


def request(target: str = "/", *, method: str = "GET", body: str = "", fields: str = "") -> bytes:
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if method == "POST" else ""
    return f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{kind}{fields}\r\n{body}".encode()


async def read_until(stream: Client, end: bytes) -> bytes:
    data = b""
    while end not in data:
        piece = await stream.receive_some()
        if not piece:
            raise AssertionError(f"the end came first: {data!r}")
        data += piece
    return data


async def read_all(stream: Client) -> bytes:
    data = b""
    while piece := await stream.receive_some():
        data += piece
    return data


def test_requests_follow_one_another_however_they_are_cut() -> None:
    requests = [
        request("/a"),
        request("/b", method="POST", body="x" * 50),
        request("/c", fields="Connection: close\r\n"),
    ]

    @given(st.integers(1, 200))
    def check(size: int) -> None:
        async def scenario(client: Client, _: Echo) -> None:
            data = b"".join(requests)
            for start in range(0, len(data), size):
                await client.send_all(data[start : start + size])
            received = await read_all(client)
            assert received.count(b"HTTP/1.1 200 OK\r\n") == 3
            assert b"\r\n\r\n" + b"x" * 50 + b"HTTP" in received
            assert received.endswith(b"hello")

        assert run(scenario).answered == ["/a", "/b", "/c"]

    check()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n", 421),
        (b"nonsense\r\n\r\n", 400),
        (request("/secret"), 401),
        (request("/secret", method="POST", body="x"), 401),
        (request(method="POST", fields="Content-Length: 1\r\n"), 400),
        (request(method="DELETE"), 405),
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100001\r\n\r\n",
            413,
        ),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000, 431),
        (request("/socket", fields="Upgrade: websocket\r\nConnection: upgrade\r\n"), 400),
    ],
)
def test_refusals_end_the_connection(data: bytes, status: int) -> None:
    async def scenario(client: Client, _: Echo) -> None:
        await client.send_all(data + request("/smuggled"))
        assert (await read_all(client)).startswith(f"HTTP/1.1 {status} ".encode())

    assert "/smuggled" not in run(scenario).answered


def test_error_of_a_handler_keeps_the_connection() -> None:
    async def scenario(client: Client, _: Echo) -> None:
        await client.send_all(request("/missing"))
        assert b"404" in await read_until(client, b"not here")
        await client.send_all(request("/a"))
        assert b"200" in await read_until(client, b"hello")

    assert run(scenario).answered == ["/missing", "/a"]


def test_head_request_gets_no_body() -> None:
    async def scenario(client: Client, _: Echo) -> None:
        await client.send_all(request("/a", method="HEAD") + request("/b", fields="Connection: close\r\n"))
        received = await read_all(client)
        first, second = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert b"content-length: 5\r\n" in first
        assert first.endswith(b"\r\n\r\n")
        assert second.endswith(b"hello")

    run(scenario)


@pytest.mark.parametrize(
    ("sent", "seconds", "status"),
    [(b"", 75, b""), (b"GET / HT", 10, b"408"), (request(method="POST", body="abc")[:-1], 60, b"408")],
)
def test_slow_clients_are_left(sent: bytes, seconds: float, status: bytes) -> None:
    async def scenario(client: Client, _: Echo) -> None:
        began = trio.current_time()
        if sent:
            await client.send_all(sent)
        received = await read_until(client, b"\r\n\r\n") if status else await read_all(client)
        assert status in received
        assert trio.current_time() - began == pytest.approx(seconds)

    run(scenario)


@pytest.mark.parametrize("target", ["/wait", "/stream"])
def test_handler_is_cancelled_when_the_client_goes(target: str) -> None:
    async def scenario(client: Client, echo: Echo) -> None:
        await client.send_all(request(target))
        await trio.sleep(1)
        assert not echo.gone
        await client.aclose()
        await trio.sleep(1)
        assert echo.gone == [target]

    run(scenario)


def test_stream_comes_piece_by_piece() -> None:
    async def scenario(client: Client, _: Echo) -> None:
        await client.send_all(request("/stream") + request("/after"))
        first = await read_until(client, b"data: 2")
        assert b"transfer-encoding: chunked" in first.lower()
        assert b"end" not in first
        await read_until(client, b"data: end")
        await read_until(client, b"hello")

    run(scenario)


async def test_client_that_reads_nothing_is_left() -> None:
    async def endless(send: SendPiece) -> None:
        while True:
            await send(b"x" * 60_000)

    class Endless(Echo):
        async def answer(self, request: HttpRequest) -> Answer:
            return Stream(write=endless, content_type="text/plain")

    async def main() -> None:
        stuck = trio.testing.MemorySendStream(send_all_hook=trio.sleep_forever)
        received = trio.testing.MemoryReceiveStream()
        received.put_data(request())
        await HttpConnection(trio.StapledStream(stuck, received), AllowedAddresses.on_port(80), Endless()).serve()
        assert trio.current_time() == pytest.approx(began + 30)

    clock = MockClock(autojump_threshold=0)
    began = clock.current_time()
    await trio.to_thread.run_sync(lambda: trio.run(main, clock=clock))


@given(
    st.lists(
        st.sampled_from([request(), b"\r\n\r\n", b"GET ", b"/ HTTP/1.1\r\n", b"Host: localhost"])
        | st.binary(max_size=30)
    )
)
def test_whatever_the_bytes_it_ends(pieces: list[bytes]) -> None:
    async def scenario(client: Client, _: Echo) -> None:
        try:
            for piece in pieces:
                await client.send_all(piece)
            await client.send_stream.aclose()
            received = await read_all(client)
        except trio.BrokenResourceError:
            return
        assert not received or received.startswith(b"HTTP/1.1 ")

    run(scenario)


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[str, Echo]]:
    """Serve on a port of the loopback."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    echo = Echo(port=listeners[0].socket.getsockname()[1])

    async def serve(stream: trio.abc.Stream) -> None:
        await HttpConnection(stream, echo.allowed, echo).serve()

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, listeners)
        yield f"127.0.0.1:{echo.port}", echo
        nursery.cancel_scope.cancel()


async def test_httpx_and_curl_are_served() -> None:
    async with served() as (address, _):
        async with httpx.AsyncClient() as client:
            for _ in range(3):
                response = await client.post(f"http://{address}/", json={"a": "ä" * 10_000})
                assert (response.status_code, response.json()) == (200, {"a": "ä" * 10_000})
            assert (await client.get(f"http://{address}/missing")).text == "not here"
        sent = "y" * 90_000
        result = await trio.run_process(
            ["curl", "-sS", "-H", "Content-Type: application/json", "-H", "Expect: 100-continue", "-d@-", address],
            stdin=sent.encode(),
            capture_stdout=True,
            stderr=subprocess.STDOUT,
        )
        assert result.stdout.decode() == sent


async def test_connection_becomes_a_websocket() -> None:
    async with served() as (address, echo), trio.open_nursery() as nursery:
        # Its own stream, since trio-websocket does not close that of a connection which the server has closed.
        async with await trio.open_tcp_stream("127.0.0.1", echo.port) as stream:
            client = await wrap_client_stream(nursery, stream, address, "/socket")
            for text in ["a", "", "ä" * 400]:
                await client.send_message(text)
                assert await client.get_message() == text
            await client.send_message("x" * 1001)
            with pytest.raises(ConnectionClosed) as caught:
                await client.get_message()
            assert caught.value.reason is not None
            assert caught.value.reason.code == 1009
