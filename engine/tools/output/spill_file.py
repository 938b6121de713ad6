"""One file of the spill: a queue filled on the event loop, and threads that write it to disk.

Cancelling: only threads touch the disk. They hold the file's lock, so it does not matter which thread it is: an abandoned
one goes on, and the next one waits for it. The file gets its final name once it is complete; until then it has a hidden
name, and `discard` removes it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from engine.core.threads import in_background
from engine.tools.output.truncate import Rest

# For one output, 128 MiB: a model reads or searches less than that, and a disk has to keep all outputs of a week.
LARGEST: Final = 1 << 27
# Created with the first folder; its modification time is that of the last sweep.
STAMP: Final = ".swept"
# 4 MiB in memory; a process that prints faster than the disk writes is slowed down by then.
_QUEUE: Final = 1 << 22
# Each attempt fails only if another engine removes the folder within microseconds.
_ATTEMPTS: Final = 20


@attrs.define(eq=False, repr=False)
class SpillFile:
    """A file being written, in *folder* inside *directory*; *count* is called with its size once it is complete."""

    _directory: Path
    _folder: str
    _count: Callable[[int], None]
    _queue: deque[bytes | memoryview] = attrs.field(factory=deque[bytes | memoryview], init=False)
    _put: int = attrs.field(default=0, init=False)  # written on the loop alone
    _reserved: int = attrs.field(default=0, init=False)  # written under the lock alone
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _is_discarded: bool = attrs.field(default=False, init=False)
    _overran: bool = attrs.field(default=False, init=False)
    _descriptor: int | None = attrs.field(default=None, init=False)
    _name: str = attrs.field(factory=lambda: f".{secrets.token_hex(8)}", init=False)
    _digest: hashlib.blake2b = attrs.field(factory=lambda: hashlib.blake2b(digest_size=8), init=False)
    _written: int = attrs.field(default=0, init=False)
    _trouble: str = attrs.field(default="", init=False)
    _rest: Rest | None = attrs.field(default=None, init=False)

    # -- on the loop ----------------------------------------------------------------------

    @property
    def is_filling(self) -> bool:
        """Whether the queue is half full."""
        return self._put - self._reserved > _QUEUE // 2

    def put(self, data: bytes | memoryview) -> None:
        """Append to the queue."""
        self._put += len(data)
        self._queue.append(data)

    def put_if_room(self, data: bytes) -> None:
        """Append to the queue unless it is, or was, full: the file must contain the beginning without gaps."""
        waiting = self._put - self._reserved
        if waiting and waiting + len(data) > _QUEUE:
            self._overran = True
        if not (self._overran or self._trouble):
            self.put(data)

    def discard(self) -> None:
        """Remove the file, in a thread that is not waited for."""
        self._is_discarded = True
        in_background(self._remove)

    # -- in threads -----------------------------------------------------------------------

    def pump(self) -> None:
        """Write the queue."""
        with self._lock:
            self._pump()

    def finish(self) -> Rest:
        """Write the rest, give the file its final name, and return it."""
        with self._lock:
            if self._rest is None:
                self._pump()
                self._rest = self._named()
        return self._rest

    def _named(self) -> Rest:
        if self._descriptor is None:
            return Rest(trouble=self._trouble)
        self._close()
        if not self._written or self._is_discarded:
            self._unlink()
            return Rest(trouble=self._trouble)
        spill_id = self._digest.hexdigest()
        try:
            folder = open_folder(self._directory, self._folder, create=False)
            try:
                # A file that has this name already has the same content.
                os.rename(self._name, spill_id, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            self._unlink()
            return Rest(trouble=reason_of(error))
        self._count(self._written)
        trouble = self._trouble or ("it came faster than it could be written" if self._overran else "")
        return Rest(spill_id=spill_id, trouble=f"only its first {self._written:,} bytes: {trouble}" if trouble else "")

    def _pump(self) -> None:
        while self._queue and not self._is_discarded:
            data = self._queue.popleft()
            if not self._trouble:
                try:
                    self._write(data)
                except OSError as error:
                    self._trouble = reason_of(error)
            self._reserved += len(data)

    def _write(self, data: bytes | memoryview) -> None:
        if self._descriptor is None:
            self._descriptor = self._create()
        left = memoryview(data)[: LARGEST - self._written]
        is_all = len(left) == len(data)
        while left:
            count = os.write(self._descriptor, left)
            self._digest.update(left[:count])
            self._written += count
            left = left[count:]
        if not is_all:
            self._trouble = "more is not kept of one output"

    def _create(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        for _ in range(_ATTEMPTS):
            # Another engine's sweep may find the folder empty at this moment, and remove it.
            with contextlib.suppress(FileNotFoundError):
                folder = open_folder(self._directory, self._folder, create=True)
                try:
                    return os.open(self._name, flags, 0o600, dir_fd=folder)
                finally:
                    os.close(folder)
        raise FileNotFoundError(errno.ENOENT, "the folder of kept outputs is removed again and again")

    def _remove(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                self._close()
                self._unlink()

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(
                OSError
            ):  # a network file system may report a failed write only now, when it is too late
                os.close(descriptor)

    def _unlink(self) -> None:
        with contextlib.suppress(OSError):
            (self._directory / self._folder / self._name).unlink()


def open_folder(directory: Path, name: str, *, create: bool) -> int:
    """Return a descriptor of a tree's folder, accessible to this user only. Raises `OSError`."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    if create:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            (directory / STAMP).touch(mode=0o600, exist_ok=False)
    base = os.open(directory, flags)
    try:
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=base)
        # Not through a link: another user could have put one there if the cache is in a shared folder.
        fd = os.open(name, flags | os.O_NOFOLLOW, dir_fd=base)
    finally:
        os.close(base)
    try:
        state = os.fstat(fd)
        if state.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "the folder of kept outputs belongs to another user")
        if create and stat.S_IMODE(state.st_mode) != 0o700:
            os.fchmod(fd, 0o700)
    except BaseException:  # the descriptor has no owner yet
        os.close(fd)
        raise
    return fd


def reason_of(error: OSError) -> str:
    """Return the reason of an error, in a few words."""
    return error.strerror or str(error) or type(error).__name__
