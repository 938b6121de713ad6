"""Restores files: all new contents are written to temporary files first, then renamed into place one by one.

So a disk error shows before anything has changed. Each path is compared with its expected content
twice: before anything is written, and right before its change. Folders are opened by their real
paths without following links, so nothing leads out of the project.

If it stops half way, by an error or a cancel, each file has its old or its new content, and
running it again does the rest. Everything here blocks.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from engine.core.errors import SnapshotError, UndoConflict, UndoIncomplete
from engine.core.snapshot_types import FILE, LINK, PROGRAM, Put, TreeEntry
from engine.files.real_folder import RealFolder, Swapped
from engine.files.staging import StagingFolder

_EXECUTE: Final = 0o111
_CHUNK: Final = 1_048_576
# Folders with a staging folder of their own.
_MOST_PLACES: Final = 100


def entry_at(path: str) -> TreeEntry | None:
    """Return the entry at a real path. Raises `OSError`, or `NotAFile` for a folder, a pipe and so on."""
    try:
        folder = RealFolder.above(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _entry_in(folder, os.path.basename(path))  # noqa: PTH119 - of a str, which may be no UTF-8
    finally:
        folder.close()


class NotAFile(OSError):
    """The path is a folder, a pipe or something else that snapshots do not record."""


@attrs.define(eq=False, repr=False)
class RestoreJob:
    """Restores files in three steps: check, stage the contents, make the changes.

    Attributes:
        puts: the changes; removals come first, so that a folder can become a file, and the reverse.
        display: makes a path readable for people.
        kept: folders that stay even if they are empty.
    """

    puts: Sequence[Put]
    display: Callable[[str], str]
    kept: Sequence[str] = ()
    _staged: dict[str, tuple[StagingFolder, str]] = attrs.field(
        factory=dict[str, tuple[StagingFolder, str]], init=False
    )
    _places: dict[str, tuple[RealFolder, StagingFolder]] = attrs.field(
        factory=dict[str, tuple[RealFolder, StagingFolder]], init=False
    )
    _done: list[str] = attrs.field(factory=list[str], init=False)

    def check(self) -> None:
        """Compare each path with what must be there. Raises `UndoConflict`, `SnapshotError`."""
        going = self._going
        conflicts = [self.display(put.path) for put in self.puts if self._is_conflict(put, going)]
        if conflicts:
            raise _conflict(conflicts)

    def stage(self, contents: Mapping[str, bytes], halt: Callable[[], None]) -> None:
        """Write the entries in *contents* to temporary files. Raises `SnapshotError`."""
        going = self._going
        for put in self.puts:
            if put.want is None or put.want.id not in contents or put.path in self._staged:
                continue
            halt()
            try:
                self._stage(put, put.want, contents[put.want.id], going)
            except OSError as error:
                raise SnapshotError(
                    f"{self.display(put.path)} can't be put back: {error.strerror or error}. No file was changed."
                ) from error

    def make(self, halt: Callable[[], None]) -> None:
        """Remove files, then rename the staged ones into place.

        Raises `UndoIncomplete`, or `SnapshotError` and `UndoConflict` as long as nothing was done.
        """
        removals = [put for put in self.puts if put.want is None]
        for put in removals:
            self._make_one(put, halt)
        remove_empty_folders([put.path for put in removals], self.kept)
        for put in self.puts:
            if put.want is not None:
                self._make_one(put, halt)

    def clean_up(self) -> None:
        """Remove unused temporary files."""
        # The innermost first, so that folders which were made in vain are empty when their turn comes.
        for _, (folder, staging) in sorted(self._places.items(), reverse=True):
            staging.remove()
            folder.remove_made()
            folder.close()
        self._places.clear()
        self._staged.clear()

    # -- inside ---------------------------------------------------------------------------

    @property
    def _going(self) -> set[str]:
        return {put.path for put in self.puts if put.want is None}

    def _is_conflict(self, put: Put, going: set[str]) -> bool:
        """Tell whether something else than expected is at a path, or in its way. Raises `SnapshotError`."""
        try:
            return entry_at(put.path) != put.now or (put.want is not None and _is_barred(put.path, going))
        except Swapped:
            # A link in the way is no conflict if it is removed.
            return put.now is not None or not any(above in going for above in _above(put.path))
        except NotAFile:
            # A folder is no conflict if the removals leave it empty.
            return put.now is not None or not self._becomes_free(put.path)
        except OSError as error:
            raise SnapshotError(f"{self.display(put.path)} can't be looked at: {error.strerror or error}") from error

    def _make_one(self, put: Put, halt: Callable[[], None]) -> None:
        try:
            halt()
            self._make(put)
        except (OSError, UndoConflict) as error:
            raise self._failure(put, error) from error
        self._done.append(put.path)

    def _becomes_free(self, path: str) -> bool:
        """Tell whether a folder holds nothing but what is removed."""
        going = self._going
        return all(os.path.join(folder, name) in going for folder, _, names in os.walk(path) for name in names)  # noqa: PTH118

    def _stage(self, put: Put, want: TreeEntry, data: bytes, going: set[str]) -> None:
        # If a file has to be removed before this folder can exist, stage above it.
        at = put.path
        for above in _above(put.path):
            if above in going or (os.path.lexists(above) and not os.path.isdir(above)):  # noqa: PTH112
                at = above
        staging = self._staging_at(at)
        name = staging.new_name()
        self._staged[put.path] = staging, name
        if want.mode == LINK:
            staging.inner.make_link(os.fsdecode(data), name)
            return
        mode = _mode(put)
        # A new file gets its mode from the umask, like one that the user creates.
        made = mode if mode is not None else 0o777 if want.mode == PROGRAM else 0o666
        descriptor = staging.inner.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, made)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            # Before the rename: else a power cut could leave an empty file under the old name.
            os.fsync(file.fileno())

    def _staging_at(self, path: str) -> StagingFolder:
        """Return where what goes to a path waits: next to it."""
        above = os.path.dirname(path)  # noqa: PTH120
        root = self.kept[-1] if self.kept else above
        if above not in self._places and len(self._places) >= _MOST_PLACES and _device(above) == _device(root):
            # Each place takes descriptors, of which a process has a thousand.
            above, path = root, os.path.join(root, "x")  # noqa: PTH118
        if above not in self._places:
            folder = RealFolder.above(path, make=True)
            try:
                self._places[above] = folder, StagingFolder.make(folder, above)
            except OSError:
                folder.remove_made()
                folder.close()
                raise
        return self._places[above][1]

    def _make(self, put: Put) -> None:
        try:
            now = entry_at(put.path)
        except NotAFile:
            now = None  # a folder: it is replaced by a file only if it is empty
        if now != put.now:
            raise _conflict([self.display(put.path)])
        if put.want is None:
            folder = RealFolder.above(put.path)
            try:
                folder.remove(os.path.basename(put.path))  # noqa: PTH119
            finally:
                folder.close()
            return
        staging, name = self._staged[put.path]
        target = RealFolder.above(put.path, make=True)
        try:
            base = os.path.basename(put.path)  # noqa: PTH119
            if put.now is None:
                target.remove_empty(base)
            target.take(staging.inner, name, base)
        finally:
            target.close()
        del self._staged[put.path]

    def _failure(self, put: Put, error: OSError | UndoConflict) -> Exception:
        reason = (
            str(error) if isinstance(error, UndoConflict) else f"{self.display(put.path)}: {error.strerror or error}"
        )
        if not self._done:
            if isinstance(error, UndoConflict):
                return error
            return SnapshotError(f"nothing could be put back: {reason}. No file was changed.")
        return self.interrupted(reason)

    def interrupted(self, reason: str) -> UndoIncomplete:
        """Build the error that lists the finished and the remaining files."""
        done = tuple(self.display(path) for path in self._done)
        left = tuple(self.display(put.path) for put in self.puts if put.path not in self._done)
        return UndoIncomplete(
            f"{len(done)} of {len(self.puts)} files are as they should be, the others are as they were: {reason}. "
            "The same again does the rest.",
            done=done,
            left=left,
        )


def remove_empty_folders(paths: Iterable[str], kept: Iterable[str]) -> None:
    """Remove folders that became empty above removed files, except *kept* ones and the folders above these."""
    stays = {above for folder in kept for above in (folder, *_above(folder))}
    for path in sorted(paths, key=len, reverse=True):
        for above in _above(path):
            if above in stays:
                break
            try:
                folder = RealFolder.above(above)
            except OSError:
                continue
            try:
                if not folder.remove_empty(os.path.basename(above)):  # noqa: PTH119
                    break
            finally:
                folder.close()


def _device(path: str) -> int:
    """Return the file system of a folder that exists, or will."""
    return os.stat(next(folder for folder in (path, *_above(path)) if os.path.isdir(folder))).st_dev  # noqa: PTH112, PTH116


def _is_barred(path: str, going: set[str]) -> bool:
    """Tell whether a file that stays is in the place of a folder above this path."""
    return any(
        above not in going and os.path.lexists(above) and not os.path.isdir(above)  # noqa: PTH112 - of a str
        for above in _above(path)
    )


def _above(path: str) -> list[str]:
    """Return the folders above a path, the nearest first."""
    folders: list[str] = []
    while (parent := os.path.dirname(path)) != path:  # noqa: PTH120 - of a str, which may be no UTF-8
        folders.append(parent)
        path = parent
    return folders


def _entry_in(folder: RealFolder, name: str) -> TreeEntry | None:
    try:
        state = folder.look(name)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(state.st_mode):
        return TreeEntry(LINK, blob_id(os.fsencode(folder.read_link(name))))
    if not stat.S_ISREG(state.st_mode):
        raise NotAFile(errno.EISDIR, "it is no file", name)
    # It may have become a pipe since `look`: opening one would block, and a terminal could become ours.
    descriptor = folder.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        digest = hashlib.sha1(f"blob {state.st_size}\0".encode(), usedforsecurity=False)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return TreeEntry(PROGRAM if state.st_mode & stat.S_IXUSR else FILE, digest.hexdigest())


def blob_id(data: bytes) -> str:
    """Return the id that git gives to a file's content."""
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def _conflict(shown: Sequence[str]) -> UndoConflict:
    return UndoConflict(f"changed since then by something else: {', '.join(shown)}", tuple(shown))


def _mode(put: Put) -> int | None:
    """Return the mode that an existing file keeps, with its execute bits adapted; None: it is a new file."""
    if put.want is None or put.now is None or put.now.mode not in {FILE, PROGRAM}:
        return None
    mode = stat.S_IMODE(os.lstat(put.path).st_mode)
    if put.want.mode != PROGRAM:
        return mode & ~_EXECUTE
    # Executable by those who may read it, as git and `chmod +x` do.
    return mode | (mode & 0o444) >> 2
