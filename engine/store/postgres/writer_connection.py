"""`PostgresWriterConnection`: the writer's connection, which is replaced when it breaks.

When a connection breaks during a commit, it is unknown whether the commit happened. So each
transaction writes its number into a row that only this store writes. Reading that row with a lock, which waits for a
transaction that still holds it, shows whether the commit happened.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Generator
from typing import Final

import attrs
import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from engine.core.ids import SessionId
from engine.core.version import __version__
from engine.store.backend import TransientStoreError
from engine.store.leases import Owner
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect, wait_before_retry
from engine.store.postgres.error_mapping import DatabaseConnectionBroken, map_errors
from engine.store.postgres.schema import VERSION, advisory_lock_key, version_mismatch
from engine.store.postgres.table_writer import PostgresTableWriter
from engine.store.postgres.text_table import postgres_text
from engine.store.store_figures import StoreFigures

# Seconds between two notifications of one engine: commits that notify wait for each other, over all databases of a server.
_ANNOUNCE_EVERY: Final = 0.1


@attrs.define(eq=False, kw_only=True)
class PostgresWriterConnection:
    """See `WriterConnection`.

    Attributes:
        address: of the database.
        owner: the store whose connection it is.
    """

    address: Address
    owner: Owner
    _connection: Connection | None = attrs.field(alias="connection")
    _has_row_security: bool = attrs.field(alias="has_row_security")
    _figures: StoreFigures = attrs.field(alias="figures")
    # The sessions that were written since the last notification, and when that was.
    _news: set[SessionId] = attrs.field(factory=set[SessionId], init=False)
    _announced_at: float = attrs.field(default=0.0, init=False)

    @property
    def name(self) -> str:
        """See `WriterConnection`."""
        return self.address.name

    @contextlib.contextmanager
    def transaction(self, number: int) -> Generator[PostgresTableWriter]:
        """See `WriterConnection`."""
        with self._renamed():
            connection = self._connected()
            cursor = connection.execute(
                _BEGIN.format(
                    lock=sql.Literal(advisory_lock_key(self.address)),
                    number=sql.Literal(number),
                    owner=sql.Literal(self.owner.id),
                    tenant=sql.Literal(self.address.tenant),
                )
            )
            # Only the last statement returns the version.
            while cursor.nextset():
                pass
            row = cursor.fetchone()
            if row is None:
                raise DatabaseConnectionBroken(
                    f"the store {self.name}: its row was removed, as it was silent for too long"
                )
            if row[0] != VERSION:
                raise version_mismatch(int(row[0]), VERSION)
            yield PostgresTableWriter(connection, self.address.tenant, self._figures, self._has_row_security)
            connection.execute("COMMIT")

    def has_committed(self, number: int) -> bool:
        """See `WriterConnection`: waits for the server, which may not have noticed yet that the connection broke."""
        with self._renamed():
            # FOR UPDATE: without the lock, the row could be read before the old transaction commits.
            row = (
                self._connected()
                .execute(
                    "SELECT number FROM writers WHERE tenant = %s AND owner = %s FOR UPDATE",
                    (self.address.tenant, self.owner.id),
                )
                .fetchone()
            )
            return row is not None and row[0] == number

    def will_retry(self, error: TransientStoreError, since: float) -> bool:
        """See `WriterConnection`."""
        return isinstance(error, DatabaseConnectionBroken) and wait_before_retry(since, self.address)

    def announce(self, session_ids: Collection[SessionId]) -> float | None:
        """See `WriterConnection`: one notification for all that was written in a tenth of a second, if it is watched."""
        self._news.update(session_ids)
        wait = self._announced_at + _ANNOUNCE_EVERY - time.monotonic()
        if self._news and wait > 0:
            return wait
        self._announce_now()
        return None

    def _announce_now(self) -> None:
        if not self._news or self._connection is None or self._connection.closed:
            return
        self._announced_at = time.monotonic()
        news, self._news = json.dumps([postgres_text(each) for each in self._news]), set()
        try:
            cursor = self._connection.execute(
                _ANNOUNCE.format(
                    channel=sql.Literal(self.address.channel),
                    tenant=sql.Literal(self.address.tenant),
                    news=sql.Literal(news),
                )
            )
        except psycopg.Error:
            # The events are committed, and watchers poll: a lost notification only delays them.
            self._clean_up(self._connection)
            return
        while cursor.description is None and cursor.nextset():
            pass
        # Of the statement with a result: a row if some session is watched.
        self._figures.notifications += max(0, cursor.rowcount)

    def close(self) -> None:
        """See `WriterConnection`."""
        self._announce_now()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is not None and self._connection.closed:
            self.close()
        if self._connection is None:
            connection = connect(self.address)
            try:
                self._has_row_security = register_writer(connection, self.address.tenant, self.owner)
            except BaseException:  # re-raised: so far only this frame can close the connection
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @contextlib.contextmanager
    def _renamed(self) -> Generator[None]:
        """Map psycopg's exceptions to `StoreError`, and leave the connection without a transaction, or closed."""
        with map_errors(self.address):
            try:
                yield
            except BaseException as error:
                # The next attempt needs a new connection; any other error leaves this one usable after a rollback.
                if isinstance(error, DatabaseConnectionBroken):
                    self.close()
                elif self._connection is not None:
                    self._clean_up(self._connection)
                raise

    def _clean_up(self, connection: Connection) -> None:
        try:
            if connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                connection.execute("ROLLBACK")
        except psycopg.Error:
            # The server rolls back the transaction of a closed connection.
            self.close()


def register_writer(connection: Connection, tenant: str, owner: Owner) -> bool:
    """Create the store's row, or note there that it has a new connection; return whether row security limits what it may write.

    It blocks. Raises `psycopg.Error`, for example if the database is read-only.
    """
    connection.execute(
        "INSERT INTO writers (tenant, owner, number, at, backend, host, pid, version)"
        " VALUES (%s, %s, 0, now(), pg_backend_pid(), %s, %s, %s)"
        " ON CONFLICT (owner) DO UPDATE SET backend = excluded.backend",
        (tenant, owner.id, owner.host, owner.process.pid, __version__),
    )
    row = connection.execute("SELECT row_security_active('events') OR row_security_active('texts')").fetchone()
    return row is not None and bool(row[0])


# Several statements in one message: each round trip means waiting for the GIL again.
# First the lock, then the version: a migration holds the lock exclusively.
_BEGIN: Final = sql.SQL("""
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock_shared({lock});
WITH mark AS (UPDATE writers SET number = {number}, at = now() WHERE tenant = {tenant} AND owner = {owner}
    RETURNING owner)
SELECT value FROM engine_store, mark WHERE name = 'version'
""")
# Not in the events' transaction: commits that notify are serialised in the whole database, and would wait for each
# other's disk syncs. This one syncs nothing, and without watchers it is no commit at all. PostgreSQL limits a
# notification to 8,000 bytes; instead of a longer one, an empty list wakes all watchers.
_ANNOUNCE: Final = sql.SQL("""
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT pg_notify({channel}, CASE WHEN octet_length(sessions) < 8000 THEN sessions ELSE '[]' END) FROM (
    SELECT json_agg(session)::text AS sessions FROM json_array_elements_text({news}) AS news (session)
    WHERE EXISTS (SELECT 1 FROM watchers WHERE tenant = {tenant} AND session_id = session AND expires > clock_timestamp())
) AS watched WHERE sessions IS NOT NULL;
COMMIT
""")
