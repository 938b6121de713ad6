"""Turns what git lists in a project into an update of the index: files to add, to remove, and to leave out. It blocks.

Left out are files larger than `LARGEST_FILE`, unreadable files, and nested repositories; git does
not list sockets, pipes and devices. The snapshot records that a left-out file exists, and its
state, so that it does not look removed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from engine.core.snapshot_types import LEFT_OUT
from engine.snapshots.snapshot_dir import is_git_folder

LARGEST_FILE: Final = 10_485_760
_REMOVED: Final = b"0 " + b"0" * 40
# The size of one batch. Finished batches stay indexed even if a later one is cancelled.
_BATCH_FILES: Final = 4_000
_BATCH_BYTES: Final = 33_554_432


@attrs.define
class IndexUpdate:
    """An update of the index.

    Attributes:
        added: paths of files and links, with the size of each.
        infos: lines for `update-index --index-info`: removed paths, and marks for left-out files.
        marks: the paths of the left-out files.
        repositories: nested repositories.
    """

    added: list[tuple[bytes, int]] = attrs.field(factory=list[tuple[bytes, int]])
    infos: list[bytes] = attrs.field(factory=list[bytes])
    marks: list[bytes] = attrs.field(factory=list[bytes])
    repositories: list[bytes] = attrs.field(factory=list[bytes])

    @property
    def is_empty(self) -> bool:
        """Whether the index is up to date."""
        return not self.added and not self.infos

    @property
    def size(self) -> int:
        """The size of the added files together."""
        return sum(size for _, size in self.added)

    def batches(self) -> Iterator[bytes]:
        """Yield the added paths in batches, as input for git."""
        batch: list[bytes] = []
        size = 0
        for path, length in self.added:
            batch.append(path)
            size += length
            if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
                yield _joined(batch)
                batch, size = [], 0
        if batch:
            yield _joined(batch)


def plan_index_update(
    root: str, others: Iterable[bytes], changed: Iterable[bytes], marked: Iterable[bytes], own: tuple[bytes, ...] = ()
) -> IndexUpdate:
    """Decide for each path that git listed whether it is added, removed or left out.

    Args:
        root: the project.
        others: paths that are not in the index. Repositories end with a slash.
        changed: indexed paths that may have changed.
        marked: paths that were left out the last time.
        own: prefixes of paths that are not part of the project; indexed ones are removed.
    """
    update = IndexUpdate()
    top = os.fsencode(root)
    for path in sorted({*others}):
        if path.endswith(b"/"):
            update.repositories.append(path[:-1])
        else:
            _classify(update, top, path, is_indexed=False)
    for path in sorted({*changed, *marked}):
        if path.startswith(own):
            update.infos.append(_REMOVED + b"\t" + path + b"\0")
        else:
            _classify(update, top, path, is_indexed=True)
    return update


def git_folders_among(root: str, paths: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return the folders, with a slash, that are git directories under another name than `.git`."""
    top = os.fsencode(root)
    folders = (path.removesuffix(b"HEAD") for path in paths if path.endswith(b"/HEAD"))
    return tuple(folder for folder in folders if is_git_folder(os.fsdecode(os.path.join(top, folder))))  # noqa: PTH118 - of bytes


def stale_marks(root: str, marked: Iterable[bytes]) -> bytes:
    """Return lines for `update-index --index-info` that remove the marks of files that are gone."""
    top = os.fsencode(root)
    gone = (path for path in marked if not os.path.isfile(os.path.join(top, path)))  # noqa: PTH113, PTH118 - of bytes
    return b"".join(_REMOVED + b"\t" + path + b"\0" for path in gone)


def _classify(update: IndexUpdate, top: bytes, path: bytes, *, is_indexed: bool) -> None:
    whole = os.path.join(top, path)  # noqa: PTH118 - Path has no bytes
    try:
        state = os.lstat(whole)
    except OSError:
        state = None
    is_beyond = is_indexed and state is not None and _is_beyond_link(top, path)
    if state is None or is_beyond or not (stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode)):
        if is_indexed:
            update.infos.append(_REMOVED + b"\t" + path + b"\0")
        return
    if stat.S_ISREG(state.st_mode) and (state.st_size > LARGEST_FILE or not os.access(whole, os.R_OK)):
        update.marks.append(path)
        update.infos.append(f"{LEFT_OUT} {_state_id(state)}\t".encode() + path + b"\0")
        return
    update.added.append((path, state.st_size))


def _is_beyond_link(top: bytes, path: bytes) -> bool:
    """Tell whether a folder above *path* has become a link: then the path leads to another file."""
    parts = path.split(b"/")[:-1]
    folders = (os.path.join(top, *parts[:count]) for count in range(1, len(parts) + 1))  # noqa: PTH118 - Path has no bytes
    return any(os.path.islink(folder) for folder in folders)  # noqa: PTH114


def _state_id(state: os.stat_result) -> str:
    # A stand-in for the content, which is too large to read: it changes whenever the file does.
    facts = f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
    return hashlib.sha1(facts.encode(), usedforsecurity=False).hexdigest()


def _joined(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
