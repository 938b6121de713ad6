"""Who looks after the sessions of dead engines, how soon, and what becomes of them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ConfigError
from engine.core.events import CallStarted, Durable, Notice, TurnEnded, TurnResumed, TurnStarted
from engine.core.ids import SessionId, TurnId
from engine.fleet.sweeper import sweep
from engine.store.memory import MemoryStore
from engine.store.postgres.open import open_postgres_store
from engine.store.store_protocols import AbandonedSession
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.fakes import CountingIds
from tests.fleet.fleet_engine import CALLS, EFFECTS, open_engine
from tests.fleet.interrupted import SESSION, home_of, whole_turn
from tests.store.full_suite import put_all
from tests.store.journals import A, B, created, numbered
from tests.store.server import Database, a_database, shared_server
from tests.support.processes import python_process, read_line

NAME = SessionId("ses_1")
# Another machine, as far as an engine can tell: its processes are in a namespace of their own.
ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child")


def can_unshare() -> bool:
    return os.geteuid() == 0 and subprocess.run([*ELSEWHERE, "true"], capture_output=True, check=False).returncode == 0


# ---- in memory -------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class AbandonedStore(MemoryStore):
    """A store with a session whose engine has died, until another one has claimed it."""

    is_found: bool = False

    async def abandoned_sessions(self) -> Sequence[AbandonedSession] | None:
        await trio.lowlevel.checkpoint()
        if self.is_found:
            return []
        self.is_found = True
        return [AbandonedSession(id=SESSION, root_id=SESSION, cwd="/opt", host="elsewhere", pid=7)]


def test_cancelled_sweep_leaves_no_turn_between_engines(is_full: bool) -> None:
    """Whenever it is cancelled: the turn is untouched, goes on, or has ended; none is left open that nobody runs."""
    left: list[Durable] = []

    async def prepare() -> CountingIds:
        home, events = await whole_turn()
        cut = next(index for index, event in enumerate(events) if isinstance(event, CallStarted)) + 1
        left.extend(events[:cut])
        return home.ids

    ids = trio.run(prepare, clock=trio.testing.MockClock(autojump_threshold=0))
    used = len(left)

    @contextmanager
    def case() -> Generator[Callable[[], Awaitable[None]]]:
        home = home_of((), attrs.evolve(ids))
        store = home.store = AbandonedStore()
        for event in left:
            store.put(event)
        state: list[tuple[bool, bool]] = []

        async def swept() -> None:
            async with home.open() as eng:
                try:
                    with trio.move_on_after(0.05):
                        await sweep(eng)
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(30)
                        session = await eng.open_session(SESSION)
                        state.append((session.state.turn is None, len(session.events()) > used))

        yield swept
        assert all(is_over for is_over, _ in state), state

    cancel_everywhere(case, by=("scope",), every=1 if is_full else 3, limit=100.0)


async def test_sweep_needs_a_shared_store(tmp_path: Path) -> None:
    async with home_of(()).open() as eng:
        with pytest.raises(ConfigError, match="only sessions in PostgreSQL"):
            await sweep(eng)


# ---- on a database ---------------------------------------------------------------------------------------------------


def do(place: str, statement: str) -> None:
    with shared_server().connected(place) as connection:
        connection.execute(statement.encode())


async def until_ended(eng: engine.Engine, session_id: str) -> list[Durable]:
    """Wait for the end of the turn, however far another engine has come; return all events."""
    events: list[Durable] = []
    with trio.fail_after(60):
        async for event in eng.watch_session(session_id):
            events.append(event)
            if isinstance(event, TurnEnded):
                break
    return events


async def killed_at_work(place: str, folder: Path, *, elsewhere: bool = False) -> float:
    """Kill an engine in the middle of its second call; return when."""
    arguments = ("-m", "tests.fleet.lone_engine", "work", place, str(folder), NAME, "20")
    prefix = ELSEWHERE if elsewhere else ()
    with python_process(*arguments, prefix=prefix, stderr=subprocess.DEVNULL) as worker:
        line = await trio.to_thread.run_sync(read_line, worker)
        assert line.startswith("started")
        # The tool has had its effect.
        with trio.fail_after(60):
            while not shared_rows(place, "SELECT 1 FROM public.effects"):
                await trio.sleep(0.01)
        killed = time.time()
        os.kill(worker.pid, signal.SIGKILL)
        await trio.to_thread.run_sync(worker.wait)
    return killed


def shared_rows(place: str, statement: str) -> list[tuple[object, ...]]:
    with shared_server().connected(place) as connection:
        return connection.execute(statement.encode()).fetchall()


@pytest.mark.os
@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_killed_engines_turn_goes_on(place: str, tmp_path: Path, elsewhere: bool) -> None:
    """On the same machine at once, from another one when the lease is over."""
    if elsewhere and not can_unshare():
        pytest.skip("only root has other PID namespaces")
    do(place, EFFECTS)
    store = await open_postgres_store(place, lease_seconds=2)
    async with open_engine(store, place, tmp_path) as eng, trio.open_nursery() as nursery:
        nursery.start_soon(partial(sweep, eng, seconds=0.1))
        killed = await killed_at_work(place, tmp_path, elsewhere=elsewhere)
        events = await until_ended(eng, NAME)
        (resumed,) = (event.time for event in events if isinstance(event, TurnResumed))
        # On an idle machine: 0.2 s, and between 1.5 and 2.2 s.
        assert resumed - killed < 20
        if elsewhere:
            assert resumed - killed > 1
        nursery.cancel_scope.cancel()
    done = shared_rows(place, "SELECT call, count(*) FROM public.effects GROUP BY call")
    assert [times for _, times in done] == [1] * len(done)
    assert len(done) == CALLS


@pytest.mark.os
@pytest.mark.slow
async def test_turn_without_its_folder_is_left_to_its_user(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    do(place, EFFECTS)
    await killed_at_work(place, folder)
    for left in sorted(folder.rglob("*"), reverse=True):
        left.rmdir() if left.is_dir() else left.unlink()
    folder.rmdir()
    store = await open_postgres_store(place, lease_seconds=2)
    async with open_engine(store, place, tmp_path) as eng, trio.open_nursery() as nursery:
        nursery.start_soon(partial(sweep, eng, seconds=0.1))
        events = await until_ended(eng, NAME)
        with trio.fail_after(60):
            # The session is free again, for who has the folder.
            while shared_rows(place, "SELECT 1 FROM engine.leases"):
                await trio.sleep(0.02)
        events = list(await store.load(NAME))
        nursery.cancel_scope.cancel()
    (notice,) = (event for event in events if isinstance(event, Notice))
    assert f"there is no folder {folder}" in notice.text
    ended = [event.result.stop_reason for event in events if isinstance(event, TurnEnded)]
    assert ended == ["aborted"]


@pytest.fixture
def database() -> Generator[Database]:
    with a_database() as found:
        yield found


@pytest.mark.os
async def test_one_engine_looks_after_others(database: Database) -> None:
    first, second = await database.open(), await database.open()
    assert await first.abandoned_sessions() == []
    assert await first.abandoned_sessions() == []
    assert await second.abandoned_sessions() is None
    # Its connection is gone: whoever asks first has it.
    database.kill_connections()
    assert await second.abandoned_sessions() == []
    assert await first.abandoned_sessions() is None
    await second.aclose()
    with trio.fail_after(60):
        while await first.abandoned_sessions() is None:
            await trio.sleep(0.02)
    await first.aclose()


@pytest.mark.os
async def test_each_tenant_looks_after_its_own(database: Database) -> None:
    stores = [await database.open(tenant=tenant) for tenant in ("acme", "bolt")]
    for store, name in zip(stores, (A, B), strict=True):
        await put_all(store, numbered([created(), TurnStarted(turn_id=TurnId("t"))], name))
    assert [await store.abandoned_sessions() for store in stores] == [[], []]
    database.do("UPDATE {}.leases SET owner = 'dead', machine = 'there', host = 'h', pid = 7, expires = now()")
    abandoned = [await store.abandoned_sessions() for store in stores]
    assert [[(one.id, one.host, one.pid) for one in found or ()] for found in abandoned] == [
        [(A, "h", 7)],
        [(B, "h", 7)],
    ]
    for store in stores:
        await store.aclose()


@pytest.mark.os
async def test_sweep_outlives_the_database(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once that it can't look, and it goes on when it can."""
    store = await database.open(timeout=0.2)
    place = database.server.url("postgres")
    with caplog.at_level(logging.WARNING):
        async with open_engine(store, place, tmp_path) as eng, trio.open_nursery() as nursery:
            nursery.start_soon(partial(sweep, eng, seconds=0.05))
            database.do("ALTER TABLE {}.leases RENAME TO away")
            with trio.fail_after(60):
                while not caplog.records:
                    await trio.sleep(0.02)
            await trio.sleep(0.3)
            assert len(caplog.records) == 1
            database.do("ALTER TABLE {}.away RENAME TO leases")
            nursery.cancel_scope.cancel()
