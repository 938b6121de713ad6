"""How a database gets to the present tables: made, lifted by one of those who come at once, or refused."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import trio

from engine.core.errors import StoreError, StoreMismatch
from engine.core.ids import SessionId
from engine.journal.codec import encode_event
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect
from engine.store.postgres.schema import PRESENT, TABLES, TABLES_1, VERSION, PostgresMigration, migrate
from tests.store.full_suite import put_all
from tests.store.journals import A, noted, notes, session
from tests.store.server import Database, a_database

pytestmark = pytest.mark.os


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


def address_of(database: Database) -> Address:
    return Address.of(database.server.dsn(), namespace=database.namespace, timeout=5)


def lifted(database: Database, plan: PostgresMigration) -> None:
    address = address_of(database)
    with connect(address) as connection:
        migrate(connection, address, plan)


def version(database: Database) -> object:
    return database.do("SELECT value FROM {}.engine_store WHERE name = 'version'")[0][0]


def _colour(connection: Connection) -> None:
    connection.execute("ALTER TABLE sessions ADD COLUMN colour text")


def _break(connection: Connection) -> None:
    connection.execute("ALTER TABLE sessions ADD COLUMN shape text")
    connection.execute("SELECT 1/0")


LATER = PostgresMigration(version=VERSION + 1, tables=TABLES, steps={VERSION: _colour})


async def test_concurrent_creation_makes_one_schema(database: Database) -> None:
    async with trio.open_nursery() as nursery:

        async def come(number: int) -> None:
            store = await database.open()
            await put_all(store, notes(SessionId(f"ses_{number}"), 1))
            await store.aclose()

        for number in range(8):
            nursery.start_soon(come, number)
    assert version(database) == VERSION
    store = await database.open()
    assert len(await store.list_sessions()) == 8
    await store.aclose()


async def test_migration_runs_once_and_keeps_data(database: Database) -> None:
    store = await database.open()
    await put_all(store, notes(A, 3))
    await store.aclose()
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(trio.to_thread.run_sync, lifted, database, LATER)
    assert version(database) == VERSION + 1
    assert database.do("SELECT count(colour), count(*) FROM {}.sessions") == [(0, 1)]


async def test_version_1_is_migrated_with_its_data(database: Database) -> None:
    lifted(database, PostgresMigration(version=1, tables=TABLES_1))
    database.do("INSERT INTO {}.writers VALUES ('of version 1', 7, now())")
    store = await database.open()
    await put_all(store, notes(A, 3))
    await store.aclose()
    with a_database(database.server) as fresh:
        lifted(fresh, PRESENT)
        assert columns(database) == columns(fresh)
    assert version(database) == VERSION
    assert database.do("SELECT owner, number FROM {}.writers") == [("of version 1", 7)]


def columns(database: Database) -> list[tuple[object, ...]]:
    """The columns, the indexes, and the settings of all tables."""
    return database.do(
        "SELECT relname, reloptions::text, attname, atttypid::regtype::text, attnotnull FROM pg_class"
        " LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0"
        " WHERE relnamespace = '{}'::regnamespace ORDER BY relname, attnum"
    )


async def test_failing_migration_leaves_everything(database: Database) -> None:
    store = await database.open()
    await put_all(store, notes(A, 3))
    with pytest.raises(psycopg.errors.DivisionByZero):
        lifted(
            database,
            PostgresMigration(version=VERSION + 2, tables=TABLES, steps={VERSION: _colour, VERSION + 1: _break}),
        )
    with pytest.raises(StoreMismatch, match="no migration of the store's tables from version"):
        lifted(database, PostgresMigration(version=VERSION + 2, tables=TABLES, steps={VERSION: _colour}))
    assert version(database) == VERSION
    await put_all(store, notes(A, 1, after=3))
    await store.aclose()


async def test_newer_tables_are_refused_and_end_connections(database: Database) -> None:
    store = await database.open()
    await put_all(store, notes(A, 3))
    lifted(database, LATER)
    store.put(noted(A, 4))
    with pytest.raises(StoreError, match="made by a newer engine"):
        await store.flushed(A, 4)
    with pytest.raises(StoreMismatch, match="made by a newer engine") as caught:
        await database.open()
    assert caught.value.is_newer
    with pytest.raises(StoreError, match="made by a newer engine"):
        await store.aclose()
    assert database.do("SELECT max(seq) FROM {}.events") == [(3,)]


async def test_migration_excludes_writers(database: Database) -> None:
    """A writer and whoever lifts wait for each other; here for the one that changes the tables."""
    store = await database.open(timeout=10)
    await put_all(store, notes(A, 3))
    address = address_of(database)
    with connect(address) as connection:
        connection.execute("BEGIN")
        migrate(connection, address, LATER)
        store.put(noted(A, 4))
        with trio.move_on_after(0.3):
            await store.flushed(A, 4)
            pytest.fail("it was written between two versions")
        connection.execute("COMMIT")
    with pytest.raises(StoreError, match="made by a newer engine"):
        await store.flushed(A, 4)
    with pytest.raises(StoreError, match="made by a newer engine"):
        await store.aclose()


@pytest.mark.parametrize("table", ["mine (a int)", "engine_store (name text, value float8)"])
async def test_foreign_schema_is_not_changed(database: Database, table: str) -> None:
    database.do("CREATE SCHEMA {}")
    database.do(f"CREATE TABLE {{}}.{table}")
    with pytest.raises(StoreMismatch, match="another program's tables"):
        await database.open()
    assert database.do("SELECT count(*) FROM pg_class WHERE relnamespace = '{}'::regnamespace AND relkind = 'r'") == [
        (1,)
    ]


async def test_stores_of_two_schemas_share_a_database(database: Database) -> None:
    with a_database(database.server) as beside:
        ours, theirs = await database.open(), await beside.open()
        await put_all(ours, notes(A, 3))
        await put_all(theirs, notes(A, 5))
        assert (len(await ours.load(A)), len(await theirs.load(A))) == (3, 5)
        await ours.aclose()
        await theirs.aclose()


def test_the_present_plan_makes_the_present_tables(database: Database) -> None:
    lifted(database, PRESENT)
    assert version(database) == VERSION


async def test_rows_of_version_1_belong_to_no_tenant(database: Database) -> None:
    lifted(database, PostgresMigration(version=1, tables=TABLES_1))
    journal = session(A, ("needle", "done"))
    for event in journal:
        database.do("INSERT INTO {}.events VALUES (%s, %s, 'x', 1, %s)", A, event.seq, encode_event(event))
    database.do(
        "INSERT INTO {}.sessions (id, root_id, created, updated, seq) VALUES (%s, %s, 1, 2, %s)", A, A, len(journal)
    )
    database.do("INSERT INTO {}.leases VALUES (%s, 'old', 'another', 'h', 1, 1, now() + interval '1 hour')", A)
    store, other = await database.open(), await database.open(tenant="acme")
    assert list(await store.load(A)) == journal
    assert [row.holder for row in await store.list_sessions()] == ["elsewhere"]
    assert await other.list_sessions() == []
    await other.aclose()
    await store.aclose()
