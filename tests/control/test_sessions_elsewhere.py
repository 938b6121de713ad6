"""A session that another engine has open: reading works, and a refusal names the server to ask instead."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.client import RemoteSession, SessionHead, SessionStream, connect
from engine.control.engine_methods import EngineMethods
from engine.control.engine_reads import EngineReads
from engine.control.event_source import SessionSource
from engine.control.listen import ServeOptions
from engine.control.protocol.method_table import METHODS
from engine.control.protocol.session_methods import SessionGetResult, SessionParams
from engine.control.protocol.wire_converter import write_value
from engine.control.service.server_discovery import server_folder
from engine.errors import SessionElsewhere
from engine.events import CallStarted, PermissionAsked
from engine.journal.state import Busy, Idle
from engine.testing import ScriptedProvider
from engine.testing.script import Pause, text
from scripts.control_examples import EXAMPLES
from tests.support.cancel_at import CancelAt
from tests.support.client_world import items_until
from tests.support.killed_server import killed_server
from tests.support.raw_http import raw_stream, request
from tests.support.served_engine import served

# Of what changes a session, all but these: a fork is another session, a session that is closed here stays as it is, and a
# cancel looks for its turn first.
CHANGES = [
    name
    for name, method in METHODS.items()
    if method.role in {"full", "answer"}
    and issubclass(method.params, SessionParams)
    and name not in {"session.fork", "session.close", "cancel"}
]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


@pytest.mark.parametrize("is_published", [True, False])
async def test_refusal_names_the_server_to_ask(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_folder))
    folder = server_folder(str(tmp_path / "sessions.db")) if is_published else short_folder / "hidden"
    folder.parent.mkdir(exist_ok=True)
    first = ServeOptions(folder=folder)
    second = ServeOptions(folder=short_folder / "second")
    async with (
        served(tmp_path, options=first) as holder,
        served(tmp_path, options=second) as other,
        holder.unix() as owner,
        other.unix() as client,
    ):
        await owner.hello()
        await client.hello()
        session_id = await owner.new_session(tmp_path)
        assert (await client.result("subscribe", session_id=session_id))["mode"] == "stored"
        error = (await client.call("prompt", session_id=session_id, text="Hi", key="k"))["error"]
        assert (error["data"]["kind"], error["data"]["pid"]) == ("elsewhere", os.getpid())
        assert error["data"].get("url") == (holder.at.url if is_published else None)
        for method in CHANGES:
            example = json.loads(write_value(EXAMPLES[method][0]))
            params = example | {"session_id": session_id, **({"confirm": session_id} if "confirm" in example else {})}
            refusal = (await client.call(method, **params))["error"]["data"]
            assert (refusal["kind"], refusal.get("url")) == ("elsewhere", error["data"].get("url")), method
        async with connect(other.at.url, token=other.at.token) as link:
            with pytest.raises(SessionElsewhere) as refused:
                await link.session(session_id).prompt("Hi")
            assert refused.value.url == (holder.at.url if is_published else None)


async def test_text_that_another_engine_receives(tmp_path: Path, short_folder: Path) -> None:
    """Also what its last engine received before it was killed: both read what is saved of a part that has no end yet."""
    async with (
        served(tmp_path, [*text("Half of it")[:-1], Pause(1_000)]) as holder,
        served(tmp_path, options=ServeOptions(folder=short_folder)) as other,
        holder.unix() as owner,
        other.unix() as reader,
    ):
        await owner.hello()
        await reader.hello()
        session_id = await owner.new_session(tmp_path)
        await owner.result("prompt", session_id=session_id, text="Hi", key="p")
        snapshot: dict[str, Any] = {}
        while "Half of it" not in json.dumps(snapshot):
            await trio.sleep(0.05)
            snapshot = await reader.result("snapshot", session_id=session_id)
        # That engine runs the turn: nobody has to resume it here, or could.
        got = await reader.result("session.get", session_id=session_id)
        assert (got["row"]["holder"], got["row"]["status"], got["mode"]) == ("elsewhere", "busy", "stored")
        head = (await reader.result("subscribe", session_id=session_id))["head"]
        assert (got["head"]["parked"], head["parked"]) == (False, False)
        (listed,) = (await reader.result("session.list"))["rows"]
        assert (listed["holder"], listed["status"]) == ("elsewhere", "busy")


async def run_into_call(session: RemoteSession) -> None:
    """Have a turn of the killed server's model run into its long call."""
    async with session.watch() as stream:
        await session.prompt("Go", key="p")
        asked = (await items_until(stream, PermissionAsked))[-1]
        await session.reply(asked.request_id, engine.Once())
        await items_until(stream, CallStarted)


