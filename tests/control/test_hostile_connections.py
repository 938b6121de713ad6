"""Clients that break rules of HTTP and WebSocket, or are slow, or vanish: each costs its own connection and nothing else."""

from __future__ import annotations

import json
import os
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock
from wsproto import ConnectionType, WSConnection
from wsproto.events import Request

from engine.control.protocol.method_table import METHODS
from engine.session.engine_options import PermissionOptions
from tests.support.control_session import SCRIPT, ExampleSession
from tests.support.raw_http import (
    UPGRADE,
    exchange,
    parse_answer,
    raw_stream,
    read_answer,
    read_to_end,
    request,
    reset_on_close,
)
from tests.support.raw_websocket import raw_websocket, read_close
from tests.support.served_engine import HELLO, Server, served


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


CREATE = '{"cwd":"/","key":"smuggled"}'
# Each is a request in which another one may hide, by some reading; then comes the hidden one.
SMUGGLING = [
    ("two lengths", "POST /v1/rpc", "Content-Length: 0\r\nContent-Length: 99", 400),
    ("a list of lengths", "POST /v1/rpc", "Content-Length: 0, 0", 400),
    ("a signed length", "POST /v1/rpc", "Content-Length: +0", 400),
    ("length and chunks", "POST /v1/rpc", "Content-Length: 5\r\nTransfer-Encoding: chunked", 411),
    ("chunks", "POST /v1/rpc", "Transfer-Encoding: chunked", 411),
    ("hidden chunks", "POST /v1/rpc", "Transfer-Encoding: xchunked\r\nContent-Length: 0", 411),
    ("space before the colon", "POST /v1/rpc", "Content-Length : 0", 400),
    ("bare CR", "GET /healthz", "X: a\rContent-Length: 99", 400),
    ("bare LF", "GET /healthz", "X: a\nContent-Length: 99", 400),
    ("folded line", "GET /healthz", "X: a\r\n Content-Length: 99", 400),
    ("NUL", "GET /healthz", "X: a\x00b", 400),
    ("body with GET", "GET /healthz", "Content-Length: 5", 400),
    ("absolute address", "GET http://127.0.0.1:PORT/healthz", "X: a", 421),
    ("address of another host", "GET http://evil.example/healthz", "X: a", 421),
    ("path of another host", "GET //evil.example/healthz", "X: a", 421),
    ("dots", "GET /assets/%2e%2e/%2e%2e/etc/passwd", "X: a", 400),
    ("dots and a slash", "GET /assets/..%2f..%2fetc/passwd", "X: a", 400),
    ("backslashes", "GET /assets/..%5c..%5cetc/passwd", "X: a", 400),
    ("line break in the path", "GET /healthz%0d%0aX:a", "X: a", 400),
    ("two hosts", "GET /healthz", "Host: evil.example", 421),
    ("upgrade to something else", "POST /v1/rpc", "Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 9x", 400),
]


@pytest.mark.parametrize(
    ("line", "fields", "status"), [case[1:] for case in SMUGGLING], ids=[case[0] for case in SMUGGLING]
)
async def test_hidden_requests_are_not_run(tmp_path: Path, line: str, fields: str, status: int) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        hidden = request("/v1/sessions", server.port, method="POST", body=CREATE, token=server.at.token)
        kind = "Content-Type: application/json\r\n" if line.startswith("POST") else ""
        head = f"{line} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{kind}{fields}\r\n\r\n".replace(
            "PORT", str(server.port)
        )
        async with raw_stream(server.port) as stream:
            await stream.send_all(head.encode("latin-1") + hidden)
            answer = parse_answer(await read_to_end(stream))
        assert answer.status == status
        assert not answer.rest
        assert (await client.result("session.list"))["rows"] == []


async def test_wsproto_client_is_served(tmp_path: Path) -> None:
    async with served(tmp_path) as server, raw_websocket(server) as (stream, send):
        # It has its own state of the connection: frames are read by another one.
        reader = WSConnection(ConnectionType.CLIENT)
        reader.send(Request(host="a", target="/"))
        await send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": HELLO}))
        assert b'"role":"full"' in await stream.receive_some()


async def broken_head(server: Server) -> None:
    async with raw_stream(server.port) as stream:
        await stream.send_all(b"GET /v1/status HTTP/1.1\r\nHos")


async def broken_body(server: Server) -> None:
    async with raw_stream(server.port) as stream:
        reset_on_close(stream)
        whole = request("/v1/rpc", server.port, method="POST", body=" " * 900_000, token=server.at.token)
        await stream.send_all(whole[:300_000])


async def broken_frame(server: Server) -> None:
    async with raw_websocket(server) as (stream, send):
        await send('{"jsonrpc":"2.0","id":1,')
        reset_on_close(stream)
        await stream.send_all(b"\x81\xfe\xff")


