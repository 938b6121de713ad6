"""The server's WebSocket against foreign clients: trio-websocket, and raw frames."""

import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair
from trio_websocket import ConnectionClosed, wrap_client_stream

from engine.control.transport.message_transport import TransportClosed
from engine.control.transport.request_head import BadRequest
from engine.control.transport.websocket import WebSocket
from tests.support.cancel_at import CancelAt

HEAD = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
CLOSE, PING, PONG = 8, 9, 10


def frame(payload: bytes, opcode: int = 1, *, is_final: bool = True, is_masked: bool = True, rsv: int = 0) -> bytes:
    """Return a frame of a client; the mask is zero."""
    first = (128 if is_final else 0) | rsv | opcode
    mask = 128 if is_masked else 0
    if len(payload) < 126:
        head = bytes([first, mask | len(payload)])
    elif len(payload) < 65536:
        head = bytes([first, mask | 126]) + struct.pack("!H", len(payload))
    else:
        head = bytes([first, mask | 127]) + struct.pack("!Q", len(payload))
    return head + (bytes(4) if is_masked else b"") + payload


class RawClient:
    """A client that sends any bytes."""

    def __init__(
        self, stream: trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]
    ) -> None:
        self.stream = stream
        self.received = bytearray()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def frame(self) -> tuple[int, bytes]:
        """Return the opcode and the payload of the next frame; (0, b"") at the end."""
        while True:
            if len(self.received) >= 2:
                size, start = self.received[1], 2
                if size == 126:
                    size, start = int.from_bytes(self.received[2:4]), 4
                elif size == 127:
                    size, start = int.from_bytes(self.received[2:10]), 10
                if len(self.received) >= start + size:
                    first, payload = self.received[0], bytes(self.received[start : start + size])
                    del self.received[: start + size]
                    return first, payload
            data = await self.stream.receive_some()
            if not data:
                return 0, b""
            self.received += data

    async def close_code(self) -> int:
        """Return the code of the server's close; 0 if there is none."""
        while True:
            first, payload = await self.frame()
            if first == 0:
                return 0
            if first & 15 == CLOSE:
                return int.from_bytes(payload[:2])


@asynccontextmanager
async def raw_connection(limit: int = 1000) -> AsyncGenerator[tuple[RawClient, WebSocket]]:
    mine, other = memory_stream_pair()
    websocket = WebSocket(mine)
    websocket.message_bytes = limit
    websocket.read_request(HEAD)
    await websocket.accept()
    client = RawClient(other)
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += await other.receive_some(1)
    yield client, websocket


async def end_of(websocket: WebSocket) -> TransportClosed:
    while True:
        try:
            await websocket.receive()
        except TransportClosed as end:
            return end


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"a", is_masked=False), 1002),
        (frame(b"a", 3), 1002),
        (frame(b"a", 0), 1002),
        (frame(b"a", rsv=64), 1002),
        (frame(b"a", PING, is_final=False), 1002),
        (frame(b"a" * 126, PING), 1002),
        (frame(b"a", is_final=False) + frame(b"b"), 1002),
        (frame(b"\xff"), 1007),
        (frame(b"\xc3", is_final=False) + frame(b"a", 0), 1007),
        (frame(b"a", 2), 1003),
        (frame(b"a" * 1001), 1009),
        (frame(b"a" * 600, is_final=False) + frame(b"a" * 600, 0), 1009),
        (frame(b"", is_final=False) + frame(b"", 0, is_final=False) * 1024, 1009),
        (frame(struct.pack("!H", 1000), CLOSE), 1000),
        (frame(struct.pack("!H", 4000) + b"bye", CLOSE), 4000),
        (frame(struct.pack("!H", 999), CLOSE), 1002),
        (frame(b"\x03", CLOSE), 1002),
    ],
)
async def test_each_fault_has_its_code(data: bytes, code: int) -> None:
    async with raw_connection() as (client, websocket), trio.open_nursery() as nursery:
        nursery.start_soon(client.send, data)
        end = await end_of(websocket)
        assert end.code == code
        assert await client.close_code() == code
        with pytest.raises(TransportClosed):
            await websocket.send("more")
        await websocket.close()


