"""The queue of tasks in PostgreSQL: each task has one worker at a time, whatever becomes of workers and of their calls."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import trio

from engine.core.errors import InputConflict
from engine.core.ids import SessionId
from engine.store.postgres.store import PostgresStore
from engine.store.work_queue import QueuedTask, TaskSpec
from tests.store.full_suite import put_all
from tests.store.journals import A, session
from tests.store.server import Database, a_database

pytestmark = pytest.mark.os


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


def spec(key: str, session_id: str = "") -> TaskSpec:
    return TaskSpec(key=key, session_id=SessionId(session_id or f"ses_{key}"), text=f"do {key}", cwd="/")


async def take(store: PostgresStore, most_attempts: int = 5) -> str:
    """Take a task; return its key, or nothing."""
    task = await store.tasks.take(most_attempts=most_attempts)
    return "" if task is None else task.spec.key


async def found(store: PostgresStore, key: str) -> QueuedTask:
    task = await store.tasks.find(key)
    assert task is not None
    return task


def is_elsewhere(database: Database) -> None:
    """Let the leases be those of another machine, where nobody can see whether their engine lives."""
    database.do("UPDATE {}.leases SET machine = 'another'")


async def test_oldest_task_is_taken_first(database: Database) -> None:
    store = await database.open()
    for key in "cab":
        await store.tasks.add(spec(key))
    assert [await take(store) for _ in range(4)] == ["c", "a", "b", ""]
    await store.aclose()


async def test_same_key_adds_nothing(database: Database) -> None:
    store = await database.open()
    first = await store.tasks.add(spec("a"))
    assert (await store.tasks.add(spec("a"))).enqueued == first.enqueued
    with pytest.raises(InputConflict, match="'a' was used before"):
        await store.tasks.add(TaskSpec(key="a", session_id=SessionId("ses_a"), text="something else", cwd="/"))
    assert await take(store) == "a"
    assert await store.tasks.end("a", "completed", "")
    again = await store.tasks.add(spec("a"))
    assert (again.state, again.outcome) == ("ended", "completed")
    assert await take(store) == ""
    await store.aclose()


async def test_concurrent_workers_take_each_task_once(database: Database) -> None:
    stores = [await database.open() for _ in range(4)]
    keys = [f"{number:03}" for number in range(60)]
    for key in keys:
        await stores[0].tasks.add(spec(key))
    taken: list[str] = []

    async def work(store: PostgresStore) -> None:
        while key := await take(store):
            taken.append(key)
            assert await store.tasks.end(key, "completed", "")

    async with trio.open_nursery() as nursery:
        for store in stores:
            nursery.start_soon(work, store)
    assert sorted(taken) == keys
    assert len(await stores[0].tasks.list(limit=100, ended=True)) == 60
    assert await stores[0].tasks.list(limit=100, ended=False) == []
    for store in stores:
        await store.aclose()
    assert database.do("SELECT count(*) FROM {}.leases") == [(0,)]


async def test_tasks_of_a_session_run_one_by_one(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    for key in "ab":
        await ours.tasks.add(spec(key, A))
    assert [await take(ours), await take(ours), await take(theirs)] == ["a", "", ""]
    await ours.tasks.give_back("a", after=60, detail="later", counts=True)
    assert await take(theirs) == ""  # still the older one comes first
    database.do("UPDATE {}.tasks SET not_before = now()")
    assert await take(theirs) == "a"
    assert await theirs.tasks.end("a", "completed", "")
    assert await take(ours) == "b"
    await ours.aclose()
    await theirs.aclose()


async def test_task_waits_for_a_session_that_is_open(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    await put_all(ours, session(A, ("hi", "ho")))
    await theirs.tasks.add(spec("a", A))
    assert [await take(theirs), await take(ours)] == ["", ""]
    ours.release(A)
    await ours.released()
    assert await take(theirs) == "a"
    await ours.aclose()
    await theirs.aclose()


async def test_expired_lease_is_taken_over(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    await ours.tasks.add(spec("a"))
    assert await take(ours) == "a"
    is_elsewhere(database)
    assert await take(theirs) == ""
    database.do("UPDATE {}.leases SET expires = now() - interval '1 ms'")
    assert (await found(theirs, "a")).state == "waiting"
    assert await take(theirs) == "a"
    # Whoever has lost it changes nothing any more.
    assert not await ours.tasks.end("a", "completed", "")
    await ours.tasks.give_back("a", after=0, detail="", counts=False)
    task = await found(theirs, "a")
    assert (task.state, task.attempts) == ("running", 2)
    assert await theirs.tasks.end("a", "completed", "")
    await ours.aclose()
    await theirs.aclose()


async def test_dead_worker_of_this_machine_loses_its_task_at_once(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    await ours.tasks.add(spec("a"))
    assert await take(ours) == "a"
    # No process has this number.
    database.do("UPDATE {}.leases SET pid = 2147483646")
    assert await take(theirs) == "a"
    await ours.aclose()
    await theirs.aclose()


async def test_lease_is_renewed_while_a_task_runs(database: Database) -> None:
    ours, theirs = await database.open(lease_seconds=1), await database.open()
    await ours.tasks.add(spec("a"))
    assert await take(ours) == "a"
    is_elsewhere(database)
    began = database.do("SELECT expires FROM {}.leases")
    with trio.fail_after(60):
        while database.do("SELECT expires FROM {}.leases") == began:
            await trio.sleep(0.05)
    assert await take(theirs) == ""
    await ours.aclose()
    await theirs.aclose()


async def test_task_is_given_up_after_so_many_attempts(database: Database) -> None:
    store = await database.open()
    await store.tasks.add(spec("a"))
    await store.tasks.add(spec("b"))
    for attempt in range(1, 3):
        assert await take(store, 2) == "a"
        assert (await found(store, "a")).attempts == attempt
        await store.tasks.give_back("a", after=0, detail="no such folder", counts=True)
    assert await take(store, 2) == "b"
    task = await found(store, "a")
    assert (task.outcome, task.detail) == ("failed", "2 workers have taken it, and none has ended it. no such folder")
    await store.aclose()


async def test_drained_worker_does_not_count(database: Database) -> None:
    store = await database.open()
    await store.tasks.add(spec("a"))
    for _ in range(5):
        assert await take(store, 2) == "a"
        await store.tasks.give_back("a", after=0, detail="drained", counts=False)
    assert (await found(store, "a")).attempts == 0
    await store.aclose()


async def test_task_that_waits_is_cancelled(database: Database) -> None:
    store = await database.open()
    for key in "ab":
        await store.tasks.add(spec(key))
    assert await take(store) == "a"
    assert [await store.tasks.cancel(key) for key in "abx"] == [False, True, False]
    assert not await store.tasks.cancel("b")
    assert (await found(store, "b")).outcome == "cancelled"
    assert await take(store) == ""
    await store.aclose()


async def test_cancelled_take_leaves_the_task(database: Database) -> None:
    """Cancelled at any moment: the task is taken and known to be, or waits for the next one, uncounted."""
    store, other = await database.open(), await database.open()
    await store.tasks.add(spec("a"))
    dice = random.Random(3)
    cancelled = 0
    for _ in range(60):
        task: QueuedTask | None = None
        with trio.move_on_after(dice.random() ** 2 * 0.02) as scope:
            task = await store.tasks.take(most_attempts=5)
        if task is None:
            cancelled += scope.cancelled_caught
            await store.released()  # everything that was queued is done
            left = await found(other, "a")
            assert (left.state, left.attempts) == ("waiting", 0)
        else:
            await store.tasks.give_back("a", after=0, detail="", counts=False)
    assert cancelled > 5
    assert await take(other) == "a"
    await store.aclose()
    await other.aclose()


async def test_closed_store_releases_its_tasks(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    await ours.tasks.add(spec("a"))
    assert await take(ours) == "a"
    await ours.aclose()
    assert await take(theirs) == "a"
    await theirs.aclose()
