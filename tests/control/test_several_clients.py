"""Several clients of one session, over the protocol: who answers, who asks, who cancels, and what each of them sees."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.control.token_file import add_token
from engine.control.transport.message_transport import MessageTransport
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.session.test_sub_agents import DEEP, DONE, Script, agent_tools, by_prompt, task
from tests.support.client_world import FOR_EVER, client_world
from tests.support.processes import python_process, read_line
from tests.support.served_engine import Client, Server, served, wait_forever
from tests.support.task_orders import TaskOrders

ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]


def scripted(script: Script) -> ScriptedProvider:
    return ScriptedProvider([by_prompt(script)], repeat=True)


async def clients(server: Server, stack: AsyncExitStack, *names: str) -> list[Client]:
    found: list[Client] = []
    for name in names:
        client = await stack.enter_async_context(server.unix())
        await client.hello(name)
        found.append(client)
    return found


# -- answers -----------------------------------------------------------------------------


async def answer_at_once(everybody: dict[str, Client], question: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Let clients answer one question at the same instant; return what each of them gets."""
    answers: dict[str, dict[str, Any]] = {}

    async def answer(name: str, client: Client) -> None:
        answers[name] = await client.call("permission.reply", **question, answer="reject", feedback="No.")

    async with trio.open_nursery() as nursery:
        for name, client in everybody.items():
            nursery.start_soon(answer, name, client)
    return answers


async def check_winner(answers: dict[str, dict[str, Any]], watcher: Client, question: dict[str, str]) -> str:
    """Return who has answered: one client, as all see; the others learn who it was."""
    events = await watcher.events_until("turn_ended")
    (answered,) = [event for event in events if event["type"] == "permission_answered"]
    (winner,) = [name for name, reply in answers.items() if "result" in reply]
    assert answered["request_id"] == question["request_id"]
    assert (answered["by"], answered["seq"]) == (winner, answers[winner]["result"]["seq"])
    settled = {"kind": "already_settled", "retry": "no", "error": "AlreadyAnswered"}
    for name, reply in answers.items():
        if name != winner:
            told = {**settled, "answer": "reject", "by": winner, "seq": answered["seq"]}
            assert (reply["error"]["code"], reply["error"]["data"]) == (-32007, told)
    return winner


# Those that run requests; those of the server are the ones that read from its connections, too.
ANSWERING, SERVING = "engine.control.client_connection.ClientConnection._run_call", "engine.control."


def test_t8_answers_in_one_step(tmp_path: Path, is_full: bool) -> None:
    """In every order that the scheduler may give to the tasks that lead from the requests to the answer."""
    for names, tasks in [("ab", ANSWERING), ("abc", ANSWERING), ("ab", SERVING)][: 3 if is_full else 1]:
        orders, winners = TaskOrders(tasks), Counter[str]()
        while orders.next_run():
            with orders.taken():
                clock = MockClock()
                winners[trio.run(answer_in_memory, names, tmp_path, orders, clock, clock=clock)] += 1
        assert orders.widest >= len(names)
        assert orders.runs >= math.factorial(len(names)) ** 2, "two steps: until the session is found, and the answer"
        assert set(winners) == set(names)


async def receive_text(transport: MessageTransport) -> str:
    text = await transport.receive()
    return text if isinstance(text, str) else text.decode()


async def answer_in_memory(names: str, folder: Path, orders: TaskOrders, clock: MockClock) -> str:
    """Let clients with these names answer one question at the same instant, over connections in memory; return who has."""
    opening: dict[str, Any] = {"tools": [engine.tool(wait_forever)], "permissions": PermissionOptions()}
    async with (
        client_world(folder, "pair", *ASKS, seconds=FOR_EVER, **opening) as world,
        AsyncExitStack() as stack,
    ):
        session = await world.engine.create_session(cwd=folder)
        world.engine.start_turn(session, "Go")
        while not session.open_questions:
            await trio.lowlevel.checkpoint()
        question: dict[str, str] = {"session_id": session.id, "request_id": session.open_questions[0].request_id}
        assert world.pair is not None
        everybody: dict[str, Client] = {}
        for name in ("watcher", *names):
            transport = await stack.enter_async_context(world.pair.open())
            everybody[name] = Client(transport.send, partial(receive_text, transport))
            await everybody[name].hello(name)
        watcher = everybody.pop("watcher")
        await watcher.result("subscribe", session_id=session.id, at="start")
        await trio.testing.wait_all_tasks_blocked()
        orders.begin(lambda: bool(session.open_questions))
        answers = await answer_at_once(everybody, question)
        # No time passes until then: what happens after a while would come at another step of each run.
        clock.rate = 1
        return await check_winner(answers, watcher, question)


