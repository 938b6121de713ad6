"""`SqliteTableWriter`: the writer's transaction in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from engine.core.ids import PartId, SessionId
from engine.core.value_base import Value
from engine.store.backend import EventRow
from engine.store.leases import Lease, Owner
from engine.store.projection import SessionChange
from engine.store.projection_rows import session_values, spending_values, write_texts
from engine.store.sqlite.bulk_insert import insert_rows
from engine.store.sqlite.lease_table import LeaseTable
from engine.store.sqlite.schema import DRAFTS, has_drafts
from engine.store.sqlite.text_table import SqliteTextTable

# The update uses named parameters again, since `excluded` no longer shows which of them were NULL. A change without a
# value (an empty text, NULL) keeps the old one.
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

# Spending is summed here, in the database, since several engines write to the same file.
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
# In the order of `spending_values`. (WHERE true: without it SQLite would read ON CONFLICT as a join's ON.)
_SPEND: Final = f"""
WITH new (slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost, session_id) AS (
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)
INSERT INTO spent (slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost)
SELECT slot, root_id, coalesce(model, (SELECT step_model FROM sessions WHERE id = new.session_id), ''), steps,
    input, output, cache_read, cache_write, reasoning, cost
FROM new WHERE true
{_ADDED}"""  # noqa: S608  # constants
# When a tree of sessions is deleted, its spending stays in the sums, under an empty root id.
_SPENT_BY_NOBODY: Final = f"""
INSERT INTO spent (slot, root_id, model, steps, input, output, cache_read, cache_write, reasoning, cost)
SELECT slot, '', model, steps, input, output, cache_read, cache_write, reasoning, cost FROM spent
WHERE root_id = ? AND root_id <> ''
{_ADDED}"""  # noqa: S608  # constants
# UNION, not UNION ALL: damaged rows may name each other as parents.
_TREE: Final = """
WITH RECURSIVE tree (id) AS (
    SELECT id FROM sessions WHERE id = :id OR root_id = :id
    UNION
    SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id
)
SELECT id, updated FROM sessions WHERE id IN (SELECT id FROM tree) ORDER BY id
"""


@attrs.frozen(eq=False, repr=False)
class SqliteTableWriter(Value):
    """See `TableWriter`. Only one connection at a time is in a writing transaction, so nothing has to be locked."""

    _connection: sqlite3.Connection

    def write(self, rows: Sequence[EventRow], changes: Sequence[SessionChange]) -> None:
        """See `TableWriter`."""
        insert_rows(
            self._connection,
            "events",
            "session_id, seq, type, version, body",
            [(row.event.session_id, row.seq, row.type, row.version, row.body) for row in rows],
        )
        self.apply(changes)

    def apply(self, changes: Sequence[SessionChange]) -> None:
        """Write *changes* to the projections."""
        # Before the session rows are updated: they still hold the model of a step that began in an earlier batch.
        self._connection.executemany(_SPEND, [row for change in changes for row in spending_values(change)])
        self._connection.executemany(_UPSERT, [session_values(change) for change in changes])
        texts = SqliteTextTable(self._connection)
        write_texts(texts, changes)
        for change in changes:
            if change.texts.is_first_prompt_lost:
                title = texts.first_title(change.session_id)
                self._connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (title, change.session_id))

    def last_seq(self, session_id: SessionId) -> int:
        """See `TableWriter`."""
        last: int = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM events WHERE session_id = ?", (session_id,)
        ).fetchone()[0]
        return last

    def save_state(self, session_id: SessionId, seq: int, made_by: str, body: str) -> None:
        """See `TableWriter`."""
        # Only if its events are there: a state that is ahead of the events would hide that some were lost.
        self._connection.execute(
            "INSERT OR REPLACE INTO states (session_id, seq, made_by, body) SELECT :id, :seq, :made_by, :body"
            " WHERE (SELECT max(seq) FROM events WHERE session_id = :id) >= :seq",
            {"id": session_id, "seq": seq, "made_by": made_by, "body": body},
        )

    def save_draft(self, session_id: SessionId, part_id: PartId, offset: int, body: str) -> None:
        """See `TableWriter`."""
        self._connection.execute(DRAFTS)
        self._connection.execute(
            "INSERT OR REPLACE INTO drafts (session_id, part_id, offset, body) VALUES (?, ?, ?, ?)",
            (session_id, part_id, offset, body),
        )

    def delete_drafts(self, session_id: SessionId, part_id: PartId | None) -> None:
        """See `TableWriter`."""
        if has_drafts(self._connection):
            self._connection.execute(
                "DELETE FROM drafts WHERE session_id = :id AND (:part IS NULL OR part_id = :part)",
                {"id": session_id, "part": part_id},
            )

    # -- leases ---------------------------------------------------------------------------

    def leases_of(self, session_ids: Collection[SessionId], owner: Owner) -> Mapping[SessionId, Lease]:
        """See `TableWriter`."""
        leases = {session_id: self._leases.get(session_id) for session_id in session_ids}
        return {session_id: lease for session_id, lease in leases.items() if lease is not None}

    def leases(self) -> Mapping[SessionId, Lease]:
        """See `TableWriter`."""
        return self._leases.all()

    def take_lease(self, owner: Owner, session_id: SessionId, over: Lease | None) -> bool:
        """See `TableWriter`: always True, since no other writer can be faster."""
        self._leases.take(owner, session_id)
        return True

    def renew_leases(self, owner: Owner) -> None:
        """See `TableWriter`."""
        self._leases.renew(owner)

    def make_leases_idle(self, owner: Owner) -> None:
        """Make all leases of *owner* last as long as its process, until they are renewed."""
        self._leases.make_idle(owner)

    def release_lease(self, owner: Owner, session_id: SessionId) -> None:
        """See `TableWriter`."""
        self._leases.release(owner, session_id)

    def release_leases(self, owner: Owner) -> None:
        """See `TableWriter`."""
        self._leases.release_all(owner)

    @property
    def _leases(self) -> LeaseTable:
        return LeaseTable(self._connection)

    # -- retention ------------------------------------------------------------------------

    def session_tree(self, session_id: SessionId) -> Sequence[tuple[SessionId, float]]:
        """See `TableWriter`."""
        rows: list[tuple[SessionId, float]] = self._connection.execute(_TREE, {"id": session_id}).fetchall()
        return rows

    def delete_session(self, session_id: SessionId) -> bool:
        """See `TableWriter`."""
        for table in ("events", "states", "leases"):
            self._connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608  # constants
        self.delete_drafts(session_id, None)
        SqliteTextTable(self._connection).remove_all(session_id)
        self._connection.execute(_SPENT_BY_NOBODY, (session_id,))
        self._connection.execute("DELETE FROM spent WHERE root_id = ? AND root_id <> ''", (session_id,))
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
        return True

    def reclaim_space(self) -> bool:
        """See `TableWriter`. What is left is freed with the next sessions that are deleted."""
        # At most 10,000 pages (80 MB) at once, since the file is locked for that time. `fetchall`, since each step
        # frees one page.
        self._connection.execute("PRAGMA incremental_vacuum (10000)").fetchall()
        return False
