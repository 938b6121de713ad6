"""Malformed bytes to a served engine: heads, bodies, frames and messages. Each ends typed, and nothing is left of it."""

from __future__ import annotations

import json
import random
import resource
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.control.protocol.error_kinds import CLOSE_CODES, ERROR_KINDS
from tests.conftest import Soak
from tests.properties.test_control_frames import damaged
from tests.support.cancelled_server import open_files
from tests.support.raw_http import UPGRADE, parse_answer, request, reset_on_close
from tests.support.served_engine import HELLO, Client, Server, served

STATUSES = {101, 200, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 411, 413, 415, 421, 426, 429, 431, 501, 503}
CODES = {row.code for row in CLOSE_CODES}
AT_ONCE = 25


@pytest.mark.soak
@pytest.mark.os
@pytest.mark.slow
def test_malformed_bytes_leave_nothing_behind(soak: Soak, is_full: bool) -> None:
    count = 1000 if is_full else 300
    sent = 0
    for seed in soak.seeds(at_least=100 if is_full else 1):
        with folder() as path:
            trio.run(partial(attack, random.Random(seed), path, count))
        sent += count
    assert sent >= (100_000 if is_full else count)


@contextmanager
def folder() -> Generator[Path]:
    """A folder with a short name, for the Unix socket."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def attack(chance: random.Random, path: Path, count: int) -> None:
    async with served(path, seconds=300) as server, server.unix() as client:
        await client.hello()
        await client.new_session(path)
        await rounds(chance, server, client, AT_ONCE)
        await settle()
        files, living, memory = open_files(), tasks(), peak_memory()
        await rounds(chance, server, client, count)
        with trio.fail_after(30):
            # Of files, the store keeps some.
            while open_files() > files + 8 or tasks() > living:
                await trio.sleep(0.05)
        assert peak_memory() - memory < 100 << 20
        assert [row["name"] for row in (await client.result("clients"))["clients"]] == ["test"]


async def rounds(chance: random.Random, server: Server, client: Client, count: int) -> None:
    limit = trio.CapacityLimiter(AT_ONCE)

    async def one(kind: int, seed: int) -> None:
        async with limit:
            await KINDS[kind](random.Random(seed), server, server.at.token)

    over = trio.Event()

    async def keep_asking() -> None:
        # Somebody else is served meanwhile, and answers the ticks.
        while not over.is_set():
            with trio.fail_after(30):
                assert (await client.result("ping"))["time"] > 0
            with trio.move_on_after(0.2):
                await over.wait()

    async with trio.open_nursery() as others:
        others.start_soon(keep_asking)
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one, chance.randrange(len(KINDS)), chance.randrange(2**32))
        over.set()


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)


# -- kinds of attacks ------------------------------------------------------------------------


async def malformed_head(chance: random.Random, server: Server, token: str) -> None:
    good = request(
        chance.choice(["/v1/status", "/v1/rpc", "/v1/sessions/x/prompt", "/v1/login", "/v1/socket", "/"]),
        server.port,
        method=chance.choice(["GET", "POST", "HEAD"]),
        body=chance.choice(["", "{}", "[]", '{"text":']),
        token=chance.choice([token, token, ""]),
        fields=chance.choice(["", UPGRADE, "Expect: 100-continue\r\n", "Transfer-Encoding: chunked\r\n"]),
    )
    data = mangled(chance, good)
    received = await spoken(chance, server, data, is_reset=chance.random() < 0.2)
    answer = parse_answer(received)
    if answer.status in {0, 100, 101}:
        return
    assert answer.status in STATUSES, received[:500]
    # What follows the answer to HEAD is the next answer.
    if answer.status >= 400 and answer.body and not data.startswith(b"HEAD"):
        assert answer.problem["kind"] in ERROR_KINDS, (data, received)


async def malformed_frames(chance: random.Random, server: Server, token: str) -> None:
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {**HELLO, "role": "read"}})
    frames = [frame(hello.encode()), *(odd_frame(chance) for _ in range(chance.randrange(6)))]
    head = request("/v1/socket", server.port, token=token, fields=UPGRADE)
    data = b"".join(frames)
    if chance.random() < 0.5:
        data = mangled(chance, data)
    received = await spoken(chance, server, head + data, is_reset=chance.random() < 0.2)
    _, _, rest = received.partition(b"\r\n\r\n")
    for opcode, payload in frames_in(rest):
        if opcode == 8:
            # A code of the client's own is answered with the same one.
            code = int.from_bytes(payload[:2])
            assert len(payload) < 2 or code in CODES or 1000 <= code <= 1011 or 3000 <= code < 5000, payload
        elif opcode == 1:
            check_message(json.loads(payload))


async def malformed_lines(chance: random.Random, server: Server, _token: str) -> None:
    assert server.at.socket is not None
    hello = {"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {**HELLO, "role": "read"}}
    lines = [json.dumps(hello).encode(), *(as_bytes(damaged(chance)) for _ in range(chance.randrange(8)))]
    async with await trio.open_unix_socket(str(server.at.socket)) as stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(b"\n".join(lines) + chance.choice([b"\n", b""]))
            await stream.send_eof()
        for line in (await read_for(stream)).split(b"\n")[:-1]:
            check_message(json.loads(line))


KINDS = (malformed_head, malformed_frames, malformed_lines)


# -- bytes -------------------------------------------------------------------------------------


def as_bytes(data: str | bytes) -> bytes:
    # Without line breaks, which would make several lines of it.
    return (data.encode() if isinstance(data, str) else data).replace(b"\n", b" ")


def mangled(chance: random.Random, data: bytes) -> bytes:
    """Return *data* with some bytes changed, removed, added, or doubled."""
    changed = bytearray(data)
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[place : place + chance.randrange(20)]
            case 2:
                changed[place:place] = chance.choice(
                    [b"\r\n", b"\n", b"\r", b"\x00", b": ", b"Host: a\r\n", b"\xff" * 3]
                )
            case _:
                changed[place:place] = changed[place : place + chance.randrange(60)]
    return bytes(changed)


def frame(payload: bytes, first: int = 0x81) -> bytes:
    """Return a frame whose mask is zero."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2)
    return bytes([first]) + size + bytes(4) + payload


