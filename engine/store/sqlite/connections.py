"""The connections to one file: the writer's, and a pool for reading.

A database in memory has a single connection, which the writer and the readers use in turns.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

import attrs

from engine.core.errors import StoreError
from engine.store.memory import MEMORY
from engine.store.reader_pool import ReaderPool
from engine.store.sqlite.error_mapping import map_errors, primary_code
from engine.store.sqlite.file_location import Identity, JournalMode, check_identity

T = TypeVar("T")

# Page size of a new file. SQLite's default of 4,096 bytes is smaller than many events, which then need overflow pages.
_PAGE_BYTES = 8_192
# For each connection. SQLite's default; the system keeps the file's pages in memory anyway.
_CACHE_KIB = 2_000
_WAL_KEPT_BYTES = 64 << 20
_LOCK_SECONDS = 0.02


@attrs.define(kw_only=True, eq=False, repr=False)
class Connections(ReaderPool[sqlite3.Connection]):
    """All connections of one store to its file.

    Attributes:
        path: of the file, or `:memory:`.
        mode: how SQLite journals there.
        lock_timeout: seconds to wait for another process's lock.
    """

    path: str
    mode: JournalMode
    lock_timeout: float
    _memory_connection: sqlite3.Connection | None = attrs.field(default=None, init=False)
    _memory_lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _identity: Identity | None = attrs.field(default=None, init=False)

    def open(self, check: Callable[[sqlite3.Connection], object] | None = None) -> sqlite3.Connection:
        """Return a new connection to the file, which must exist. It blocks. Raises `sqlite3.Error`.

        *check* looks at the file before anything is written to it.
        """
        if self.path == MEMORY:
            with self._lock:
                if self._memory_connection is None:
                    self._memory_connection = _connect(MEMORY, self.lock_timeout)
                return self._memory_connection
        connection = _connect(file_uri(self.path, "rw"), self.lock_timeout)
        try:
            if self.mode == "truncate":
                # If the file still has a WAL, this reads it without shared memory, which such a file system may not support.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            if check is not None:
                check(connection)
            self._set_up(connection)
        except BaseException:  # re-raised: only this frame can close the connection yet
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            # Both affect only an empty file. On any other they would wait for a writer's lock.
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        mode: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != self.mode:
            self._change_mode(connection)
        if self.mode == "truncate":
            connection.execute("PRAGMA locking_mode = NORMAL")
            # SQLite releases the exclusive lock only with the next read.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        # FULL, not NORMAL, which in WAL mode does not sync at a commit: a flush promises to survive a power cut.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")

    def _change_mode(self, connection: sqlite3.Connection) -> None:
        """Change the journal mode. SQLite does not wait for locks here, so this function does."""
        until = time.monotonic() + self.lock_timeout
        while True:
            try:
                connection.execute(f"PRAGMA journal_mode = {self.mode}").fetchone()
            except sqlite3.OperationalError as error:
                if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_LOCK_SECONDS)  # in a thread: nothing signals when the lock is free
            else:
                return

    @contextmanager
    def writing(self, connection: sqlite3.Connection) -> Generator[None]:
        """Use the writer's *connection* exclusively within the block. In memory it may wait for a reader."""
        if connection is not self._memory_connection:
            yield
            return
        with self._memory_lock:
            yield

    def record_identity(self) -> None:
        """Remember the identity of the files at the path, which are the open ones. It blocks."""
        if self.path != MEMORY:
            self._identity = Identity.of(self.path)

    def check(self) -> None:
        """Raise `StoreError` if the path no longer leads to those files. It blocks, for some microseconds."""
        if self._identity is not None:
            check_identity(self.path, self._identity)

    def close_writer(self, connection: sqlite3.Connection) -> None:
        """Close the writer's connection; in memory, once the last reader is done."""
        with self.writing(connection):
            connection.close()

    # -- see `ReaderPool` ------------------------------------------------------------------

    @property
    def name(self) -> str:
        """See `ReaderPool`."""
        return self.path

    def connect_reader(self) -> sqlite3.Connection:
        """See `ReaderPool`."""
        connection = self.open()
        try:
            connection.execute("PRAGMA query_only = ON")
        except BaseException:  # re-raised: only this frame can close the connection yet
            self.close_reader(connection)
            raise
        return connection

    def close_reader(self, connection: sqlite3.Connection) -> None:
        """See `ReaderPool`."""
        connection.close()

    def interrupt(self, connection: sqlite3.Connection) -> None:
        """See `ReaderPool`."""
        connection.interrupt()

    def map_errors(self) -> AbstractContextManager[None]:
        """See `ReaderPool`."""
        return map_errors(self.path)

    def run_with_retry(self, work: Callable[[], T], is_stopped: Callable[[], bool]) -> T:
        """See `ReaderPool`."""
        if self._is_closed:
            # Closing has removed the WAL, for which `check` would blame another program.
            raise StoreError(f"the store {self.path} is closed")
        self.check()
        return work()

    def borrow(self, is_stopped: Callable[[], bool]) -> AbstractContextManager[sqlite3.Connection]:
        """See `ReaderPool`."""
        return self._borrow_memory() if self.path == MEMORY else self.borrow_pooled(is_stopped)

    @contextmanager
    def _borrow_memory(self) -> Generator[sqlite3.Connection]:
        with self._memory_lock:
            if self._is_closed:
                raise StoreError(f"the store {self.path} is closed")
            yield self.open()


def file_uri(path: str, mode: Literal["ro", "rw"]) -> str:
    """Return a URI with which SQLite opens a file but never creates it."""
    return f"file:{quote(str(Path(path).absolute()))}?mode={mode}"


def _connect(database: str, lock_timeout: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        database, timeout=lock_timeout, isolation_level=None, check_same_thread=False, uri=database.startswith("file:")
    )
    try:
        # A file from elsewhere may have views and triggers, which must not call functions with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:  # re-raised: only this frame can close the connection yet
        connection.close()
        raise
    return connection
