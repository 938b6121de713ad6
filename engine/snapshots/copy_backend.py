"""Snapshots without git: copies of the files that tools announce to change.

Changes by commands are not seen. The first time that a tool announces a file, its content is kept
as the origin. So a change can be shown and undone even if no earlier snapshot has the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast

import attrs

from engine.core.errors import SnapshotError
from engine.core.snapshot_types import FILE, LEFT_OUT, LINK, PROGRAM, Change, TreeEntry
from engine.core.value_base import Value
from engine.files.real_folder import open_folder
from engine.snapshots.file_selection import LARGEST_FILE
from engine.snapshots.repository import safe_name
from engine.snapshots.restore import blob_id
from engine.snapshots.snapshot_dir import SnapshotDir, write_atomically

_Origins = dict[str, TreeEntry | None]


@attrs.frozen(eq=False, repr=False)
class FileCopies(Value):
    """The copies of a project's files. Every method blocks."""

    place: SnapshotDir

    @property
    def folder(self) -> Path:
        """The folder of the copies."""
        return self.place.project_dir / "copies"

    def about_to_change(self, paths: Iterable[str]) -> None:
        """Copy the files at these paths, unless they have been copied before. Raises `SnapshotError`."""
        origins = self._origins()
        new = {path: self._copy(path) for path in paths if path not in origins and self._is_inside(path)}
        if new:
            try:
                with (self.folder / "known").open("a", encoding="ascii") as file:
                    file.write("".join(f"{json.dumps([path, *_to_row(entry)])}\n" for path, entry in new.items()))
            except OSError as error:
                raise _write_error(error) from error

    def take(self, owner: str, paths: Iterable[str]) -> str:
        """Record the present state of all announced files and of *paths*; return the snapshot's name. Raises `SnapshotError`."""
        origins = self._origins()
        rows = [[path, *_to_row(self._copy(path)), *_to_row(origin)] for path, origin in origins.items()]
        rows += [[path, *_to_row(self._copy(path))] for path in paths if path not in origins]
        whole = "".join(f"{json.dumps(row)}\n" for row in sorted(rows)).encode()
        tree = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        kept = self._kept(tree, owner)
        try:
            kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self.folder / "trees" / tree, whole)
            write_atomically(kept, b"")
        except OSError as error:
            raise _write_error(error) from error
        return tree

    def is_kept(self, tree: str, owner: str) -> bool:
        """Tell whether a snapshot was taken for a session, and is kept for it still."""
        return self._kept(tree, owner).is_file()

    def diff(self, old: str, new: str) -> tuple[Change, ...]:
        """Return the changes of the paths that both snapshots record. Raises `SnapshotError`."""
        before, after = self._tree(old), self._tree(new)
        changes: list[Change] = []
        for path, (now, origin) in after.items():
            if path in before:
                then = before[path][0]
            elif origin is not None:
                (then,) = origin
            else:
                continue
            if then != now:
                changes.append(Change(path, then, now))
        return tuple(changes)

    def read(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of entries, by their ids. Raises `SnapshotError`."""
        try:
            return {object_id: (self.folder / "contents" / object_id).read_bytes() for object_id in ids}
        except OSError as error:
            raise SnapshotError("the snapshot is gone, or damaged: it lacks the content of a file") from error

    # -- inside ---------------------------------------------------------------------------

    def _is_inside(self, path: str) -> bool:
        return self.place.root == "/" or path.startswith(f"{self.place.root}/")

    def _kept(self, tree: str, owner: str) -> Path:
        return self.folder / "kept" / safe_name(owner) / tree

    def _origins(self) -> _Origins:
        self._make()
        origins: _Origins = {}
        for row in _rows(self.folder / "known"):
            # Two engines may both have recorded a file; the first copy is the older one.
            origins.setdefault(row[0], _entry(row[1], row[2]))
        return origins

    def _make(self) -> None:
        self.place.make()
        try:
            for name in ("trees", "contents", "kept"):
                (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _write_error(error) from error

    def _tree(self, tree: str) -> dict[str, tuple[TreeEntry | None, tuple[TreeEntry | None] | None]]:
        path = self.folder / "trees" / tree
        if not path.exists():
            raise SnapshotError("the snapshot is gone: old ones are removed after a while")
        return {
            row[0]: (_entry(row[1], row[2]), (_entry(row[3], row[4]),) if len(row) > 3 else None) for row in _rows(path)
        }

    def _copy(self, path: str) -> TreeEntry | None:
        """Return what is at a path, and keep it."""
        try:
            entry, data = _content(path)
        except OSError:
            return None
        place = self.folder / "contents" / entry.id
        if data is not None and not place.exists():
            try:
                write_atomically(place, data)
            except OSError as error:
                raise _write_error(error) from error
        return entry


def _content(path: str) -> tuple[TreeEntry, bytes | None]:
    with open_folder(path) as (folder, name):
        state = folder.look(name)
        if stat.S_ISLNK(state.st_mode):
            data = os.fsencode(folder.read_link(name))
            return TreeEntry(LINK, blob_id(data)), data
        if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST_FILE:
            facts = f"{state.st_size} {state.st_mtime_ns} {state.st_ino}"
            return TreeEntry(LEFT_OUT, blob_id(facts.encode())), None
        with os.fdopen(folder.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    return TreeEntry(PROGRAM if state.st_mode & stat.S_IXUSR else FILE, blob_id(data)), data


def _to_row(entry: TreeEntry | None) -> tuple[str, str]:
    return ("", "") if entry is None else (entry.mode, entry.id)


def _entry(mode: str, object_id: str) -> TreeEntry | None:
    return TreeEntry(mode, object_id) if mode else None


def _rows(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SnapshotError(f"the snapshots can't be read: {error.strerror or error}") from error
    rows: list[list[str]] = []
    for line in lines:
        try:
            rows.append(cast("list[str]", json.loads(line)))
        except ValueError:  # cut off by a crash
            continue
    return rows


def _write_error(error: OSError) -> SnapshotError:
    return SnapshotError(f"the snapshot can't be kept: {error.strerror or error}")


COPIES_NOTE: Final = "{why}: only what the tools that edit files change can be put back, not what commands change"
