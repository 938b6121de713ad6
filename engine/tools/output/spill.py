"""The spill: files with the whole of outputs that the model was shown in part.

A file is named by a digest of its content, so equal outputs are stored once. The model reads it as `spill:<id>` with
the read tool, without a permission question. It belongs to a tree of sessions: a session, its sub-agents and theirs.
Each tree has its own folder, so an id is of no use to other sessions, and no id is a path.

A disk error does not fail the tool: the result states what was not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from engine.core.errors import ToolError
from engine.core.threads import in_background, to_thread
from engine.tools.output.spill_file import STAMP, SpillFile, open_folder, reason_of
from engine.tools.output.truncate import Rest

PREFIX: Final = "spill:"
# The tool that reads the files; without it, nothing is kept.
READER: Final = "read"
# Long enough to resume last week's session.
KEPT_DAYS: Final = 7
# For all outputs together: 2 GiB.
LARGEST_SUM: Final = 1 << 31

# At most one sweep an hour, bounded in time and files: the cache may be on a slow network disk.
_SWEPT_EVERY: Final = 3_600.0
_SWEEP_SECONDS: Final = 10.0
_SWEEP_FILES: Final = 200_000
_FOLDER: Final = r"tree-[0-9a-f]{32}"
_FILE: Final = r"\.?[0-9a-f]{16}"
_ID: Final = r"[0-9a-f]{16}"
_CHUNK: Final = 1 << 20


@attrs.define(eq=False, repr=False)
class SpillStore:
    """The folder of an engine's spills. None: the user's cache folder; `/dev/null`: nothing is kept."""

    _configured: Path | None
    _complaint: str = attrs.field(default="", init=False)
    _unswept: int = attrs.field(default=0, init=False)

    @property
    def directory(self) -> Path:
        """The folder."""
        if self._configured is None:
            from platformdirs import user_cache_path

            self._configured = user_cache_path("engine", appauthor=False) / "spill"
        return self._configured

    def of(self, tree: str) -> Spills | None:
        """Return the spills of the tree whose root session is *tree*. Not a checkpoint."""
        if self._configured == Path(os.devnull):
            return None
        return Spills(self, _folder_of(tree))

    async def forget(self, trees: Iterable[str]) -> int:
        """Remove the spills of some trees; return the number of files. Always a checkpoint.

        *trees* are ids of root sessions, as for `of`. If cancelled, the thread is abandoned, and goes on. Raises
        `OSError` for the last file that could not be removed.
        """
        return await to_thread(self._forget, [_folder_of(tree) for tree in trees])

    def _forget(self, folders: Sequence[str]) -> int:
        if self._configured == Path(os.devnull):
            return 0
        count, refused = 0, None
        for folder in folders:
            path = self.directory / folder
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(path) as entries:
                for entry in entries:
                    if re.fullmatch(_FILE, entry.name) and entry.is_file(follow_symlinks=False):
                        error = _removed(Path(entry))
                        refused, count = error or refused, count + (error is None)
            with contextlib.suppress(OSError):  # it does not exist, or is not empty
                path.rmdir()
        if refused is not None:
            raise refused
        return count

    # -- sweeping -------------------------------------------------------------------------

    def is_due(self) -> bool:
        """Return whether anything was ever kept, and the last sweep is an hour ago. One look at the disk."""
        with contextlib.suppress(OSError):
            return abs(time.time() - (self.directory / STAMP).stat().st_mtime) > _SWEPT_EVERY
        return False

    async def sweep(self) -> None:
        """Remove files older than `KEPT_DAYS`, and then the oldest ones beyond `LARGEST_SUM`. Always a checkpoint.

        Errors are returned by `take_warning`. If cancelled, the thread is abandoned, which ends soon.
        """
        try:
            await to_thread(self._sweep)
        except OSError as error:
            self._complaint = f"old outputs in {self.directory} could not be removed: {reason_of(error)}"

    def take_warning(self) -> str:
        """Return the error of the last sweep, once. Not a checkpoint."""
        warning, self._complaint = self._complaint, ""
        return warning

    def _sweep(self) -> None:
        # First, so that other engines of the user don't sweep at the same time.
        (self.directory / STAMP).touch(mode=0o600)
        oldest = time.time() - KEPT_DAYS * 86_400
        refused: OSError | None = None
        kept: list[tuple[float, int, Path]] = []
        for path, state in self._files():
            if state.st_mtime < oldest:
                refused = _removed(path) or refused
            else:
                kept.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= LARGEST_SUM:
                break
            refused = _removed(path) or refused
            total -= size
        self._remove_empty_folders()
        if refused is not None:
            raise refused

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yield our files in the folder, as many as time allows."""
        until = time.monotonic() + _SWEEP_SECONDS
        seen = 0
        for folder in self._folders():
            # Another user's folder is skipped: that user's engine sweeps it.
            with contextlib.suppress(FileNotFoundError, PermissionError), os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _SWEEP_FILES or time.monotonic() > until:
                        return
                    if (state := _state_of(entry)) is not None:
                        yield Path(entry), state

    def _folders(self) -> list[Path]:
        with os.scandir(self.directory) as entries:
            return [Path(e) for e in entries if re.fullmatch(_FOLDER, e.name) and e.is_dir(follow_symlinks=False)]

    def _remove_empty_folders(self) -> None:
        for folder in self._folders():
            with contextlib.suppress(OSError):  # it is not empty, or in use again
                folder.rmdir()

    # -- for `Spills` ---------------------------------------------------------------------

    def note_kept(self) -> None:
        """Note that something was kept; if the folder has grown much, sweep it in the background. Not a checkpoint."""
        # Also without a restart: an engine may run for months.
        if self._unswept > LARGEST_SUM // 4:
            self._unswept = 0
            in_background(self._sweep)

    def count(self, size: int) -> None:
        """Count written bytes."""
        self._unswept += size


