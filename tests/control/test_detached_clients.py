"""Clients that go away in the middle, over the protocol: what becomes of their turns, and of requests they repeat."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import engine
from engine.core.events import CallSettled, PartEnded, TurnEnded, TurnStarted
from engine.core.ids import SessionId
from engine.core.llm_types import ModelRequest
from engine.core.messages import AssistantMessage, TextPart, Usage
from engine.journal.closing_events import CRASHED
from engine.session.engine_options import PermissionOptions
from engine.store.memory import MemoryStore
from engine.testing.invariants import check_transcript
from engine.testing.script import Answer, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.served_engine import Client, NoArguments, Server, served

BEAT = Pause(0.002)
TURN: list[Answer] = [
    [
        *text("Let me look."),
        BEAT,
        *call("look", {}, id="c1"),
        BEAT,
        *call("look", {}, id="c2"),
        BEAT,
        *done("calls"),
    ],
    [*text("All is well."), BEAT, *done()],
]
# Its end is never reached by itself.
ENDLESS: list[Answer] = [TURN[0], [*call("wait_forever", {}, id="c3"), *done("calls")]]


@engine.tool(read_only=True)
async def look(arguments: NoArguments, context: engine.ToolContext) -> str:
    """Look around."""
    del arguments, context
    await trio.sleep(0.002)
    return "well"


@engine.tool
async def wait_forever(arguments: NoArguments, context: engine.ToolContext) -> str:
    """Wait, until it is cancelled."""
    del arguments, context
    await trio.sleep_forever()
    raise AssertionError


def scripted(script: list[Answer]) -> ScriptedProvider:
    """A model that begins the script again with each session."""

    def answer(request: ModelRequest) -> Answer:
        return script[sum(isinstance(message, AssistantMessage) for message in request.transcript)]

    return ScriptedProvider([answer], repeat=True)


async def read_durable(client: Client, count: int) -> None:
    """Read so many durable events."""
    while count > 0:
        note = await client.note()
        if note["method"] == "events":
            count -= sum(event["seq"] is not None for event in note["params"]["events"])


async def ended(server: Server, session_id: str) -> engine.Session:
    """Wait for the end of the session's turn."""
    session = await server.engine.open_session(session_id)
    async for event in session.subscribe(0):
        if isinstance(event, TurnEnded):
            break
    return session


def record(session: engine.Session) -> tuple[object, ...]:
    """Return what a session's record says, without what differs from run to run."""
    events = session.events()
    texts = [event.part.text for event in events if isinstance(event, PartEnded) and isinstance(event.part, TextPart)]
    settlements = [event.settlement for event in events if isinstance(event, CallSettled)]
    (result,) = [event.result for event in events if isinstance(event, TurnEnded)]
    return Counter(type(event).__name__ for event in events), texts, settlements, attrs.evolve(result, usage=Usage())


async def leave_after(server: Server, folder: Path, count: int, **prompt: Any) -> str:
    """Send a prompt, read so many events, and go; return the session."""
    async with server.unix() as client:
        await client.hello("ada")
        session_id = await client.new_session(folder, key=f"leaves-{count}")
        await client.result("subscribe", session_id=session_id, at="start")
        await client.result("prompt", session_id=session_id, text="Go", key="p1", **prompt)
        await read_durable(client, count)
    return session_id


async def test_t11_detaching_anywhere_changes_nothing(tmp_path: Path, is_full: bool) -> None:
    async with served(tmp_path, model=scripted(TURN), tools=[look]) as server:
        alone = await server.engine.create_session(cwd=tmp_path)
        await server.engine.start_turn(alone, "Go").wait()
        expected = record(alone)
        for count in range(0, len(alone.events()), 1 if is_full else 3):
            session = await ended(server, await leave_after(server, tmp_path, count))
            assert record(session) == expected, count


