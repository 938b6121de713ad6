"""Opens a store's file: creates it if needed, recognises it, migrates it, and checks it."""

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
from engine.store.memory import MEMORY
from engine.store.sqlite.connections import Connections, file_uri
from engine.store.sqlite.error_mapping import is_transient, map_errors, primary_code
from engine.store.sqlite.file_location import JournalMode, create_file, is_read_only, journal_mode
from engine.store.sqlite.migrate import check_compatible, migrate


@attrs.define(eq=False, repr=False)
class FileOpening:
    """Opens the file in a thread, and closes it again if the caller was cancelled.

    A file that can't be written is copied into memory, if nothing is going to be written.
    """

    _path: Path
    _lock_timeout: float
    _mounts: Path
    owner: Owner
    _only_reads: bool = False
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _opened: tuple[Connections, sqlite3.Connection] | None = attrs.field(default=None, init=False)
    _is_abandoned: bool = attrs.field(default=False, init=False)

    def run(self) -> tuple[Connections, sqlite3.Connection, Sequence[SessionId]]:
        """Open it: in the thread."""
        if str(self._path) == MEMORY:
            return self._opened_at(MEMORY, "memory")
        # Resolved, because SQLite puts its WAL next to a link's target, and the target's file system decides the mode.
        path = Path(os.path.realpath(self._path))
        if self._only_reads and is_read_only(path):
            return self._opened_at(MEMORY, "memory", source=path)
        create_file(path)
        return self._opened_at(str(path), journal_mode(path, self._mounts))

    def _opened_at(
        self, path: str, mode: JournalMode, source: Path | None = None
    ) -> tuple[Connections, sqlite3.Connection, Sequence[SessionId]]:
        connections = Connections(path=path, mode=mode, lock_timeout=self._lock_timeout)
        name = path if source is None else str(source)
        try:
            with map_errors(name):
                connection, damaged = self._connect(connections, source)
        except StoreMismatch as error:
            raise StoreMismatch(f"the store {name}: {error}", is_newer=error.is_newer) from error
        # `abandon` may be called at any time: one of the two sees what the other has set, and closes the connection.
        with self._lock:
            self._opened = connections, connection
            if self._is_abandoned:
                connection.close()
        return connections, connection, damaged

    def _connect(self, connections: Connections, source: Path | None) -> tuple[sqlite3.Connection, Sequence[SessionId]]:
        connection = connections.open(check_compatible)
        try:
            if source is not None:
                _copy(source, connection)
                check_compatible(connection)
            return connection, self._prepare(
                connections, connection, connections.path if source is None else str(source)
            )
        except BaseException:  # re-raised: only this frame has the connection
            connection.close()
            raise

    def _prepare(self, connections: Connections, connection: sqlite3.Connection, name: str) -> Sequence[SessionId]:
        from engine.store.sqlite.integrity import check_file, is_due

        migrate(connection)
        with _no_lock_wait(connection, self._lock_timeout):
            # Tried now: a read-only file would otherwise fail at the first event, in the middle of a turn.
            _try_to_write(connection)
        damaged: Sequence[SessionId] = ()
        if is_due(connection, self.owner):
            damaged = check_file(connection, name)
            if not damaged:
                with _no_lock_wait(connection, self._lock_timeout):
                    _note(connection, self.owner)
        # Last: migrating and checking may have created the WAL, which belongs to the identity.
        connections.record_identity()
        return damaged

    def abandon(self) -> None:
        """Close what was opened, since the caller was cancelled. In the trio thread; not a checkpoint."""
        with self._lock:
            self._is_abandoned = True
            if self._opened is not None:
                # In a thread, since closing checkpoints the WAL.
                in_background(self._opened[1].close)


def _copy(source: Path, target: sqlite3.Connection) -> None:
    """Copy a file that can't be written. Raises `sqlite3.Error`."""
    uri = file_uri(str(source), "ro")
    wal, shared, journal = (Path(f"{source}{ending}") for ending in ("-wal", "-shm", "-journal"))
    try:
        _copy_at(uri, target)
    except sqlite3.OperationalError as error:
        # Next to a WAL, SQLite needs a file of its own, and can't create it there. If that file is there, or a journal to
        # roll back, an engine may be writing. Without all of them, the file is complete.
        if _has_content(journal) or (_has_content(wal) and shared.exists()):
            raise
        if _has_content(wal):
            _copy_with_wal(source, wal, target, error)
        else:
            _copy_at(f"{uri}&immutable=1", target)


def _copy_with_wal(source: Path, wal: Path, target: sqlite3.Connection, error: sqlite3.Error) -> None:
    """Copy a file and its WAL to where SQLite can recover them, and then into memory. Raises *error* if it can't."""
    # Imported here: hardly any store needs them.
    import shutil
    import tempfile

    try:
        with tempfile.TemporaryDirectory(prefix="engine-store-") as folder:
            copy = Path(folder, "sessions.db")
            shutil.copyfile(source, copy)
            shutil.copyfile(wal, f"{copy}-wal")
            _copy_at(file_uri(str(copy), "rw"), target)
    except OSError as problem:  # the disk of temporary files is full, or can't be written either
        raise error from problem


def _copy_at(uri: str, target: sqlite3.Connection) -> None:
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.backup(target)


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _note(connection: sqlite3.Connection, owner: Owner) -> None:
    """Record the check, unless the file is locked at the moment; then the next opening checks again."""
    from engine.store.sqlite.integrity import note_checked

    try:
        note_checked(connection, owner)
    except sqlite3.OperationalError as error:
        if not is_transient(error):
            raise


def _try_to_write(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.Error` if the file is read-only, but not if another process is writing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_BUSY:
            raise


@contextlib.contextmanager
def _no_lock_wait(connection: sqlite3.Connection, lock_timeout: float) -> Generator[None]:
    """Don't wait for locks: what the block does is optional."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(lock_timeout * 1000)}")
