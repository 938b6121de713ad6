"""Opens a store's file: made if need be, known to be ours, lifted to the present version, looked at."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

import attrs

from engine.core.errors import StoreMismatch
from engine.core.ids import SessionId
from engine.core.threads import in_background
from engine.store.leases import Owner
from engine.store.sqlite.connections import Connections
from engine.store.sqlite.error_mapping import may_pass, primary, renamed
from engine.store.sqlite.integrity import check, is_due, note_checked
from engine.store.sqlite.location import MEMORY, JournalMode, journal_mode, make
from engine.store.sqlite.migrate import look, migrate


@attrs.define(eq=False)
class Opening:
    """Opens the file in a thread, and closes it again if nobody waits for that any more."""

    _path: Path
    _patience: float
    _mounts: Path
    owner: Owner
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _opened: tuple[Connections, sqlite3.Connection] | None = attrs.field(default=None, init=False)
    _is_abandoned: bool = attrs.field(default=False, init=False)

    def run(self) -> tuple[Connections, sqlite3.Connection, Sequence[SessionId]]:
        """Open it: in the thread."""
        if str(self._path) == MEMORY:
            return self._opened_at(MEMORY, "memory")
        # Where a link leads to: SQLite's other files are there, and what they need of a file system.
        path = Path(os.path.realpath(self._path))
        make(path)
        return self._opened_at(str(path), journal_mode(path, self._mounts))

    def _opened_at(self, path: str, mode: JournalMode) -> tuple[Connections, sqlite3.Connection, Sequence[SessionId]]:
        connections = Connections(path=path, mode=mode, patience=self._patience)
        try:
            with renamed(connections.path):
                connection, damaged = self._connect(connections)
        except StoreMismatch as error:
            raise StoreMismatch(f"the store {connections.path}: {error}", is_newer=error.is_newer) from error
        with self._lock:
            self._opened = connections, connection
            if self._is_abandoned:
                connection.close()
        return connections, connection, damaged

    def _connect(self, connections: Connections) -> tuple[sqlite3.Connection, Sequence[SessionId]]:
        connection = connections.open(look)
        try:
            return connection, self._prepare(connections, connection)
        except BaseException:  # whatever it is goes on: nobody else knows of the connection
            connection.close()
            raise

    def _prepare(self, connections: Connections, connection: sqlite3.Connection) -> Sequence[SessionId]:
        migrate(connection)
        with _without_patience(connection, self._patience):
            _try_to_write(connection)
        damaged: Sequence[SessionId] = ()
        if is_due(connection, self.owner):
            damaged = check(connection, connections.path)
            if not damaged:
                with _without_patience(connection, self._patience):
                    _note(connection, self.owner)
        connections.recognise()
        return damaged

    def abandon(self) -> None:
        """Nobody waits any more. In the trio thread; not a checkpoint."""
        with self._lock:
            self._is_abandoned = True
            if self._opened is not None:
                # Closing writes.
                in_background(self._opened[1].close)


def _note(connection: sqlite3.Connection, owner: Owner) -> None:
    """Note that it was looked at, if that can be written just now: else whoever comes next looks again."""
    try:
        note_checked(connection, owner)
    except sqlite3.OperationalError as error:
        if not may_pass(error):
            raise


def _try_to_write(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.Error` if it can be read only. That another is writing just now is no reason."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if primary(error) != sqlite3.SQLITE_BUSY:
            raise


@contextlib.contextmanager
def _without_patience(connection: sqlite3.Connection, patience: float) -> Generator[None]:
    """Wait for no lock: what is tried inside can as well be left."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
