"""Maps SQLite's errors to `StoreError`, and decides whether a retry may help."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Generator
from pathlib import Path
from typing import Final

from engine.core.errors import StoreCorrupt, StoreError

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# The minimum size of the `-shm` file.
_SHARED_BYTES: Final = 32_768
# Errors that may be temporary: another process's lock, a full disk, a loose cable. All others are permanent.
_TRANSIENT: Final = {
    sqlite3.SQLITE_BUSY: "another process has locked it",
    sqlite3.SQLITE_LOCKED: "another connection has locked it",
    sqlite3.SQLITE_FULL: "the disk is full: free some space",
    sqlite3.SQLITE_IOERR: "the disk refuses to read or write",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_CANTOPEN: "it can't be opened: look at the rights of its folder",
    sqlite3.SQLITE_READONLY: "it is read-only: look at its rights and those of its folder",
    sqlite3.SQLITE_PERM: "its rights forbid it",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted",
}


def to_store_error(error: sqlite3.Error, path: str) -> StoreError:
    """Return the exception to raise for *error* of the store at *path*, without a cause."""
    code = primary_code(error)
    if code in _DAMAGED:
        return StoreCorrupt(
            f"the store {path} is damaged ({error}): `engine sessions repair` copies what can be read to a new file"
        )
    is_full = code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path))
    why = _TRANSIENT.get(sqlite3.SQLITE_FULL if is_full else code)
    message = f"the store {path} failed: {error}" if why is None else f"the store {path}: {why} ({error})"
    return StoreError(message, is_full=is_full)


def _is_full(path: str) -> bool:
    """Return whether the disk has no room even for SQLite's shared memory, which SQLite reports as an I/O error."""
    try:
        filesystem = os.statvfs(Path(path).parent)
    except OSError:
        return False
    return filesystem.f_bavail * filesystem.f_frsize < _SHARED_BYTES


def is_transient(error: sqlite3.Error) -> bool:
    """Return whether a retry may succeed."""
    return primary_code(error) in _TRANSIENT


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; 0 if there is none."""
    code: object = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF if isinstance(code, int) else 0


@contextlib.contextmanager
def map_errors(path: str) -> Generator[None]:
    """Map SQLite's exceptions in the block to `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise to_store_error(error, path) from error