def odd_frame(chance: random.Random) -> bytes:
    if chance.random() < 0.6:
        return frame(as_bytes(damaged(chance))[:60_000])
    first = chance.choice([0x01, 0x80, 0x00, 0x82, 0x88, 0x89, 0x8A, 0xC1, 0x83, 0x81])
    return frame(chance.randbytes(chance.choice([0, 1, 2, 5, 125, 130])), first)


def frames_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 2:
        size, start = data[1], 2
        if size == 126:
            size, start = int.from_bytes(data[2:4]), 4
        elif size == 127:
            size, start = int.from_bytes(data[2:10]), 10
        if len(data) < start + size or not data[0] & 0x80:
            return  # cut off, or a part of a message
        yield data[0] & 15, data[start : start + size]
        data = data[start + size :]


async def spoken(chance: random.Random, server: Server, data: bytes, *, is_reset: bool) -> bytes:
    """Send *data* in pieces; return what came back."""
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        if is_reset:
            reset_on_close(stream)
        with suppress(trio.BrokenResourceError):
            cut = chance.randrange(len(data) + 1)
            for piece in (data[:cut], data[cut:]):
                if piece:
                    await stream.send_all(piece)
            if is_reset:
                return b""
            await stream.send_eof()
        return await read_for(stream)


async def read_for(stream: trio.SocketStream) -> bytes:
    """Return what comes until the server closes; a WebSocket waits for the other side's close, so not for ever."""
    received = b""
    with suppress(trio.BrokenResourceError), trio.move_on_after(20):
        async for piece in stream:
            received += piece
    return received


def check_message(message: object) -> None:
    for each in message if isinstance(message, list) else [message]:
        assert isinstance(each, dict)
        assert each["jsonrpc"] == "2.0"
        if "error" in each:
            assert each["error"]["data"]["kind"] in ERROR_KINDS
        assert each.get("error", {}).get("data", {}).get("kind") != "internal", each


# -- what is left ---------------------------------------------------------------------------------


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
