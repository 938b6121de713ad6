"""`PostgresWriterConnection`: the writer's connection, which is replaced when it breaks.

When a connection breaks during a commit, it is unknown whether the commit happened. So each
transaction writes its number into a row that only this store writes. Reading that row with a
lock, which waits for a transaction that still holds it, tells whether the commit happened.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Generator
from typing import Final

import attrs
import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from engine.core.ids import SessionId
from engine.store.backend import TransientStoreError
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect, wait_before_retry
from engine.store.postgres.error_mapping import DatabaseConnectionBroken, map_errors
from engine.store.postgres.schema import VERSION, advisory_lock_key, version_mismatch
from engine.store.postgres.table_writer import PostgresTableWriter

# PostgreSQL limits a notification to 8,000 bytes; a longer id wakes all watchers instead.
_LONGEST_NEWS: Final = 4_000


@attrs.define(eq=False, kw_only=True)
class PostgresWriterConnection:
    """See `WriterConnection`.

    Attributes:
        address: of the database.
        owner_id: of the store whose connection it is.
    """

    address: Address
    owner_id: str
    _connection: Connection | None = attrs.field(alias="connection")

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
                    owner=sql.Literal(self.owner_id),
                )
            )
            # Only the last of the statements returns the version.
            while cursor.nextset():
                pass
            row = cursor.fetchone()
            if row is None:
                raise DatabaseConnectionBroken(
                    f"the store {self.name}: its row was removed, as it was silent for too long"
                )
            if row[0] != VERSION:
                raise version_mismatch(int(row[0]), VERSION)
            yield PostgresTableWriter(connection)
            connection.execute("COMMIT")

    def has_committed(self, number: int) -> bool:
        """See `WriterConnection`: it waits until the server has ended that transaction; it may not know yet that we are gone."""
        with self._renamed():
            # FOR UPDATE: without the lock, the row could be read before the old transaction commits.
            row = (
                self._connected()
                .execute("SELECT number FROM writers WHERE owner = %s FOR UPDATE", (self.owner_id,))
                .fetchone()
            )
            return row is not None and row[0] == number

    def will_retry(self, error: TransientStoreError, since: float) -> bool:
        """See `WriterConnection`."""
        return isinstance(error, DatabaseConnectionBroken) and wait_before_retry(since, self.address)

    def announce(self, session_ids: Collection[SessionId]) -> None:
        """See `WriterConnection`."""
        if not session_ids or self._connection is None:
            return
        news = [session_id if len(session_id) < _LONGEST_NEWS else "" for session_id in session_ids]
        try:
            self._connection.execute(
                _ANNOUNCE.format(channel=sql.Literal(self.address.channel), news=sql.Literal(json.dumps(news)))
            )
        except psycopg.Error:
            # The events are committed, and watchers poll: a lost notification costs them some time only.
            self._clean_up(self._connection)

    def close(self) -> None:
        """See `WriterConnection`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is not None and self._connection.closed:
            self.close()
        if self._connection is None:
            connection = connect(self.address)
            try:
                register_writer(connection, self.owner_id)
            except BaseException:  # re-raised: only this frame can close the connection yet
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @contextlib.contextmanager
    def _renamed(self) -> Generator[None]:
        """Raise `StoreError`; the connection is in no transaction afterwards, or closed."""
        with map_errors(self.address):
            try:
                yield
            except BaseException as error:
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
            # The server rolls back the open transaction of a connection that is closed.
            self.close()


def register_writer(connection: Connection, owner_id: str) -> None:
    """Make the store's row. It blocks. Raises `psycopg.Error`, also if the database can be read only."""
    connection.execute(
        "INSERT INTO writers (owner, number, at) VALUES (%s, 0, now()) ON CONFLICT (owner) DO NOTHING", (owner_id,)
    )


# Several statements in one message: each answer that is waited for costs the interpreter's lock.
# First the lock, then the version: a migration holds the lock exclusively.
_BEGIN: Final = sql.SQL("""
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock_shared({lock});
WITH mark AS (UPDATE writers SET number = {number}, at = now() WHERE owner = {owner} RETURNING owner)
SELECT value FROM engine_store, mark WHERE name = 'version'
""")
# Not with the events: a commit that notifies waits for all others that do, in the whole database, and for the disk with
# them. This one waits for no disk.
_ANNOUNCE: Final = sql.SQL("""
BEGIN;
SET LOCAL synchronous_commit = off;
SELECT pg_notify({channel}, session) FROM json_array_elements_text({news}) AS news (session);
COMMIT
""")
