"""`SqliteTableReader`: the readers' queries in SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from engine.core.events import Delta, Durable
from engine.core.ids import SessionId
from engine.journal.codec import Schema
from engine.store.decode_rows import drafts_from_rows, events_from_rows, fold_version, session_from_rows
from engine.store.lazy_events import StoredSession
from engine.store.leases import Owner
from engine.store.projection import storable
from engine.store.session_row import COLUMNS, Columns, holders, session_row
from engine.store.sqlite.full_text import display_text, match_query
from engine.store.sqlite.lease_table import LeaseTable
from engine.store.sqlite.schema import has_drafts
from engine.store.sqlite.text_table import SqliteTextTable
from engine.store.store_protocols import Holder, Role, SearchHit, SessionQuery, SessionRow, Spending, SpendingQuery

if TYPE_CHECKING:
    from engine.store.spending_report import SpendingColumns


@attrs.frozen
class SqliteTableReader:
    """See `TableReader`."""

    _connection: sqlite3.Connection

    def load(self, session_id: SessionId, schema: Schema, *, after: int = 0) -> Sequence[Durable]:
        """See `TableReader`."""
        rows: list[tuple[int, str]] = self._connection.execute(
            "SELECT seq, body FROM events WHERE session_id = ? AND seq > ? ORDER BY seq", (session_id, after)
        ).fetchall()
        return events_from_rows(session_id, rows, schema, after=after)

    def open_session(self, session_id: SessionId, schema: Schema) -> tuple[StoredSession, int] | None:
        """See `TableReader`."""
        with self._consistent_view():
            rows: list[tuple[int, str]] = self._connection.execute(
                "SELECT seq, body FROM events WHERE session_id = ? ORDER BY seq", (session_id,)
            ).fetchall()
            saved: tuple[int, str] | None = self._connection.execute(
                "SELECT seq, body FROM states WHERE session_id = ? AND made_by = ?", (session_id, fold_version())
            ).fetchone()
        return session_from_rows(session_id, rows, saved, schema)

    def drafts(self, session_id: SessionId, schema: Schema) -> Sequence[Delta]:
        """See `TableReader`."""
        if not has_drafts(self._connection):
            return []
        rows: list[tuple[str]] = self._connection.execute(
            "SELECT body FROM drafts WHERE session_id = ? ORDER BY part_id, offset", (session_id,)
        ).fetchall()
        return drafts_from_rows((body for (body,) in rows), schema)

    def inactive_trees(self, older_than: float, keep: int) -> Sequence[SessionId]:
        """See `TableReader`."""
        rows: list[tuple[SessionId, float]] = self._connection.execute(
            "SELECT root_id, max(updated) AS newest FROM sessions GROUP BY root_id ORDER BY newest DESC LIMIT -1 OFFSET ?",
            (keep,),
        ).fetchall()
        return [root_id for root_id, newest in rows if newest < older_than]

    # -- lists and search -----------------------------------------------------------------

    def list_sessions(self, owner: Owner, query: SessionQuery) -> Sequence[SessionRow]:
        """See `TableReader`."""
        key, of = ("parent_id", query.parent_id) if query.id is None else ("id", query.id)
        where = [f"{key} IS ?"]
        values: list[str | float | None] = [None if of is None else storable(of)]
        if query.cwd is not None:
            where.append("cwd = ?")
            values.append(storable(query.cwd))
        if query.before is not None:
            where.append("(updated, id) < (?, ?)")
            values += [query.before.updated, query.before.id]
        statement = f"SELECT {COLUMNS} FROM sessions WHERE {' AND '.join(where)} ORDER BY updated DESC, id DESC LIMIT ?"  # noqa: S608  # constants
        with self._consistent_view():
            rows: list[Columns] = self._connection.execute(statement, [*values, query.limit]).fetchall()
            leases = LeaseTable(self._connection).all()
        held = holders(leases, owner)
        return [session_row(row, held) for row in rows]

    def search(self, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[SearchHit]:
        """See `TableReader`."""
        query = match_query(words)
        if not query:
            return []
        texts = SqliteTextTable(self._connection)
        with self._consistent_view():
            text_ids = texts.newest_matches(query, limit, None if cwd is None else storable(cwd))
            snippets = texts.snippets(query, text_ids)
            held = holders(LeaseTable(self._connection).all(), owner)
            return [self._hit(text_id, snippets[text_id], held) for text_id in text_ids]

    def ids(self, prefix: str) -> Sequence[SessionId]:
        """See `TableReader`."""
        rows: list[tuple[SessionId]] = self._connection.execute(
            "SELECT id FROM sessions WHERE id >= :prefix AND id < :prefix || :last ORDER BY id",
            {"prefix": storable(prefix), "last": "\U0010ffff"},
        ).fetchall()
        return [session_id for (session_id,) in rows]

    def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """See `TableReader`."""
        from engine.store.spending_report import spending_from_row, spending_statement

        rows: list[SpendingColumns] = self._connection.execute(*spending_statement(query)).fetchall()
        return [spending_from_row(row) for row in rows]

    def _hit(self, text_id: int, snippet: str, held: Mapping[SessionId, Holder]) -> SearchHit:
        seq: int
        role: Role
        time: float
        session_id: SessionId
        session_id, seq, role, time = self._connection.execute(
            "SELECT session_id, seq, role, time FROM texts WHERE id = ?", (text_id,)
        ).fetchone()
        row: Columns = self._connection.execute(
            f"SELECT {COLUMNS} FROM sessions WHERE id = ?",  # noqa: S608  # constants
            (session_id,),
        ).fetchone()
        return SearchHit(session=session_row(row, held), seq=seq, role=role, snippet=display_text(snippet), time=time)

    @contextlib.contextmanager
    def _consistent_view(self) -> Generator[None]:
        """Let all queries in the block see the same data, even if another process writes between them."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            # An interrupt or an I/O error may have ended it already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
