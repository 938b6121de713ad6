"""The store in PostgreSQL: the port, and all that it can do beyond, as in a file."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import trio

from engine.config.store_config import StoreConfig
from engine.core.errors import SessionElsewhere, StoreError
from engine.core.ids import SessionId
from engine.store.postgres.connections import Connection
from engine.store.postgres.store import WATCH_SECONDS, PostgresStore
from tests.store.full_suite import C, FullPlace, FullSuite, put_all
from tests.store.journals import BEGIN, A, B, noted, notes, session
from tests.store.server import Database, a_database, emptied_database

pytestmark = pytest.mark.os


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


class TestInADatabase(FullSuite):
    def places(self) -> AbstractContextManager[FullPlace]:
        return emptied_database()


# ---- watching --------------------------------------------------------------------------------------------------------


async def test_a_watcher_is_woken_at_once(database: Database) -> None:
    """Long before it would look by itself, which is as long in each round; other programs can hold up only some."""
    ours, theirs = await database.open(), await database.open()
    took: list[float] = []
    async with trio.open_nursery() as nursery:
        for seq in range(1, 16):
            woken = trio.Event()

            async def watch(after: int, woken: trio.Event) -> None:
                assert list(await theirs.wait_for_events(A, after)) == [noted(A, after + 1)]
                woken.set()

            nursery.start_soon(watch, seq - 1, woken)
            await trio.sleep(0.03)
            began = trio.current_time()
            ours.put(noted(A, seq))
            await woken.wait()
            took.append(trio.current_time() - began)
    assert min(took) < WATCH_SECONDS / 4
    await ours.aclose()
    await theirs.aclose()


async def test_watcher_without_listener_misses_nothing(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    seen = 0
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            nonlocal seen
            while seen < 12:
                seen += len(await theirs.wait_for_events(A, seen))

        nursery.start_soon(watch)
        for seq in range(1, 13):
            await trio.sleep(0.02)
            if seq % 4 == 0:
                database.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'")
            ours.put(noted(A, seq))
            await ours.flushed(A, seq)
    assert list(await theirs.load(A)) == notes(A, 12)
    await ours.aclose()
    await theirs.aclose()


async def test_too_long_notification_wakes_all(database: Database) -> None:
    long = SessionId("s" * 9_000)
    ours, theirs = await database.open(), await database.open()
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            assert len(await theirs.wait_for_events(long, 0)) == 1

        nursery.start_soon(watch)
        await trio.sleep(0.05)
        ours.put(noted(long, 1))
    await ours.aclose()
    await theirs.aclose()


# ---- cancelling ------------------------------------------------------------------------------------------------------


async def test_abandoned_read_is_stopped_and_its_connection_dropped(database: Database) -> None:
    store = await database.open(config=StoreConfig(max_readers=8))
    for event in notes(A, 500):
        store.put(event)
    await store.flushed(A, 500)
    began = trio.current_time()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(store._readers.read, lambda connection: connection.execute("SELECT pg_sleep(60)"))
            await trio.sleep(0.2)
            for _ in range(3):
                assert len(await store.load(A)) == 500
            scope.cancel(reason="test")
    assert trio.current_time() - began < 30
    with trio.fail_after(30):
        while store._readers._limiter.borrowed_tokens or database.do(
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
        ):
            await trio.sleep(0.01)
    assert len(await store.load(A)) == 500
    await store.aclose()


async def test_cancels_at_any_moment_leave_nothing_behind(database: Database) -> None:
    """Whatever is asked, and whenever it is cancelled: no connection is lost, and none is left in a transaction."""
    store = await database.open()
    for event in session(A, ("needle", "done")):
        store.put(event)
    dice = random.Random(7)
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: store.load(A),
        lambda: store.open_session(A),
        store.list_sessions,
        lambda: store.search("needle"),
        lambda: store.claim(B),
        lambda: store.wait_for_events(C, 0),
        lambda: store.delete(C),
        lambda: store.prune(older_than=0),
        database.open,
    ]
    cancelled = 0
    for number in range(200):
        with trio.move_on_after(dice.random() ** 3 * 0.02) as scope:
            found = await asks[number % len(asks)]()
            if isinstance(found, PostgresStore):
                with trio.CancelScope(shield=True):
                    await found.aclose()
        cancelled += scope.cancelled_caught
    assert cancelled > 20
    assert len(await store.load(A)) == len(session(A, ("needle", "done")))
    with trio.fail_after(30):
        # The writer's, the listener's, and those of readers that were not cancelled.
        while (
            int(str(database.do("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'engine'")[0][0])) > 10
        ):
            await trio.sleep(0.05)
        while database.do(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'engine' AND state LIKE 'idle in transaction%'"
        ):
            await trio.sleep(0.05)
    await store.aclose()
    with trio.fail_after(30):
        while database.do("SELECT 1 FROM pg_stat_activity WHERE application_name = 'engine'"):
            await trio.sleep(0.05)


async def test_closed_store_says_so(database: Database) -> None:
    store = await database.open()
    store.put(noted(A, 1))
    await store.aclose()
    with pytest.raises(StoreError, match="is closed"):
        await store.load(A)
    with pytest.raises(StoreError, match="closed"):
        store.put(noted(A, 2))
    assert database.do("SELECT 1 FROM {}.leases UNION ALL SELECT 1 FROM {}.writers") == []


# ---- leases ----------------------------------------------------------------------------------------------------------


async def test_leases_use_the_database_clock(database: Database) -> None:
    """Those of an engine on another machine: of that one only silence tells."""
    ours, theirs = await database.open(), await database.open()
    await put_all(ours, notes(A, 3))
    with pytest.raises(SessionElsewhere) as caught:
        await theirs.claim(A)
    assert abs(caught.value.until - time.time() - 60) < 30
    database.do("UPDATE {}.leases SET machine = 'another', expires = now() + interval '1 hour'")
    with pytest.raises(SessionElsewhere):
        await theirs.claim(A)
    database.do("UPDATE {}.leases SET expires = now() - interval '1 ms'")
    assert (await theirs.list_sessions())[0].holder == "nobody"
    await theirs.claim(A)
    ours.put(noted(A, 4, "from the dead"))
    with pytest.raises(StoreError, match="open in another engine"):
        await ours.flushed(A, 4)
    await put_all(theirs, [noted(A, 4)])
    assert list(await ours.load(A)) == notes(A, 4)
    await ours.aclose()
    await theirs.aclose()


async def test_expired_session_is_claimed_once(database: Database) -> None:
    stores = [await database.open() for _ in range(4)]
    for number in range(25):
        name = SessionId(f"ses_{number}")
        database.do("INSERT INTO {}.leases VALUES (%s, 'dead', 'another', 'h', 1, 1, now() - interval '1 s', '')", name)
        got: list[PostgresStore] = []

        async def want(store: PostgresStore, name: SessionId, got: list[PostgresStore]) -> None:
            try:
                await store.claim(name)
            except SessionElsewhere:
                return
            got.append(store)

        async with trio.open_nursery() as nursery:
            for store in stores:
                nursery.start_soon(want, store, name, got)
        assert len(got) == 1
    for store in stores:
        await store.aclose()


async def test_pruning_and_claiming_agree(database: Database) -> None:
    names = [SessionId(f"ses_{number:02}") for number in range(40)]
    stores = [await database.open() for _ in range(3)]
    await put_all(stores[0], *(session(name) for name in names))
    for name in names:
        stores[0].release(name)
    await put_all(stores[0], notes(A, 1))
    gone: list[SessionId] = []
    claimed: list[SessionId] = []

    async def prune(store: PostgresStore) -> None:
        gone.extend(await store.prune(older_than=BEGIN + 1_000_000))

    async def claim() -> None:
        for name in names[::3]:
            try:
                await stores[2].claim(name)
            except SessionElsewhere:
                continue
            if await stores[2].load(name):
                claimed.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prune, stores[0])
        nursery.start_soon(prune, stores[1])
        nursery.start_soon(claim)
    assert len(gone) == len(set(gone))
    assert not set(gone) & set(claimed)
    left = {name for name in names if await stores[0].load(name)}
    assert left == set(names) - set(gone)
    for store in stores:
        await store.aclose()


async def test_stopped_connection_is_not_reused(database: Database) -> None:
    """Not even if the work was done by then: the stop may come late, and would meet another's."""
    store = await database.open()
    used: list[Connection] = []
    go_on = threading.Event()

    def work(connection: Connection) -> None:
        used.append(connection)
        go_on.wait(60)

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store._readers.read, work)
            while not used:  # set in a thread
                await trio.sleep(0.01)
            scope.cancel(reason="test")
    go_on.set()
    with trio.fail_after(30):
        while store._readers._limiter.borrowed_tokens:
            await trio.sleep(0.01)
    assert [connection.closed for connection in used] == [True]
    await store.aclose()