async def test_t11_turn_ends_with_its_client_anywhere(tmp_path: Path, is_full: bool) -> None:
    async with served(tmp_path, model=scripted(ENDLESS), tools=[look, wait_forever]) as server:
        async with server.unix() as client:
            await client.hello("eve")
            session_id = await client.new_session(tmp_path)
            await client.result("subscribe", session_id=session_id, at="start")
            turn = await client.result("prompt", session_id=session_id, text="Go", key="p1")
            events = [event for _ in range(3) for event in await client.events_until("call_started")]
            await client.result("cancel", session_id=session_id, turn_id=turn["turn_id"])
        points = sum(event["seq"] is not None for event in events)
        for count in range(0, points, 1 if is_full else 3):
            session_id = await leave_after(server, tmp_path, count, on_disconnect="cancel", linger=0)
            session = await ended(server, session_id)
            assert check_transcript(session.state.transcript) == []
            result = session.state.last_result
            assert result is not None
            assert (result.stop_reason, result.detail) == ("aborted", "cancelled by the user"), count
            (end,) = [event for event in session.events() if isinstance(event, TurnEnded)]
            assert end.ending is not None
            assert end.ending.by == "ada"


# -- requests that are repeated ----------------------------------------------------------


async def send_and_cut(server: Server, request: dict[str, Any], steps: int) -> None:
    """Send a request and close the connection, so many steps of the scheduler later; nobody reads the answer."""
    async with server.unix() as client:
        await client.hello("ada")
        await client.send(json.dumps({"jsonrpc": "2.0", "id": 9, **request}))
        for _ in range(steps):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("method", ["session.create", "session.fork", "prompt", "queue"])
async def test_t12_request_cut_off_happens_once(tmp_path: Path, method: str, is_full: bool) -> None:
    async with served(tmp_path) as server:
        for steps in range(0, 60, 1 if is_full else 4):
            # A connection may send so many requests in a second.
            async with server.unix() as client:
                await client.hello("ada")
                await cut_off_once(server, client, tmp_path, method, steps)


async def cut_off_once(server: Server, client: Client, folder: Path, method: str, steps: int) -> None:
    async def ids() -> set[str]:
        return {row["id"] for row in (await client.result("session.list", limit=200))["rows"]}

    key = f"{method}-{steps}"
    session_id = await client.new_session(folder, key=f"of-{key}")
    params, other = {
        "session.create": ({"cwd": str(folder), "key": key}, {"cwd": "/"}),
        "session.fork": ({"session_id": session_id, "key": key}, {"agent": "other"}),
    }.get(method, ({"session_id": session_id, "text": "Go", "key": key}, {"text": "Stop"}))
    before = await ids()
    await send_and_cut(server, {"method": method, "params": params}, steps)
    again, third = await client.result(method, **params), await client.result(method, **params)
    refused = await client.call(method, **{**params, **other})
    assert refused["error"]["data"]["kind"] == "conflict"
    if method in {"prompt", "queue"}:
        assert {each["input_id"] for each in (again, third)} == {key}
        session = await ended(server, session_id)
        starts = [event for event in session.events() if isinstance(event, TurnStarted)]
        assert (len(starts), await ids()) == (1, before)
    else:
        assert again == third
        assert await ids() - before == {again["row"]["id"]}


async def test_t12_keys_of_clients_survive_a_restart(tmp_path: Path) -> None:
    results: list[dict[str, Any]] = []
    for text_of in ("Go", "Go", "Other"):
        async with served(tmp_path) as server, server.unix() as client:
            await client.hello("ada")
            session_id = await client.new_session(tmp_path)
            fork = await client.result("session.fork", session_id=session_id, key="f1")
            reply = await client.call("prompt", session_id=session_id, text=text_of, key="p1")
            results.append({"session": session_id, "fork": fork["row"]["id"], **reply.get("result", {})})
            if text_of == "Other":
                assert reply["error"]["data"]["kind"] == "conflict"
            await ended(server, session_id)
    assert results[0] == results[1]
    assert (results[2]["session"], results[2]["fork"]) == (results[0]["session"], results[0]["fork"])


