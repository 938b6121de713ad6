"""SQLite's side of the border: its tables for a reader, for the writer, and the writer's desk."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Generator, Mapping, Sequence

import attrs

from engine.core.codec import Schema
from engine.core.errors import StoreMismatch
from engine.core.events import Delta, Durable
from engine.core.ids import PartId, SessionId
from engine.store import leases
from engine.store.backend import Passing, Row
from engine.store.lazy_events import Stored
from engine.store.leases import Lease, Owner
from engine.store.projection import Change
from engine.store.protocols import Hit, SessionQuery, SessionRow, Spending, SpendingQuery
from engine.store.sqlite import drafts as drafted
from engine.store.sqlite import load as reading
from engine.store.sqlite import projection_writer as index
from engine.store.sqlite import queries
from engine.store.sqlite import spending as accounts
from engine.store.sqlite.bulk_insert import insert
from engine.store.sqlite.connections import Connections
from engine.store.sqlite.error_mapping import error_of, may_pass
from engine.store.sqlite.migrate import version_of
from engine.store.sqlite.schema import VERSION


@attrs.frozen
class SqliteReading:
    """See `Reading`."""

    _connection: sqlite3.Connection

    def load(self, session_id: SessionId, schema: Schema, *, after: int = 0) -> Sequence[Durable]:
        """See `Reading`."""
        return reading.load(self._connection, session_id, schema, after=after)

    def open_session(self, session_id: SessionId, schema: Schema) -> tuple[Stored, int] | None:
        """See `Reading`."""
        return reading.open_session(self._connection, session_id, schema)

    def drafts(self, session_id: SessionId, schema: Schema) -> Sequence[Delta]:
        """See `Reading`."""
        return drafted.load(self._connection, session_id, schema)

    def old_trees(self, older_than: float, keep: int) -> Sequence[SessionId]:
        """See `Reading`."""
        return reading.old_trees(self._connection, older_than, keep)

    def list_sessions(self, owner: Owner, query: SessionQuery) -> Sequence[SessionRow]:
        """See `Reading`."""
        with reading.one_moment(self._connection):
            return queries.list_sessions(self._connection, owner, query)

    def search(self, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[Hit]:
        """See `Reading`."""
        with reading.one_moment(self._connection):
            return queries.search(self._connection, owner, words, limit, cwd)

    def ids(self, prefix: str) -> Sequence[SessionId]:
        """See `Reading`."""
        return queries.ids(self._connection, prefix)

    def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """See `Reading`."""
        return accounts.spending(self._connection, query)


@attrs.frozen
class SqliteWriting:
    """See `Writing`. Only one connection at a time is in a transaction that writes, so nothing has to be locked."""

    _connection: sqlite3.Connection

    def write(self, rows: Sequence[Row], changes: Sequence[Change]) -> None:
        """See `Writing`."""
        insert(
            self._connection,
            "events",
            "session_id, seq, type, version, body",
            [(row.event.session_id, row.seq, row.type, row.version, row.body) for row in rows],
        )
        index.apply(self._connection, changes)

    def last_of(self, session_id: SessionId) -> int:
        """See `Writing`."""
        last: int = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM events WHERE session_id = ?", (session_id,)
        ).fetchone()[0]
        return last

    def remember(self, session_id: SessionId, seq: int, made_by: str, body: str) -> None:
        """See `Writing`."""
        self._connection.execute(
            "INSERT OR REPLACE INTO states (session_id, seq, made_by, body) SELECT ?1, ?2, ?3, ?4"
            " WHERE (SELECT max(seq) FROM events WHERE session_id = ?1) >= ?2",
            (session_id, seq, made_by, body),
        )

    def draft(self, session_id: SessionId, part_id: PartId, offset: int, body: str) -> None:
        """See `Writing`."""
        drafted.keep(self._connection, session_id, part_id, offset, body)

    def undraft(self, session_id: SessionId, part_id: PartId | None) -> None:
        """See `Writing`."""
        drafted.forget(self._connection, session_id, part_id)

    def leases_of(self, session_ids: Collection[SessionId], owner: Owner) -> Mapping[SessionId, Lease]:
        """See `Writing`."""
        found = {session_id: leases.lease_of(self._connection, session_id) for session_id in session_ids}
        return {session_id: lease for session_id, lease in found.items() if lease is not None}

    def leases(self) -> Mapping[SessionId, Lease]:
        """See `Writing`."""
        return leases.leases(self._connection)

    def take(self, owner: Owner, session_id: SessionId, over: Lease | None) -> bool:
        """See `Writing`."""
        owner.take(self._connection, session_id)
        return True

    def renew(self, owner: Owner) -> None:
        """See `Writing`."""
        owner.renew(self._connection)

    def release(self, owner: Owner, session_id: SessionId) -> None:
        """See `Writing`."""
        owner.release(self._connection, session_id)

    def release_all(self, owner: Owner) -> None:
        """See `Writing`."""
        owner.release_all(self._connection)

    def tree(self, session_id: SessionId) -> Sequence[tuple[SessionId, float]]:
        """See `Writing`."""
        rows: list[tuple[SessionId, float]] = self._connection.execute(_TREE, (session_id,)).fetchall()
        return rows

    def remove(self, session_id: SessionId) -> bool:
        """See `Writing`."""
        for table in ("events", "states", "leases"):
            self._connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608  # three names of ours
        drafted.forget(self._connection, session_id, None)
        index.remove(self._connection, session_id)
        return True

    def shrink(self) -> None:
        """See `Writing`."""
        self._connection.execute("PRAGMA incremental_vacuum (10000)").fetchall()


@attrs.frozen(kw_only=True)
class SqliteDesk:
    """See `Desk`."""

    connections: Connections
    connection: sqlite3.Connection

    @property
    def name(self) -> str:
        """See `Desk`."""
        return self.connections.path

    @contextlib.contextmanager
    def transaction(self, number: int) -> Generator[SqliteWriting]:
        """See `Desk`."""
        with self._renamed(), self.connections.writing(self.connection):
            self.connections.check()
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                found = version_of(self.connection)
                if found != VERSION:
                    raise StoreMismatch(
                        f"another engine has brought the store to version {found}; this one knows {VERSION}",
                        is_newer=True,
                    )
                yield SqliteWriting(self.connection)
                self.connection.execute("COMMIT")
            except BaseException:  # whatever it is goes on: the connection must not stay in a transaction
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            # A commit into a file that has no name any more would be durable for nobody.
            self.connections.check()

    def has_committed(self, number: int) -> bool:
        """See `Desk`: what fails is rolled back."""
        return False

    def will_retry(self, error: Passing, since: float) -> bool:
        """See `Desk`: SQLite has waited for the lock itself."""
        return False

    def announce(self, session_ids: Collection[SessionId]) -> None:
        """See `Desk`: a file tells nobody."""

    def close(self) -> None:
        """See `Desk`."""
        self.connections.close_writer(self.connection)

    @contextlib.contextmanager
    def _renamed(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            told = error_of(error, self.connections.path)
            raise (Passing(str(told)) if may_pass(error) else told) from error


# UNION, not UNION ALL: damaged rows may name each other as parents.
_TREE = """
WITH RECURSIVE tree (id) AS (
    SELECT id FROM sessions WHERE id = ?1 OR root_id = ?1
    UNION
    SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id
)
SELECT id, updated FROM sessions WHERE id IN (SELECT id FROM tree) ORDER BY id
"""
