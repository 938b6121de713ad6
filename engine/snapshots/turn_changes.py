"""What the turns of a session changed in files, and what others changed meanwhile, as far as snapshots show it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final

import attrs

from engine.core.errors import SnapshotError
from engine.core.ids import SessionId
from engine.core.protocols import Attributing, Snapshots
from engine.core.snapshot_types import Attribution, Change, TreeEntry
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.snapshots.turn_history import Overwrite, PastCall, PastTurn, TurnHistory

# Seconds. A file system takes its times from a clock tick of the kernel, which is a little behind our own clock.
CLOCK_SLACK: Final = 0.05
INFINITY: Final = float("inf")
# Seconds for a snapshot. The user has asked for it and waits, so it may take longer than within a turn.
_SECONDS: Final = 60.0


@attrs.frozen(eq=False, repr=False)
class LateChanges(Value):
    """What has changed after the last snapshot of a turn.

    Attributes:
        own: while the turn ran, so it is the turn's doing.
        unsure: after its last sign of life and before its end was noted, so it may be.
    """

    own: Mapping[str, Change]
    unsure: Mapping[str, Change]


@attrs.frozen(eq=False, repr=False)
class TurnChanges(Value):
    """What has changed while a turn ran, by path.

    Attributes:
        own: what the turn's calls have changed.
        shared: those of them that something else has changed, too.
        foreign: what no call of the turn can have changed.
        from_others: what another session has changed, among *shared* and *foreign*.
        during: of *own*, what no call has reported, with the calls that were at work when it changed.
    """

    own: Mapping[str, Change]
    shared: frozenset[str] = frozenset()
    foreign: Mapping[str, Change] = attrs.field(factory=dict[str, Change])
    from_others: frozenset[str] = frozenset()
    during: Mapping[str, tuple[PastCall, ...]] = attrs.field(factory=dict[str, tuple[PastCall, ...]])


@attrs.frozen(eq=False, repr=False)
class _CallChanges(Value):
    """What has changed around the calls of a turn.

    Attributes:
        reported: what the calls reported, with the real paths.
        possible: what a call can have changed.
        others: what changed although no call then running reported it.
    """

    reported: frozenset[str]
    possible: frozenset[str]
    others: frozenset[str]


@attrs.frozen(eq=False, repr=False)
class SessionSnapshots:
    """The snapshots of one session: takes and compares them.

    Attributes:
        backend: what takes and keeps snapshots.
        session_id: the session, which owns them.
        cwd: its working directory.
    """

    backend: Snapshots
    session_id: SessionId
    cwd: str

    async def take(self, paths: Iterable[str], remarks: list[str] | None = None) -> str:
        """Take a snapshot of the files as they are; append what is to be known of it to *remarks*. A checkpoint."""
        snapshot = await self.backend.take(self.cwd, owner=self.session_id, paths=frozenset(paths), within=_SECONDS)
        if snapshot.tree is None:
            raise SnapshotError(
                f"the files can't be noted as they are now: {'; '.join(snapshot.remarks) or 'too slow'}"
            )
        if remarks is not None:
            remarks.extend(snapshot.remarks)
        return snapshot.tree

    async def diff(self, old: str, new: str) -> dict[str, Change]:
        """Return what differs between two snapshots, by path. A checkpoint."""
        return {change.path: change for change in await self.backend.diff(old, new, owner=self.session_id)}

    async def differing(self, first: str, saved: Iterable[str]) -> dict[str, Change]:
        """Return what differed from the snapshot before a turn, as it was in the latest attempt in which it did."""
        changes: dict[str, Change] = {}
        for tree in saved:
            changes |= await self.diff(first, tree)
        return changes

    async def changed(self, turn: PastTurn) -> TurnChanges:
        """Return what a turn has changed, as far as it was noted, and what others have changed meanwhile."""
        first = turn.trees[0]
        if turn.redone is not None:
            again = {self.named(file) for file in turn.redone}
            changes = await self.diff(first, turn.tree_redone)
            return TurnChanges({path: change for path, change in changes.items() if path in again})
        changes = await self.diff(first, turn.trees[-1])
        if not isinstance(self.backend, Attributing):
            return TurnChanges(changes)
        who = await self.backend.attribution(turn.trees, owner=self.session_id, began=turn.began)
        around = await self._around_calls(turn, who)
        changed = _attribute(changes, who, around)
        return _judge_by_times(turn, changed, who, around.reported, await to_thread(_times_of, changed.own))

    async def _around_calls(self, turn: PastTurn, who: Attribution) -> _CallChanges:
        """Compare what changed from one snapshot of a turn to the next with what its calls reported."""
        reported, possible, others = set[str](), set[str](), set[str]()
        for (old, new), paths in zip(pairwise(turn.trees), who.calls, strict=True):
            # What calls report may lead through links.
            names = None if paths is None else await to_thread(with_real_paths, paths)
            reported.update(names or ())
            for path in await self.diff(old, new):
                is_own = names is None or is_among(path, names)
                (possible if is_own else others).add(path)
        return _CallChanges(frozenset(reported), frozenset(possible), frozenset(others))

    async def late_changes(self, turn: PastTurn, changed: Mapping[str, Change], now: str) -> LateChanges:
        """Return what has changed since the last snapshot of a turn that was cut off, and may be its doing.

        A removed file has no time of its removal; restoring it does no harm, so it counts as the turn's doing. What an
        undo of a later turn has put back has the time of that undo, so it is not known whose doing it is.
        """
        since = [
            Change(path, changed[path].before if path in changed else change.before, change.after)
            for path, change in (await self.diff(turn.trees[-1], now)).items()
        ]
        times = await to_thread(_times_with_moves, [change.path for change in since], self.cwd, turn.until)
        following = await self.diff(turn.trees[-1], turn.next_tree) if turn.next_tree else {}

        def is_unsure(change: Change) -> bool:
            is_as_next = change.path in following and following[change.path].after == change.after
            return times[change.path] <= turn.ended + CLOCK_SLACK or (
                is_as_next and times[change.path] > turn.next_began
            )

        # `until` is the last sign of life of the turn, `ended` when its end was noted: in between it is unknown.
        own = {c.path: c for c in since if c.after is None or times[c.path] <= turn.until}
        return LateChanges(own, {c.path: c for c in since if c.path not in own and is_unsure(c)})

    async def forced(self, one: Overwrite) -> set[str]:
        """Return what an undo or a redo has overwritten although not only the turn had changed it."""
        forced = {path for tree in one.saved for path in await self.diff(one.usual, tree)}
        if one.is_undo:
            changed = await self.changed(one.turn)
            forced |= {*changed.shared, *changed.foreign}
        return forced

    async def rewound(self, seen: TurnHistory, turn: PastTurn) -> dict[str, TreeEntry | None]:
        """Return what rewinds of files to before *turn*, or to before an earlier turn, have put back since, by path."""
        entries: dict[str, TreeEntry | None] = {}
        begins = {one.turn_id: one.begins for one in seen.turns}
        for one in seen.rewinds:
            if begins.get(one.turn_id, turn.begins + 1) <= turn.begins < one.at:
                entries |= {path: change.before for path, change in (await self.differing(one.made, one.saved)).items()}
        return entries

    async def as_left(self, seen: TurnHistory, turn: PastTurn, now: str) -> set[str]:
        """Return the files that nothing but the session has changed since the beginning of a turn."""
        left, disturbed = set[str](), set[str]()
        for later in seen.done:
            if later.trees and later.begins >= turn.begins:
                changed = await self.changed(later)
                last = later.trees[-1] if later.redone is None else later.tree_redone
                left |= changed.own.keys() - await self.diff(last, now)
                disturbed |= {*changed.shared, *changed.foreign}
        left -= disturbed
        for one in seen.overwrites:
            if one.at > turn.begins:
                left |= set(map(self.named, one.files)) - (await self.diff(one.made, now)).keys()
        for at, old, new in seen.restores:
            if at > turn.begins:
                left |= (await self.diff(old, new)).keys() - (await self.diff(new, now)).keys()
        return left

    def named(self, file: str) -> str:
        """Return the absolute path of a file in the record, without following links that have appeared since."""
        return os.path.normpath(os.path.join(os.path.realpath(self.cwd), file))  # noqa: PTH118 - of a str, which may be no UTF-8

    def real(self, file: str) -> str:
        """Return where a file really is: its folder followed, the file itself not, which may be a link that is meant."""
        whole = self.named(file)
        return os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))  # noqa: PTH118, PTH120, PTH119


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


def _attribute(changes: Mapping[str, Change], who: Attribution, calls: _CallChanges) -> TurnChanges:
    """Tell the turn's own changes from those of others."""
    # Another session may have made what seems to be the work of a call that reports nothing.
    elsewhere = {
        path
        for path in changes
        if is_among(path, who.others) or (path in who.others_unsure and not is_among(path, calls.reported))
    }
    # What the other one reports, and the turn's calls do not, is the other's.
    own = {
        path: change
        for path, change in changes.items()
        if path in calls.possible and (is_among(path, calls.reported) or not is_among(path, who.others))
    }
    return TurnChanges(
        own,
        shared=frozenset((calls.others | elsewhere) & own.keys()),
        foreign={path: change for path, change in changes.items() if path not in own},
        from_others=frozenset(elsewhere),
    )