async def test_declared_length_alone_costs_nothing() -> None:
    async with raw_connection() as (client, websocket), trio.open_nursery() as nursery:
        nursery.start_soon(client.send, bytes([129, 255]) + struct.pack("!Q", 1 << 40) + bytes(4) + b"a" * 2000)
        assert (await end_of(websocket)).code == 1009


async def test_end_without_close_is_1006() -> None:
    async with raw_connection() as (client, websocket):
        await client.stream.aclose()
        assert (await end_of(websocket)).code == 1006


async def test_pings_are_answered_between_fragments() -> None:
    async with raw_connection() as (client, websocket):
        await client.send(frame(b"a", is_final=False) + frame(b"x", PING) + frame(b"b", 0))
        assert await websocket.receive() == "ab"
        assert await client.frame() == (128 | 10, b"x")


@pytest.mark.parametrize(
    "data",
    [
        frame(b"", PONG) * 1000,
        frame(b"", PING) * 1000,
        frame(b"", is_final=False) + frame(b"x", 0, is_final=False) * 999 + frame(b"", 0),
    ],
    ids=["pongs", "pings", "fragments"],
)
async def test_many_frames_that_bring_nothing_are_paced(data: bytes, autojump_clock: MockClock) -> None:
    paused = 0

    async def pace() -> None:
        nonlocal paused
        paused += 1
        await trio.sleep(0.001)

    async with raw_connection() as (client, websocket):
        websocket.pace = pace
        # A client that sends one now and then is never kept waiting.
        for _ in range(40):
            await client.send(frame(b"", PING) + frame(b"now"))
            assert await websocket.receive() == "now"
            await trio.sleep(1)
        assert paused == 0
        await client.send(data + frame(b"end"))
        while await websocket.receive() != "end":
            pass
        assert paused > 55


async def test_long_message_goes_in_frames() -> None:
    text = "äöü𝄞" * 50_000
    async with raw_connection() as (client, websocket), trio.open_nursery() as nursery:
        nursery.start_soon(websocket.send, text)
        frames = [await client.frame()]
        while not frames[-1][0] & 128:
            frames.append(await client.frame())
        assert b"".join(payload for _, payload in frames).decode() == text
        assert max(len(payload) for _, payload in frames) <= 64 * 1024
        assert [first & 15 for first, _ in frames] == [1] + [0] * (len(frames) - 1)


async def test_two_messages_do_not_mix() -> None:
    texts = {letter * 40_000 for letter in "abcdef"}
    async with raw_connection() as (client, websocket), trio.open_nursery() as nursery:
        for text in texts:
            nursery.start_soon(websocket.send, text)
        received: set[str] = set()
        message = b""
        while len(received) < len(texts):
            first, payload = await client.frame()
            message += payload
            if first & 128:
                received.add(message.decode())
                message = b""
        assert received == texts


def test_silent_client_is_left_after_two_seconds() -> None:
    async def scenario() -> float:
        async with raw_connection() as (client, websocket):
            await websocket.close(1001, "x" * 1000)
            assert await client.close_code() == 1001
        return trio.current_time()

    started = MockClock(autojump_threshold=0)
    begin = started.current_time()
    assert trio.run(scenario, clock=started) - begin == pytest.approx(2.0)


async def test_cancelled_send_breaks_the_connection() -> None:
    send, receive = trio.testing.MemorySendStream(send_all_hook=trio.sleep_forever), trio.testing.MemoryReceiveStream()
    websocket = WebSocket(trio.StapledStream(send, receive))
    websocket.read_request(HEAD)
    with trio.move_on_after(0.01) as scope:
        await websocket.accept()
    assert scope.cancelled_caught
    with pytest.raises(TransportClosed):
        await websocket.send("never")


@given(st.data())
def test_whatever_the_bytes_it_ends_typed(data: st.DataObject) -> None:
    good = st.builds(
        frame,
        st.binary(max_size=40),
        st.sampled_from([0, 1, 2, 8, 9, 10, 3]),
        is_final=st.booleans(),
        is_masked=st.sampled_from([True, True, True, False]),
        rsv=st.sampled_from([0, 0, 0, 64]),
    )
    pieces = data.draw(st.lists(good | st.binary(max_size=20), max_size=8))
    size = data.draw(st.integers(1, 30))

    async def scenario() -> None:
        async with raw_connection(limit=60) as (client, websocket), trio.open_nursery() as nursery:

            async def feed() -> None:
                sent = b"".join(pieces)
                with suppress(trio.BrokenResourceError):  # the server may be quicker
                    for start in range(0, len(sent), size):
                        await client.send(sent[start : start + size])
                    await client.stream.send_eof()

            async def drain() -> None:
                while (await client.frame())[0]:
                    pass

            nursery.start_soon(drain)
            nursery.start_soon(feed)
            end = await end_of(websocket)
            assert end.code in {1000, 1002, 1003, 1005, 1006, 1007, 1009} or 1000 <= end.code < 5000
            await websocket.close()

    trio.run(scenario, clock=MockClock(autojump_threshold=0))


