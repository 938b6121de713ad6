"""What an undo, a redo or a restore puts back: the inputs of a turn, and files, unless they are in conflict or older."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from engine.core.errors import NothingToUndo
from engine.core.events import Durable, InputAdmitted, InputEdited, InputPromoted
from engine.core.ids import InputId, TurnId
from engine.core.messages import UserMessage
from engine.core.snapshot_types import Change, Put, TreeEntry
from engine.core.threads import to_thread
from engine.snapshots.turn_changes import SessionSnapshots, TurnChanges, find_older, is_among
from engine.snapshots.turn_history import Overwrite, PastTurn, TurnHistory


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

    def merge(self, other: UndoPlan) -> None:
        """Add the conflicts of another plan, and what it leaves."""
        for mine, its in ((self.conflicts, other.conflicts), (self.left, other.left), (self.older, other.older)):
            mine.extend(path for path in its if path not in mine)

    def add_saved(
        self,
        paths: set[str],
        saved: Mapping[str, Change],
        since: Mapping[str, Change],
        *,
        force: bool,
        planned: Mapping[str, TreeEntry | None] | None = None,
    ) -> None:
        """Add those of *paths* that an undo or a redo has overwritten.

        Args:
            paths: the paths.
            saved: what was overwritten: `before` is what was put in its place, `after` what it was.
            since: what has changed from that on.
            force: see `add`.
            planned: what files will hold before this is done.
        """
        for path in sorted(paths & saved.keys()):
            change = saved[path]
            now = since[path].after if path in since else change.before
            now = now if planned is None else planned.get(path, now)
            self.add(path, now=now, usual=change.before, want=change.after, force=force)


def inputs_of(events: Iterable[Durable], turn_id: TurnId) -> tuple[UserMessage, ...]:
    """Return the user's messages of a turn, in the order in which the model got them."""
    return inputs_by_turn(events).get(turn_id, ())


def inputs_by_turn(events: Iterable[Durable]) -> dict[TurnId, tuple[UserMessage, ...]]:
    """Return the user's messages of each turn that has any, in the order in which the model got them."""
    admitted: dict[InputId, UserMessage] = {}
    inputs: dict[TurnId, tuple[UserMessage, ...]] = {}
    for event in events:
        if isinstance(event, (InputAdmitted, InputEdited)):
            admitted[event.input_id] = event.message
        elif isinstance(event, InputPromoted) and event.turn_id is not None:
            message = admitted[event.input_id]
            # Reports of background work are the engine's words: there is nothing to give back to the user.
            if message.origin != "engine":
                inputs[event.turn_id] = (*inputs.get(event.turn_id, ()), message)
    return inputs


async def plan_undo(
    snapshots: SessionSnapshots,
    turn: PastTurn,
    changed: TurnChanges,
    now: str,
    *,
    force: bool,
    rewound: Mapping[str, TreeEntry | None],
    planned: Mapping[str, TreeEntry | None] | None = None,
) -> tuple[UndoPlan, dict[str, Change]]:
    """Plan to undo what a turn has changed; return also the changes that were considered. A checkpoint.

    Args:
        snapshots: those of the session.
        turn: the turn.
        changed: what it has changed.
        now: a snapshot of the files.
        force: see `UndoPlan.add`.
        rewound: what files hold that were rewound to before the turn: older than what the turn began with.
        planned: what files will hold before that, once later turns are undone.
    """
    last = turn.tree_redone if turn.redone is not None else turn.trees[-1]
    since = await snapshots.diff(last, now)
    targets, unsure = await _targets(snapshots, turn, changed, now, force=force)
    older = set[str]() if turn.redone is not None else await to_thread(find_older, targets.values(), turn.began)
    plan = UndoPlan()
    for path, change in sorted(targets.items()):
        if path in older:
            plan.older.append(path)
            continue
        is_now = since[path].after if path in since else change.after
        is_now = is_now if planned is None else planned.get(path, is_now)
        if path in rewound and rewound[path] == is_now != change.after:
            plan.settled.append(path)
            continue
        usual = change.before if path in unsure else change.after
        plan.add(path, now=is_now, usual=usual, want=change.before, force=force)
    return plan, targets