async def test_t8_a_hundred_answers_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, *ASKS, permissions=PermissionOptions()) as server, AsyncExitStack() as stack:
        names = [f"client{number}" for number in range(100)]
        everybody = dict(zip(names, await clients(server, stack, *names), strict=True))
        (watcher,) = await clients(server, stack, "watcher")
        session_id = await watcher.new_session(tmp_path)
        await watcher.result("subscribe", session_id=session_id, at="start")
        await watcher.result("prompt", session_id=session_id, text="Go", key="p1")
        request_id = (await watcher.events_until("permission_asked"))[-1]["request_id"]
        question = {"session_id": session_id, "request_id": request_id}
        await check_winner(await answer_at_once(everybody, question), watcher, question)


def asking_below(*, has_writer: bool = False) -> dict[str, Any]:
    """Return what opens an engine in which a sub-agent of a sub-agent asks; and another one writes, and does not end."""
    writer = task("half", id="2") if has_writer else []
    script: Script = {
        "go": [[*task("middle"), *writer, *done("calls")], DONE],
        "half": [[*text("Half of it")[:-1], Pause(1_000)], DONE],
        "middle": [[*task("below"), *done("calls")], DONE],
        "below": [[*task("last", tool="alone"), *done("calls")], DONE],
        "last": [DONE],
    }
    permissions = PermissionOptions()
    return {"model": scripted(script), "tools": agent_tools(), "permissions": permissions, "settings": DEEP}


async def test_t9_joining_while_a_sub_agent_asks(tmp_path: Path) -> None:
    """In a sub-agent of a sub-agent: its question is in the head, answerable at the root, and its events come with their path."""
    async with served(tmp_path, **asking_below()) as server, AsyncExitStack() as stack:
        ada, bob, eve, leo = await clients(server, stack, "ada", "bob", "eve", "leo")
        session_id, other = await ada.new_session(tmp_path), await ada.new_session(tmp_path, key="k2")
        await ada.result("subscribe", session_id=session_id, at="start")
        await eve.result("subscribe", session_id=other, at="start")
        await leo.result("subscribe", session_id=session_id, at="start", tree=False, live=False)
        turn_id = (await ada.result("prompt", session_id=session_id, text="go", key="p1"))["turn_id"]
        asked = (await ada.events_until("permission_asked"))[-1]
        assert len(asked["path"]) == 3
        # Whoever joins now learns of it before anything else, though no event comes.
        head = (await bob.result("subscribe", session_id=session_id, at="now"))["head"]
        assert head["asked"] == [asked]
        assert (await bob.note())["params"]["head"]["asked"] == [asked]
        listed = (await bob.result("asked"))["questions"]
        assert [(row["session_id"], row["path"]) for row in listed] == [(session_id, asked["path"])]
        await bob.result("permission.reply", session_id=session_id, request_id=asked["request_id"], answer="always")
        waited = await ada.result("wait", session_id=session_id, turn_id=turn_id, timeout=30)
        assert waited["result"]["stop_reason"] == "completed"
        depths = Counter(len(event["path"]) for event in await bob.events_until("turn_ended"))
        assert depths[3] > 0
        # Of the session itself, and the record alone, there is less.
        own = await leo.events_until("turn_ended")
        assert {event["session_id"] for event in own} == {session_id}
        assert [event["seq"] for event in own] == list(range(1, len(own) + 1))
        # Nothing of it reaches who has not subscribed to it.
        assert {note["method"] for note in eve.notes} <= {"head", "clients"}


