"""Rebuilds the projections of a file from its events, after a migration to a version with other tables.

Events are read in the order in which they were written, so that search finds the newest texts first. Of a damaged
session, the readable part counts.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from engine.core.errors import JournalCorrupt
from engine.core.ids import SessionId
from engine.journal.json_converter import TAGS
from engine.store.lazy_events import decode_stored_event
from engine.store.projection import PROJECTED_TYPES, SessionChange
from engine.store.sqlite.schema import PROJECTED, PROJECTIONS
from engine.store.sqlite.table_writer import SqliteTableWriter

# How many events are in memory at a time.
_AT_ONCE: Final = 2_000
_Row: TypeAlias = tuple[SessionId, int, str]


def rebuild_projections(connection: sqlite3.Connection) -> None:
    """Drop the projections and rebuild them from the events, inside the open transaction. It may block for seconds."""
    old_rows = connection.execute(
        "SELECT id, parent_id, root_id, title, cwd, model, created, updated, seq FROM sessions"
    ).fetchall()
    for table in PROJECTED:
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in split_script(PROJECTIONS):
        connection.execute(statement)
    tags = [TAGS[kind] for kind in PROJECTED_TYPES]
    rows: Iterator[_Row] = connection.execute(
        f"SELECT session_id, seq, body FROM events WHERE type IN ({', '.join('?' * len(tags))}) ORDER BY rowid",  # noqa: S608  # marks
        tags,
    )
    while batch := list(itertools.islice(rows, _AT_ONCE)):
        SqliteTableWriter(connection).apply(_changes(batch))
    # The last event's number and time count even if its type is not projected; of an unreadable session, the old row stays.
    connection.executemany(
        "INSERT INTO sessions (id, parent_id, root_id, title, cwd, model, created, updated, seq)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, seq = excluded.seq",
        old_rows,
    )


def split_script(script: str) -> Iterator[str]:
    """Yield the statements of *script*, since `executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _changes(rows: Iterable[_Row]) -> Sequence[SessionChange]:
    changes: dict[SessionId, SessionChange] = {}
    for session_id, seq, body in rows:
        try:
            event = decode_stored_event(body, session_id, seq)
        except JournalCorrupt:
            continue  # opening the session reports it
        change = changes.get(session_id)
        if change is None:
            change = changes[session_id] = SessionChange.of(event, seq)
        change.add(event, seq)
    return tuple(changes.values())
