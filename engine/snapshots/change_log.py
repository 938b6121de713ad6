"""The log of a project's snapshots: whose calls have changed what between two of them.

Sessions of one folder take snapshots of the same files, and the user works in it, too. A line of the log says what the
calls of a session have changed from one of its snapshots to the next, so that an undo can tell the turn's own changes from
those of others. Reading and writing it blocks.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Self, cast

import attrs

from engine.core.errors import SnapshotError
from engine.core.value_base import Value
from engine.process.procfs import ProcessId, identify, is_alive
from engine.snapshots.snapshot_dir import SnapshotDir, write_atomically


@attrs.frozen(eq=False, repr=False)
class LoggedChange(Value):
    """What happened from one snapshot of a session to its next.

    Attributes:
        owner: the session.
        time: when the second one was taken, in seconds since the epoch.
        old, new: the names of the snapshots; *old* is empty before the first of a turn. If *new* is empty, calls have
            only begun to change something, in the process that *old* names.
        paths: what the session's calls have changed; None: any of what differs.
    """

    owner: str
    time: float
    old: str
    new: str
    paths: tuple[str, ...] | None

    @classmethod
    def beginning(cls, owner: str, paths: Iterable[str] | None) -> Self:
        """Return that calls of a session begin now, in this process, to change *paths*; None: any file."""
        process = identify(os.getpid())
        name = f"{process.pid}:{process.start_time}"
        return cls(owner, time.time(), name, "", None if paths is None else tuple(paths))

    @property
    def is_alive(self) -> bool:
        """Whether the process of a beginning lives. It blocks."""
        pid, _, start = self.old.partition(":")
        return pid.isdecimal() and start.isdecimal() and is_alive(ProcessId(int(pid), int(start)))


@attrs.frozen(eq=False, repr=False)
class ChangeLog(Value):
    """The log of a project; if it is longer than *most_bytes*, the older half is dropped."""

    place: SnapshotDir
    most_bytes: int = 8_000_000

    def append(self, change: LoggedChange) -> None:
        """Add a line. Raises `SnapshotError`."""
        path = self.place.project_dir / "changes"
        row = [change.owner, change.time, change.old, change.new, change.paths]
        try:
            # One write at the end of the file, so that lines of two engines do not mix.
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, f"{json.dumps(row)}\n".encode("ascii"))
                size = os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
            if size > self.most_bytes:
                write_atomically(path, path.read_bytes()[-self.most_bytes // 2 :].partition(b"\n")[2])
        except OSError as error:
            raise SnapshotError(f"the snapshot can't be kept: {error.strerror or error}") from error

    def since(self, earliest: float) -> list[LoggedChange]:
        """Return the changes since a time. Raises `SnapshotError`."""
        try:
            lines = (self.place.project_dir / "changes").read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SnapshotError(f"the snapshots can't be read: {error.strerror or error}") from error
        changes = [change for line in lines if (change := _change(line)) is not None]
        return [change for change in changes if change.time >= earliest]

    def forget(self, owners: Collection[str]) -> None:
        """Remove the lines of these sessions. Raises `OSError`."""
        path = self.place.project_dir / "changes"
        if path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if (change := _change(line)) is not None and change.owner not in owners]
            write_atomically(path, b"".join(kept))


def changes_of_others(logged: Iterable[LoggedChange], owner: str, since: float) -> list[LoggedChange]:
    """Return what other sessions than *owner* have logged since a time."""
    return [change for change in logged if change.owner != owner and change.time >= since]


def paths_between(trees: Sequence[str], logged: Iterable[LoggedChange]) -> Iterator[tuple[str, ...] | None]:
    """Yield, for each snapshot but the first, what calls have changed since the one before; None: any of what differs."""
    remaining = list(logged)
    for pair in pairwise(trees):
        at = next((n for n, change in enumerate(remaining) if (change.old, change.new) == pair), None)
        yield None if at is None else remaining[at].paths
        # In the order of the log: what was changed and changed back has the same two snapshots again.
        remaining = remaining[0 if at is None else at + 1 :]


def busy_since(logged: Iterable[LoggedChange], owner: str, since: float) -> float:
    """Return since when another session than *owner* may be changing any file; infinity if none is. It blocks.

    It may be until it has taken another snapshot, or its process is gone; one that has gone after *since* may have changed
    some before.
    """
    active: dict[str, LoggedChange] = {}
    for change in logged:
        if change.new:
            active.pop(change.owner, None)
        elif change.paths is None and change.owner != owner:
            active.setdefault(change.owner, change)
    return min((c.time for c in active.values() if c.time >= since or c.is_alive), default=float("inf"))


def _change(line: bytes) -> LoggedChange | None:
    try:
        owner, at, old, new, paths = cast("tuple[str, float, str, str, list[str] | None]", json.loads(line))
    except ValueError:  # cut off by a crash
        return None
    return LoggedChange(owner, at, old, new, None if paths is None else tuple(paths))
