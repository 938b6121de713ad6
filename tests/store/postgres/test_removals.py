"""Deleting a long session: invisible at once, removed in batches, and finished by the next store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest
import trio
import trio.lowlevel

from engine.store.postgres.removals import BATCH
from engine.store.store_protocols import SessionQuery
from tests.store.full_suite import put_all
from tests.store.journals import A, B, notes, session
from tests.store.server import Database, a_database

pytestmark = pytest.mark.os

# Refuses a transaction that removes more than a batch.
LIMIT = f"""
CREATE FUNCTION {{}}.limit_rows() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    IF (SELECT count(*) FROM removed) > {BATCH} THEN RAISE EXCEPTION 'too many rows at once'; END IF; RETURN NULL;
END$$;
CREATE TRIGGER limit_rows AFTER DELETE ON {{}}.events REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION {{}}.limit_rows();
"""


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


def count(database: Database, table: str) -> int:
    return cast("int", database.do(f"SELECT count(*) FROM {{}}.{table}")[0][0])


async def test_long_session_is_removed_in_batches(database: Database) -> None:
    store = await database.open()
    await put_all(store, notes(A, 3 * BATCH + 7), session(B, ("needle", "done")))
    store.release(A)
    await store.released()
    database.do(LIMIT)
    before = store.health().commits
    assert await store.delete(A) == (A,)
    assert store.health().commits - before >= 4
    assert (count(database, "events"), count(database, "removals")) == (len(session(B, ("needle", "done"))), 0)
    await store.aclose()


async def test_cancelled_deletion_is_whole_and_finished_later(database: Database) -> None:
    """Cancelled after each number of transactions: the session is there as it was, or gone for all readers."""
    whole = session(A, *[("needle", "done")] * 300)
    assert len(whole) > 2 * BATCH
    store = await database.open()
    outcomes: set[tuple[bool, bool]] = set()
    for most in range(6):
        await put_all(store, whole)
        store.release(A)
        await store.released()
        start = store.health().commits
        async with trio.open_nursery() as nursery:

            async def delete() -> None:
                await store.delete(A)

            nursery.start_soon(delete)
            with trio.move_on_after(20):
                while store.health().commits < start + most and count(database, "events"):
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel(reason="test")
        other = await database.open()
        is_whole = len(await other.load(A)) == len(whole)
        assert is_whole or not await other.load(A)
        assert (await other.open_session(A) is not None) is is_whole
        assert ([row.id for row in await other.list_sessions()] == [A]) is is_whole
        assert bool(await other.search("needle")) is is_whole
        assert A not in other.damaged
        outcomes.add((is_whole, count(database, "removals") > 0))
        # By another engine, with another session; or since the id is used again.
        if most % 2:
            await put_all(other, notes(B, 1))
            other.release(B)
            await other.released()
            await other.delete(B)
            assert is_whole or count(database, "events") == 0
        if is_whole:
            await other.delete(A)
        await put_all(other, notes(A, 2))
        assert list(await other.load(A)) == notes(A, 2)
        await other.aclose()
        assert count(database, "events") == 2
        await store.delete(A)
        assert (count(database, "events"), count(database, "removals"), count(database, "texts")) == (0, 0, 0)
    assert (False, True) in outcomes
    await store.aclose()


@pytest.mark.parametrize("cwd", [None, "/home/dev/1"])
async def test_list_reads_only_what_it_shows(database: Database, cwd: str | None) -> None:
    """A page of ten among ten thousand, in order; read from an index, and not sorted."""
    store = await database.open()
    database.do(
        "INSERT INTO {}.sessions (tenant, id, root_id, cwd, created, updated, seq)"
        " SELECT '', 'ses_' || n, 'ses_' || n, '/home/dev/' || n % 2, n, n, 1 FROM generate_series(1, 10000) AS n;"
        " ANALYZE {}.sessions"
    )
    rows = await store.list_sessions(SessionQuery(limit=10, cwd=cwd))
    step = 1 if cwd is None else 2
    last = 10_000 if cwd is None else 9_999
    assert [row.id for row in rows] == [f"ses_{last - step * number}" for number in range(10)]
    await store.aclose()
    where = "cwd = '/home/dev/1'" if cwd else "true"
    plan = database.do(
        f"EXPLAIN SELECT id FROM {{}}.sessions WHERE tenant = '' AND parent_id IS NULL AND {where}"
        " ORDER BY parent_id DESC, updated DESC, id DESC LIMIT 10"
    )
    assert "Sort" not in str(plan)
