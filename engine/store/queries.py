"""Reads the lists and the search from their tables. Each function blocks, and takes a reader's connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from engine.events import StopReason
from engine.ids import SessionId
from engine.messages import Usage
from engine.store.leases import Lease, Owner, leases
from engine.store.ports import Hit, Holder, RowStatus, SessionQuery, SessionRow
from engine.store.words import FOUND, query_of, shown

# Of the texts that fit, how many are looked at to find that many sessions.
_LOOKED_AT: Final = 5_000
_SNIPPET_TOKENS: Final = 24

_COLUMNS: Final = (
    "id, parent_id, root_id, title, cwd, model, created, updated, seq, messages, turns, is_busy, asked, stop_reason,"
    " input, output, cache_read, cache_write, reasoning, cost"
)
_Columns: TypeAlias = tuple[
    SessionId,
    SessionId | None,
    SessionId,
    str,
    str,
    str,
    float,
    float,
    int,
    int,
    int,
    int,
    int,
    StopReason | None,
    int,
    int,
    int,
    int,
    int,
    float,
]


def list_sessions(connection: sqlite3.Connection, owner: Owner, query: SessionQuery) -> Sequence[SessionRow]:
    """Return the rows that *query* asks for, newest first."""
    where = ["parent_id IS ?"]
    values: list[str | float | None] = [query.parent_id]
    if query.cwd is not None:
        where.append("cwd = ?")
        values.append(query.cwd)
    if query.before is not None:
        where.append("(updated, id) < (?, ?)")
        values += [query.before.updated, query.before.id]
    rows: list[_Columns] = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join(where)} ORDER BY updated DESC, id DESC LIMIT ?",  # noqa: S608  # of texts of ours
        [*values, query.limit],
    ).fetchall()
    held = holders(connection, owner)
    return [_row(row, held) for row in rows]


def search(connection: sqlite3.Connection, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[Hit]:
    """Return one hit for each session that has the words, those said last first."""
    query = query_of(words)
    if not query:
        return []
    found = _found(connection, query, limit, cwd)
    held = holders(connection, owner)
    return [_hit(connection, query, text_id, held) for text_id in found]


def holders(connection: sqlite3.Connection, owner: Owner) -> Mapping[SessionId, Holder]:
    """Return who has which sessions open; those that are not named are nobody's."""
    return {session_id: _holder(owner, lease) for session_id, lease in leases(connection).items()}


def _found(connection: sqlite3.Connection, query: str, limit: int, cwd: str | None) -> Sequence[int]:
    """Return the newest text of each of the *limit* sessions that were spoken in last."""
    texts: list[tuple[int, SessionId]] = connection.execute(
        "SELECT texts.id, texts.session_id FROM words JOIN texts ON texts.id = words.rowid"
        " WHERE words MATCH ? AND (?2 IS NULL OR (SELECT cwd FROM sessions WHERE id = texts.session_id) = ?2)"
        " ORDER BY words.rowid DESC LIMIT ?3",
        (query, cwd, _LOOKED_AT),
    ).fetchall()
    newest: dict[SessionId, int] = {}
    for text_id, session_id in texts:
        newest.setdefault(session_id, text_id)
    return list(newest.values())[:limit]


def _hit(connection: sqlite3.Connection, query: str, text_id: int, held: Mapping[SessionId, Holder]) -> Hit:
    snippet: str
    (snippet,) = connection.execute(
        f"SELECT snippet(words, 0, ?, ?, '…', {_SNIPPET_TOKENS}) FROM words WHERE words MATCH ? AND rowid = ?",  # noqa: S608  # a number of ours
        (*FOUND, query, text_id),
    ).fetchone()
    seq: int
    role: Literal["user", "assistant"]
    time: float
    session_id: SessionId
    session_id, seq, role, time = connection.execute(
        "SELECT session_id, seq, role, time FROM texts WHERE id = ?", (text_id,)
    ).fetchone()
    row: _Columns = connection.execute(
        f"SELECT {_COLUMNS} FROM sessions WHERE id = ?",  # noqa: S608  # a list of ours
        (session_id,),
    ).fetchone()
    return Hit(session=_row(row, held), seq=seq, role=role, snippet=shown(snippet), time=time)


def _row(row: _Columns, held: Mapping[SessionId, Holder]) -> SessionRow:
    holder = held.get(row[0], "nobody")
    return SessionRow(
        id=row[0],
        parent_id=row[1],
        root_id=row[2],
        title=row[3],
        cwd=row[4],
        model=row[5],
        created=row[6],
        updated=row[7],
        seq=row[8],
        messages=row[9],
        turns=row[10],
        status=_status(is_busy=bool(row[11]), asked=row[12], holder=holder),
        stop_reason=row[13],
        usage=Usage(input=row[14], output=row[15], cache_read=row[16], cache_write=row[17], reasoning=row[18]),
        cost=row[19],
        holder=holder,
    )


def _status(*, is_busy: bool, asked: int, holder: Holder) -> RowStatus:
    if not is_busy:
        return "idle"
    if holder == "nobody":
        return "interrupted"
    return "waiting" if asked > 0 else "busy"


def _holder(owner: Owner, lease: Lease) -> Holder:
    if owner.holds(lease):
        return "here"
    return "elsewhere" if owner.is_live(lease) else "nobody"
