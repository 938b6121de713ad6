"""Files of other versions: lifted in one transaction, or refused and left as they are."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import attrs
import pytest

from engine.core.errors import StoreError, StoreMismatch
from engine.core.events import Notice
from engine.core.messages import UserMessage
from engine.journal.codec import Schema, encode_event
from engine.journal.json_converter import Json
from engine.store.sqlite.migrate import PRESENT, SqliteMigration, migrate, read_version, run_script
from engine.store.sqlite.schema import APPLICATION_ID, VERSION
from engine.store.sqlite.store import open_sqlite_store
from tests.store.journals import A, noted

HERE = Path(__file__).parent.parent
TABLES_OF = {version: HERE / f"tables.v{version}.sql" for version in (1, 2)}
# A session of two turns, line by line as the engine wrote it that made files of that version first.
EVENTS_OF = {version: HERE / f"events.v{version}.jsonl" for version in (1, 2)}


def connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def made(path: Path, version: int) -> None:
    """Make a file as the engine of that version did, with a session in it."""
    connection = connected(path)
    run_script(connection, TABLES_OF[version].read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    bodies = EVENTS_OF[version].read_text(encoding="utf-8").splitlines()
    events = [(event["session_id"], event["seq"], event["type"], event["v"]) for event in map(json.loads, bodies)]
    connection.executemany(
        "INSERT INTO events (session_id, seq, type, version, body) VALUES (?, ?, ?, ?, ?)",
        [(*event, body) for event, body in zip(events, bodies, strict=True)],
    )
    session_id = events[0][0]
    connection.execute(
        "INSERT INTO sessions (id, root_id, title, created, updated, seq) VALUES (?, ?, 'look at the parser', 1, 2, ?)",
        (session_id, session_id, len(events)),
    )
    connection.close()


class OvertakenConnection(sqlite3.Connection):
    """A connection on which another engine makes the file between two statements."""

    before: str
    others: list[sqlite3.Connection]

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        if sql == self.before and self.others:
            migrate(self.others.pop())
        return super().execute(sql)


@pytest.mark.parametrize("before", ["PRAGMA application_id", "PRAGMA user_version", "BEGIN IMMEDIATE"])
def test_another_engine_makes_the_file_meanwhile(tmp_path: Path, before: str) -> None:
    path = tmp_path / "sessions.db"
    other = connected(path)
    other.execute("PRAGMA journal_mode = wal")
    connection = sqlite3.connect(path, isolation_level=None, factory=OvertakenConnection)
    connection.before, connection.others = before, [other]
    migrate(connection)
    assert not connection.others
    assert read_version(connection) == VERSION
    connection.close()
    other.close()


def test_there_is_a_file_of_every_version() -> None:
    assert sorted(TABLES_OF) == sorted(EVENTS_OF) == list(range(1, VERSION + 1))
    assert sorted(PRESENT.steps) == list(range(1, VERSION))


@pytest.mark.parametrize("version", TABLES_OF)
async def test_a_file_of_every_version_is_opened(tmp_path: Path, version: int) -> None:
    path = tmp_path / "sessions.db"
    made(path, version)
    store = await open_sqlite_store(path)
    (row,) = await store.list_sessions()
    assert (row.title, row.seq) == ("look at the parser", 28)
    assert [event.seq for event in await store.load(row.id)] == list(range(1, 29))
    opened = await store.open_session(row.id)
    assert opened is not None
    assert [message.text for message in opened.state.transcript if isinstance(message, UserMessage)] == [
        "look at the parser",
        "again please",
    ]
    assert opened.state.last_result is not None
    assert opened.state.last_result.text == "It is done."
    store.put(noted(row.id, 29))
    await store.flushed(row.id, 29)
    await store.aclose()
    connection = connected(path)
    assert read_version(connection) == VERSION
    tables = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name"
    fresh = connected(tmp_path / "fresh.db")
    migrate(fresh)
    assert connection.execute(tables).fetchall() == fresh.execute(tables).fetchall()
    connection.close()
    fresh.close()


# ---- the machinery, with versions that never were --------------------------------------------------------------------


def one_to_two(connection: sqlite3.Connection) -> None:
    run_script(connection, "ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7;\n")


def two_to_three(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE things SET size = size * 2")


def breaks(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM things")
    raise sqlite3.OperationalError("the disk is full")


ZERO = SqliteMigration(version=0, tables="CREATE TABLE things (name TEXT);\n")
THREE = SqliteMigration(
    version=3,
    tables="CREATE TABLE things (name TEXT, size INTEGER NOT NULL DEFAULT 7);\n",
    steps={0: lambda _: None, 1: one_to_two, 2: two_to_three},
)


def old(path: Path) -> sqlite3.Connection:
    connection = connected(path)
    migrate(connection, ZERO)
    connection.execute("INSERT INTO things VALUES ('a'), ('b')")
    return connection


def things(connection: sqlite3.Connection) -> tuple[int, list[tuple[object, ...]]]:
    return read_version(connection), connection.execute("SELECT * FROM things ORDER BY name").fetchall()


def test_an_older_file_is_lifted_step_by_step(tmp_path: Path) -> None:
    connection = old(tmp_path / "x.db")
    assert things(connection) == (0, [("a",), ("b",)])
    migrate(connection, THREE)
    migrate(connection, THREE)
    assert things(connection) == (3, [("a", 14), ("b", 14)])
    connection.close()


def test_failing_migration_changes_nothing(tmp_path: Path) -> None:
    connection = old(tmp_path / "x.db")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        migrate(connection, attrs.evolve(THREE, steps={**THREE.steps, 2: breaks}))
    assert things(connection) == (0, [("a",), ("b",)])
    with pytest.raises(StoreMismatch, match="no migration of the store's file from version 1 "):
        migrate(connection, attrs.evolve(THREE, steps={0: THREE.steps[0]}))
    assert things(connection) == (0, [("a",), ("b",)])
    migrate(connection, THREE)
    connection.close()


def test_an_empty_file_is_made_at_once(tmp_path: Path) -> None:
    connection = connected(tmp_path / "x.db")
    migrate(connection, THREE)
    assert things(connection) == (3, [])
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    connection = old(tmp_path / "x.db")
    migrate(connection, THREE)
    with pytest.raises(StoreMismatch, match=r"version 3, made by a newer engine; this one knows 2") as caught:
        migrate(connection, attrs.evolve(THREE, version=2))
    assert caught.value.is_newer
    assert things(connection) == (3, [("a", 14), ("b", 14)])
    connection.close()


async def test_newer_store_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    made(path, VERSION)
    connection = connected(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreMismatch, match="made by a newer engine") as caught:
        await open_sqlite_store(path)
    assert caught.value.is_newer
    assert path.read_bytes() == before


async def test_older_engine_stops_writing_after_migration(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = await open_sqlite_store(path)
    store.put(noted(A, 1))
    await store.flushed(A, 1)
    connection = connected(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    store.put(noted(A, 2))
    with pytest.raises(StoreError, match=f"another engine has upgraded the store to version {VERSION + 1}"):
        await store.flushed(A, 2)
    with pytest.raises(StoreError, match="another engine has upgraded"):
        await store.aclose()
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
    connection.close()


# ---- events of older versions ----------------------------------------------------------------------------------------


def with_code(document: Json) -> Json:
    """In the version before, notices had no code."""
    return {**document, "code": "old"}


async def test_old_events_are_migrated_when_loaded(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    old_body = encode_event(noted(A, 1)).replace('"code":"test",', "")
    now = Schema(versions={"notice": 2}, upcasters={("notice", 1): with_code})
    store = await open_sqlite_store(path, schema=now)
    store.put(noted(A, 1))
    store.put(noted(A, 2))
    await store.aclose()
    connection = connected(path)
    versions = "SELECT type, version FROM events ORDER BY seq"
    assert connection.execute(versions).fetchall() == [("notice", 2), ("notice", 2)]
    connection.execute("UPDATE events SET version = 1, body = ? WHERE seq = 1", (old_body,))
    connection.close()
    store = await open_sqlite_store(path, schema=now)
    first = noted(A, 1)
    assert isinstance(first, Notice)
    expected = [attrs.evolve(first, code="old"), noted(A, 2)]
    assert list(await store.load(A)) == expected
    opened = await store.open_session(A)
    assert opened is not None
    assert list(opened.events.of_type(Notice)) == expected
    await store.aclose()
