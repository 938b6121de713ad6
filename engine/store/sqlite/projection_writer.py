"""Writes what a projection found into the tables of the lists and of the search; in the writer's transaction."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import attrs

from engine.core.ids import SessionId
from engine.store.projection import Change, Said, Unsaid, storable, title_of
from engine.store.sqlite.bulk_insert import insert
from engine.store.sqlite.full_text import indexed, shown

# Of one text: what is found is found in its beginning.
INDEXED_CHARS: Final = 65_536
# Of one batch, so that sums stay whole numbers to SQLite.
MOST_COUNTED: Final = 1 << 48

_UPSERT: Final = """
INSERT INTO sessions (id, parent_id, root_id, title, cwd, model, created, updated, seq, messages, turns, is_busy, asked,
    stop_reason, input, output, cache_read, cache_write, reasoning, cost, given_title, titled_by, forked_from, agent,
    step_model)
VALUES (:id, :parent, :root, :title, :cwd, :model, :created, :updated, :seq, :messages, :turns, coalesce(:is_busy, 0),
    :asked, :stop_reason, :input, :output, :cache_read, :cache_write, :reasoning, :cost, :given_title, :titled_by,
    :forked_from, :agent, coalesce(:step_model, ''))
ON CONFLICT (id) DO UPDATE SET
    title = CASE title WHEN '' THEN excluded.title ELSE title END,
    cwd = CASE :cwd WHEN '' THEN cwd ELSE :cwd END,
    model = CASE :model WHEN '' THEN model ELSE :model END,
    updated = max(updated, excluded.updated),
    seq = max(seq, excluded.seq),
    messages = messages + excluded.messages,
    turns = turns + excluded.turns,
    is_busy = coalesce(:is_busy, is_busy),
    asked = CASE :asked_anew WHEN 1 THEN 0 ELSE asked END + :asked,
    stop_reason = coalesce(:stop_reason, stop_reason),
    input = input + excluded.input,
    output = output + excluded.output,
    cache_read = cache_read + excluded.cache_read,
    cache_write = cache_write + excluded.cache_write,
    reasoning = reasoning + excluded.reasoning,
    cost = cost + excluded.cost,
    given_title = CASE WHEN :titled_by = '' OR (:titled_by = 'model' AND titled_by = 'user') THEN given_title
        ELSE :given_title END,
    titled_by = CASE WHEN :titled_by = '' OR (:titled_by = 'model' AND titled_by = 'user') THEN titled_by
        ELSE :titled_by END,
    forked_from = coalesce(:forked_from, forked_from),
    agent = CASE :agent WHEN '' THEN agent ELSE :agent END,
    step_model = coalesce(:step_model, step_model)
"""

_ADDED: Final = """
ON CONFLICT (slot, root_id, model) DO UPDATE SET
    steps = steps + excluded.steps,
    input = input + excluded.input,
    output = output + excluded.output,
    cache_read = cache_read + excluded.cache_read,
    cache_write = cache_write + excluded.cache_write,
    reasoning = reasoning + excluded.reasoning,
    cost = cost + excluded.cost
"""
_SPEND: Final = f"""
INSERT INTO spent (slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost)
VALUES (?1, ?2, coalesce(?3, (SELECT step_model FROM sessions WHERE id = ?11), ''), ?4, ?5, ?6, ?7, ?8, ?9, ?10)
{_ADDED}"""  # noqa: S608  # texts of ours
# What a tree of sessions has spent stays spent when it is deleted; which it was, and where, is forgotten.
_SPENT_BY_NOBODY: Final = f"""
INSERT INTO spent (slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost)
SELECT slot, '', model, steps, input, output, cache_read, cache_write, reasoning, cost FROM spent
WHERE root_id = ?1 AND root_id <> ''
{_ADDED}"""  # noqa: S608  # texts of ours


def apply(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """Write *changes*."""
    # Before the rows, which tell the model of a step that had begun before.
    connection.executemany(_SPEND, [row for change in changes for row in spent_of(change)])
    connection.executemany(_UPSERT, [row_of(change) for change in changes])
    write_texts(_Texts(connection), changes)
    for change in changes:
        if change.is_title_lost:
            _title_anew(connection, change.session_id)


def remove(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove a session from the lists and the search. What its tree has spent stays counted, as nobody's."""
    rows: list[tuple[int]] = connection.execute("SELECT id FROM texts WHERE session_id = ?", (session_id,)).fetchall()
    _remove_texts(connection, rows)
    connection.execute(_SPENT_BY_NOBODY, (session_id,))
    connection.execute("DELETE FROM spent WHERE root_id = ?1 AND root_id <> ''", (session_id,))
    connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


