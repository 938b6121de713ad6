"""Which sessions changed since the last look: named once, whatever happened, and none is missed."""

from __future__ import annotations

import gc

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import engine
from engine.core.errors import EngineClosed
from engine.core.ids import SessionId
from engine.journal.state import Busy, Idle
from engine.session.session_watch import ChangeSignal
from engine.testing.script import Answer, Pause, done, text
from engine.testing.scripted_provider import ScriptedProvider

DONE: Answer = [*text("Done."), *done()]


def opening(*script: Answer) -> engine.Engine:
    return engine.open_engine(model=ScriptedProvider(list(script) or [DONE], repeat=not script))


async def test_list_with_live_status_is_right(autojump_clock: MockClock) -> None:
    """A host that reads nothing but the rows of named sessions always shows what is true."""
    rows: dict[str, object] = {}
    handles: dict[str, engine.Session] = {}
    async with trio.open_nursery() as nursery:
        async with opening([Pause(5), *DONE], DONE) as eng:
            changes = eng.watch_sessions()

            async def show() -> None:
                async for session_ids in changes:
                    rows.update({name: handles[name].state.status for name in session_ids})
                rows["ended"] = True

            for _ in range(2):
                session = await eng.create_session()
                handles[session.id] = session
            nursery.start_soon(show)
            one, two = handles.values()
            turn = eng.start_turn(one, "go")
            await wait_all_tasks_blocked()
            assert rows == {one.id: Busy(1), two.id: Idle()}
            await turn.wait()
            await wait_all_tasks_blocked()
            assert rows == {one.id: Idle(), two.id: Idle()}
            rows.clear()
            await two.run("go")
            await wait_all_tasks_blocked()
            assert rows == {two.id: Idle()}
            rows.clear()
            await eng.close_session(one.id)
            await wait_all_tasks_blocked()
            assert rows == {one.id: Idle()}
    assert rows["ended"] is True
    with pytest.raises(EngineClosed):
        eng.watch_sessions()


async def test_many_changes_are_one(autojump_clock: MockClock) -> None:
    async with opening() as eng:
        early = eng.watch_sessions()
        session, other = await eng.create_session(), await eng.create_session()
        changes = eng.watch_sessions()
        assert changes.take() == frozenset()
        for _ in range(5):
            await session.run("go")
        assert changes.take() == {session.id}
        assert changes.take() == frozenset()
        assert early.take() == {session.id, other.id}


async def test_cancelled_wait_loses_no_change(autojump_clock: MockClock) -> None:
    async with opening() as eng:
        session = await eng.create_session()
        changes = eng.watch_sessions()
        for seconds in (0, 1):
            with trio.move_on_after(seconds) as scope:
                await anext(changes)
            assert scope.cancelled_caught
        await session.run("go")
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(changes)
        assert await anext(changes) == {session.id}


async def test_memory_is_bounded_by_what_is_unseen() -> None:
    log = ChangeSignal()
    token = trio.lowlevel.current_trio_token()
    late = log.watch(token)
    names = [SessionId(f"ses_{number}") for number in range(5_000)]
    for name in names:
        log.note(name)
    assert log.take(late) == frozenset(names)
    del late
    gc.collect()
    for name in (SessionId(f"ses_new_{number}") for number in range(20_000)):
        log.note(name)
    assert len(log) <= 1_000
