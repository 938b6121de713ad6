"""Reads sessions from the file. Each function blocks, and takes a reader's connection."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Sequence

from engine.core import codec
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.store.lazy_events import Stored
from engine.store.session_rows import events_from_rows, fold_version, session_from_rows


@contextlib.contextmanager
def one_moment(connection: sqlite3.Connection) -> Generator[None]:
    """Let all queries of the block see the same: between two of them another process may remove a session."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def load(
    connection: sqlite3.Connection, session_id: SessionId, schema: codec.Schema, *, after: int = 0
) -> Sequence[Durable]:
    """Return the events of a session that come after number *after*. Raises `JournalCorrupt`."""
    rows: list[tuple[int, str]] = connection.execute(
        "SELECT seq, body FROM events WHERE session_id = ? AND seq > ? ORDER BY seq", (session_id, after)
    ).fetchall()
    return events_from_rows(session_id, rows, schema, after=after)


def open_session(
    connection: sqlite3.Connection, session_id: SessionId, schema: codec.Schema
) -> tuple[Stored, int] | None:
    """Return a session and the number of the event at which its state was remembered; None if it is not known.

    Raises `JournalCorrupt`.
    """
    with one_moment(connection):
        rows: list[tuple[int, str]] = connection.execute(
            "SELECT seq, body FROM events WHERE session_id = ? ORDER BY seq", (session_id,)
        ).fetchall()
        kept: tuple[int, str] | None = connection.execute(
            "SELECT seq, body FROM states WHERE session_id = ? AND made_by = ?", (session_id, fold_version())
        ).fetchone()
    return session_from_rows(session_id, rows, kept, schema)


def old_trees(connection: sqlite3.Connection, older_than: float, keep: int) -> Sequence[SessionId]:
    """Return the roots of the trees in which nothing has happened since then, without the *keep* newest of all."""
    rows: list[tuple[SessionId, float]] = connection.execute(
        "SELECT root_id, max(updated) AS newest FROM sessions GROUP BY root_id ORDER BY newest DESC LIMIT -1 OFFSET ?",
        (keep,),
    ).fetchall()
    return [root_id for root_id, newest in rows if newest < older_than]
