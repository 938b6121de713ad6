"""A small file of the user's decisions: written atomically, read before it is overwritten, writable only by its owner.

A change is made under a lock, to the file's content at that moment; the new file replaces the old
one atomically. An invalid file is left alone and ignored. All of it blocks, so it runs in a
thread that is waited for.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shlex
import stat
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError, StoreError
from engine.core.value_base import Value

VERSION: Final = 1
# It is read as a whole, so a file that grew without limit must not be.
MAX_BYTES: Final = 8_000_000
# Another engine holds the lock for milliseconds; after this time something is wrong with it.
_LOCK_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01

Entries = Sequence[object]


@attrs.frozen(eq=False, repr=False)
class StateFile(Value):
    """A file with a list.

    Attributes:
        path: the file.
        list_name: the key of the list in the document.
        lock_seconds: how long to wait for another process that changes it.
        is_secret: refuse a file that others may read.
    """

    path: Path
    list_name: str
    lock_seconds: float = _LOCK_SECONDS
    is_secret: bool = False

    def read(self) -> Entries:
        """Return the list; an empty one if there is no file.

        Raises:
            ConfigError: the file is invalid, or others can change it.
            StoreError: the file can't be read.
        """
        with self._translate_errors("read"):
            try:
                descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:
                return []
            try:
                self._check(os.fstat(descriptor), self.path.parent.stat())
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    data = file.read(MAX_BYTES + 1)
            finally:
                os.close(descriptor)
        return self._entries(data)

    def update(self, change: Callable[[Entries], Entries]) -> Entries:
        """Replace the list by the result of *change*, and return it. Raises what `read` and *change* raise.

        If it raises, the file is unchanged.
        """
        with self._translate_errors("write"):
            # Through links: some users keep their settings in a repository of dotfiles.
            # Replace the real file, so that a link to it stays one.
            real = Path(os.path.realpath(self.path))
            real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._hold_lock(real):
                entries = list(change(self.read()))
                document = {"version": VERSION, self.list_name: entries}
                _replace(real, json.dumps(document, indent=1).encode() + b"\n")
        return entries

    def _entries(self, data: bytes) -> Entries:
        if len(data) > MAX_BYTES:
            raise self._invalid(f"it is larger than {MAX_BYTES:,} bytes")
        try:
            document: object = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._invalid(f"it is not valid JSON ({error})") from error
        values = cast("dict[str, object]", document) if isinstance(document, dict) else {}
        version = values.get("version")
        # An older engine must not drop what a newer one has stored.
        if isinstance(version, int) and version > VERSION:
            raise ConfigError(f"{self.path} was written by a newer engine (version {version}), so it is ignored")
        entries = values.get(self.list_name)
        if version != VERSION or not isinstance(entries, list):
            raise self._invalid(f"it has no version {VERSION}, or no list {self.list_name!r}")
        return cast("Entries", entries)

    def _invalid(self, why: str) -> ConfigError:
        return ConfigError(f"{self.path} is invalid, so it is ignored: {why}. Repair it, or move it away.")

    def _check(self, state: os.stat_result, folder: os.stat_result) -> None:
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError(f"{self.path} is not a regular file, so it is ignored")
        # With write access to the file or its folder, another user could grant anything in this user's name. A sticky folder such as
        # /tmp is safe, since only owners can rename files there.
        for subject, status in ((str(self.path), state), (f"the folder of {self.path}", folder)):
            is_shared = status.st_mode & 0o022 and not (status is folder and status.st_mode & stat.S_ISVTX)
            if status.st_uid not in {0, os.geteuid()} or is_shared:
                raise ConfigError(
                    f"{subject} can be changed by others, so it is ignored: you must own it, and others must not have write permission"
                )
        if self.is_secret and state.st_mode & 0o077:
            raise ConfigError(
                f"{self.path} can be read by others (mode {stat.S_IMODE(state.st_mode):04o}), so it is ignored\n"
                f"Next: chmod 600 {shlex.quote(str(self.path))}"
            )

    @contextlib.contextmanager
    def _hold_lock(self, real: Path) -> Generator[None]:
        # A separate file: the list itself is replaced, and a lock on the old file would be worth nothing.
        lock = os.open(f"{real}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + self.lock_seconds
            while not _try_lock(lock):
                if time.monotonic() >= deadline:
                    raise StoreError(f"can't change {self.path}: another process has been changing it for too long")
                time.sleep(_POLL_SECONDS)  # in a thread: a file lock cannot be waited for with a timeout
            yield
        finally:
            os.close(lock)  # this releases the lock

    @contextlib.contextmanager
    def _translate_errors(self, verb: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"can't {verb} {self.path}: {error.strerror or error}") from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replace(path: Path, data: bytes) -> None:
    """Replace a file atomically; only its owner may read it."""
    prefix = f".{path.name}."
    # Left by a process that was killed: while the lock is held, no other process writes one.
    for leftover in path.parent.glob(f"{prefix}*"):
        leftover.unlink(missing_ok=True)
    temporary = path.with_name(prefix + secrets.token_hex(8))
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # re-raised: a partial file must not stay behind
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    # The file is in place; make the rename durable too, which some file systems do not support.
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