@pytest.mark.os
async def test_t9_question_of_killed_sub_agents_is_answered(tmp_path: Path) -> None:
    """Seen before it is resumed, in the snapshot, the head, the list of what is asked, and the status; and answered after that."""
    store = tmp_path / "sessions.db"
    with python_process("-m", "tests.control.killed_agents", str(tmp_path), str(store)) as process:
        session_id = await trio.to_thread.run_sync(read_line, process)
        async with served(tmp_path, **asking_below()) as server, server.unix() as bob:
            await bob.hello("bob")
            # Another engine runs it, which answers for it.
            assert (await bob.result("asked"))["questions"] == []
            # The agent that writes may start after the question is asked.
            while "Half of it" not in await written_below(bob, session_id):
                await trio.sleep(0.05)
            process.kill()
            await trio.to_thread.run_sync(process.wait)
            snapshot = await bob.result("snapshot", session_id=session_id)
            assert sorted(each["depth"] for each in snapshot["sessions"]) == [0, 1, 1, 2]
            assert "Half of it" in json.dumps(snapshot["sessions"])
            (asked,) = snapshot["asked"]
            assert len(asked["path"]) == 3
            assert (await bob.result("session.get", session_id=session_id))["head"]["asked"] == [asked]
            for named in ({}, {"session_id": session_id}):
                listed = (await bob.result("asked", **named))["questions"]
                assert [(row["session_id"], row["question"]) for row in listed] == [(session_id, asked)]
            status = await bob.result("server.status")
            assert (status["sessions"], status["questions"], status["waiting_since"]) == ({}, 1, asked["time"])
            # An answer changes nothing yet: it says what to do. Then it is asked again, and answered.
            question = {"session_id": session_id, "answer": "always"}
            late = (await bob.call("permission.reply", **question, request_id=asked["request_id"]))["error"]
            assert (late["data"]["kind"], late["data"]["turn_id"]) == (
                "parked",
                snapshot["sessions"][0]["state"]["turn"]["turn_id"],
            )
            assert f"resume session {session_id} first" in late["message"]
            (listed,) = (await bob.result("asked"))["questions"]
            assert listed["question"] == asked
            await bob.result("subscribe", session_id=session_id, at="now")
            await bob.result("resume", session_id=session_id, key="r1")
            again = (await bob.events_until("permission_asked"))[-1]
            assert (len(again["path"]), again["path"] == asked["path"]) == (3, False)
            await bob.result("permission.reply", **question, request_id=again["request_id"])
            while (ended := (await bob.events_until("turn_ended"))[-1])["session_id"] != session_id:
                pass
            assert ended["result"]["stop_reason"] == "completed"


async def written_below(client: Client, session_id: str) -> str:
    """What the sub-agents of a session have written, as far as another engine has stored it."""
    rows = (await client.result("session.list", parent=session_id))["rows"]
    return json.dumps([(await client.result("snapshot", session_id=row["id"]))["sessions"] for row in rows])