def _folder_of(tree: str) -> str:
    return f"tree-{hashlib.sha256(tree.encode(errors='replace')).hexdigest()[:32]}"


def _state_of(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the state of a spill file; None for other files, and for one that was removed in the meantime."""
    if re.fullmatch(_FILE, entry.name) and entry.is_file(follow_symlinks=False):
        with contextlib.suppress(FileNotFoundError):
            return entry.stat(follow_symlinks=False)
    return None


def _removed(path: Path) -> OSError | None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return error
    return None


@attrs.frozen(eq=False, repr=False)
class Spills:
    """The spills of one tree of sessions."""

    _store: SpillStore
    _folder: str

    async def keep(self, data: bytes) -> Rest:
        """Keep *data*; return its id, or why it was not kept. Always a checkpoint; if cancelled, nothing is kept."""
        file = self.new_file()
        whole = memoryview(data)
        for start in range(0, len(data), _CHUNK):
            file.put(whole[start : start + _CHUNK])
        try:
            rest = await to_thread(file.finish)
        except BaseException:  # above all a cancel: the thread would finish a file that no one knows of
            file.discard()
            raise
        self._store.note_kept()
        return rest

    def open(self, spill_id: str) -> BinaryIO:
        """Open a kept output. It blocks. Raises `ToolError` if this tree has none of that id."""
        if not re.fullmatch(_ID, spill_id):
            raise ToolError(f"{PREFIX}{spill_id} is no name of a kept output: these have 16 letters and digits.")
        try:
            # Through descriptors: no link can lead elsewhere.
            folder = open_folder(self._store.directory, self._folder, create=False)
            try:
                fd = os.open(spill_id, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            finally:
                os.close(folder)
        except FileNotFoundError as error:
            raise ToolError(
                f"There is no {PREFIX}{spill_id}: this session kept no such output, or it was removed since, which "
                f"happens after {KEPT_DAYS} days. Run the tool again."
            ) from error
        except OSError as error:
            raise ToolError(f"{PREFIX}{spill_id} can't be read: {reason_of(error)}.") from error
        return os.fdopen(fd, "rb")

    def path_of(self, spill_id: str) -> Path:
        """Return the file of a kept output, for a program that reads it. It blocks. Raises `ToolError` as `open` does."""
        self.open(spill_id).close()
        return self._store.directory / self._folder / spill_id

    def note_kept(self) -> None:
        """See `SpillStore.note_kept`."""
        self._store.note_kept()

    def new_file(self) -> SpillFile:
        """Return a file that is created once something is written to it. Not a checkpoint."""
        return SpillFile(self._store.directory, self._folder, self._store.count)