async def test_d6_lost_prompt_is_found_again(tmp_path: Path) -> None:
    script: list[Answer] = [[*text("Well"), Pause(1_000), *done()]]
    async with served(tmp_path, *script, permissions=PermissionOptions()) as server:
        session_id = await leave_after(server, tmp_path, 1)
        await send_and_cut(
            server, {"method": "queue", "params": {"session_id": session_id, "text": "Then", "key": "q1"}}, 100
        )
        async with server.unix() as client:
            await client.hello("ada")
            head = (await client.result("subscribe", session_id=session_id, at="now"))["head"]
            turn = (await client.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
            assert head["turn"] == {"turn_id": turn, "input_id": "p1"}
            assert [each["input_id"] for each in head["queue"]] in ([], ["q1"])
            await client.result("queue", session_id=session_id, text="Then", key="q1")
            head = (await client.result("session.get", session_id=session_id))["head"]
            assert [each["input_id"] for each in head["queue"]] == ["q1"]
            session = await server.engine.open_session(SessionId(session_id))
            assert len(session.inputs.waiting) == 1


async def test_resume_continues_after_a_crash(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, model=scripted(ENDLESS), tools=[look, wait_forever], store=store) as server:
        session_id = SessionId(await leave_after(server, tmp_path, 12))
        left = MemoryStore(epoch=store.epoch)
        for event in await store.load(session_id):
            left.put(event)
    async with served(tmp_path, store=left) as server, server.unix() as client:
        await client.hello("ada")
        turn_id = (await client.result("resume", session_id=session_id, key="r1"))["turn_id"]
        waited = await client.result("wait", session_id=session_id, turn_id=turn_id, timeout=30)
        assert waited["result"]["stop_reason"] == "completed"
        # Once more is the same turn, and another one has nothing to go on with.
        assert (await client.result("resume", session_id=session_id, key="r1"))["turn_id"] == turn_id
        refused = await client.call("resume", session_id=session_id, key="r2")
        assert refused["error"]["data"]["kind"] == "nothing_to_do"
        session = await server.engine.open_session(session_id)
        assert check_transcript(session.state.transcript) == []
        assert [event.result.stop_reason for event in session.events() if isinstance(event, TurnEnded)] == [
            "aborted",
            "completed",
        ]


async def test_resume_starts_what_was_queued(tmp_path: Path) -> None:
    async with served(tmp_path, model=scripted(ENDLESS), tools=[look, wait_forever]) as server, server.unix() as client:
        await client.hello("ada")
        session_id = await client.new_session(tmp_path)
        first = (await client.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await client.result("queue", session_id=session_id, text="Then", key="q1")
        await client.result("cancel", session_id=session_id, turn_id=first)
        await client.result("wait", session_id=session_id, turn_id=first, timeout=30)
        second = (await client.result("resume", session_id=session_id, key="r1"))["turn_id"]
        assert second != first
        head = (await client.result("session.get", session_id=session_id))["head"]
        assert (head["turn"], head["queue"]) == ({"turn_id": second, "input_id": "q1"}, [])
        await client.result("cancel", session_id=session_id, turn_id=second)


async def test_t11_killed_while_lingering_is_a_crash(tmp_path: Path) -> None:
    """Nothing of the wait is in the record: the turn is closed as after any crash, and the session goes on."""
    store = MemoryStore()
    async with served(tmp_path, model=scripted(ENDLESS), tools=[look, wait_forever], store=store) as server:
        session_id = SessionId(await leave_after(server, tmp_path, 12, on_disconnect="cancel", linger=600))
        # What a kill would leave now.
        left = MemoryStore(epoch=store.epoch)
        for event in await store.load(session_id):
            left.put(event)
    async with served(tmp_path, store=left) as server, server.unix() as client:
        await client.hello("ada")
        result = await client.result("prompt", session_id=session_id, text="On", key="p2")
        waited = await client.result("wait", session_id=session_id, turn_id=result["turn_id"], timeout=30)
        assert waited["result"]["stop_reason"] == "completed"
        session = await server.engine.open_session(session_id)
        first, _ = [event.result for event in session.events() if isinstance(event, TurnEnded)]
        assert (first.stop_reason, first.detail) == ("aborted", CRASHED)
        assert check_transcript(session.state.transcript) == []
