"""What an undo takes back: the inputs of a turn, and its files: those put back, in conflict, or older than the turn."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from engine.core.events import Durable, InputAdmitted, InputPromoted
from engine.core.ids import InputId, TurnId
from engine.core.messages import UserMessage
from engine.core.snapshot_types import Change, Put, TreeEntry

# Seconds. A file system takes its times from a clock tick of the kernel, which is a little behind our own clock.
CLOCK_SLACK: Final = 0.05


@attrs.define(eq=False)
class UndoPlan:
    """Which files are put back, and why others are not.

    Attributes:
        puts: put back.
        settled: as they should be already.
        conflicts: changed since by another program.
        left: not held by snapshots, being too large.
        older: older than the turn.
        forced: those put back although they are not *usual*.
    """

    puts: list[Put] = attrs.field(factory=list[Put])
    settled: list[str] = attrs.field(factory=list[str])
    conflicts: list[str] = attrs.field(factory=list[str])
    left: list[str] = attrs.field(factory=list[str])
    older: list[str] = attrs.field(factory=list[str])
    forced: list[str] = attrs.field(factory=list[str])

    def add(
        self, path: str, *, now: TreeEntry | None, usual: TreeEntry | None, want: TreeEntry | None, force: bool
    ) -> None:
        """Add a path. It may be put back if it is *usual*, as the turn has left it, or by *force*."""
        if any(entry is not None and entry.is_left_out for entry in (now, want)):
            self.left.append(path)
        elif now == want:
            self.settled.append(path)
        elif now == usual or force:
            self.puts.append(Put(path, now, want))
            if now != usual:
                self.forced.append(path)
        else:
            self.conflicts.append(path)


@attrs.frozen
class LateChanges:
    """What has changed after the last snapshot of a turn.

    Attributes:
        own: while the turn ran, so it is the turn's doing.
        unsure: after its last sign of life and before its end was noted, so it may be.
    """

    own: Mapping[str, Change]
    unsure: Mapping[str, Change]


@attrs.frozen
class TurnChanges:
    """What has changed while a turn ran, by path.

    Attributes:
        own: what the turn's calls have changed.
        shared: those of them that something else has changed, too.
        foreign: what no call of the turn can have changed.
        from_others: what another session has changed, among *shared* and *foreign*.
    """

    own: Mapping[str, Change]
    shared: frozenset[str] = frozenset()
    foreign: Mapping[str, Change] = attrs.field(factory=dict[str, Change])
    from_others: frozenset[str] = frozenset()


def inputs_of(events: Iterable[Durable], turn_id: TurnId) -> tuple[UserMessage, ...]:
    """Return the user's messages of a turn, in the order in which the model got them."""
    admitted: dict[InputId, UserMessage] = {}
    inputs: list[UserMessage] = []
    for event in events:
        if isinstance(event, InputAdmitted):
            admitted[event.input_id] = event.message
        elif isinstance(event, InputPromoted) and event.turn_id == turn_id:
            inputs.append(admitted[event.input_id])
    # Reports of background work are the engine's words: there is nothing to give back to the user.
    return tuple(message for message in inputs if message.origin != "engine")


def is_among(path: str, names: Iterable[str]) -> bool:
    """Return whether *path* is one of *names*, or in a folder that is."""
    return any(path == name or path.startswith(f"{name}/") for name in names)


def find_older(changes: Collection[Change], began: float) -> set[str]:
    """Return the paths that seem new but are older than the turn, which began at *began*. It blocks.

    They were left out of snapshots before, as ignored files are, and the turn has changed `.gitignore`. The files of a
    renamed folder are as old, but snapshots hold their content under the old names.
    """
    held = {change.before.id for change in changes if change.before is not None}
    new = (c.path for c in changes if c.before is None and c.after is not None and c.after.id not in held)
    return {path for path in new if changed_at(path) + CLOCK_SLACK < began}


def changed_at(path: str) -> float:
    """Return when a file was changed last, its name and mode included; infinity if it is gone. It blocks."""
    try:
        # Not the time of the content: `tar` and `git` set that one to what they like.
        return os.lstat(path).st_ctime
    except OSError:
        return float("inf")