async def test_t9_question_is_seen_after_a_restart(tmp_path: Path) -> None:
    permissions = PermissionOptions()
    async with served(tmp_path, ASKS[0], permissions=permissions) as server, server.unix() as ada:
        await ada.hello("ada")
        session_id = await ada.new_session(tmp_path)
        await ada.result("subscribe", session_id=session_id, at="start")
        turn_id = (await ada.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        asked = (await ada.events_until("permission_asked"))[-1]
    async with served(tmp_path, ASKS[1], permissions=permissions) as server, server.unix() as bob:
        await bob.hello("bob")
        subscribed = await bob.result("subscribe", session_id=session_id, at="now")
        head = subscribed["head"]
        assert (subscribed["mode"], head["parked"], head["status"]["type"]) == ("stored", True, "waiting")
        assert head["turn"] == {"turn_id": turn_id, "input_id": "p1"}
        assert [each["request_id"] for each in head["asked"]] == [asked["request_id"]]
        question = {"session_id": session_id, "request_id": asked["request_id"], "answer": "reject", "feedback": "No."}
        prompt = {"session_id": session_id, "text": "More", "key": "p2"}
        for method, params in (("permission.reply", question), ("steer", {**prompt, "turn_id": turn_id})):
            refused = (await bob.call(method, **params))["error"]["data"]
            assert (refused["kind"], refused["turn_id"]) == ("parked", turn_id), method
        resumed = [await bob.result("resume", session_id=session_id, key="r1") for _ in range(2)]
        assert resumed[0] == resumed[1]
        assert resumed[0]["turn_id"] == turn_id
        again = (await bob.events_until("permission_asked"))[-1]
        assert again["request_id"] != asked["request_id"]
        await bob.result("permission.reply", **{**question, "request_id": again["request_id"]})
        assert (await bob.events_until("turn_ended"))[-1]["result"]["stop_reason"] == "completed"


# -- equal rights ------------------------------------------------------------------------


async def test_c1_all_clients_may_do_the_same(tmp_path: Path) -> None:
    """Who made the session, and sent the prompt, has no more rights than others of its role."""
    async with served(tmp_path, *ASKS) as server, AsyncExitStack() as stack:
        ada, bob, eve = await clients(server, stack, "ada", "bob", "eve")
        session_id = await ada.new_session(tmp_path)
        for client in (ada, bob, eve):
            await client.result("subscribe", session_id=session_id, at="start")
        results: dict[str, dict[str, Any]] = {}

        async def prompt(name: str, client: Client) -> None:
            results[name] = await client.call("prompt", session_id=session_id, text=name, key=f"p-{name}")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt, "ada", ada)
            nursery.start_soon(prompt, "bob", bob)
        (winner,) = [name for name, reply in results.items() if "result" in reply]
        (loser,) = {"ada", "bob"} - {winner}
        turn_id = results[winner]["result"]["turn_id"]
        refused = results[loser]["error"]["data"]
        assert (refused["kind"], refused["turn_id"]) == ("busy", turn_id)
        for client in (ada, bob, eve):
            await client.events_until("call_started")
        steered = await eve.result("steer", session_id=session_id, turn_id=turn_id, text="Be quick.", key="s1")
        queued = await bob.result("queue", session_id=session_id, text="Then this.", key="q1")
        head = (await ada.result("session.get", session_id=session_id))["head"]
        assert head["turn"] == {"turn_id": turn_id, "input_id": f"p-{winner}"}
        waiting = {each["input_id"]: (each["mode"], each["by"]) for each in head["queue"]}
        assert waiting == {steered["input_id"]: ("steer", "eve"), queued["input_id"]: ("queue", "bob")}
        assert (await ada.result("queue.remove", session_id=session_id, input_id="q1"))["removed"]
        # The second cancel answers like the first, and changes nothing: all see one end, and who caused it.
        first = await eve.result("cancel", session_id=session_id, turn_id=turn_id)
        second = await ada.result("cancel", session_id=session_id, turn_id=turn_id)
        assert first["state"] == "ending"
        assert second["state"] in {"ending", "over"}
        for client in (ada, bob, eve):
            events = await client.events_until("turn_ended")
            (ending,) = [event for event in events if event["type"] == "turn_ending"]
            assert (ending["by"], ending["cause"]) == ("eve", "user")
            assert first["until"] in {None, ending["until"]}


