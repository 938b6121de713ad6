"""`rescue`: copies what can be read of a damaged file into a new one.

Where a run of rows can't be read, rows are read one by one. The events of each session up to
the first lost one go into the new file, where the session opens as usual; readable events
after the gap go into a second file, as lines of JSON. The damaged file is only read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import JournalCorrupt, StoreCorrupt, StoreError
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.journal.codec import PRESENT, Schema
from engine.journal.fold import apply
from engine.journal.state import SessionState
from engine.store.event_sink import EventSink
from engine.store.lazy_events import decode_stored_event
from engine.store.leases import Owner
from engine.store.sqlite.connections import Connections, file_uri
from engine.store.sqlite.error_mapping import map_errors, primary_code, to_store_error
from engine.store.sqlite.file_location import create_file
from engine.store.sqlite.migrate import migrate
from engine.store.sqlite.writer_connection import SqliteWriterConnection

# After an unreadable row, this many rows are tried one by one, then in growing steps: a damaged page holds few rows,
# but a damaged tree may hide millions, and each attempt reads pages.
_ONE_BY_ONE: Final = 5_000
_LARGEST_ROW: Final = 1 << 32


@attrs.frozen(kw_only=True)
class LostEvents:
    """The part of a session that could not be copied.

    Attributes:
        seq: the first event missing from the new file.
        reason: why it is missing.
        leftover_events: how many events after the gap could be read; they are in the second file.
    """

    session_id: SessionId
    seq: int
    reason: str
    leftover_events: int


@attrs.frozen(kw_only=True)
class RescueReport:
    """What was rescued.

    Attributes:
        sessions: the number of sessions in the new file.
        events: the number of their events.
        losses: incomplete sessions. (A session that the list has lost, too, can't be noticed.)
        leftover_path: the second file, for events after a gap; None: there are none.
    """

    sessions: int
    events: int
    losses: Sequence[LostEvents]
    leftover_path: Path | None


async def rescue(damaged: Path, target: Path, *, schema: Schema = PRESENT) -> RescueReport:
    """Copy what can be read from *damaged* into a new file. Always a checkpoint.

    It may take minutes. If cancelled, the thread is abandoned, and the new file holds only some sessions. Raises
    `StoreError` if nothing can be read, or *target* exists.
    """
    return await to_thread(_rescue, damaged, target, schema)


def _rescue(damaged: Path, target: Path, schema: Schema) -> RescueReport:
    try:
        is_free, is_there = not target.exists(), damaged.is_file()
    except OSError as error:
        raise StoreError(f"the store {damaged} can't be read: {error.strerror}") from error
    if not is_free:
        raise StoreError(f"{target} already exists: give the path of a new file")
    if not is_there:
        raise StoreError(f"there is no file {damaged}")
    source = sqlite3.connect(file_uri(str(damaged), "ro"), uri=True, isolation_level=None)
    try:
        try:
            rows = _event_rows(source)
        except sqlite3.DatabaseError as error:
            store_error = to_store_error(error, str(damaged))
            if isinstance(store_error, StoreCorrupt) or primary_code(error) == sqlite3.SQLITE_ERROR:
                raise StoreCorrupt(
                    f"nothing of {damaged} can be read: it is no store's file, or its beginning is damaged ({error})"
                ) from error
            raise store_error from error
        create_file(target)
        connections = Connections(path=str(target.absolute()), mode="truncate", lock_timeout=1.0)
        with map_errors(str(target)):
            connection = connections.open()
            try:
                migrate(connection)
            except BaseException:  # re-raised: only this frame can close the connection yet
                connection.close()
                raise
            writer = SqliteWriterConnection(connections=connections, connection=connection)
            sink = EventSink(connection=writer, owner=Owner(), schema=schema)
            try:
                return _copy(source, rows, sink, target)
            finally:
                sink.close()
    finally:
        source.close()


def _copy(
    source: sqlite3.Connection, rows_by_session: dict[SessionId, dict[int, int]], sink: EventSink, target: Path
) -> RescueReport:
    losses: list[LostEvents] = []
    sessions = events = 0
    leftover_path = target.with_name(f"{target.name}.beside.jsonl")
    listed = _last_seqs(source)
    for session_id in sorted({*rows_by_session, *listed}):
        rows = rows_by_session.get(session_id, {})
        whole, why = _prefix(source, session_id, rows, sink.schema)
        if not why and len(whole) < listed.get(session_id, 0):
            why = f"its events to number {listed[session_id]}, the last that the list knows, are lost"
        if whole:
            sink.write(whole)
            if sink.last_error is not None:
                raise sink.last_error
            sessions, events = sessions + 1, events + len(whole)
        # An event after a gap can't be folded, but a person may want to read it.
        if why:
            left = _bodies_after(source, rows, len(whole))
            losses.append(LostEvents(session_id=session_id, seq=len(whole) + 1, reason=why, leftover_events=len(left)))
            if left:
                with open(leftover_path, "a", encoding="utf-8", opener=_private) as file:
                    file.writelines(f"{body}\n" for body in left)
    return RescueReport(
        sessions=sessions,
        events=events,
        losses=tuple(losses),
        leftover_path=leftover_path if leftover_path.exists() else None,
    )


def _bodies_after(source: sqlite3.Connection, rows: dict[int, int], last: int) -> list[str]:
    """Return the readable events after number *last*."""
    bodies = (_body(source, rows[seq]) for seq in sorted(rows) if seq > last)
    return [body for body in bodies if body is not None]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _prefix(
    source: sqlite3.Connection, session_id: SessionId, rows: dict[int, int], schema: Schema
) -> tuple[list[Durable], str]:
    """Return the events before the first gap, and why there are no more; empty: these are all."""
    events: list[Durable] = []
    state = SessionState()
    for seq in range(1, max(rows, default=0) + 1):
        body = _body(source, rows[seq]) if seq in rows else None
        if body is None:
            return events, f"event {seq} is lost"
        try:
            event = decode_stored_event(body, session_id, seq, schema)
            # Folded as well: an event that can be read but can't follow would keep the session from opening.
            state = apply(state, event)
        except JournalCorrupt as error:
            return events, str(error)
        events.append(event)
    return events, ""


def _last_seqs(source: sqlite3.Connection) -> dict[SessionId, int]:
    """Return the number of each session's last event according to the list, as far as that is readable."""
    listed: dict[SessionId, int] = {}
    # A damaged list is no reason to stop: then only the number of lost events is unknown.
    with contextlib.suppress(sqlite3.DatabaseError):
        for session_id, seq in source.execute("SELECT id, seq FROM sessions"):
            if isinstance(session_id, str) and isinstance(seq, int):
                listed[SessionId(session_id)] = seq
    return listed


def _event_rows(source: sqlite3.Connection) -> dict[SessionId, dict[int, int]]:
    """Return the row of each readable event, by session and number."""
    rows: dict[SessionId, dict[int, int]] = {}
    for rowid, session_id, seq in _rows(source):
        rows.setdefault(session_id, {})[seq] = rowid
    return rows


def _rows(source: sqlite3.Connection) -> Iterator[tuple[int, SessionId, int]]:
    """Yield row, session and number of all readable events. Raises `sqlite3.Error` if there is no table."""
    source.execute("SELECT 1 FROM events LIMIT 0").fetchone()
    rowid, misses = 1, 0
    while rowid < _LARGEST_ROW:
        try:
            for row in _rows_from(source, rowid):
                yield row
                rowid, misses = row[0] + 1, 0
        except sqlite3.DatabaseError:
            # All rows of an unreadable page are lost. The next page begins some rows later.
            misses += 1
            rowid += 1 if misses < _ONE_BY_ONE else misses
        else:
            return


def _rows_from(source: sqlite3.Connection, rowid: int) -> Iterator[tuple[int, SessionId, int]]:
    # NOT INDEXED: the index may be damaged where the table is not, and this way rows come in page order.
    rows: Iterator[tuple[int, SessionId, int]] = source.execute(
        "SELECT rowid, session_id, seq FROM events NOT INDEXED WHERE rowid >= ? ORDER BY rowid", (rowid,)
    )
    return rows


def _body(source: sqlite3.Connection, rowid: int) -> str | None:
    try:
        row: tuple[object] | None = source.execute("SELECT body FROM events WHERE rowid = ?", (rowid,)).fetchone()
    except sqlite3.DatabaseError:
        return None
    return row[0] if row is not None and isinstance(row[0], str) else None