async def test_trio_websocket_understands_it() -> None:
    mine, other = memory_stream_pair()

    async def serve() -> None:
        websocket = WebSocket(mine)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await mine.receive_some(1)
        assert websocket.read_request(head) == ("engine.v1", "engine.ticket.x")
        await websocket.accept("engine.v1")
        with pytest.raises(TransportClosed) as caught:
            while True:
                await websocket.send(await websocket.receive())
        assert (caught.value.code, caught.value.reason) == (1000, "done")
        await websocket.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        offered = ["engine.v1", "engine.ticket.x"]
        # It is typed for sockets, and works with any stream.
        client = await wrap_client_stream(nursery, cast("trio.SocketStream", other), "a", "/", subprotocols=offered)
        assert client.subprotocol == "engine.v1"
        for text in ["", "a", "ä" * 300_000]:
            await client.send_message(text)
            assert await client.get_message() == text
        await client.ping()
        await client.aclose(1000, "done")
        with pytest.raises(ConnectionClosed):
            await client.get_message()


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        HEAD.replace(b"13", b"12"),
        HEAD.replace(b"GET", b"POST"),
    ],
)
def test_other_requests_are_refused(head: bytes) -> None:
    mine, _ = memory_stream_pair()
    with pytest.raises(BadRequest):
        WebSocket(mine).read_request(head)


@pytest.mark.parametrize("steps", range(6))
async def test_cancel_before_the_first_byte_costs_no_close_code(steps: int) -> None:
    mine, other = (trio.SocketStream(each) for each in trio.socket.socketpair())
    websocket = WebSocket(mine)
    websocket.read_request(HEAD)
    await websocket.accept()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def send() -> None:
                with scope:
                    await websocket.send("hello")

            nursery.start_soon(send)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            scope.cancel()
        # Its other side does not answer, which is waited for, but not for long.
        with trio.move_on_after(0.1):
            await websocket.close(4429, "busy")
        data = b""
        while (4429).to_bytes(2, "big") + b"busy" not in data:
            more = bytes(await other.receive_some())
            assert more, data
            data += more
    for stream in (mine, other):
        await trio.aclose_forcefully(stream)


def test_cancelled_while_it_reads_slowly_loses_nothing() -> None:
    """Also while it drops what comes after a fault: the next close ends the stream all the same."""
    data = (
        *(frame(b"", PONG) * 30, frame(b"a", is_final=False), frame(b"b", 0, is_final=False) * 30, frame(b"c", 0)),
        *(frame(b"", PING) * 30, frame(b"end"), frame(b"?", 3), frame(b"dropped") * 3),
    )

    async def scenario(at: CancelAt) -> None:
        texts: list[str] = []

        async def receive_all(websocket: WebSocket) -> None:
            with suppress(TransportClosed):
                while True:
                    texts.append(await websocket.receive())

        async with raw_connection() as (client, websocket):
            await client.send(b"".join(data))
            with at.scope():
                await receive_all(websocket)
                await websocket.close()
            # Cancelled in the middle of the answer to the fault, it waits for that of the client.
            with trio.move_on_after(10):
                await receive_all(websocket)
            await websocket.close()
            assert texts == [f"a{'b' * 30}c", "end"]
            # Cancelled in the middle of the close itself, nothing can follow.
            assert await client.close_code() == 1002 or at.has_fired
            with pytest.raises(trio.BrokenResourceError):
                await client.send(b"x")

    def play(step: int | None) -> int:
        at = CancelAt(step)
        trio.run(scenario, at, instruments=[at], clock=MockClock(autojump_threshold=0))
        return at.steps

    steps = play(None)
    assert steps > 30
    for step in range(steps):
        play(step)