def _judge_by_times(
    turn: PastTurn, changed: TurnChanges, who: Attribution, reported: Collection[str], times: Mapping[str, float]
) -> TurnChanges:
    """Add what the *times* of files say: what may be the work of others, too, and what was at work when they changed."""
    at_work = _calls_at_work(turn, times)
    # Another program has changed it between two calls, while the model wrote or the user was asked, say.
    disturbed = {path for path, calls in at_work.items() if not calls}
    unreported = {path for path in changed.own if not is_among(path, reported)}
    # A call of another session goes on, and may have changed it, too.
    busy = {path for path in unreported if times[path] >= who.busy_since - CLOCK_SLACK and who.busy_since < INFINITY}
    return attrs.evolve(
        changed,
        shared=changed.shared | disturbed | busy,
        from_others=changed.from_others | busy,
        during={path: calls for path, calls in at_work.items() if calls and path in unreported},
    )


def _calls_at_work(turn: PastTurn, times: Mapping[str, float]) -> dict[str, tuple[PastCall, ...]]:
    """Return which calls of a turn were at work at the *times* of files, as far as these are while the turn ran."""
    return {
        path: _at_work(turn.calls, time, 0) or _at_work(turn.calls, time, CLOCK_SLACK)
        for path, time in times.items()
        if turn.calls and turn.began <= time <= turn.until
    }


