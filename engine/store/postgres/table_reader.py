"""`PostgresTableReader`: the readers' queries in PostgreSQL. Each method blocks, and has the connection to itself."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Final, LiteralString

import attrs

from engine.core.events import Delta, Durable
from engine.core.ids import SessionId
from engine.journal.codec import Schema
from engine.store.decode_rows import drafts_from_rows, events_from_rows, fold_version, session_from_rows
from engine.store.lazy_events import StoredSession
from engine.store.leases import Owner
from engine.store.postgres.connections import Connection
from engine.store.postgres.full_text import SearchQuery
from engine.store.postgres.table_writer import all_leases
from engine.store.postgres.text_table import postgres_text
from engine.store.session_row import COLUMNS, MAX_SEARCHED_TEXTS, holders, session_row
from engine.store.spending_report import spending_from_row, spending_statement
from engine.store.store_protocols import Role, SearchHit, SessionQuery, SessionRow, Spending, SpendingQuery

# How many texts are loaded at a time to look for the phrases.
_AT_ONCE: Final = 50
# In front of a statement that knows no tenants: in it, the tables have the rows of one.
_OF_TENANT: Final = (
    "WITH spent AS (SELECT * FROM spent WHERE tenant = ?), sessions AS (SELECT * FROM sessions WHERE tenant = ?) "
)
# The advice for a gap in the journal. (`engine sessions repair` is for files.)
_REMEDY: Final = "restore the database from a backup"
# Those of a session that was deleted may still be there.
_EVENTS: Final = """
SELECT seq, body FROM events WHERE tenant = %(tenant)s AND session_id = %(session)s AND seq > %(after)s
    AND NOT EXISTS (SELECT 1 FROM removals WHERE tenant = %(tenant)s AND session_id = %(session)s)
