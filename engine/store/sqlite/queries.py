"""Reads the lists and the search from their tables. Each function blocks, and takes a reader's connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from engine.core.events import StopReason
from engine.core.ids import SessionId
from engine.core.messages import Usage
from engine.store.leases import Lease, Owner, leases
from engine.store.projection import storable
from engine.store.protocols import Hit, Holder, Role, RowStatus, SessionQuery, SessionRow
from engine.store.sqlite.full_text import FOUND, query_of, shown

# Of the texts that fit, how many are looked at to find that many sessions.
_LOOKED_AT: Final = 5_000
_SNIPPET_TOKENS: Final = 24

COLUMNS: Final = (
    "id, parent_id, root_id, CASE given_title WHEN '' THEN title ELSE given_title END, cwd, model, created, updated,"
    " seq, messages, turns, is_busy, asked, stop_reason, input, output, cache_read, cache_write, reasoning,"
    " cost, titled_by, forked_from, agent"
)
Columns: TypeAlias = tuple[
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
    Literal["", "user", "model"],
    SessionId | None,
    str,
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
    rows: list[Columns] = connection.execute(
        f"SELECT {COLUMNS} FROM sessions WHERE {' AND '.join(where)} ORDER BY updated DESC, id DESC LIMIT ?",  # noqa: S608  # of texts of ours
        [*values, query.limit],
    ).fetchall()
    held = holders(connection, owner)
    return [row_of(row, held) for row in rows]


def search(connection: sqlite3.Connection, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[Hit]:
    """Return one hit for each session that has the words, those said last first."""
    query = query_of(words)
    if not query:
        return []
    found = _found(connection, query, limit, cwd)
    snippets = _snippets(connection, query, found)
    held = holders(connection, owner)
    return [_hit(connection, text_id, snippets[text_id], held) for text_id in found]


def ids(connection: sqlite3.Connection, prefix: str) -> Sequence[SessionId]:
    """Return the ids that begin with *prefix*, in order."""
    begin = storable(prefix)
    rows: list[tuple[SessionId]] = connection.execute(
        "SELECT id FROM sessions WHERE id >= ?1 AND id < ?1 || ?2 ORDER BY id", (begin, "\U0010ffff")
    ).fetchall()
    return [session_id for (session_id,) in rows]


def holders(connection: sqlite3.Connection, owner: Owner) -> Mapping[SessionId, Holder]:
    """Return who has which sessions open; those that are not named are nobody's."""
    return holders_in(leases(connection), owner)


def holders_in(known: Mapping[SessionId, Lease], owner: Owner) -> Mapping[SessionId, Holder]:
    """Return who has which sessions open, of all leases."""
    return {session_id: _holder(owner, lease) for session_id, lease in known.items()}


def _found(connection: sqlite3.Connection, query: str, limit: int, cwd: str | None) -> Sequence[int]:
    """Return the newest text of each of the *limit* sessions that were spoken in last."""
    texts: Iterator[tuple[int, SessionId]] = connection.execute(
        "SELECT texts.id, texts.session_id FROM words JOIN texts ON texts.id = words.rowid"
        " WHERE words MATCH ?1 AND (?2 IS NULL OR (SELECT cwd FROM sessions WHERE id = texts.session_id) = ?2)"
        " ORDER BY words.rowid DESC LIMIT ?3",
        (query, cwd, _LOOKED_AT),
    )
    newest: dict[SessionId, int] = {}
    for text_id, session_id in texts:
        if session_id not in newest and len(newest) == limit:
            break
        newest.setdefault(session_id, text_id)
    return list(newest.values())


def _snippets(connection: sqlite3.Connection, query: str, found: Sequence[int]) -> Mapping[int, str]:
    """Return what surrounds the words in those texts."""
    if not found:
        return {}
    # The plus keeps it one run over the index: asked for each row by itself, a common word is looked up anew each time.
    rows: list[tuple[int, str]] = connection.execute(
        f"SELECT rowid, snippet(words, 0, ?1, ?2, '…', {_SNIPPET_TOKENS}) FROM words"  # noqa: S608  # a number of ours
        " WHERE words MATCH ?3 AND rowid BETWEEN ?4 AND ?5 AND +rowid IN (SELECT value FROM json_each(?6))",
        (*FOUND, query, min(found), max(found), f"[{','.join(map(str, found))}]"),
    ).fetchall()
    return dict(rows)


def _hit(connection: sqlite3.Connection, text_id: int, snippet: str, held: Mapping[SessionId, Holder]) -> Hit:
    seq: int
    role: Role
    time: float
    session_id: SessionId
    session_id, seq, role, time = connection.execute(
        "SELECT session_id, seq, role, time FROM texts WHERE id = ?", (text_id,)
    ).fetchone()
    row: Columns = connection.execute(
        f"SELECT {COLUMNS} FROM sessions WHERE id = ?",  # noqa: S608  # a list of ours
        (session_id,),
    ).fetchone()
    return Hit(session=row_of(row, held), seq=seq, role=role, snippet=shown(snippet), time=time)


def row_of(row: Columns, held: Mapping[SessionId, Holder]) -> SessionRow:
    """Return the row of a list, from what was read of `COLUMNS`."""
    # Ten thousand of these are made for one list, so it is all done in one go.
    (
        session_id,
        parent_id,
        root_id,
        title,
        cwd,
        model,
        created,
        updated,
        seq,
        messages,
        turns,
        is_busy,
        asked,
        stop_reason,
        read,
        written,
        cache_read,
        cache_write,
        reasoning,
        cost,
        titled_by,
        forked_from,
        agent,
    ) = row
    holder = held.get(session_id, "nobody")
    return SessionRow(
        id=session_id,
        parent_id=parent_id,
        root_id=root_id,
        title=title,
        cwd=cwd,
        model=model,
        created=created,
        updated=updated,
        seq=seq,
        messages=messages,
        turns=turns,
        status=_status(asked, holder) if is_busy else "idle",
        stop_reason=stop_reason,
        usage=Usage(input=read, output=written, cache_read=cache_read, cache_write=cache_write, reasoning=reasoning),
        cost=cost,
        holder=holder,
        titled_by=titled_by,
        forked_from=forked_from,
        agent=agent,
    )


def _status(asked: int, holder: Holder) -> RowStatus:
    if asked > 0:
        return "waiting"
    return "interrupted" if holder == "nobody" else "busy"


def _holder(owner: Owner, lease: Lease) -> Holder:
    if owner.holds(lease):
        return "here"
    return "elsewhere" if owner.is_live(lease) else "nobody"
