"""Temporary files next to the files that they will replace, also after a `kill -9`.

A new content is written next to its file, since a rename is atomic only within a file system. It lies in a hidden folder
that git ignores, so a killed engine leaves nothing in `git status`; and the next engine removes the folder, because each
process lists the folders in which it has made some. The list is locked as long as its process lives.

Everything here blocks.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import re
import stat
import threading
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir, mkdtemp
from typing import Final, Self, cast

import attrs

from engine.files.real_folder import RealFolder, open_folder

_IGNORE: Final = ".gitignore"
_SUFFIX: Final = ".tmp"
_TOKEN_CHARS: Final = 16
_TOKEN: Final = rf"[0-9a-f]{{{_TOKEN_CHARS}}}"


@attrs.define(eq=False, repr=False)
class StagingFolder:
    """A hidden folder in another one, whose files will be renamed into that one.

    Attributes:
        inner: the folder.
        name: its name.
    """

    _above: RealFolder
    inner: RealFolder
    name: str
    _names: list[str] = attrs.field(factory=list[str], init=False)

    @classmethod
    def make(cls, above: RealFolder, path: str) -> Self:
        """Make one in the folder *above*, whose real path is *path*. Raises `OSError`."""
        name = f".{temporary_token(path)}{token_hex(_TOKEN_CHARS // 2)}{_SUFFIX}"
        staging = cls(above, above.make_inner(name), name)
        try:
            staging.inner.make_whole(_IGNORE, b"*\n")
        except OSError:
            staging.remove()
            raise
        return staging

    def new_name(self) -> str:
        """Return a name for another file."""
        self._names.append(f"{len(self._names)}{_SUFFIX}")
        return self._names[-1]

    def path_of(self, name: str) -> str:
        """Return the path of a file in it, relative to the folder that it is in."""
        return f"{self.name}/{name}"

    def keep(self, name: str) -> None:
        """Leave a file where it is, for the user: neither `remove` nor the next engine removes it."""
        self._names.remove(name)

    def remove(self) -> None:
        """Remove it with the files that are left in it, except those to keep. Then git does not ignore it any more."""
        for name in (*self._names, _IGNORE):
            with suppress(OSError):
                self.inner.remove(name)
        self._above.remove_empty(self.name)
        self.inner.close()


def temporary_token(path: str) -> str:
    """Return what names of temporary files and folders of this process begin with, after noting that *path* has some."""
    return _folders.note(path)


def make_copy_folder(near: Path) -> Path:
    """Make a new folder in *near*, for a copy that a program works on; `remove_copy_folder` removes it. Raises `OSError`.

    Git ignores it, but it is not hidden: some programs skip hidden folders.
    """
    folder = Path(mkdtemp(prefix=f"engine-{temporary_token(str(near))}", suffix=_SUFFIX, dir=near))
    try:
        with open_folder(folder / _IGNORE) as (inner, name):
            inner.make_whole(name, b"*\n")
    except OSError:
        remove_copy_folder(folder)
        raise
    return folder


def remove_copy_folder(folder: Path) -> None:
    """Remove such a folder with all that is in it."""
    with suppress(OSError):
        _remove_tree(str(folder))


def remove_leftovers() -> None:
    """Remove the temporary files of engines that were killed."""
    with suppress(OSError):
        for listed in sorted(_lists().iterdir()):
            if re.fullmatch(_TOKEN, listed.name.removeprefix(".")):
                with suppress(OSError):
                    _remove_of(listed)


def _remove_of(listed: Path) -> None:
    """Remove what the process of a list has left. Raises `OSError` if it lives: its list is locked."""
    descriptor = os.open(listed, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            lines = file.read().splitlines()
        for line in lines:
            with suppress(OSError, ValueError):  # cut off, or the folder is gone
                _remove_in(cast("str", json.loads(line)), listed.name.removeprefix("."))
        listed.unlink()
    finally:
        os.close(descriptor)


def _remove_in(folder: str, token: str) -> None:
    for entry in list(os.scandir(folder)):
        # Only what was made by that process: the token is random.
        is_copy = re.fullmatch(rf"engine-{token}\w+\.tmp", entry.name) is not None
        is_staging = re.fullmatch(rf"\.{token}[0-9a-f]+\.tmp", entry.name) is not None
        if (is_copy or is_staging) and entry.is_dir(follow_symlinks=False):
            # What is to be kept for the user is in a folder that git does not ignore.
            if is_copy or os.path.lexists(os.path.join(entry.path, _IGNORE)):  # noqa: PTH118 - of a str, which may be no UTF-8
                _remove_tree(entry.path)
            else:
                with suppress(OSError):
                    os.rmdir(entry.path)  # noqa: PTH106


def _remove_tree(folder: str) -> None:
    """Remove a folder; its list of what git ignores goes last, in case that this is killed, too. Raises `OSError`."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name == _IGNORE):
        if entry.is_dir(follow_symlinks=False):
            _remove_tree(entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108 - of a str, which may be no UTF-8
    os.rmdir(folder)  # noqa: PTH106


def _lists(*, make: bool = False) -> Path:
    """Return the folder of the lists. Raises `OSError` if it is missing or not this user's alone.

    One that a reboot empties will do: what it lists was made since, as long as the machine did not lose its power.
    """
    folder = Path(gettempdir(), f"engine-staging-{os.geteuid()}")
    if make:
        folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder


@attrs.define(eq=False, repr=False)
class _Folders:
    """The list of folders in which this process has made temporary files."""

    token: str = ""
    pid: int = 0
    _descriptor: int = -1
    _noted: set[str] = attrs.field(factory=set[str])
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def note(self, path: str) -> str:
        """Note a folder, before the first temporary file is made in it; return the token."""
        with self._lock:
            if self.pid != os.getpid():
                self._begin()
            if path not in self._noted:
                self._noted.add(path)
                # Without a list, edits still work; only a kill leaves more behind.
                with suppress(OSError):
                    os.write(self._descriptor, f"{json.dumps(path)}\n".encode("ascii"))
            return self.token

    def _begin(self) -> None:
        """Begin a list, in this process."""
        self.token, self.pid, self._descriptor = token_hex(_TOKEN_CHARS // 2), os.getpid(), -1
        self._noted.clear()
        with suppress(OSError):
            folder = _lists(make=True)
            path = folder / self.token
            # Locked before it has its name: another engine may look at any moment.
            hidden = folder / f".{self.token}"
            self._descriptor = os.open(hidden, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            hidden.rename(path)
            atexit.register(self._end, path, self.pid)

    def _end(self, path: Path, pid: int) -> None:
        if pid == os.getpid():
            path.unlink(missing_ok=True)
            with suppress(OSError):  # there are lists of other processes in it
                path.parent.rmdir()


_folders = _Folders()
