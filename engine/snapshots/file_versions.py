"""The contents that a file has had, as far as the snapshots of a session hold them: each can be put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise

import attrs

from engine.core.errors import NothingToUndo, SnapshotError
from engine.core.events import Durable, SnapshotTaken
from engine.core.snapshot_types import Change, Put, TreeEntry
from engine.snapshots.turn_changes import SessionSnapshots


@attrs.frozen(kw_only=True)
class FileVersion:
    """A content that a file has had.

    Attributes:
        id: names it; its beginning will do where no other version begins so.
        time: when the first snapshot was taken that shows it, in seconds since the epoch.
        entry: it, as snapshots hold it.
        is_current: whether the file has it now.
    """

    id: str
    time: float
    entry: TreeEntry
    is_current: bool = False


async def file_versions(
    snapshots: SessionSnapshots, events: Iterable[Durable], path: str, now: str
) -> tuple[FileVersion, ...]:
    """Return what the file at an absolute path has held, the oldest first. *now* is a snapshot of now. A checkpoint."""
    versions, current = await _find(snapshots, _history(events), path, now)
    return tuple(attrs.evolve(version, is_current=version.entry == current) for version in versions.values())


async def plan_version(
    snapshots: SessionSnapshots, events: Iterable[Durable], path: str, version: str, now: str
) -> list[Put]:
    """Return what puts a version of a file back; nothing if it is there. *now* is a snapshot of now. A checkpoint.

    Raises `NothingToUndo` if there is not exactly one version whose id begins so.
    """
    versions, current = await _find(snapshots, _history(events), path, now)
    entries = [one.entry for one in versions.values() if version and one.id.startswith(version)]
    if len(entries) != 1:
        what = f"{len(entries)} versions of this file begin with" if entries else "no version of this file is"
        raise NothingToUndo(f"{what} {version!r}")
    return [] if entries[0] == current else [Put(path, current, entries[0])]


async def _find(
    snapshots: SessionSnapshots, history: Sequence[tuple[str, float]], path: str, now: str
) -> tuple[dict[str, FileVersion], TreeEntry | None]:
    """Return the versions that the snapshots of the record hold, by their ids, and what is at the path now."""
    versions: dict[str, FileVersion] = {}
    last: TreeEntry | None = None
    for (old, before), (new, after) in pairwise([*history, (now, float("inf"))]):
        change = await _change(snapshots, old, new, path)
        if change is None:
            continue
        last = change.after
        for entry, time in ((change.before, before), (change.after, after)):
            # That of now is not in the record, so what only that one holds may be gone later.
            if entry is not None and not entry.is_left_out and time < float("inf"):
                versions.setdefault(entry.id, FileVersion(id=entry.id, time=time, entry=entry))
    return versions, last


async def _change(snapshots: SessionSnapshots, old: str, new: str, path: str) -> Change | None:
    if old != new:
        # One of them may be gone by now, or they are of two kinds.
        with suppress(SnapshotError):
            return (await snapshots.diff(old, new)).get(path)
    return None


def _history(events: Iterable[Durable]) -> list[tuple[str, float]]:
    return [(event.tree, event.time) for event in events if isinstance(event, SnapshotTaken)]
