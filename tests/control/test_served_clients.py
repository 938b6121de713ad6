"""Several clients of a served engine: who did what, who is there, what they watch, and the end of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed

from engine.session.engine_options import PermissionOptions
from engine.store.memory import MemoryStore
from engine.store.store_protocols import StoreHealth
from engine.testing.script import Answer, Pause, call, done, text
from tests.support.served_engine import Client, served


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


async def until_gone(client: Client, name: str) -> None:
    """Wait until the server has seen that all connections of a client have ended."""
    while name in {row["name"] for row in (await client.result("clients"))["clients"]}:
        await trio.sleep(0.01)


ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]
SLOW: list[Answer] = [[*text("Well"), Pause(1_000), *done()]]


async def test_loser_of_two_answers_learns_the_winner(tmp_path: Path) -> None:
    async with (
        served(tmp_path, *ASKS, permissions=PermissionOptions()) as server,
        server.unix() as ada,
        server.unix() as bob,
    ):
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        for client in (ada, bob):
            await client.result("subscribe", session_id=session_id, at="start")
        await ada.result("prompt", session_id=session_id, text="Go", key="p1")
        events = await bob.events_until("permission_asked")
        assert [event["by"] for event in events if event["type"] == "input_admitted"] == ["ada"]
        question = {"session_id": session_id, "request_id": events[-1]["request_id"]}
        await bob.result("permission.reply", **question, answer="reject", feedback="No.")
        lost = await ada.call("permission.reply", **question, answer="once")
        assert lost["error"]["data"]["kind"] == "already_settled"
        assert lost["error"]["data"]["error"] == "AlreadyAnswered"
        assert lost["error"]["data"]["by"] == "bob"
        (answered,) = (await ada.events_until("permission_answered"))[-1:]
        assert answered["by"] == "bob"
        assert answered["seq"] == lost["error"]["data"]["seq"]


async def test_cancel_names_its_client(tmp_path: Path) -> None:
    async with served(tmp_path, *ASKS) as server, server.unix() as ada, server.unix() as bob:
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        await ada.result("subscribe", session_id=session_id, at="start")
        turn_id = (await ada.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await ada.events_until("call_started")
        queued = await bob.result("queue", session_id=session_id, text="Next", key="q1")
        head = (await bob.result("session.get", session_id=session_id))["head"]
        assert [(each["input_id"], each["by"]) for each in head["queue"]] == [(queued["input_id"], "bob")]
        await bob.result("cancel", session_id=session_id, turn_id=turn_id)
        assert (await ada.events_until("turn_ending"))[-1]["by"] == "bob"


async def test_watched_list_shows_status_and_waiting(tmp_path: Path) -> None:
    async with (
        served(tmp_path, *ASKS, permissions=PermissionOptions()) as server,
        server.unix() as ada,
        server.unix() as bob,
    ):
        await ada.hello("ada")
        await bob.hello("bob")
        sub = (await bob.result("watch"))["sub"]
        session_id = await ada.new_session(tmp_path)
        turn_id = (await ada.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        rows: list[dict[str, Any]] = []
        while not rows or not rows[-1]["waiting"]:
            note = await bob.note_of("sessions")
            assert note["sub"] == sub
            rows += note["rows"]
        assert {row["row"]["id"] for row in rows} == {session_id}
        assert rows[-1]["row"]["status"] == "waiting"
        assert rows[-1]["waiting_since"] > 0
        status = await bob.result("server.status")
        assert (status["sessions"], status["questions"], status["connections"]) == ({"waiting": 1}, 1, 2)
        await ada.result("cancel", session_id=session_id, turn_id=turn_id)
        while rows[-1]["row"]["status"] != "idle":
            rows += (await bob.note_of("sessions"))["rows"]
        await ada.result("session.delete", session_id=session_id, confirm=session_id)
        while session_id not in (await bob.note_of("sessions"))["removed"]:
            pass
        assert (await bob.result("unsubscribe", sub=sub))["position"] == ""


async def test_watched_session_comes_once_for_many_changes(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as ada, server.unix() as bob:
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        await bob.result("watch")
        began = trio.current_time()
        for number in range(50):
            await ada.result("session.rename", session_id=session_id, title=f"title {number}")
        titles: list[str] = []
        while not titles or titles[-1] != "title 49":
            titles += [row["row"]["title"] for row in (await bob.note_of("sessions"))["rows"]]
        # At most five times a second; the first comes at once.
        assert len(titles) <= 2 + 5 * (trio.current_time() - began)


async def test_watched_status_drops_what_has_another(tmp_path: Path) -> None:
    async with served(tmp_path, *ASKS) as server, server.unix() as client:
        await client.hello()
        (tmp_path / "other").mkdir()
        await client.new_session(tmp_path / "other", key="k2")
        session_id = await client.new_session(tmp_path)
        await client.result("watch", status="idle", cwd=str(tmp_path))
        assert [row["row"]["id"] for row in (await client.note_of("sessions"))["rows"]] == [session_id]
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        while session_id not in (note := await client.note_of("sessions"))["removed"]:
            assert [row["row"]["status"] for row in note["rows"]] == ["idle"]


async def test_who_attends_is_announced(tmp_path: Path, clock: MockClock) -> None:
    async with (
        served(tmp_path, *ASKS, permissions=PermissionOptions()) as server,
        server.unix() as ada,
        server.unix() as bob,
    ):
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        await ada.result("subscribe", session_id=session_id, at="start")
        await ada.result("prompt", session_id=session_id, text="Go", key="p1")
        request_id = (await ada.events_until("permission_asked"))[-1]["request_id"]
        assert await ada.result("attend", request_id=request_id) == {"others": []}
        assert await bob.result("attend", request_id=request_id, seconds=5) == {"others": ["ada"]}
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(2)
        rows = (await ada.note_of("clients"))["clients"]
        assert {row["name"]: row["attending"] for row in rows} == {"ada": [request_id], "bob": [request_id]}
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(3)
        await trio.testing.wait_all_tasks_blocked(0.01)
        clock.jump(2)
        rows = (await ada.note_of("clients"))["clients"]
        assert {row["name"]: row["attending"] for row in rows} == {"ada": [request_id], "bob": []}
        unknown = await ada.call("attend", request_id="other")
        assert unknown["error"]["data"]["kind"] == "not_found"
        await bob.result("permission.reply", session_id=session_id, request_id=request_id, answer="reject")
        settled = await ada.call("attend", request_id=request_id)
        assert settled["error"]["data"]["kind"] == "already_settled"


@pytest.fixture
def frozen() -> MockClock:
    """A time that stands still."""
    return MockClock()


async def test_c5_client_that_reconnects_does_not_flicker(tmp_path: Path, frozen: MockClock) -> None:
    async with served(tmp_path) as server, server.unix() as ada:
        await ada.hello("ada")
        await ada.result("subscribe", session_id=await ada.new_session(tmp_path))
        for _ in range(2):
            async with server.unix() as bob:
                await bob.hello("bob")
                for _ in range(2):
                    frozen.jump(2)
                    await trio.testing.wait_all_tasks_blocked(0.01)
            while len((await ada.result("clients"))["clients"]) > 1:
                await trio.testing.wait_all_tasks_blocked(0.01)
        notes = [note["params"]["clients"] for note in ada.notes if note["method"] == "clients"]
        names = [[row["name"] for row in shown] for shown in notes]
        # Bob once, though he has gone and come back in an instant.
        assert (names.pop(), names in ([], [["ada"]])) == (["ada", "bob"], True)
        ada.notes.clear()
        frozen.jump(2)
        (row,) = (await ada.note_of("clients"))["clients"]
        assert (row["name"], set(row)) == ("ada", {"client_id", "name", "role", "since", "attending"})


async def test_store_that_fails_is_not_ready(tmp_path: Path) -> None:
    async with (
        served(tmp_path, store=FullStore()) as server,
        httpx.AsyncClient(base_url=server.at.url) as http,
    ):
        assert ((await http.get("/readyz")).status_code, (await http.get("/healthz")).status_code) == (503, 200)


class FullStore(MemoryStore):
    """A store whose last attempt to write has failed."""

    def health(self) -> StoreHealth:
        return StoreHealth(commits=0, seconds=0, failure=OSError("no space left"))


async def test_drain_refuses_prompts_then_ends(tmp_path: Path, clock: MockClock) -> None:
    async with (
        served(tmp_path, *ASKS) as server,
        httpx.AsyncClient(base_url=server.at.url) as http,
        server.websocket(token=server.at.token) as (client, connection),
    ):
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        assert (await http.get("/readyz")).status_code == 200
        until = (await client.result("server.drain", seconds=5, reason="upgrade"))["until"]
        assert (await client.note_of("server.draining"))["until"] == until
        for method, params in {
            "prompt": {"session_id": session_id, "text": "More", "key": "p2"},
            "queue": {"session_id": session_id, "text": "More", "key": "p2"},
            "session.create": {"cwd": str(tmp_path), "key": "k2"},
        }.items():
            refused = await client.call(method, **params)
            assert refused["error"]["data"] == {"kind": "draining", "retry": "same_key", "until": until}
        assert (await client.result("server.status"))["draining"]
        assert (await http.get("/readyz")).status_code == 503
        assert not server.at.drained.is_set()
        clock.jump(5)
        await server.at.drained.wait()
        # The host closes the engine now. This one does not, and its clients are not kept waiting for that.
        await client.result("ping")
        clock.jump(30)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await connection.get_message()
        assert closed.value.reason is not None
        assert (closed.value.reason.code, closed.value.reason.reason) == (1012, "the server ends: upgrade")
        assert (await server.engine.open_session(session_id)).state.turn is not None


@pytest.mark.parametrize("comes_back", [False, True])
async def test_lingering_turn_ends_with_its_client(tmp_path: Path, clock: MockClock, comes_back: bool) -> None:
    async with served(tmp_path, *SLOW) as server, server.unix() as bob:
        await bob.hello("bob")
        session_id = await bob.new_session(tmp_path)
        await bob.result("subscribe", session_id=session_id, at="start")
        ada = {"name": "ada", "instance": "a"}
        async with server.unix() as first:
            await first.result("hello", protocol={"min": 1, "max": 1}, client=ada)
            await first.result("prompt", session_id=session_id, text="Go", key="p1", on_disconnect="cancel", linger=8)
        await bob.events_until("part_started")
        await until_gone(bob, "ada")
        async with server.unix() as second:
            if comes_back:
                await second.result("hello", protocol={"min": 1, "max": 1}, client=ada)
            clock.jump(8)
            if not comes_back:
                assert (await bob.events_until("turn_ending"))[-1]["by"] == "ada"
                return
            await trio.testing.wait_all_tasks_blocked(0.01)
            head = (await bob.result("session.get", session_id=session_id))["head"]
            assert (head["turn"] is not None, head["ending"]) == (True, None)
        await until_gone(bob, "ada")
        clock.jump(8)
        assert (await bob.events_until("turn_ending"))[-1]["by"] == "ada"


async def test_turns_outlive_their_client_by_default(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path, *SLOW) as server, server.unix() as bob:
        await bob.hello("bob")
        session_id = await bob.new_session(tmp_path)
        async with server.unix() as ada:
            await ada.hello("ada")
            await ada.result("prompt", session_id=session_id, text="Go", key="p1")
        await until_gone(bob, "ada")
        clock.jump(11)
        await trio.testing.wait_all_tasks_blocked(0.01)
        head = (await bob.result("session.get", session_id=session_id))["head"]
        assert (head["turn"] is not None, head["ending"]) == (True, None)