ORDER BY seq
"""


@attrs.frozen
class PostgresTableReader:
    """See `TableReader`. It sees the rows of one tenant."""

    _connection: Connection
    _tenant: str

    def load(self, session_id: SessionId, schema: Schema, *, after: int = 0) -> Sequence[Durable]:
        """See `TableReader`."""
        rows = self._connection.execute(
            _EVENTS, {"tenant": self._tenant, "session": session_id, "after": after}
        ).fetchall()
        return events_from_rows(session_id, rows, schema, after=after, remedy=_REMEDY)

    def open_session(self, session_id: SessionId, schema: Schema) -> tuple[StoredSession, int] | None:
        """See `TableReader`."""
        with self._consistent_view():
            rows = self._connection.execute(
                _EVENTS, {"tenant": self._tenant, "session": session_id, "after": 0}
            ).fetchall()
            kept = self._connection.execute(
                "SELECT seq, body FROM states WHERE tenant = %s AND session_id = %s AND made_by = %s",
                (self._tenant, session_id, fold_version()),
            ).fetchone()
        return session_from_rows(session_id, rows, None if kept is None else (kept[0], kept[1]), schema, remedy=_REMEDY)

    def drafts(self, session_id: SessionId, schema: Schema) -> Sequence[Delta]:
        """See `TableReader`."""
        rows = self._connection.execute(
            "SELECT body FROM drafts WHERE tenant = %s AND session_id = %s ORDER BY part_id, at",
            (self._tenant, session_id),
        ).fetchall()
        return drafts_from_rows((body for (body,) in rows), schema)

    def inactive_trees(self, older_than: float, keep: int) -> Sequence[SessionId]:
        """See `TableReader`."""
        rows = self._connection.execute(
            "SELECT root_id, max(updated) AS newest FROM sessions WHERE tenant = %s"
            " GROUP BY root_id ORDER BY newest DESC OFFSET %s",
            (self._tenant, keep),
        ).fetchall()
        return [SessionId(root_id) for root_id, newest in rows if newest < older_than]

    # -- lists and search -----------------------------------------------------------------

    def list_sessions(self, owner: Owner, query: SessionQuery) -> Sequence[SessionRow]:
        """See `TableReader`."""
        where = list[LiteralString]()
        if query.id is not None:
            where.append("id = %(only)s")
        elif query.parent_id is not None:
            where.append("parent_id = %(parent)s")
        else:
            where.append("parent_id IS NULL")
        if query.cwd is not None:
            where.append("cwd = %(cwd)s")
        before = query.before
        if before is not None:
            where.append("(updated, id) < (%(updated)s, %(id)s)")
        values = {
            "tenant": self._tenant,
            "parent": None if query.parent_id is None else postgres_text(query.parent_id),
            "cwd": None if query.cwd is None else postgres_text(query.cwd),
            "updated": None if before is None else before.updated,
            "id": None if before is None else before.id,
            "only": None if query.id is None else postgres_text(query.id),
            "limit": query.limit,
        }
        with self._consistent_view():
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM sessions WHERE tenant = %(tenant)s AND {' AND '.join(where)}"  # noqa: S608  # texts of ours
                # The parent is the same in all rows, but only so does PostgreSQL see that the index has them in order.
                " ORDER BY parent_id DESC, updated DESC, id DESC LIMIT %(limit)s",
                values,
            ).fetchall()
            leases = all_leases(self._connection, self._tenant)
        held = holders(leases, owner)
        return [session_row(row, held) for row in rows]

    def ids(self, prefix: str) -> Sequence[SessionId]:
        """See `TableReader`."""
        begin = postgres_text(prefix)
        rows = self._connection.execute(
            "SELECT id FROM sessions WHERE tenant = %s AND id >= %s AND id < %s ORDER BY id",
            (self._tenant, begin, f"{begin}\U0010ffff"),
        ).fetchall()
        return [SessionId(session_id) for (session_id,) in rows]

    def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """See `TableReader`."""
        statement, values = spending_statement(query)
        scoped = f"{_OF_TENANT}{statement}".replace("?", "%s")
        rows = self._connection.execute(scoped.encode(), (self._tenant, self._tenant, *values)).fetchall()
        return [spending_from_row(row) for row in rows]

    def search(self, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[SearchHit]:
        """See `TableReader`."""
        query = SearchQuery.of(postgres_text(words))
        if not query.phrases:
            return []
        with self._consistent_view():
            matches = self._newest_matches(query, limit, None if cwd is None else postgres_text(cwd))
            rows = self._connection.execute(
                f"SELECT {COLUMNS} FROM sessions WHERE tenant = %s AND id = ANY(%s)",  # noqa: S608  # a list of ours
                (self._tenant, [text.session_id for text in matches]),
            ).fetchall()
            leases = all_leases(self._connection, self._tenant)
        held = holders(leases, owner)
        sessions = {row.id: row for row in (session_row(row, held) for row in rows)}
        return [
            SearchHit(session=sessions[text.session_id], seq=text.seq, role=text.role, snippet=snippet, time=text.time)
            for text, snippet in matches.items()
            if text.session_id in sessions
        ]

    @contextlib.contextmanager
    def _consistent_view(self) -> Generator[None]:
        """Let all queries in the block see the same data, even if another engine writes between them."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def _newest_matches(self, query: SearchQuery, limit: int, cwd: str | None) -> Mapping[_Text, str]:
        """Return the newest matching text, and its snippet, of each of the *limit* sessions with the newest matches."""
        texts = self._connection.execute(
            "SELECT id, session_id FROM texts WHERE tenant = %(tenant)s AND words @@ %(query)s::tsquery"
            " AND (%(cwd)s::text IS NULL"
            " OR session_id IN (SELECT id FROM sessions WHERE tenant = %(tenant)s AND cwd = %(cwd)s))"
            " AND NOT EXISTS (SELECT 1 FROM removals WHERE tenant = %(tenant)s AND session_id = texts.session_id)"
            " ORDER BY id DESC LIMIT %(looked_at)s",
            {"tenant": self._tenant, "query": query.query, "cwd": cwd, "looked_at": MAX_SEARCHED_TEXTS},
        ).fetchall()
        matches: dict[SessionId, tuple[_Text, str]] = {}
        for start in range(0, len(texts), _AT_ONCE):
            numbers = [number for number, name in texts[start : start + _AT_ONCE] if name not in matches]
            for text in self._texts(numbers):
                # The index matches words in any order. Only the text shows whether they form the phrase.
                snippet = None if text.session_id in matches else query.snippet(text.text)
                if snippet is not None:
                    matches[text.session_id] = text, snippet
                if len(matches) == limit:
                    return dict(matches.values())
        return dict(matches.values())

    def _texts(self, numbers: Sequence[int]) -> Sequence[_Text]:
        """Return those texts, newest first."""
        rows = self._connection.execute(
            "SELECT id, session_id, seq, role, time, text FROM texts WHERE tenant = %s AND id = ANY(%s) ORDER BY id DESC",
            (self._tenant, list(numbers)),
        ).fetchall()
        return [_Text(*row) for row in rows]


@attrs.frozen
class _Text:
    """A row of `texts`."""

    number: int
    session_id: SessionId
    seq: int
    role: Role
    time: float
    text: str
