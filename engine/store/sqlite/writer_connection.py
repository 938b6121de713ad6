"""`SqliteWriterConnection`: the connection on which the writer's thread runs its transactions."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Generator

import attrs

from engine.core.errors import StoreMismatch
from engine.core.ids import SessionId
from engine.core.value_base import Value
from engine.store.backend import TransientStoreError
from engine.store.sqlite.connections import Connections
from engine.store.sqlite.error_mapping import is_transient, to_store_error
from engine.store.sqlite.migrate import read_version
from engine.store.sqlite.schema import VERSION
from engine.store.sqlite.table_writer import SqliteTableWriter


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SqliteWriterConnection(Value):
    """See `WriterConnection`."""

    connections: Connections
    connection: sqlite3.Connection

    @property
    def name(self) -> str:
        """See `WriterConnection`."""
        return self.connections.path

    @contextlib.contextmanager
    def transaction(self, number: int) -> Generator[SqliteTableWriter]:
        """See `WriterConnection`."""
        with self._renamed(), self.connections.writing(self.connection):
            self.connections.check()
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                version = read_version(self.connection)
                if version != VERSION:
                    raise StoreMismatch(
                        f"another engine has upgraded the store to version {version}; this one supports {VERSION}",
                        is_newer=True,
                    )
                yield SqliteTableWriter(self.connection)
                self.connection.execute("COMMIT")
            except BaseException:  # re-raised: the connection must not stay in a transaction
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            # A commit to a deleted file would be lost.
            self.connections.check()

    def has_committed(self, number: int) -> bool:
        """See `WriterConnection`: a failed transaction is always rolled back."""
        return False

    def will_retry(self, error: TransientStoreError, since: float) -> bool:
        """See `WriterConnection`: SQLite has already waited for the lock."""
        return False

    def announce(self, session_ids: Collection[SessionId]) -> None:
        """See `WriterConnection`: a file sends no notifications."""

    def close(self) -> None:
        """See `WriterConnection`."""
        self.connections.close_writer(self.connection)

    @contextlib.contextmanager
    def _renamed(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            store_error = to_store_error(error, self.connections.path)
            transient = TransientStoreError(str(store_error), is_full=store_error.is_full)
            raise (transient if is_transient(error) else store_error) from error