async def fragments(server: Server) -> None:
    async with raw_websocket(server) as (stream, _):
        await stream.send_all(b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 2000)
        await read_close(stream, 1009)


async def reset_stream(server: Server) -> None:
    listed = await exchange(server.port, request("/v1/sessions", server.port, token=server.at.token))
    session_id = json.loads(listed.body)["rows"][0]["id"]
    async with raw_stream(server.port) as stream:
        await stream.send_all(request(f"/v1/sessions/{session_id}/stream", server.port, token=server.at.token))
        await stream.receive_some()
        reset_on_close(stream)


async def silent(server: Server) -> None:
    async with raw_stream(server.port):
        pass


async def closed_local(server: Server) -> None:
    assert server.at.socket is not None
    async with await trio.open_unix_socket(os.fspath(server.at.socket)) as stream:
        await stream.send_all(b'{"jsonrpc":"2.0","id":1,"method":"hello"')


ENDS = [broken_head, broken_body, broken_frame, fragments, reset_stream, silent, closed_local]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_hundred_broken_connections_leave_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        await client.new_session(tmp_path)
        await trio.testing.wait_all_tasks_blocked(0.05)
        files, living = open_files(), tasks()
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(ENDS[number % len(ENDS)], server)
            assert (await client.result("ping"))["time"] > 0
        # The store keeps some files open once it was read from; of each kind of connection there were fourteen.
        with trio.fail_after(30):
            while open_files() > files + 8 or tasks() > living:
                await trio.sleep(0.05)
        assert [row["name"] for row in (await client.result("clients"))["clients"]] == ["test"]


def tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def test_half_closed_client_gets_its_answer(tmp_path: Path) -> None:
    async with served(tmp_path) as server, raw_stream(server.port) as stream:
        await stream.send_all(request("/v1/status", server.port, token=server.at.token))
        await stream.send_eof()
        assert (await read_answer(stream)).status == 200


async def test_slow_heads_leave_others_alone(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path) as server, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(raw_stream(server.port)) for _ in range(100)]
        for stream in slow:
            await stream.send_all(b"GET / HTTP/1.1\r\nX: ")
        assert (await exchange(server.port, request("/healthz", server.port))).status == 200
        await trio.testing.wait_all_tasks_blocked(0.05)
        clock.jump(10)
        for stream in slow:
            assert (await read_answer(stream)).status == 408


async def test_client_that_reads_nothing_is_closed(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path) as server, server.unix() as client, server.unix() as stuck:
        await client.hello("watcher")
        await stuck.hello("stuck")
        session_id = await client.new_session(tmp_path)
        await client.result("prompt", session_id=session_id, text="t" * 500_000, key="p1")
        # Nothing of these is read; the buffers of the system fill up.
        for number in range(60):
            await stuck.send(
                json.dumps(
                    {
                        "jsonrpc": "2.0",
                        "id": f"n{number}",
                        "method": "messages",
                        "params": {"session_id": session_id},
                    }
                )
            )
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len((await client.result("clients"))["clients"]) == 2
        clock.jump(31)
        with trio.fail_after(30):
            while len((await client.result("clients"))["clients"]) == 2:
                await trio.sleep(0.05)


async def test_unread_answers_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("prompt", session_id=session_id, text="t" * 900_000, key="p1")
        for number in range(90):
            params = {"session_id": session_id}
            await client.send(
                json.dumps({"jsonrpc": "2.0", "id": f"n{number}", "method": "messages", "params": params})
            )
        await trio.testing.wait_all_tasks_blocked(0.05)
        answers = [await client.note() for _ in range(90)]
        kinds = [answer.get("error", {}).get("data", {}).get("kind", "") for answer in answers]
        assert kinds.count("overloaded") >= 20
        assert (await client.result("ping"))["time"] > 0


@pytest.fixture
def frozen() -> MockClock:
    """A time that stands still, so that everything is in the same second."""
    return MockClock()


async def test_requests_of_a_second_are_limited(tmp_path: Path, frozen: MockClock) -> None:
    async with served(tmp_path) as server, server.unix() as client, raw_stream(server.port) as stream:
        await client.hello()
        pings = [await client.call("ping") for _ in range(101)]
        kinds = [answer.get("error", {}).get("data", {}).get("kind", "") for answer in pings]
        # The hello was one, too.
        assert kinds == [""] * 99 + ["rate_limited"] * 2
        assert pings[-1]["error"]["data"]["retry_after"] == 1
        statuses: list[int] = []
        for _ in range(101):
            await stream.send_all(request("/healthz", server.port))
            statuses.append((await read_answer(stream)).status)
        assert statuses == [200] * 100 + [429]
        frozen.jump(1)
        assert "result" in await client.call("ping")


