"""A snapshot of a session and its sub-agents: whoever goes on from it knows all that one who saw everything knows."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.events import CallHeartbeat, PartEnded, PermissionAsked, TurnEnded
from engine.core.ids import SessionId
from engine.core.messages import TextPart
from engine.journal.codec import decode_resync, encode_resync
from engine.journal.cursors import Cursor
from engine.journal.fold import apply, fold
from engine.journal.position import decode_position, encode_position
from engine.journal.state import Resync, SessionState, Waiting
from engine.permission.policy import Policy
from engine.testing.script import Answer, Pause, call, done, text
from tests.session.test_sub_agents import WRITING, Script, agent_tools, by_prompt, drained, nested, task
from tests.support.bench import Bench
from tests.support.parked import FINE, Home, asks, do, seen
from tests.support.scribe import open_parts
from tests.support.world import world

DONE: Answer = [*text("Done."), *done()]


def folded(snapshot: Resync, cursor: Cursor) -> dict[SessionId, SessionState]:
    """Go on from a snapshot as a client does, with all events of all sessions."""
    states = {snapshot.session_id: snapshot.state}
    states |= {member.state.session_id: member.state for member in snapshot.descendants}
    for event in drained(cursor):
        assert not isinstance(event, Resync)
        states[event.session_id] = apply(states.get(event.session_id, SessionState()), event)
    return states


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_client_is_whole_after_a_snapshot_anywhere(autojump_clock: MockClock, is_cancelled: bool) -> None:
    script: Script = nested(3)
    two = [*text("Level 0. "), *task("level 1"), *task("other", id="2"), *done("calls")]
    script["level 0"] = [two, DONE]
    script["other"] = [
        [*text("I am the other."), *call("read", {"name": "o", "seconds": 1}, id="1"), *done("calls")],
        DONE,
    ]
    taken: list[tuple[Resync, Cursor]] = []
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *Bench().tools()]) as w:
        async with w.session.prompt("level 0", settings=engine.Settings(agent_depth=3)) as turn:
            async for event in turn:
                if not isinstance(event, CallHeartbeat):
                    cursor = w.session.subscribe(after=0)
                    taken.append((cursor.snapshot(), cursor))
                if is_cancelled and isinstance(event, engine.CallStarted) and len(event.path) == 4:
                    turn.cancel()
                    await trio.sleep(0.01)
        whole = {event.session_id: SessionState() for event in drained(w.session.subscribe(after=0))}
        for session_id in whole:
            whole[session_id] = fold(await w.store.load(session_id))
    assert max(len(snapshot.descendants) for snapshot, _ in taken) == 4
    for snapshot, cursor in taken:
        # As a client gets it.
        received = decode_resync(encode_resync(snapshot))
        assert received == snapshot
        again = w.session.subscribe(after=decode_position(encode_position(snapshot.position or cursor.position)))
        states = folded(received, cursor)
        assert states == folded(received, again) == {name: whole[name] for name in states}
        # What is missing had ended before.
        assert all(whole[name].turn is None for name in whole.keys() - states.keys())


async def test_snapshot_shows_questions_and_calls_of_sub_agents(autojump_clock: MockClock) -> None:
    script: Script = {
        "go": [[*task("below", id="t1"), *done("calls")], DONE],
        "below": [WRITING, DONE],
    }
    async with world(by_prompt(script), repeat=True, tools=[*agent_tools(), *Bench().tools()], approver=Policy()) as w:
        async with w.session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    break
            found = w.session.subscribe().snapshot()
            assert found.open_questions == w.session.open_questions != ()
            (child,) = found.descendants
            assert found.state.turn is not None
            assert found.state.turn.step is not None
            (running,) = found.state.turn.step.calls
            assert (child.depth, child.call_id) == (1, running.call_id)
            assert child.state.status == Waiting((found.open_questions[0].request_id,))
            assert found.state == w.session.state


async def test_snapshot_shows_what_a_parked_turn_asks(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE])
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        found = session.subscribe().snapshot()
        (question,) = found.open_questions
        assert found.state.status == Waiting((question.request_id,))
        assert found.descendants == ()
        turn = eng.resume_turn(session)
        await seen(turn, PermissionAsked)
        (again,) = session.subscribe().snapshot().open_questions
        assert again.request_id != question.request_id
        turn.cancel()
        await turn.wait()
        assert session.subscribe().snapshot().open_questions == ()
        assert isinstance(session.events()[-1], TurnEnded)


async def test_part_ends_shorter_than_streamed_after_a_kill(autojump_clock: MockClock) -> None:
    """The last deltas had not reached the store: a client that has drawn them adopts the end of the part."""
    *streamed_part, part_done = text("It was a dark and ", pieces=3)
    home = Home([[*streamed_part, Pause(5), part_done, *done()], FINE])
    client = SessionState()
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        cursor = session.subscribe(after=0)
        turn = eng.start_turn(session, "go")
        await trio.sleep(1)
        for event in drained(cursor):
            assert not isinstance(event, Resync)
            client = apply(client, event)
        await home.kill(session.id)
        turn.cancel()
    (streamed,) = open_parts(client)
    assert streamed.text == "It was a dark and "
    async with home.open() as eng:
        again = await eng.open_session(session.id)
        for event in again.events()[client.seq :]:
            if isinstance(event, PartEnded):
                assert isinstance(event.part, TextPart)
                assert len(event.part.text) < len(streamed.text)
            client = apply(client, event)
        # Not what was drawn, but what the record has; and the model reads the same.
        assert client == again.state == fold(await home.store.load(session.id))


async def test_snapshot_shares_the_history(autojump_clock: MockClock) -> None:
    """So it takes as long for a long one as for a short one."""
    async with world(DONE, repeat=True) as w:
        for _ in range(3):
            await w.play()
        cursor = w.session.subscribe(after=0)
        one, two = cursor.snapshot(), cursor.snapshot()
        assert one.state.transcript.lineage is two.state.transcript.lineage is w.session.state.transcript.lineage
        assert drained(cursor) == []
