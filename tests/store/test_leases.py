"""Leases in time: they last while an engine lives, and end with its silence."""

from __future__ import annotations

import gc
import sqlite3
import threading
import weakref
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.errors import SessionElsewhere, StoreError
from engine.core.events import BackgroundEnded, BackgroundStarted, TurnEnded, TurnResult, TurnResumed, TurnStarted
from engine.process.procfs import ProcessId
from engine.store.leases import IDLE, Lease, Owner
from engine.store.sqlite.store import open_sqlite_store
from tests.store.full_suite import put_all
from tests.store.journals import A, created, noted, numbered

pytestmark = pytest.mark.os

ME = Owner(id="me", machine="here", host="h", process=ProcessId(1, 1), seconds=60)
HERE = Owner()
STARTED, ENDED = TurnStarted(), TurnEnded(result=TurnResult(stop_reason="completed"))
FAR = 4e9


@pytest.mark.parametrize(
    ("lease", "is_live"),
    [
        (Lease("me", "here", "h", 1, 1, 0.0), True),  # one's own does not expire until another takes it
        (Lease("other", "there", "h", 1, 1, FAR), True),
        (Lease("other", "there", "h", 1, 1, 0.0), False),
        (Lease("other", "", "h", 1, 1, FAR), True),  # a system that does not tell
        (Lease("other", "here", "h", 2**22 + 1, 1, FAR), False),  # there is no such process
        (Lease("other", "here", "h", 1, 2**60, FAR), False),  # another process has its number now
        (Lease("other", HERE.machine, "h", HERE.process.pid, HERE.process.start_time, IDLE), True),
        (Lease("other", HERE.machine, "h", 2**22 + 1, 1, IDLE), False),
        (Lease("other", "there", "h", 1, 1, IDLE), False),  # free for engines that can't see its process
    ],
)
def test_liveness(lease: Lease, *, is_live: bool) -> None:
    owner = attrs.evolve(ME, machine=HERE.machine) if lease.machine == HERE.machine else ME
    assert owner.is_live(lease) is is_live
    assert owner.may_take(lease) is not is_live


def expires(path: Path) -> float:
    connection = sqlite3.connect(path)
    found: float = connection.execute("SELECT expires FROM leases").fetchone()[0]
    connection.close()
    return found


async def test_a_lease_is_renewed_while_the_engine_lives(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    ours, theirs = await open_sqlite_store(path, lease_seconds=3), await open_sqlite_store(path)
    await put_all(ours, numbered([created(), STARTED], A))
    first = expires(path)
    with trio.fail_after(60):
        while expires(path) < first + 2:
            with pytest.raises(SessionElsewhere):
                await theirs.claim(A)
            await trio.sleep(0.02)
    await ours.aclose()
    await theirs.claim(A)
    await theirs.aclose()


async def until_idle(path: Path) -> None:
    with trio.fail_after(60):
        while expires(path) != IDLE:
            await trio.sleep(0.01)


async def until_no_thread() -> None:
    with trio.fail_after(60):
        while any(thread.name == "engine store leases" for thread in threading.enumerate()):
            await trio.sleep(0.01)


async def test_idle_lease_needs_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    ours, theirs = await open_sqlite_store(path, lease_seconds=0.2), await open_sqlite_store(path)
    await put_all(ours, numbered([created(), STARTED, ENDED], A))
    await until_idle(path)
    await until_no_thread()
    with pytest.raises(SessionElsewhere):
        await theirs.claim(A)
    # The next event renews it at once.
    await put_all(ours, numbered([STARTED], A, after=3))
    assert expires(path) > IDLE
    await ours.aclose()
    await theirs.aclose()


async def test_lease_with_background_work_never_idles(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    ours = await open_sqlite_store(path, lease_seconds=1)
    job = BackgroundStarted(work_id="work_1", kind="command", name="job")
    await put_all(ours, numbered([created(), job, STARTED, ENDED], A))
    renewed = set[float]()
    with trio.fail_after(60):
        while len(renewed) < 4:
            renewed.add(expires(path))
            await trio.sleep(0.02)
    assert IDLE not in renewed
    await put_all(ours, numbered([BackgroundEnded(work_id="work_1")], A, after=4))
    await until_idle(path)
    await ours.aclose()


async def test_engine_without_sessions_has_no_thread(tmp_path: Path) -> None:
    store = await open_sqlite_store(tmp_path / "sessions.db", lease_seconds=0.1)
    await store.claim(A)
    store.release(A)
    await until_no_thread()
    await store.claim(A)
    assert store._heartbeat._end is not None
    await store.aclose()


async def test_silent_engine_loses_its_sessions(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    ours, theirs = await open_sqlite_store(path, lease_seconds=0.2), await open_sqlite_store(path)
    await put_all(ours, numbered([created(), STARTED, TurnResumed()], A))
    ours._heartbeat.stop()
    with trio.fail_after(30):
        while True:
            try:
                await theirs.claim(A)
                break
            except SessionElsewhere:
                await trio.sleep(0.02)
    ours.put(noted(A, 4, "from the dead"))
    with pytest.raises(StoreError, match="open in another engine"):
        await ours.flushed(A, 4)
    theirs.put(noted(A, 4))
    await theirs.flushed(A, 4)
    assert [event.seq for event in await ours.load(A)] == [1, 2, 3, 4]
    await ours.aclose()
    await theirs.aclose()


async def test_unreferenced_store_is_collected(tmp_path: Path) -> None:
    store = await open_sqlite_store(tmp_path / "sessions.db", lease_seconds=0.1)
    await store.claim(A)
    heart, gone = store._heartbeat, weakref.ref(store)
    await store.aclose()
    del store
    gc.collect()
    assert gone() is None
    assert heart.is_stopped


def test_lease_fields_match_the_table() -> None:
    assert [field.name for field in attrs.fields(Lease)] == ["owner", "machine", "host", "pid", "started", "expires"]