async def test_flood_of_messages_is_closed(tmp_path: Path, frozen: MockClock) -> None:
    async with served(tmp_path) as server, raw_websocket(server) as (stream, send):
        for _ in range(1000):
            await send('{"jsonrpc":"2.0","method":"tock","params":{"time":1}}')
        await read_close(stream, 4429)
        frozen.jump(5)


async def test_frames_that_bring_nothing_are_read_slowly(tmp_path: Path) -> None:
    """Without a credential: ten thousand fit into what is received at once, and kept everybody waiting."""
    async with served(tmp_path) as server, raw_stream(server.port) as stream:
        began = trio.current_time()
        head = f"GET /v1/socket HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{UPGRADE}\r\n"
        pong, close = (bytes([first, length, 0, 0, 0, 0]) for first, length in ((0x8A, 0x80), (0x88, 0x82)))
        await stream.send_all(head.encode() + pong * 6000 + close + (1000).to_bytes(2))
        await read_close(stream, 1000)
        # Never sooner, however quick the machine is.
        assert trio.current_time() - began > 0.5


async def test_code_reaches_a_client_that_sends_on(tmp_path: Path) -> None:
    """What it has sent after the fault is received: the connection would be reset otherwise, and the code lost."""
    async with served(tmp_path) as server, raw_websocket(server) as (stream, _):
        size = 3 << 20
        await stream.send_all(b"\x81\xff" + size.to_bytes(8) + bytes(4) + b" " * size)
        await read_close(stream, 1009)
        assert not await stream.receive_some()


@pytest.mark.parametrize(
    "message",
    [
        "{" + ",".join(f'"n{number}":0' for number in range(90_000)) + ',"z":0,"z":0}',
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x" * 900_000: 1}}),
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "question.answer", "params": {"answers": [0] * 300_000}}),
        "[" * 500_000,
        '{"a":' * 60 + "1" * 900_000,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * 900_000}),
        json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 20_000),
    ],
    ids=["names", "long name", "wrong items", "nesting", "digits", "long method", "batch"],
)
async def test_costly_messages_cost_little(tmp_path: Path, message: str) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello("x", role="full")
        began = time.process_time()
        await client.send(message)
        answer = await client.note()
        assert len(json.dumps(answer)) < 2000
        # Quadratic work would take minutes; the rest is well below a second on any machine.
        assert time.process_time() - began < 10


async def test_long_line_is_answered_before_the_end(tmp_path: Path) -> None:
    """Lines have no close code that would say why."""
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        with suppress(trio.BrokenResourceError):  # the server may be quicker than the last bytes
            await client.send('{"jsonrpc":"2.0","id":1,"method":"' + "x" * (1 << 20))
        answer = await client.note()
        assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["limit"]) == (None, -32009, 1 << 20)
        with pytest.raises((AssertionError, trio.BrokenResourceError)):
            await client.note()


async def test_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert server.at.socket is not None
        async with await trio.open_unix_socket(os.fspath(server.at.socket)) as stream:
            await stream.send_all(b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}\n')
            assert b"-32700" in await stream.receive_some()
        body = '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}'
        answer = await exchange(
            server.port, request("/v1/rpc", server.port, method="POST", body=body, token=server.at.token)
        )
        assert (answer.status, json.loads(answer.body)["id"]) == (200, "\ud800")


async def test_bad_hello_is_final(tmp_path: Path) -> None:
    async with served(tmp_path) as server, raw_websocket(server) as (stream, send):
        await send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}}))
        assert b'"kind":"params"' in await read_close(stream, 4400)


@pytest.mark.parametrize("value", ["\ud800", "\x00"], ids=["half a character", "NUL"])
async def test_no_text_is_a_fault(tmp_path: Path, clock: MockClock, value: str) -> None:
    async with served(tmp_path, *SCRIPT, permissions=PermissionOptions()) as server, server.unix() as client:
        await client.hello()
        session = await ExampleSession.prepare(client, tmp_path)
        for method in METHODS:
            if method == "server.drain":
                continue
            params = session.params(method)
            names = {field.name for field in attrs.fields(METHODS[method].params) if "str" in str(field.type)}
            for name in {name for name, given in params.items() if isinstance(given, str)} | (
                names & {"cwd", "parent", "before"}
            ):
                answer = await client.call(method, **{**params, name: value})
                assert answer.get("error", {}).get("data", {}).get("kind") != "internal", (method, name)
            clock.jump(0.1)  # below the rate
        assert (await client.result("session.get", session_id=session.id))["row"]["id"] == session.id
