"""An engine that loses its sessions: silent for longer than its lease, robbed by hand, or idle while another goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import engine
from engine.core.errors import SessionElsewhere, SessionLost
from engine.core.events import CallSettled, CallStarted, TurnResumed
from engine.core.ids import SessionId
from engine.fleet.sweeper import sweep
from engine.journal.fold import fold
from engine.session.session import live_session
from engine.store.postgres.open import open_postgres_store
from engine.store.postgres.store import PostgresStore
from engine.testing.invariants import check_transcript
from tests.fleet.fleet_engine import CALLS, EFFECTS, open_engine
from tests.store.server import shared_server
from tests.support.processes import python_process

pytestmark = pytest.mark.os

NAME = SessionId("ses_1")


def rows(place: str, statement: str) -> list[tuple[object, ...]]:
    with shared_server().connected(place) as connection:
        cursor = connection.execute(statement.encode())
        return [] if cursor.description is None else cursor.fetchall()


def effects(place: str) -> Counter[object]:
    return Counter(name for (name,) in rows(place, "SELECT call FROM public.effects"))


@asynccontextmanager
async def an_engine(
    place: str, folder: Path, *, seconds: float = 0.0, idle_seconds: float = 300.0
) -> AsyncGenerator[tuple[engine.Engine, PostgresStore]]:
    rows(place, EFFECTS)
    store = await open_postgres_store(place, lease_seconds=2, idle_seconds=idle_seconds)
    async with open_engine(store, place, folder, seconds) as eng:
        yield eng, store


async def until_leases(place: str, wanted: int) -> None:
    with trio.fail_after(60):
        while len(rows(place, "SELECT 1 FROM engine.leases")) != wanted:
            await trio.sleep(0.02)


@pytest.mark.slow
async def test_stopped_engine_writes_nothing_after_it_wakes(place: str, tmp_path: Path) -> None:
    """SIGSTOP for longer than the lease: another engine goes on, and what wakes finds that out with its next write."""
    async with an_engine(place, tmp_path) as (eng, store):
        arguments = ("-m", "tests.fleet.lone_engine", "work", place, str(tmp_path), NAME, "1")
        with python_process(*arguments, stderr=subprocess.PIPE) as stopped:
            with trio.fail_after(60):
                # In the middle of its second call, which has had its effect.
                while len(effects(place)) < 2:
                    await trio.sleep(0.01)
            os.kill(stopped.pid, signal.SIGSTOP)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sweep, eng)
                with trio.fail_after(60):
                    while not any(row.turns for row in await store.list_sessions()):
                        await trio.sleep(0.05)
                nursery.cancel_scope.cancel()
            events = list(await store.load(NAME))
            os.kill(stopped.pid, signal.SIGCONT)
            out, errors = await trio.to_thread.run_sync(lambda: stopped.communicate(timeout=60))
            assert stopped.returncode == 0, errors
        *calls, ended = out.splitlines()
        assert ended.startswith("ended aborted False another engine has gone on with this session")
        assert [line.split()[0] for line in calls] == ["started"] * 2
        assert list(await store.load(NAME)) == events
        assert any(isinstance(event, TurnResumed) for event in events)
        assert check_transcript(fold(events).transcript) == []
        cut = [e for e in events if isinstance(e, CallSettled) and e.settlement.reason == "interrupted_by_crash"]
        assert len(cut) == 1
        started = {f"{NAME} {event.call_id}" for event in events if isinstance(event, CallStarted)}
        done = effects(place)
        assert max(done.values()) == 1
        assert set(done) <= started


async def test_robbed_engine_ends_its_turn_before_any_effect(place: str, tmp_path: Path) -> None:
    """Two owners of one lease, by hand."""
    async with an_engine(place, tmp_path) as (eng, store):
        session = await eng.create_session(cwd=tmp_path)
        await store.flushed(session.id, live_session(session).journal.seq)
        rob = "UPDATE engine.leases SET owner = 'hand', machine = 'there', expires = now() + interval '{}'"
        rows(place, rob.format("1 hour"))
        result = await session.run("go")
        assert (result.stop_reason, result.durable) == ("aborted", False)
        assert "another engine has gone on with this session" in result.detail
        assert effects(place) == {}
        with pytest.raises(SessionLost, match="open in another engine"):
            await store.flushed(session.id, live_session(session).journal.seq)
        with pytest.raises(SessionElsewhere):
            await eng.open_session(session.id)
        rows(place, rob.format("-1 second"))
        again = await eng.open_session(session.id)
        assert again is not session
        assert again.state.turns == 0
        assert (await again.run("go")).stop_reason == "completed"
        assert len(effects(place)) == CALLS


async def test_idle_session_is_free_and_taken_again(place: str, tmp_path: Path) -> None:
    async with an_engine(place, tmp_path, idle_seconds=0.2) as (eng, _):
        session = await eng.create_session(cwd=tmp_path)
        await session.run("go")
        await until_leases(place, 0)
        result = await session.run("go on")
        assert (result.stop_reason, result.durable) == ("completed", True)
        await until_leases(place, 0)
        assert await eng.open_session(session.id) is session
        await until_leases(place, 1)
        await until_leases(place, 0)


async def test_running_session_is_never_idle(place: str, tmp_path: Path) -> None:
    async with an_engine(place, tmp_path, seconds=0.4, idle_seconds=0.1) as (eng, _):
        session = await eng.create_session(cwd=tmp_path)
        turn = eng.start_turn(session, "go")
        with trio.fail_after(60):
            while not (await _is_over(turn)):
                assert len(rows(place, "SELECT 1 FROM engine.leases")) == 1 or turn_is_over(turn)
        assert (await turn.wait()).stop_reason == "completed"
        await until_leases(place, 0)


def turn_is_over(turn: engine.Turn) -> bool:
    try:
        _ = turn.result
    except engine.EngineError:
        return False
    return True


async def _is_over(turn: engine.Turn) -> bool:
    with trio.move_on_after(0.1):
        await turn.wait()
    return turn_is_over(turn)


async def test_idle_engine_sees_what_another_has_done(place: str, tmp_path: Path) -> None:
    """Its own next prompt ends before any request; opened again, the session has all of it."""
    async with (
        an_engine(place, tmp_path, idle_seconds=0.2) as (ours, _),
        an_engine(place, tmp_path) as (theirs, _),
    ):
        session = await ours.create_session(cwd=tmp_path)
        await session.run("first")
        await until_leases(place, 0)
        their_session = await theirs.open_session(session.id)
        await their_session.run("second")
        asked = len(their_session.events())
        result = await session.run("third")
        assert (result.stop_reason, result.durable, result.steps) == ("aborted", False, 0)
        with pytest.raises(SessionElsewhere):
            await ours.open_session(session.id)
        await theirs.close_session(session.id)
        again = await ours.open_session(session.id)
        assert len(again.events()) == asked
        assert again.state.turns == 2
        assert (await again.run("fourth")).durable
        # Who still has the old handle is told to open it again.
        with pytest.raises(engine.EngineError, match="open it again"):
            await session.run("fifth")
