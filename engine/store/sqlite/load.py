"""Reads sessions from the file. Each function blocks, and takes a reader's connection."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sqlite3
from collections.abc import Generator, Sequence
from typing import Final

from engine.core import codec, fold, messages, state
from engine.core.errors import JournalCorrupt
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.state import SessionState
from engine.core.version import __version__
from engine.store.lazy_events import Events, Stored, decoded

# What can be done about a gap, in a file.
_REPAIR: Final = "`engine sessions repair` keeps what comes before"


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
    return events_of(session_id, rows, schema, after=after)


def events_of(
    session_id: SessionId, rows: Sequence[tuple[int, str]], schema: codec.Schema, *, after: int, remedy: str = _REPAIR
) -> Sequence[Durable]:
    """Return the events that were read as *rows*. Raises `JournalCorrupt`, which says that a gap has that *remedy*."""
    _check_whole(session_id, [seq for seq, _ in rows], after, remedy)
    return [decoded(body, session_id, seq, schema) for seq, body in rows]


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
            "SELECT seq, body FROM states WHERE session_id = ? AND made_by = ?", (session_id, maker())
        ).fetchone()
    return opened(session_id, rows, kept, schema)


def opened(
    session_id: SessionId,
    rows: Sequence[tuple[int, str]],
    kept: tuple[int, str] | None,
    schema: codec.Schema,
    *,
    remedy: str = _REPAIR,
) -> tuple[Stored, int] | None:
    """Return what `open_session` does, of the *rows* of its events and the state that was *kept*."""
    if not rows:
        return None
    _check_whole(session_id, [seq for seq, _ in rows], 0, remedy)
    events = Events(session_id, [body for _, body in rows], schema)
    remembered = None if kept is None else _remembered(session_id, *kept)
    since = 0 if remembered is None else remembered.seq
    folded = fold.fold((events[index] for index in range(since, len(events))), remembered)
    return Stored(folded, events), since


def old_trees(connection: sqlite3.Connection, older_than: float, keep: int) -> Sequence[SessionId]:
    """Return the roots of the trees in which nothing has happened since then, without the *keep* newest of all."""
    rows: list[tuple[SessionId, float]] = connection.execute(
        "SELECT root_id, max(updated) AS newest FROM sessions GROUP BY root_id ORDER BY newest DESC LIMIT -1 OFFSET ?",
        (keep,),
    ).fetchall()
    return [root_id for root_id, newest in rows if newest < older_than]


@functools.cache
def maker() -> str:
    """Return what names the code that folds: a state that another version has folded is not to be trusted."""
    digest = hashlib.sha256()
    for module in (codec, fold, messages, state):
        source = inspect.getsource(module)
        digest.update(source.encode())
    return f"{__version__}-{digest.hexdigest()[:16]}"


def _remembered(session_id: SessionId, seq: int, body: str) -> SessionState | None:
    """Return a remembered state; None if it can't be read: it is a cache, the events have it all."""
    try:
        found = codec.decode_state(body)
    except JournalCorrupt:
        return None
    return found if (found.session_id, found.seq) == (session_id, seq) else None


def _check_whole(session_id: SessionId, seqs: Sequence[int], after: int, remedy: str) -> None:
    if seqs and (seqs[0] != after + 1 or seqs[-1] - after != len(seqs)):
        gap = next(
            seq for seq, expected in zip(seqs, range(after + 1, after + len(seqs) + 1), strict=True) if seq != expected
        )
        raise JournalCorrupt(f"session {session_id} has a gap before event {gap}: {remedy}")