async def _targets(
    snapshots: SessionSnapshots, turn: PastTurn, changed: TurnChanges, now: str, *, force: bool
) -> tuple[dict[str, Change], set[str]]:
    """Return the changes that an undo is to take back, and the paths of those that may not be the turn's."""
    targets = {**changed.own, **(changed.foreign if force else {})}
    unsure = {*changed.shared, *(changed.foreign if force else ())}
    if turn.is_last_change_missed and turn.redone is None:
        late = await snapshots.late_changes(turn, targets, now)
        # What has changed again is not as it was when something else has changed it; still, it is not the turn's.
        own = {path: change for path, change in late.own.items() if force or path not in changed.foreign}
        targets |= {**own, **late.unsure}
        unsure |= late.unsure.keys()
    return targets, unsure


async def plan_restore(
    snapshots: SessionSnapshots,
    seen: TurnHistory,
    turn: PastTurn,
    names: Collection[str],
    now: str,
    *,
    turn_id: str | None,
    force: bool,
) -> UndoPlan:
    """Plan to put the files with these *names* back as they were before a turn, or before they were overwritten.

    A checkpoint. *turn_id* is what the user said: None, or the id of *turn*.
    """
    own = await snapshots.as_left(seen, turn, now)
    plan = UndoPlan()
    overwrites = [one for one in seen.overwrites if turn_id in {None, one.turn.turn_id} and one.at > turn.begins]
    kept = await _add_overwritten(snapshots, plan, overwrites, names, now, is_all=turn_id is not None, force=force)
    differing = (await snapshots.diff(turn.trees[0], now)).values()
    changes = [change for change in differing if is_among(change.path, names) and change.path not in kept]
    older = await to_thread(find_older, changes, turn.began)
    for change in changes:
        if change.path not in older:
            may = force or change.path in own
            plan.add(change.path, now=change.after, usual=None, want=change.before, force=may)
    return plan


async def _add_overwritten(
    snapshots: SessionSnapshots,
    plan: UndoPlan,
    overwrites: Sequence[Overwrite],
    names: Collection[str],
    now: str,
    *,
    is_all: bool,
    force: bool,
) -> set[str]:
    """Plan to put back what an undo or a redo has overwritten; return the paths.

    Unless *is_all*, only what not only the turn has changed: what its undo was forced to overwrite.
    """
    done = set[str]()
    for one in reversed(overwrites):
        files = {path for path in map(snapshots.named, one.files) if is_among(path, names)} - done
        if files and not is_all:
            files &= await snapshots.forced(one)
        if not files:
            continue
        before = await snapshots.differing(one.made, one.saved)
        plan.add_saved(files, before, await snapshots.diff(one.made, now), force=force)
        done |= files & before.keys()
    return done


def turn_to_restore(seen: TurnHistory, turn_id: str | None) -> PastTurn:
    """Return the turn with that id, or the newest, that changed files or was overwritten. Raises `NothingToUndo`."""
    try:
        return find_turn(seen, turn_id, with_files=True)
    except NothingToUndo:
        overwrites = [one for one in seen.overwrites if turn_id in {None, one.turn.turn_id}]
        if not overwrites:
            raise
        return overwrites[-1].turn


def find_turn(seen: TurnHistory, turn_id: str | None, *, with_files: bool = False) -> PastTurn:
    """Return the turn with that id, or the newest that changed files. Raises `NothingToUndo`."""
    if turn_id is None:
        turn = _newest_change(seen, with_files=with_files)
    else:
        turn = next((turn for turn in seen.turns if turn.turn_id == turn_id), None)
    if turn is None or (with_files and not turn.trees):
        named = "no turn" if turn_id is None else f"no turn {turn_id!r}"
        raise NothingToUndo(f"there is {named} {'that has changed files' if with_files else 'that is over'}")
    return turn


def _newest_change(seen: TurnHistory, *, with_files: bool) -> PastTurn | None:
    """Return the newest turn that counts and changed files, or the newest of all unless it must be one *with files*."""
    # One without a snapshot may have changed files: it is not passed over in silence, unless files are needed.
    turn = next((t for t in reversed(seen.done) if t.trees or (t.has_no_snapshot and not with_files)), None)
    return seen.done[-1] if turn is None and seen.done and not with_files else turn
