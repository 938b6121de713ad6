"""With which code the server ends a WebSocket: by that, a client knows whether to come back."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from engine.control.protocol.error_kinds import CLOSE_CODES
from engine.control.token_file import add_token, revoke_token
from tests.support.raw_websocket import raw_websocket, read_close
from tests.support.served_engine import HELLO, Server, served

Send = Callable[[str], Awaitable[None]]


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


def message(method: str, params: object, key: object = 1) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params})


def frame(first: int, payload: bytes) -> bytes:
    return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload


# What a client does right after the upgrade, and the code that it gets.
DEEDS: list[tuple[str, list[bytes | str], int]] = [
    ("bytes", [frame(0x82, b"{}")], 1003),
    ("no utf-8", [frame(0x81, b"\xff")], 1007),
    ("reserved bit", [frame(0xC1, b"{}")], 1002),
    ("unknown frame", [frame(0x83, b"{}")], 1002),
    ("too long", ["x" * ((1 << 20) + 1)], 1009),
    ("too deep", ["[" * 100 + "]" * 100], 1009),
    ("bad hello", [message("hello", {"protocol": {"min": 1}})], 4400),
    ("another version", [message("hello", {**HELLO, "protocol": {"min": 8, "max": 9}})], 4400),
    ("bad ticket", [message("hello", {**HELLO, "ticket": "x"})], 4401),
    # What the client ends with is answered with the same code.
    ("done", [message("hello", HELLO), frame(0x88, (1000).to_bytes(2))], 1000),
    ("page is left", [message("hello", HELLO), frame(0x88, (1001).to_bytes(2))], 1001),
]


@pytest.mark.parametrize(("sent", "code"), [deed[1:] for deed in DEEDS], ids=[deed[0] for deed in DEEDS])
async def test_deeds_have_their_codes(tmp_path: Path, sent: list[bytes | str], code: int) -> None:
    async with served(tmp_path) as server, raw_websocket(server) as (stream, send):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, stream, send, sent)
            await read_close(stream, code)
            nursery.cancel_scope.cancel()


async def say(stream: trio.SocketStream, send: Send, sent: list[bytes | str]) -> None:
    try:
        for piece in sent:
            await (send(piece) if isinstance(piece, str) else stream.send_all(piece))
    except trio.BrokenResourceError:
        pass  # the server was quicker
    await trio.sleep_forever()


async def wait_for_hello(server: Server, clock: MockClock, send: Send) -> None:
    del server, send
    clock.jump(5)


async def wait_for_tock(server: Server, clock: MockClock, send: Send) -> None:
    del server
    await send(message("hello", HELLO))
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.02)
        clock.jump(15)


async def revoke(server: Server, clock: MockClock, send: Send) -> None:
    assert server.at.socket is not None
    await send(message("hello", HELLO))
    await trio.to_thread.run_sync(revoke_token, server.at.socket.parent, "phone")
    clock.jump(1)


async def end(server: Server, clock: MockClock, send: Send) -> None:
    del clock
    await send(message("hello", HELLO))
    server.nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("happens", "code"), [(wait_for_hello, 4408), (wait_for_tock, 4408), (revoke, 4403), (end, 1012)]
)
async def test_ends_have_their_codes(
    tmp_path: Path, clock: MockClock, happens: Callable[[Server, MockClock, Send], Awaitable[None]], code: int
) -> None:
    token = add_token(tmp_path / "run", "phone", "full")
    async with served(tmp_path, seconds=300) as server, raw_websocket(server, token) as (stream, send):
        await trio.testing.wait_all_tasks_blocked(0.02)
        await happens(server, clock, send)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 30):
            await read_close(stream, code)


async def test_fault_of_a_subscription_has_its_code(tmp_path: Path) -> None:
    """Another program has written what nobody can read into the store."""
    async with served(tmp_path) as server, server.unix() as owner:
        await owner.hello()
        session_id = await owner.new_session(tmp_path)
        assert (await owner.result("session.close", session_id=session_id))["released"]
        async with raw_websocket(server) as (stream, send):
            await send(message("hello", HELLO))
            await send(message("subscribe", {"session_id": session_id}, 2))
            received = b""
            while b'"mode":"stored"' not in received:
                received += await stream.receive_some()
            with contextlib.closing(sqlite3.connect(tmp_path / "sessions.db")) as store, store:
                store.execute(
                    "INSERT INTO events (session_id, seq, type, version, body) "
                    "SELECT session_id, max(seq) + 1, 'nonsense', 1, '{' FROM events WHERE session_id = ?",
                    (session_id,),
                )
            await read_close(stream, 1011)
        # The others are not concerned.
        assert (await owner.result("ping"))["time"] > 0


def test_all_codes_have_a_test() -> None:
    # 4429 is in `test_hostile_connections.py`.
    known = {row.code for row in CLOSE_CODES} - {4429}
    assert known <= {deed[2] for deed in DEEDS} | {4408, 4403, 1012, 1011}
