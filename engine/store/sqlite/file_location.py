"""The store's file: its default path, its creation, its identity, and the journal mode for its file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import attrs

from engine.core.errors import StoreError
from engine.core.value_base import Value
from engine.store.sqlite.filesystem import MOUNTS, filesystem_type, is_shared

JournalMode = Literal["wal", "truncate", "memory"]


def default_path() -> Path:
    """Return the default path of the user's sessions."""
    from platformdirs import user_data_path

    return user_data_path("engine", appauthor=False) / "sessions.db"


def create_file(path: Path) -> None:
    """Create the file and its folder if needed, readable by the user alone. It blocks.

    An existing file keeps its permissions. Either way the file is never opened here: POSIX drops all locks of a
    process on a file when the process closes any descriptor of it. Raises `StoreError`.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            os.mknod(path, 0o600)  # not open() and close(): another thread may already have opened and locked it
    except FileExistsError:
        pass  # another process was faster, or a folder above it is a file
    except OSError as error:
        raise StoreError(f"the store {path} can't be written: {error.strerror or error}") from error
    if not path.is_file():
        raise StoreError(f"the store {path} can't be written: it exists and is no file")
    if not may_access(path, os.R_OK):
        raise StoreError(f"the store {path} can't be read: this user has no right to")
    if problem := _write_problem(path):
        raise StoreError(f"the store {path} can't be written: {problem}")


def is_read_only(path: Path) -> bool:
    """Return whether a file is there that this user can read, but not write. It blocks."""
    return may_access(path, os.R_OK) and path.is_file() and bool(_write_problem(path))


def _write_problem(path: Path) -> str:
    """Return why SQLite can't write to a file; empty: it can. It also creates files in the folder."""
    # Otherwise SQLite opens it read-only, and fails at the first event.
    places = ((path, "it"), (path.parent, "its folder"))
    return next((f"{name} is read-only" for place, name in places if not may_access(place, os.R_OK | os.W_OK)), "")


def may_access(place: Path, mode: int) -> bool:
    """Return whether this user has a right at *place*, as `os.access` says it for the user that the process acts for."""
    return os.access(place, mode, effective_ids=os.access in os.supports_effective_ids)


def journal_mode(path: Path, mounts: Path = MOUNTS) -> JournalMode:
    """Return SQLite's journal mode for that path. It blocks.

    A WAL needs memory that all processes share. On file systems without it (NFS, a
    shared folder of a virtual machine), files were damaged; the rollback journal
    needs only locks.
    """
    return "truncate" if is_shared(filesystem_type(path.parent, mounts)) else "wal"


@attrs.frozen(eq=False, repr=False)
class Identity(Value):
    """Which files are at the path: the database, and its WAL if there is one. None: there is none."""

    database: tuple[int, int] | None
    wal: tuple[int, int] | None

    @classmethod
    def of(cls, path: str) -> Identity:
        """Return the identity of the files at *path*. It blocks, for some microseconds."""
        return cls(_node(path), _node(f"{path}-wal"))


def check_identity(path: str, expected: Identity) -> None:
    """Raise `StoreError` if the path now leads to other files: writes to a deleted file are lost."""
    now = Identity.of(path)
    if now != expected:
        is_gone = now.database is None or (expected.wal is not None and now.wal is None)
        what = "deleted" if is_gone else "replaced"
        raise StoreError(f"the store {path} was {what} while it was open: nothing more is written; open it again")


def _node(path: str) -> tuple[int, int] | None:
    try:
        state = Path(path).stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