async def test_t13_late_cancel_spares_the_next_turn(tmp_path: Path) -> None:
    script: list[Answer] = [[*text("One."), *done()], *ASKS]
    async with served(tmp_path, *script) as server, server.unix() as ada, server.unix() as bob:
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        await ada.result("subscribe", session_id=session_id, at="start")
        first = (await ada.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await ada.events_until("turn_ended")
        second = (await ada.result("prompt", session_id=session_id, text="On", key="p2"))["turn_id"]
        assert await bob.result("cancel", session_id=session_id, turn_id=first) == {"state": "over", "until": None}
        for method in ("cancel", "steer"):
            extra = {} if method == "cancel" else {"text": "x", "key": "s1"}
            stale = (await bob.call(method, session_id=session_id, turn_id="turn_none", **extra))["error"]["data"]
            assert (stale["kind"], stale["current"]) == ("conflict", second)
        await ada.events_until("call_started")
        await bob.result("cancel", session_id=session_id, turn_id=second)
        await ada.events_until("turn_ended")
        # As it starts.
        third = await ada.result("prompt", session_id=session_id, text="Again", key="p3")
        await ada.result("cancel", session_id=session_id, turn_id=third["turn_id"])
        ended = (await ada.events_until("turn_ended"))[-1]
        assert ended["turn_id"] == third["turn_id"]


# -- a setting that all share ------------------------------------------------------------


async def test_c4_profile_is_shown_to_all(tmp_path: Path) -> None:
    token = add_token(tmp_path / "run", "phone", "answer")
    script: Script = {"Go": [[*task("x", tool="alone"), *done("calls")], DONE], "x": [DONE]}
    async with (
        served(tmp_path, permissions=PermissionOptions(), tools=agent_tools(), model=scripted(script)) as server,
        server.unix() as ada,
        server.unix() as bob,
        server.websocket(token=token) as (phone, _),
    ):
        await ada.hello("ada")
        await bob.hello("bob")
        await phone.hello("phone")
        session_id = await ada.new_session(tmp_path)
        await ada.result("subscribe", session_id=session_id, at="start")
        await ada.result("prompt", session_id=session_id, text="Go", key="p1")
        await ada.events_until("permission_asked")
        refused = await phone.call("session.configure", session_id=session_id, profile="full")
        assert refused["error"]["data"]["kind"] == "forbidden"
        unknown = await bob.call("session.configure", session_id=session_id, profile="all")
        assert unknown["error"]["data"]["kind"] == "config"
        changed = await bob.result("session.configure", session_id=session_id, profile="full")
        events = await ada.events_until("turn_ended")
        (configured,) = [event for event in events if event["type"] == "session_configured"]
        assert (configured["profile"], configured["by"]) == ("full", "bob")
        assert configured["seq"] <= changed["seq"]
        # Whoever joins later sees it, until it is undone.
        head = (await phone.result("subscribe", session_id=session_id, at="now"))["head"]
        assert (head["profile"], head["profile_by"]) == ("full", "bob")
        await ada.result("session.configure", session_id=session_id, profile=None)
        head = (await phone.result("session.get", session_id=session_id))["head"]
        assert (head["profile"], head["profile_by"]) == ("", "")
        switched = await bob.call("model.set", session_id=session_id, model="none/such")
        assert switched["error"]["data"]["kind"] == "config"


# -- one that is stopped ---------------------------------------------------------------------


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text_delta")


async def test_stopped_client_returns_complete(tmp_path: Path, clock: MockClock) -> None:
    whole = "".join(f"{number:07d} " for number in range(250_000))
    async with served(tmp_path, [*text(whole, pieces=1_000), *done()]) as server, AsyncExitStack() as stack:
        reader, stopped = await clients(server, stack, "reader", "stopped")
        session_id = await reader.new_session(tmp_path)
        for client in (reader, stopped):
            await client.result("subscribe", session_id=session_id, at="start")
        await reader.result("prompt", session_id=session_id, text="Go", key="p1")
        assert text_of(await reader.events_until("turn_ended")) == whole
        await trio.testing.wait_all_tasks_blocked(0.05)
        clock.jump(31)
        while "stopped" in {row["name"] for row in (await reader.result("clients"))["clients"]}:
            await trio.sleep(0.01)
        # It goes on: what the system has kept for it comes first, then the end.
        received: list[dict[str, Any]] = []
        position = None
        with pytest.raises(AssertionError, match="closed the connection"):
            while True:
                note = await stopped.note()
                if note["method"] == "events":
                    received += note["params"]["events"]
                    position = note["params"]["position"]
        assert "turn_ended" not in [event["type"] for event in received]
        (again,) = await clients(server, stack, "stopped")
        await again.result("subscribe", session_id=session_id, after=position)
        received += await again.events_until("turn_ended")
        assert text_of(received) == whole
        async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
            (merged,) = re.findall(r"\nengine_control_merged_total (\d+)\n", (await http.get("/metrics")).text)
            assert int(merged) > 0
        seqs = [event["seq"] for event in received if event.get("seq")]
        assert seqs == list(range(1, len(seqs) + 1))