def row_of(change: Change) -> dict[str, str | float | None]:
    """Return what *change* adds to a session's row, by the names of `_UPSERT`."""
    usage = change.usage
    # Whatever a host says that it has counted: one event must not keep all others from being written.
    return {
        "id": change.session_id,
        "parent": change.parent,
        "root": storable(change.root),
        "title": change.title,
        "cwd": storable(change.cwd),
        "model": storable(change.model),
        "created": finite(change.created),
        "updated": finite(change.updated),
        "seq": change.last,
        "messages": change.messages,
        "turns": change.turns,
        "is_busy": change.is_busy,
        "asked": change.asked,
        "asked_anew": change.asked_anew,
        "stop_reason": change.stop_reason,
        "input": _counted(usage.input),
        "output": _counted(usage.output),
        "cache_read": _counted(usage.cache_read),
        "cache_write": _counted(usage.cache_write),
        "reasoning": _counted(usage.reasoning),
        "cost": finite(change.cost),
        "given_title": "" if change.titled is None else change.titled.title,
        "titled_by": "" if change.titled is None else change.titled.by,
        "forked_from": None if change.forked_from is None else storable(change.forked_from),
        "agent": storable(change.agent),
        "step_model": None if change.step_model is None else storable(change.step_model),
    }


def spent_of(change: Change) -> Iterator[tuple[str | float | None, ...]]:
    """Yield what *change* adds to what was spent, in the order of `_SPEND`."""
    for (slot, model), taken in change.spent.items():
        usage = taken.usage
        sums = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
        yield (
            slot,
            storable(change.root),
            None if model is None else storable(model),
            taken.steps,
            *map(_counted, sums),
            finite(taken.cost),
            change.session_id,
        )


def finite(value: float) -> float:
    """Return *value*, or 0 for what is no number."""
    return value if math.isfinite(value) else 0.0


def _counted(value: int) -> int:
    return max(0, min(value, MOST_COUNTED))


class TextTable(Protocol):
    """Where what was said is found again, in one database."""

    def add(self, said: Sequence[tuple[SessionId, Said]]) -> None:
        """Add texts, in order."""
        ...

    def take_back(self, session_id: SessionId, what: Unsaid) -> None:
        """Remove what was taken back."""
        ...

    def take_title_back(self, session_id: SessionId) -> None:
        """Remove the text of a title."""
        ...

    def titled_by(self, session_id: SessionId) -> str:
        """Return who has given the session the title that it has: its row is written already."""
        ...


def write_texts(table: TextTable, changes: Iterable[Change]) -> None:
    """Add and remove texts in their order, those that are added in a row at once."""
    said: list[tuple[SessionId, Said]] = []
    for change in changes:
        for text in change.texts:
            if isinstance(text, Unsaid):
                table.add(said)
                said = []
                table.take_back(change.session_id, text)
            elif isinstance(text, Said):
                said.append((change.session_id, text))
            elif table.titled_by(change.session_id) == text.by:
                table.take_title_back(change.session_id)
                if text.title:
                    said.append((change.session_id, Said(text.seq, "title", "", "", text.time, text.title)))
    table.add(said)


@attrs.frozen
class _Texts:
    """See `TextTable`."""

    _connection: sqlite3.Connection

    def add(self, said: Sequence[tuple[SessionId, Said]]) -> None:
        _add_texts(self._connection, said)

    def take_back(self, session_id: SessionId, what: Unsaid) -> None:
        _take_back(self._connection, session_id, what)

    def take_title_back(self, session_id: SessionId) -> None:
        rows: list[tuple[int]] = self._connection.execute(
            "SELECT id FROM texts WHERE session_id = ? AND message_id = '' AND role = 'title'", (session_id,)
        ).fetchall()
        _remove_texts(self._connection, rows)

    def titled_by(self, session_id: SessionId) -> str:
        row: tuple[str] = self._connection.execute(
            "SELECT titled_by FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        return row[0]


def _add_texts(connection: sqlite3.Connection, said: Sequence[tuple[SessionId, Said]]) -> None:
    if not said:
        return
    after: int = connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()[0]
    insert(
        connection,
        "texts",
        "id, session_id, seq, message_id, part_id, role, time",
        [
            (
                number,
                session_id,
                text.seq,
                storable(text.message_id),
                storable(text.part_id),
                text.role,
                finite(text.time),
            )
            for number, (session_id, text) in enumerate(said, after + 1)
        ],
    )
    insert(
        connection,
        "words",
        "rowid, text",
        [(number, indexed(text.text[:INDEXED_CHARS])) for number, (_, text) in enumerate(said, after + 1)],
    )


def _take_back(connection: sqlite3.Connection, session_id: str, what: Unsaid) -> None:
    rows: list[tuple[int]] = connection.execute(
        "SELECT id FROM texts WHERE session_id = ? AND message_id = ? AND role <> 'title'"
        " AND (?3 = '' OR part_id = ?3)",
        (session_id, storable(what.message_id), storable(what.part_id)),
    ).fetchall()
    _remove_texts(connection, rows)


def _remove_texts(connection: sqlite3.Connection, rows: Sequence[tuple[int]]) -> None:
    connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
    connection.executemany("DELETE FROM texts WHERE id = ?", rows)


def _title_anew(connection: sqlite3.Connection, session_id: str) -> None:
    """Make the title again, of what the user said that still stands."""
    texts = connection.execute(
        "SELECT text FROM texts JOIN words ON words.rowid = texts.id WHERE session_id = ? AND role = 'user'"
        " ORDER BY seq, texts.id",
        (session_id,),
    )
    titles = (title_of(shown(text)) for (text,) in texts)
    title = next((title for title in titles if title), "")
    connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, session_id))
