"""Leases in time: they last while an engine lives, and end with its silence."""

from __future__ import annotations

import gc
import sqlite3
import weakref
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.errors import SessionElsewhere, StoreError
from engine.process.procfs import ProcessId
from engine.store.leases import Lease, Owner
from engine.store.sqlite.store import open_sqlite_store
from tests.store.journals import A, noted, notes

pytestmark = pytest.mark.os

ME = Owner(id="me", machine="here", host="h", process=ProcessId(1, 1), seconds=60)
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
    ],
)
def test_liveness(lease: Lease, *, is_live: bool) -> None:
    assert ME.is_live(lease) is is_live
    assert ME.may_take(lease) is not is_live


def expires(path: Path) -> float:
    connection = sqlite3.connect(path)
    found: float = connection.execute("SELECT expires FROM leases").fetchone()[0]
    connection.close()
    return found


async def test_a_lease_is_renewed_while_the_engine_lives(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    ours, theirs = await open_sqlite_store(path, lease_seconds=3), await open_sqlite_store(path)
    await ours.claim(A)
    first = expires(path)
    with trio.fail_after(60):
        while expires(path) < first + 2:
            with pytest.raises(SessionElsewhere):
                await theirs.claim(A)
            await trio.sleep(0.02)
    await ours.aclose()
    await theirs.claim(A)
    await theirs.aclose()


async def test_silent_engine_loses_its_sessions(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    ours, theirs = await open_sqlite_store(path, lease_seconds=0.2), await open_sqlite_store(path)
    for event in notes(A, 3):
        ours.put(event)
    await ours.flushed(A, 3)
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
    assert list(await ours.load(A)) == notes(A, 4)
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
    assert heart._stopped.is_set()


def test_lease_fields_match_the_table() -> None:
    assert [field.name for field in attrs.fields(Lease)] == ["owner", "machine", "host", "pid", "started", "expires"]
