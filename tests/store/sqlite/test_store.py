"""The store in a file: the port, and all that it can do beyond, in both ways of journalling and in memory."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Generator
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, TypeVar, cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from engine.core.errors import StoreError
from engine.store.backend import TableReader
from engine.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.full_suite import FullPlace, FullSuite
from tests.store.journals import A, noted, session

T = TypeVar("T")

# Where nothing waits for a disk: hundreds of files are made here.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

# On a machine of which a file system tells that it is another machine's.
NFS = "1 0 0:1 / / rw - ext4 /dev/root rw\n2 1 0:2 / {path} rw - nfs4 server:/ rw\n"


@attrs.frozen
class File:
    path: Path
    mounts: Path

    async def open(self) -> SqliteStore:
        return await open_sqlite_store(self.path, mounts=self.mounts, lock_timeout=5)


class TestInAFile(FullSuite):
    @contextlib.contextmanager
    def places(self) -> Generator[FullPlace]:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            yield File(Path(folder) / "sessions.db", Path(folder) / "no mounts")


class TestOnANetwork(FullSuite):
    @contextlib.contextmanager
    def places(self) -> Generator[FullPlace]:
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            mounts = Path(folder) / "mounts"
            mounts.write_text(NFS.format(path=folder))
            yield File(Path(folder) / "sessions.db", mounts)


async def test_memory_store_behaves_alike_until_closed() -> None:
    store = await open_sqlite_store(":memory:")
    events = session(A, ("Fix the parser", "done"))
    for event in events:
        store.put(event)
    await store.flushed(A, len(events))
    assert list(await store.load(A)) == events
    assert [row.title for row in await store.list_sessions()] == ["Fix the parser"]
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(store.search, "parser")
            nursery.start_soon(store.load, A)
            store.put(noted(A, (store._session_writes[A].last) + 1))
    assert len(await store.load(A)) == len(events) + 20
    await store.aclose()
    with pytest.raises(StoreError, match="closed"):
        await store.load(A)
    again = await open_sqlite_store(":memory:")
    assert list(await again.load(A)) == []
    await again.aclose()


class CountedReads(SqliteStore):
    """A store that notes when it is read, and whose sessions have no events."""

    reads: ClassVar[list[float]] = []

    async def _read(self, work: Callable[[TableReader], T]) -> T:
        self.reads.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        return cast("T", [])


async def test_session_without_news_is_read_rarely(autojump_clock: MockClock) -> None:
    store = await open_sqlite_store(":memory:")
    counted = CountedReads(
        path=store.path, mode=store.mode, damaged=(), sink=store._sink, connections=store._connections
    )
    with trio.move_on_after(60):
        await counted.wait_for_events(A, 0)
    pauses = [later - earlier for earlier, later in pairwise(counted.reads)]
    assert pauses[:4] == pytest.approx([0.25, 0.5, 1.0, 2.0])
    assert pauses[4:] == pytest.approx([2.0] * (len(pauses) - 4))
    # Closing waits for a thread, which the clock takes for idleness.
    autojump_clock.autojump_threshold = math.inf
    await store.aclose()
