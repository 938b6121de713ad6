"""A subscription goes on whatever becomes of the session: closed, opened again, or found in the store after a restart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed

import engine
from engine.control.engine_methods import EngineMethods
from engine.control.engine_reads import EngineReads
from engine.control.event_source import SessionSource
from engine.control.listen import ServeOptions, serve
from engine.core.ids import SessionId
from engine.journal.position import Position, encode_position
from engine.journal.state import Resync
from engine.session.engine_options import PermissionOptions
from engine.testing import ScriptedProvider
from engine.testing.script import Answer, Pause, call, done, text
from tests.support.raw_http import raw_stream, request
from tests.support.served_engine import Client, Server, served

ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


async def notes(client: Client, count: int) -> list[dict[str, Any]]:
    """Return so many notifications of subscriptions; who is connected is announced at some time, too."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        if (note := await client.note())["method"] != "clients":
            found.append(note)
    return found


async def test_closed_session_is_followed_when_opened_again(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as one, server.unix() as two:
        await one.hello()
        await two.hello()
        session_id = await one.new_session(tmp_path)
        await two.result("subscribe", session_id=session_id, at="start")
        seqs: list[int] = []
        for number in range(3):
            await one.result("prompt", session_id=session_id, text="Hi", key=f"p{number}")
            seqs += [event["seq"] for event in await two.events_until("turn_ended") if event["seq"]]
            with trio.fail_after(60):
                while not (await one.call("session.close", session_id=session_id)).get("result", {}).get("released"):
                    await trio.sleep(0.01)
        assert seqs == list(range(1, len(seqs) + 1))


@pytest.mark.parametrize("way", ["unix", "stream"])
async def test_position_of_an_earlier_server_resyncs_once(tmp_path: Path, way: str) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        sub = (await client.result("subscribe", session_id=session_id, at="start"))["sub"]
        await client.result("prompt", session_id=session_id, text="Hi", key="p1")
        await client.events_until("turn_ended")
        position = (await client.result("unsubscribe", sub=sub))["position"]
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        if way == "stream":
            async with raw_stream(server.port) as stream:
                target = f"/v1/sessions/{session_id}/stream?after={position}"
                await stream.send_all(request(target, server.port, token=server.at.token))
                received = b""
                while received.count(b"event:") < 2:
                    received += await stream.receive_some()
            names = re.findall(r"event: \w+", received.decode())
            assert names == ["event: head", "event: resync"]
            return
        await client.result("subscribe", session_id=session_id, after=position)
        head, resync = await notes(client, 2)
        assert (head["method"], resync["method"]) == ("head", "resync")
        snapshot = resync["params"]["snapshot"]
        assert [message["type"] for message in snapshot["messages"]] == ["user", "assistant"]
        # What comes then follows on the snapshot.
        await client.result("prompt", session_id=session_id, text="Hi", key="p2")
        seqs = [event["seq"] for event in await client.events_until("turn_ended") if event["seq"]]
        assert seqs == list(range(snapshot["sessions"][0]["state"]["seq"] + 1, seqs[-1] + 1))


@pytest.mark.parametrize("is_open", [True, False])
async def test_future_and_foreign_positions_resync_once(tmp_path: Path, is_open: bool) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        epoch = (await client.hello())["epoch"]
        session_id = await client.new_session(tmp_path)
        other = await client.new_session(tmp_path, key="k2")
        for place in (
            Position(epoch=epoch, seq=1000, session_id=SessionId(session_id)),
            Position(epoch=epoch, seq=1, session_id=SessionId(other)),
            Position(epoch="another", seq=1, session_id=SessionId(session_id)),
        ):
            if not is_open:
                await client.result("session.close", session_id=session_id)
            subscribed = await client.result("subscribe", session_id=session_id, after=encode_position(place))
            assert subscribed["mode"] == ("live" if is_open else "stored")
            assert [note["method"] for note in await notes(client, 2)] == ["head", "resync"]
            title = f"after {place.seq} of {place.epoch}"
            renamed = (await client.result("session.rename", session_id=session_id, title=title))["seq"]
            # What comes then follows on the snapshot, which does not come again.
            (note,) = await notes(client, 1)
            assert (note["method"], [event["seq"] for event in note["params"]["events"]]) == ("events", [renamed])
            await client.result("unsubscribe", sub=subscribed["sub"])


async def test_resync_of_session_opened_meanwhile_has_its_open_text(tmp_path: Path, clock: MockClock) -> None:
    """The client comes back to a server that has just been started, and somebody else begins a turn."""
    answer: Answer = [*text("Hello, world.", pieces=3)[:2], Pause(60), *text("Hello, world.", pieces=3)[2:], *done()]
    async with engine.open_engine(model=ScriptedProvider([answer]), store=tmp_path / "s.db") as eng:
        session_id = (await eng.create_session(cwd=tmp_path)).id
        await eng.close_session(session_id)
        reads = EngineReads(eng)
        stored = await reads.record(session_id)
        assert stored.live is None
        earlier = Position(epoch="another", seq=stored.state.seq, session_id=session_id)
        source = SessionSource(eng, reads, stored, EngineMethods(eng).epoch, earlier)
        session = await eng.open_session(session_id)
        async with session.prompt("Hi") as turn:
            async for event in turn:
                if isinstance(event, engine.TextDelta):
                    break
            assert await source.wait()
            resync = source.try_next()
            assert isinstance(resync, Resync)
            assert resync.state.turn is not None
            assert resync.state.turn.step is not None
            received = resync.state.turn.step.parts[0].text
            assert received
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(60)
            await turn.wait()
        assert await source.wait()
        while (entry := source.try_next()) is not None:
            assert not isinstance(entry, Resync)
            if isinstance(entry, engine.TextDelta):
                assert entry.offset == len(received)
                received += entry.text
        assert received == "Hello, world."


async def test_question_is_seen_after_a_restart(tmp_path: Path) -> None:
    opening: dict[str, Any] = {"permissions": PermissionOptions()}
    async with served(tmp_path, *ASKS, **opening) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        asked = (await client.events_until("permission_asked"))[-1]
    async with served(tmp_path, *ASKS, **opening) as server, server.unix() as client:
        await client.hello()
        head = (await client.result("session.get", session_id=session_id))["head"]
        listed = (await client.result("asked", session_id=session_id))["questions"]
        snapshot = await client.result("snapshot", session_id=session_id)
        ids = [
            each["request_id"] for each in (*head["asked"], *snapshot["asked"], *[row["question"] for row in listed])
        ]
        assert ids == [asked["request_id"]] * 3
        assert head["parked"]
        refused = await client.call("prompt", session_id=session_id, text="More", key="p2")
        assert refused["error"]["data"]["kind"] == "parked"
        turn = {"session_id": session_id, "turn_id": head["turn"]["turn_id"]}
        assert refused["error"]["data"]["turn_id"] == turn["turn_id"]
        assert (await client.result("cancel", **turn))["state"] == "ending"
        with trio.fail_after(60):
            while (await client.result("cancel", **turn))["state"] == "ending":
                await trio.sleep(0.01)
        await client.result("prompt", session_id=session_id, text="More", key="p2")


async def test_snapshots_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        for number in range(30):
            prompt = {"session_id": session_id, "text": f"{number} " + "x" * 500, "key": f"p{number}"}
            await client.result(
                "wait", session_id=session_id, turn_id=(await client.result("prompt", **prompt))["turn_id"]
            )
        ordinary = await client.result("snapshot", session_id=session_id)
        assert len(json.dumps(ordinary)) < 256 * 1024
        assert len(ordinary["messages"]) == 50
        for number in range(3):
            prompt = {"session_id": session_id, "text": "x" * 600_000, "key": f"long {number}"}
            await client.result(
                "wait", session_id=session_id, turn_id=(await client.result("prompt", **prompt))["turn_id"]
            )
        long = await client.result("snapshot", session_id=session_id)
        assert len(json.dumps(long)) < 2 << 20
        # What did not fit is fetched from there on, page by page.
        assert long["sessions"][0]["messages"] > len(long["messages"]) > 0
        ids = [message["id"] for message in long["messages"]]
        more: bool = True
        while more:
            page = await client.result("messages", session_id=session_id, before=ids[0], limit=200)
            assert len(json.dumps(page)) < 2 << 20
            ids, more = [*[message["id"] for message in page["messages"]], *ids], page["more"]
        assert len(set(ids)) == len(ids) == long["sessions"][0]["messages"]
        seqs: list[int] = []
        more = True
        while more:
            events = await client.result("events", session_id=session_id, after=len(seqs))
            assert len(json.dumps(events)) < 3 << 20
            seqs, more = [*seqs, *[event["seq"] for event in events["events"]]], events["more"]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_busy_and_stale_name_the_turn(tmp_path: Path) -> None:
    async with served(tmp_path, *ASKS) as server, server.unix() as client:
        await client.hello("panel")
        session_id = await client.new_session(tmp_path)
        subscribed = await client.result("subscribe", session_id=session_id)
        assert [row["name"] for row in subscribed["head"]["clients"]] == ["panel"]
        turn_id = (await client.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await client.events_until("call_started")
        busy = await client.call("prompt", session_id=session_id, text="More", key="p2")
        assert busy["error"]["data"] == {
            "kind": "busy",
            "retry": "later",
            "error": "SessionBusy",
            "turn_id": turn_id,
            "status": "busy",
        }
        for method, more in {
            "session.close": {},
            "session.delete": {"confirm": session_id},
            "undo": {"key": "u1"},
            "rewind": {"turn_id": turn_id, "key": "r1"},
            "restore": {"paths": ["a"]},
            "compact": {},
            "compact.undo": {},
        }.items():
            data = (await client.call(method, session_id=session_id, **more))["error"]["data"]
            assert (data["kind"], data["turn_id"]) == ("busy", turn_id), method
        for method in ("cancel", "skip_wait"):
            stale = await client.call(method, session_id=session_id, turn_id="t0")
            assert (stale["error"]["data"]["kind"], stale["error"]["data"]["current"]) == ("conflict", turn_id)


async def test_stored_session_is_followed_to_the_end_of_the_engine(tmp_path: Path) -> None:
    """Not to a fault: the client shall come back."""
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
    async with trio.open_nursery() as outer:
        server = await outer.start(serve_until_drained, tmp_path)
        async with server.websocket(token=server.at.token) as (client, _):
            await client.hello()
            assert (await client.result("subscribe", session_id=session_id))["mode"] == "stored"
            server.at.drain(0)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await client.note()
        assert closed.value.reason is not None
        assert closed.value.reason.code == 1012


async def serve_until_drained(folder: Path, task_status: trio.TaskStatus[Server]) -> None:
    """Serve an engine that is closed as `engine serve` closes it: before the connections are."""
    provider = ScriptedProvider([[*text("Hello."), *done()]])
    async with (
        trio.open_nursery() as nursery,
        engine.open_engine(model=provider, store=folder / "sessions.db") as opened,
    ):
        at = await nursery.start(serve, opened, ServeOptions(folder=folder / "run"))
        task_status.started(Server(at, opened, nursery))
        await at.drained.wait()


async def test_long_text_comes_in_pieces_that_fit(tmp_path: Path) -> None:
    """As one delta it would be longer than any message, and there is no address from which to fetch a part of a text."""
    # Twelve characters of JSON for each of these.
    written = "😀" * (1 << 20)
    async with served(tmp_path, [*text(written), *done()]) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        events: list[dict[str, Any]] = []
        # Its end has the whole text, too.
        while not events or events[-1].get("of") != "turn_ended":
            events += (await client.note_of("events"))["events"]
        deltas = [event for event in events if event["type"] == "text_delta"]
        assert "".join(delta["text"] for delta in deltas) == written
        elided = [event for event in events if event["type"] == "elided"]
        assert [event["of"] for event in elided] == ["part_ended", "turn_ended"]
        assert all(event["href"] for event in elided)
        # Who comes later gets it merged.
        await client.result("subscribe", session_id=session_id, at="start")
        again = await client.events_until("elided")
        assert "".join(event["text"] for event in again if event["type"] == "text_delta") == written