def _at_work(calls: Iterable[PastCall], time: float, slack: float) -> tuple[PastCall, ...]:
    return tuple(call for call in calls if call.began - slack <= time <= call.ended + slack)


def changed_at(path: str) -> float:
    """Return when a file was changed last, its name and mode included; infinity if it is gone. It blocks."""
    try:
        # Not the time of the content: `tar` and `git` set that one to what they like.
        return os.lstat(path).st_ctime
    except OSError:
        return float("inf")


def _times_of(paths: Iterable[str]) -> dict[str, float]:
    return {path: changed_at(path) for path in paths}


def _times_with_moves(paths: Iterable[str], cwd: str, until: float) -> dict[str, float]:
    top = os.path.realpath(cwd)
    return {path: _changed_or_moved_at(path, top, until) for path in paths}


def _changed_or_moved_at(path: str, top: str, until: float) -> float:
    """Return when a file was changed last, or moved with a folder below *top* that has not changed since *until*. It blocks."""
    time = changed_at(path)
    folder = os.path.dirname(path)  # noqa: PTH120 - of a str, which may be no UTF-8
    while folder.startswith(f"{top}/"):
        try:
            state = os.lstat(folder)
        except OSError:
            break
        # Nothing has come into it or left it: its own name has changed.
        if state.st_ctime > until >= state.st_mtime:
            time = max(time, state.st_ctime)
        folder = os.path.dirname(folder)  # noqa: PTH120
    return time


def with_real_paths(paths: Iterable[str]) -> frozenset[str]:
    """Return paths, and where they really are: the folder followed, the file itself not. It blocks."""
    names = set[str]()
    for path in paths:
        folder, name = os.path.split(os.path.normpath(path))
        names |= {os.path.normpath(path), os.path.join(os.path.realpath(folder), name), os.path.realpath(path)}  # noqa: PTH118
    return frozenset(names)
