"""The operation of a served engine: its metrics, audit lines, limits and notifications."""

from __future__ import annotations

import json
import logging
import platform
import re
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed

import engine
from engine.control.listen import ServeOptions
from engine.control.service.audit_log import LOGGER, write_audit
from engine.control.token_file import add_token
from engine.core.llm_types import ModelInfo
from engine.core.messages import Usage
from engine.core.version import __version__
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.raw_http import raw_stream, read_answer, read_to_end, request
from tests.support.served_engine import HELLO, Client, NoArguments, Server, served

ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
SLOW: list[Answer] = [[*text("Well"), Pause(1_000), *done()]]


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


async def metrics_of(server: Server) -> tuple[str, dict[str, float]]:
    async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer, timeout=30) as http:
        answer = await http.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return answer.text, {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def until_closed(client: Client) -> tuple[int, str]:
    """Read until the server closes a WebSocket; return its code and reason."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            await client.note()
    assert closed.value.reason is not None
    return closed.value.reason.code, closed.value.reason.reason or ""


async def test_metrics_count_what_happened(tmp_path: Path) -> None:
    usage = Usage(input=7, output=5, cache_read=3, cache_write=2)
    script: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls", usage=usage)]]
    model = ScriptedProvider(script, info=ModelInfo(name="scripted/model", price_input=2.0, price_output=1.0))
    async with served(tmp_path, model=model, permissions=PermissionOptions()) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id, at="start")
        turn = await client.result("prompt", session_id=session_id, text="A secret task", key="p1")
        request_id = (await client.events_until("permission_asked"))[-1]["request_id"]
        async with server.unix() as other:
            await other.hello("other")
            await other.result("upload", size=5, data="YWI=")
            assert (await metrics_of(server))[1]["engine_control_upload_bytes"] == 2
        assert (await metrics_of(server))[1]['engine_questions_open{kind="permission"}'] == 1
        await client.result("permission.reply", session_id=session_id, request_id=request_id, answer="once")
        await client.events_until("call_started")
        await client.result("cancel", session_id=session_id, turn_id=turn["turn_id"])
        await client.events_until("turn_ended")
        await client.call("prompt", session_id=session_id)
        await client.call("nonsense")
        async with httpx.AsyncClient(base_url=server.at.url, timeout=30) as http:
            assert (await http.get("/metrics")).status_code == 401
            assert (await http.get("/metrics", headers={"Host": "evil.example"})).status_code == 421
        shown, values = await metrics_of(server)
        for name, value in {
            'engine_sessions{status="idle"}': 1,
            'engine_turns_total{stop_reason="aborted"}': 1,
            "engine_turn_seconds_count": 1,
            "engine_cancel_seconds_count": 1,
            "engine_question_seconds_count": 1,
            'engine_questions_open{kind="permission"}': 0,
            "engine_tasks_overstaying": 0,
            "engine_processes": 0,
            "engine_control_upload_bytes": 0,
            'engine_control_connections{transport="unix",role="full"}': 1,
            'engine_control_requests_total{method="prompt",code="ok"}': 1,
            'engine_control_requests_total{method="prompt",code="-32602"}': 1,
            'engine_control_requests_total{method="unknown",code="-32601"}': 1,
            'engine_control_request_seconds_count{method="prompt"}': 1,
            'engine_control_refused_total{reason="token"}': 1,
            'engine_control_refused_total{reason="host"}': 1,
            f'engine_build_info{{version="{__version__}",python="{platform.python_version()}"}}': 1,
            "engine_provider_retries_total": 0,
            "engine_control_stalls_total": 0,
            **{
                f'engine_tokens_total{{kind="{kind}",model="scripted/model"}}': getattr(usage, kind)
                for kind in ("input", "output", "cache_read", "cache_write")
            },
        }.items():
            assert values[name] == value, name
        for name in (
            'engine_control_events_total{kind="durable"}',
            'engine_control_events_total{kind="live"}',
            'engine_control_bytes_total{direction="in"}',
            'engine_control_bytes_total{direction="out"}',
            "engine_control_lag_seconds_count",
            "engine_store_flush_seconds_count",
            'engine_cost_total{model="scripted/model"}',
            *(f"process_{name}" for name in ("cpu_seconds_total", "open_fds", "start_time_seconds")),
            *(f"process_{name}_memory_bytes" for name in ("resident", "virtual")),
        ):
            assert values[name] > 0, name
        for word in (session_id, turn["turn_id"], str(tmp_path), "secret", server.at.token):
            assert word not in shown


async def test_overstaying_tasks_are_counted_while_they_run(tmp_path: Path, clock: MockClock) -> None:
    entered, released = trio.Event(), trio.Event()

    @engine.tool
    async def stubborn(arguments: NoArguments, context: engine.ToolContext) -> str:
        """Wait, whatever happens."""
        del arguments, context
        with trio.CancelScope(shield=True):
            entered.set()
            await released.wait()
        return "late"

    script: list[Answer] = [[*call("stubborn", id="c1"), *done("calls")]]
    async with served(tmp_path, *script, tools=[stubborn]) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        turn = await client.result("prompt", session_id=session_id, text="Go", key="p1")
        await entered.wait()
        await client.result("cancel", session_id=session_id, turn_id=turn["turn_id"])
        # Longer than it may clean up; saving its end takes real time.
        clock.jump(20)
        while not (await server.engine.open_session(session_id)).state.last_result:
            await trio.sleep(0.01)
        assert (await metrics_of(server))[1]["engine_tasks_overstaying"] == 1
        released.set()
        while (await metrics_of(server))[1]["engine_tasks_overstaying"]:
            await trio.sleep(0.01)


async def test_resync_is_counted_with_its_reason(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id, after="damaged")
        await client.note_of("resync")
        assert (await metrics_of(server))[1]['engine_control_resyncs_total{reason="damaged"}'] == 1


async def test_fault_is_logged_under_its_incident(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedProvider([])
    async with served(tmp_path, model=model) as server, server.unix() as client:
        await client.hello()
        model.info = cast("ModelInfo", {"secret": "hunter2"})
        error = (await client.call("model.list"))["error"]
        assert (error["code"], error["data"]["kind"]) == (-32603, "internal")
        assert error["data"]["incident"] in caplog.text
        assert "AttributeError" in caplog.text
        assert not {"AttributeError", "hunter2"} & set(re.findall(r"\w+", json.dumps(error)))
        assert (await client.result("ping"))["time"] > 0


async def test_connections_have_a_limit(tmp_path: Path) -> None:
    assert (ServeOptions().connections, ServeOptions().token_connections) == (10_240, 256)
    options = ServeOptions(folder=tmp_path / "run", connections=1)
    async with served(tmp_path, options=options) as server, httpx.AsyncClient(base_url=server.at.url) as http:
        async with server.unix() as client:
            await client.hello()
            refused = await http.get("/healthz")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            async with server.unix() as other:
                with pytest.raises((AssertionError, trio.BrokenResourceError)):
                    await other.hello()
        while (await http.get("/healthz")).status_code == 503:
            await trio.sleep(0.01)
        # One that any user may open does not keep the owner from the Unix socket.
        assert (await http.get("/healthz")).status_code == 200
        async with server.unix() as client:
            await client.hello()


async def test_strangers_take_the_place_of_each_other(tmp_path: Path) -> None:
    """Connections that show no credential are a quarter of all, and the oldest of them goes first."""
    options = ServeOptions(folder=tmp_path / "run", connections=4)
    async with served(tmp_path, options=options) as server, raw_stream(server.port) as known, AsyncExitStack() as stack:
        ask = request("/v1/ticket", server.port, method="POST", body="{}", token=server.at.token)
        await known.send_all(ask)
        ticket = json.loads((await read_answer(known)).body)["ticket"]
        # From its hello on, this one is known, too.
        client, _ = await stack.enter_async_context(server.websocket())
        await client.hello(ticket=ticket)
        strangers: list[trio.SocketStream] = []
        for _ in range(3):
            stranger = await stack.enter_async_context(raw_stream(server.port))
            await stranger.send_all(request("/healthz", server.port))
            assert (await read_answer(stranger)).status == 200
            # Well before it would be closed because it sends nothing.
            with trio.fail_after(60):
                if strangers:
                    assert await read_to_end(strangers[-1]) == b""
            strangers.append(stranger)
        assert (await client.result("ping"))["time"] > 0
        await known.send_all(ask)
        assert (await read_answer(known)).status == 200


async def test_connections_of_a_token_have_a_limit(tmp_path: Path) -> None:
    options = ServeOptions(folder=tmp_path / "run", token_connections=1)
    add_token(tmp_path / "run", "other", "read")
    async with served(tmp_path, options=options) as server, server.websocket(token=server.at.token) as (client, _):
        await client.hello()
        async with server.unix() as other:
            answer = await other.call("hello", protocol={"min": 1, "max": 1}, client={"name": "x"})
            assert answer["error"]["data"]["kind"] == "rate_limited"
        # Who brings a ticket with the hello reads the code: come back.
        async with server.websocket() as (other, _):
            async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
                ticket = (await http.post("/v1/ticket", json={})).json()["ticket"]
            assert "error" in await other.call("hello", **HELLO, ticket=ticket)
            assert (await until_closed(other))[0] == 4429
        async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
            assert (await http.get("/v1/status")).status_code == 200  # a request is no connection
            upgrade = await http.get("/v1/socket", headers=UPGRADE)
            assert (upgrade.status_code, upgrade.headers["retry-after"]) == (503, "5")
            session_id = await client.new_session(tmp_path)
            assert (await http.get(f"/v1/sessions/{session_id}/stream")).status_code == 503


async def test_too_much_memory_ends_no_turn(tmp_path: Path, clock: MockClock) -> None:
    options = ServeOptions(folder=tmp_path / "run", memory=1)
    async with (
        served(tmp_path, *SLOW, options=options) as server,
        server.websocket(token=server.at.token) as (worker, _),
        server.websocket(token=server.at.token) as (watcher, _),
    ):
        await worker.hello()
        await watcher.hello()
        session_id = await worker.new_session(tmp_path)
        await worker.result("subscribe", session_id=session_id)
        await worker.result("prompt", session_id=session_id, text="Go", key="p1")
        await watcher.result("watch")
        await worker.events_until("text_delta")
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(2)
        assert await until_closed(watcher) == (4429, "the server is short of memory: come back later")
        refused = await worker.call("session.create", cwd=str(tmp_path), key="k2")
        assert refused["error"]["data"]["kind"] == "overloaded"
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"{server.at.url}/healthz")).status_code == 503
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(2)
        assert (await until_closed(worker))[0] == 4429
        session = await server.engine.open_session(session_id)
        assert session.state.turn is not None
        # Who is at the machine can still end it.
        async with server.unix() as owner:
            await owner.hello()
            cancelled = await owner.result("cancel", session_id=session_id, turn_id=session.state.turn.turn_id)
            assert cancelled["state"] == "ending"


# ---- audit lines -----------------------------------------------------------------------------------------------------------------


async def test_port_of_the_last_time_is_taken_again(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        port = server.port
    async with served(tmp_path) as again:
        assert again.port == port
    (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with listener, served(tmp_path) as elsewhere:
        assert elsewhere.port != port


@pytest.fixture
def audit_file(tmp_path: Path) -> Iterator[Path]:
    before, level, propagates = list(LOGGER.handlers), LOGGER.level, LOGGER.propagate
    write_audit(str(tmp_path / "audit.jsonl"))
    yield tmp_path / "audit.jsonl"
    for handler in LOGGER.handlers:
        if handler not in before:
            handler.close()
    LOGGER.handlers, LOGGER.propagate = before, propagates
    LOGGER.setLevel(level)


def rotate(path: Path) -> None:
    path.rename(path.with_name("rotated"))


def actions(path: Path) -> list[dict[str, Any]]:
    assert path.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_audit_lines_say_who_did_what(tmp_path: Path, audit_file: Path) -> None:
    async with served(tmp_path, *ASKS, permissions=PermissionOptions()) as server, server.unix() as client:
        await client.hello("ada")
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id, at="start")
        turn = await client.result("prompt", session_id=session_id, text="A secret task", key="p1")
        request_id = (await client.events_until("permission_asked"))[-1]["request_id"]
        await client.result("permission.reply", session_id=session_id, request_id=request_id, answer="once")
        await client.events_until("call_started")
        await client.result("cancel", session_id=session_id, turn_id=turn["turn_id"])
        await client.events_until("turn_ended")
        rotate(audit_file)
        await client.result("session.delete", session_id=session_id, confirm=session_id)
        async with httpx.AsyncClient(headers={"Authorization": "Bearer wrong"}) as http:
            assert (await http.get(f"{server.at.url}/v1/status")).status_code == 401
    first, later = actions(tmp_path / "rotated"), actions(audit_file)
    assert [line["action"] for line in first] == ["connect", "answer", "cancel"]
    assert [line["action"] for line in later] == ["delete", "refuse"]
    for line in (*first, later[0]):
        assert (line["client"], line["token"]) == ("ada", "owner")
        assert abs(line["time"] - time.time()) < 600
    assert {line["session"] for line in (*first[1:], later[0])} == {session_id}
    assert (first[0]["role"], first[0]["transport"], later[1]["reason"]) == ("full", "unix", "token")
    assert "secret" not in (tmp_path / "rotated").read_text()


def test_audit_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="missing/audit"):
        write_audit(str(tmp_path / "missing" / "audit"))
    assert not LOGGER.isEnabledFor(logging.INFO)


# ---- notifications -----------------------------------------------------------------------------------------------------------------


@pytest.mark.os
@pytest.mark.slow
async def test_question_without_a_client_is_notified_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = f'echo "$ENGINE_SESSION $ENGINE_QUESTION $ENGINE_REQUEST" >> {out}; exit 3'
    options = ServeOptions(folder=tmp_path / "run", notifier=command)
    asks = ASKS[0]
    async with served(tmp_path, asks, asks, options=options, permissions=PermissionOptions()) as server:
        async with server.unix() as client:
            await client.hello()
            session_id = await client.new_session(tmp_path)
            await client.result("subscribe", session_id=session_id, at="start")
            await client.result("prompt", session_id=session_id, text="Go", key="p1")
            seen = (await client.events_until("permission_asked"))[-1]["request_id"]
        other = await server.engine.create_session(cwd=tmp_path)
        server.engine.start_turn(other, "Go")
        while not out.exists() or not out.read_text().endswith("\n"):
            await trio.sleep(0.05)
        (line,) = [each for each in out.read_text().splitlines() if other.id in each]
        assert line.split()[1] == "permission"
        assert seen not in out.read_text()


async def test_drain_while_a_client_is_being_closed(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.websocket(token=server.at.token) as (client, _):
        await client.hello()
        (tmp_path / "run" / "token").unlink()  # it is revoked by that
        assert (await until_closed(client))[0] == 4403
        # The server still waits for the other side's close.
        server.at.drain(0)
        await server.at.drained.wait()


@pytest.mark.parametrize("steps", range(20))
async def test_drain_as_a_client_goes(tmp_path: Path, steps: int) -> None:
    async with served(tmp_path) as server:
        async with server.unix() as client:
            await client.hello()
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        # At each step of the connection's end: it takes no more messages, and is no error either.
        server.at.drain(300)
        await server.at.drained.wait()
