"""The connections to one file: the writer's own, and a pool of others for reading.

A database in memory has one connection, which writer and readers take in turns.
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
from engine.store.reader_pool import Readers
from engine.store.sqlite.error_mapping import primary, renamed
from engine.store.sqlite.location import MEMORY, Identity, JournalMode, check_same

T = TypeVar("T")

# Pages of a new file: larger than SQLite's own choice, since events are.
_PAGE_BYTES = 8_192
_CACHE_KIB = 8_192
_WAL_KEPT_BYTES = 64 << 20
_LOCK_SECONDS = 0.02


@attrs.define(eq=False, kw_only=True)
class Connections(Readers[sqlite3.Connection]):
    """All connections of one store to its file.

    Attributes:
        path: of the file, or `:memory:`.
        mode: how SQLite journals there.
        patience: seconds to wait for another process's lock.
    """

    path: str
    mode: JournalMode
    patience: float
    _only: sqlite3.Connection | None = attrs.field(default=None, init=False)
    _turn: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _known: Identity | None = attrs.field(default=None, init=False)

    def open(self, check: Callable[[sqlite3.Connection], object] | None = None) -> sqlite3.Connection:
        """Return a new connection to the file, which must be there. It blocks. Raises `sqlite3.Error`.

        *check* looks at the file before anything is written to it.
        """
        if self.path == MEMORY:
            with self._lock:
                if self._only is None:
                    self._only = _connect(MEMORY, self.patience)
                return self._only
        connection = _connect(uri_of(self.path, "rw"), self.patience)
        try:
            if self.mode == "truncate":
                # If it has a WAL still, that must not be read through shared memory: like this, it is not.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            if check is not None:
                check(connection)
            self._set_up(connection)
        except BaseException:  # whatever it is goes on: nobody has the connection yet, who could close it
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            # Of a file that is still empty. (On another, this would wait for the lock that a writer has.)
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        found: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if found != self.mode:
            self._change_mode(connection)
        if self.mode == "truncate":
            connection.execute("PRAGMA locking_mode = NORMAL")
            # Only now, with the next look, is the lock given back.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        # A flush promises that a power cut takes nothing back.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA temp_store = MEMORY")

    def _change_mode(self, connection: sqlite3.Connection) -> None:
        """Change the journal mode. SQLite does not wait for a lock here, so this does."""
        until = time.monotonic() + self.patience
        while True:
            try:
                connection.execute(f"PRAGMA journal_mode = {self.mode}").fetchone()
            except sqlite3.OperationalError as error:
                if primary(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_LOCK_SECONDS)  # in a thread: nobody tells when the lock is free
            else:
                return

    @contextmanager
    def writing(self, connection: sqlite3.Connection) -> Generator[None]:
        """Be the one who uses *connection*, which is the writer's, as long as the block lasts. It may wait for a reader."""
        if connection is not self._only:
            yield
            return
        with self._turn:
            yield

    def recognise(self) -> None:
        """Take the files that are at the path now for the ones that are open. It blocks."""
        if self.path != MEMORY:
            self._known = Identity.of(self.path)

    def check(self) -> None:
        """Raise `StoreError` if those files are not at the path any more. It blocks, for some microseconds."""
        if self._known is not None:
            check_same(self.path, self._known)

    def close_writer(self, connection: sqlite3.Connection) -> None:
        """Close the writer's connection; in memory, when the last reader is done."""
        with self.writing(connection):
            connection.close()

    # -- see `Readers` ------------------------------------------------------------------

    @property
    def name(self) -> str:
        """See `Readers`."""
        return self.path

    def connect_reader(self) -> sqlite3.Connection:
        """See `Readers`."""
        connection = self.open()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def close_reader(self, connection: sqlite3.Connection) -> None:
        """See `Readers`."""
        connection.close()

    def interrupt(self, connection: sqlite3.Connection) -> None:
        """See `Readers`."""
        connection.interrupt()

    def renamed(self) -> AbstractContextManager[None]:
        """See `Readers`."""
        return renamed(self.path)

    def attempt(self, work: Callable[[], T], is_stopped: Callable[[], bool]) -> T:
        """See `Readers`."""
        if self._is_closed:
            # Whoever closed it has removed its WAL: nobody else has.
            raise StoreError(f"the store {self.path} is closed")
        self.check()
        return work()

    def lent(self, is_stopped: Callable[[], bool]) -> AbstractContextManager[sqlite3.Connection]:
        """See `Readers`."""
        return self._in_turn() if self.path == MEMORY else self.pooled(is_stopped)

    @contextmanager
    def _in_turn(self) -> Generator[sqlite3.Connection]:
        with self._turn:
            if self._is_closed:
                raise StoreError(f"the store {self.path} is closed")
            yield self.open()


def uri_of(path: str, mode: Literal["ro", "rw"]) -> str:
    """Return the address of a file for SQLite, which makes none with it."""
    return f"file:{quote(str(Path(path).absolute()))}?mode={mode}"


def _connect(database: str, patience: float) -> sqlite3.Connection:
    connection = sqlite3.connect(
        database, timeout=patience, isolation_level=None, check_same_thread=False, uri=database.startswith("file:")
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
