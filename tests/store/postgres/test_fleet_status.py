"""What the database alone knows of a fleet."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
import trio

from engine.core.ids import SessionId
from engine.store.fleet_status import FleetStatus
from engine.store.work_queue import TaskSpec
from tests.store.full_suite import put_all
from tests.store.journals import A, B, session
from tests.store.server import Database, a_database

pytestmark = pytest.mark.os


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


async def status_of(database: Database) -> FleetStatus:
    store = await database.open()
    status = await store.fleet_status()
    await store.aclose()
    return status


async def test_empty_database_has_no_fleet(database: Database) -> None:
    status = await status_of(database)
    assert status.engines == []
    assert status.sessions == {"idle": 0, "busy": 0, "waiting": 0, "interrupted": 0}
    assert (status.leases, status.tasks, status.queue_age) == (
        {"held": 0, "expired": 0},
        {"waiting": 0, "running": 0},
        None,
    )
    assert (status.outcomes, status.permits) == ({}, {"held": 0, "denied": 0, "cooldowns": 0})


async def test_status_counts_what_there_is(database: Database) -> None:
    store = await database.open()
    await put_all(store, session(A, ("hi", "ho")), session(B, ("hi", "ho")))
    # A turn that has not ended, here and in an engine that is gone.
    lost = SessionId("ses_lost")
    await put_all(store, session(SessionId("ses_busy"), ("hi", "ho"))[:4], session(lost, ("hi", "ho"))[:4])
    database.do("UPDATE {}.leases SET expires = now() - interval '1 s' WHERE session_id = %s", lost)
    for key in "abc":
        await store.tasks.add(TaskSpec(key=key, session_id=SessionId(f"ses_of_{key}"), text="do it", cwd="/"))
    database.do("UPDATE {}.tasks SET enqueued = now() - interval '5 minutes' WHERE key = 'c'")
    for _ in range(2):
        assert await store.tasks.take(most_attempts=5) is not None
    assert await store.tasks.end("a", "completed", "")
    database.do(
        "INSERT INTO {}.paces (host, model, key_hash, cooldown_until) VALUES ('h', 'm', 'k', now() + interval '1 h')"
    )
    database.do("INSERT INTO {}.pace_blocks VALUES ('h', 'm', 'k', 'o', 3, 5, NULL, NULL, now() + interval '1 h')")
    status = await status_of(database)
    assert status.sessions == {"idle": 2, "busy": 1, "waiting": 0, "interrupted": 1}
    assert (status.leases, status.tasks) == ({"held": 3, "expired": 1}, {"waiting": 1, "running": 1})
    assert (status.outcomes, status.permits) == ({"completed": 1}, {"held": 3, "denied": 2, "cooldowns": 1})
    assert status.queue_age is not None
    assert 299 < status.queue_age < 400
    (engine,) = status.engines
    assert (engine.owner, engine.leases) == (store._sink.owner.id, 4)
    assert status.notification_seconds is not None
    assert 2 <= status.connections["engines"] <= status.connections["all"] <= status.connections["limit"]
    await store.aclose()


async def test_engines_write_their_figures(database: Database) -> None:
    store = await database.open(lease_seconds=1)
    await put_all(store, session(A, ("hi", "ho")))
    status = await status_of(database)
    with trio.fail_after(60):
        while not status.engines[0].figures:
            await trio.sleep(0.1)
            status = await status_of(database)
    figures = status.engines[0].figures
    assert figures["commits"] >= 1
    assert 0 < figures["commit_seconds"] < 60
    assert figures["flushes"] >= 1
    # It takes over what another engine has lost.
    database.do("INSERT INTO {}.leases VALUES (%s, 'dead', 'x', 'h', 1, 1, now() - interval '1 s', '')", B)
    await store.claim(B)
    with trio.fail_after(60):
        while status.engines[0].figures["takeovers"] != 1:
            await trio.sleep(0.1)
            status = await status_of(database)
    assert set(attrs.asdict(status)) >= {"engines", "sessions", "leases", "tasks", "permits", "connections"}
    await store.aclose()