async def next_head(stream: SessionStream, *, is_parked: bool) -> SessionHead:
    async for item in stream:
        if isinstance(item, SessionHead) and item.parked == is_parked:
            return item
    raise AssertionError("the stream has ended")


async def read_until(stream: trio.SocketStream, text: bytes) -> None:
    received = b""
    while text not in received:
        received += await stream.receive_some()


@pytest.mark.os
@pytest.mark.slow
async def test_death_of_holder_is_announced(tmp_path: Path, short_folder: Path) -> None:
    """Killed in the middle of a call, while its session is watched here; then another engine goes on with it."""
    options = ServeOptions(folder=short_folder / "second")
    async with (
        killed_server(short_folder, work=3600) as holder,
        served(tmp_path, store=short_folder / "s.db", options=options) as other,
        connect(other.at.url, token=other.at.token) as here,
    ):
        async with connect(holder.url, holder.token) as there:
            session = await there.create_session(cwd=tmp_path)
            await run_into_call(session)
        target = f"/v1/sessions/{session.id}/stream?at=start"
        async with here.session(session.id).watch(from_start=True) as stream, raw_stream(other.port) as sse:
            await sse.send_all(request(target, other.port, token=other.at.token))
            await next_head(stream, is_parked=False)
            # The answer may be stored after the client has seen it.
            await items_until(stream, CallStarted)
            assert isinstance((await here.session(session.id).head()).status, Busy)
            await read_until(sse, b'"parked":false')
            holder.kill()
            head = await next_head(stream, is_parked=True)
            # One truth: what the head says is what the row says.
            got = cast("SessionGetResult", await here.request("session.get", session_id=session.id))
            assert (head.status, head.turn, head.parked) == (got.head.status, got.head.turn, got.head.parked)
            assert isinstance(head.status, Idle)
            assert head.clients
            assert (got.row.status, got.row.holder) == ("interrupted", "nobody")
            await read_until(sse, b'"parked":true')
            # Another engine opens the session: then that one decides what becomes of the turn.
            async with engine.open_engine(model=ScriptedProvider([]), store=short_folder / "s.db") as third:
                await third.open_session(session.id)
                await next_head(stream, is_parked=False)


async def test_look_at_holder_cancelled_anywhere(tmp_path: Path, is_full: bool, clock: MockClock) -> None:
    """Another engine opens and closes a session: each time one head comes, wherever the wait for it was cancelled."""
    store, model = tmp_path / "s.db", ScriptedProvider([])
    async with (
        engine.open_engine(model=model, store=store) as holder,
        engine.open_engine(model=model, store=store) as eng,
    ):
        session = await holder.create_session(cwd=tmp_path)
        await session.rename("Shared")
        session_id = session.id
        reads = EngineReads(eng)
        source = SessionSource(eng, reads, await reads.record(session_id), EngineMethods(eng).epoch, None)
        at, step = CancelAt(None), 0
        while step == 0 or at.has_fired:
            is_open = step % 2 == 1
            await (holder.open_session(session_id) if is_open else holder.close_session(session_id))
            while (await reads.holder(session_id) == "elsewhere") != is_open:
                await trio.sleep(0.01)
            at = CancelAt(step)
            clock.jump(2)
            trio.lowlevel.add_instrument(at)
            with at.scope():
                await source.wait()
            trio.lowlevel.remove_instrument(at)
            assert await source.wait()
            assert source.take_head() is not None
            assert source.take_head() is None
            assert not source.has_next()
            step += 1 if is_full else 7
        assert step > 20
