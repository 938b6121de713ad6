"""Undo, redo, compare and restore: what a session does with the snapshots of its turns.

Undoing a turn takes its messages back and restores the files that it changed. Both are one event, which is written once the
files are in place. A snapshot of what the files held is taken before, so that redo restores exactly that. If a crash or a
cancel comes between the files and the event, the turn still counts; undoing it again finds those files restored already,
and does the rest.

A file is restored only if it is as the turn has left it. If the turn was cut off before a snapshot recorded that, the time
of the file's last change decides whether the turn can have made it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

import attrs

from engine.core.errors import NothingToUndo, SnapshotError, UndoConflict
from engine.core.events import (
    ContextChanged,
    Durable,
    Notice,
    SnapshotTaken,
    TurnRedone,
    TurnUndone,
)
from engine.core.ids import CallId, TurnId
from engine.core.messages import Message, UserMessage
from engine.core.protocols import Attributing, Deps, Snapshots
from engine.core.snapshot_types import Change, TreeEntry
from engine.core.threads import to_thread
from engine.journal.closing_events import CRASHED
from engine.journal.fold import fold
from engine.journal.log import Journal
from engine.journal.state import SessionState
from engine.session.undo_plan import (
    CLOCK_SLACK,
    LateChanges,
    TurnChanges,
    UndoPlan,
    changed_at,
    find_older,
    inputs_of,
    is_among,
)
from engine.snapshots.turn_history import Overwrite, PastTurn, TurnHistory, turn_history

# Seconds for a snapshot. The user has asked for it and waits, so it may take longer than within a turn.
_SECONDS: Final = 60.0
_NO_CALL: Final = CallId("")
_OLDER: Final = "older than the turn, and left out before it, so left as they are: {}"
_FOREIGN: Final = "changed while the turn ran, but not by its calls, so left as they are: {}"
_OTHERS: Final = "changed by another session while the turn ran, so left as they are: {}"
_FORCED: Final = "overwritten although something else has changed them; redo or restore brings that back: {}"
# Paths in one message.
_NAMED: Final = 5
_UNNOTED: Final = "what the turn changed in files was not noted, so files are as it has left them"


@attrs.frozen(kw_only=True)
class Undone:
    """What was undone.

    Attributes:
        turn_id: the turn.
        inputs: what the user had said in it, the prompt first: to be put back into an editor, say.
        files: what was put back, or removed, relative to the working directory.
        left: what has changed, too, but is not in snapshots: too large, say.
        note: why no file was put back, where that was not possible and `force` said to go on.
        remarks: what else is to be known of the files: that only some of them were noted, say.
    """

    turn_id: TurnId
    inputs: tuple[UserMessage, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    note: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The words that the turn began with; empty if it began without."""
        return self.inputs[0].text if self.inputs else ""


@attrs.frozen(kw_only=True)
class Redone:
    """What was redone.

    Attributes:
        turn_id: the turn.
        files: what was changed again.
        note: why no file was, where that was not possible and `force` said to go on.
    """

    turn_id: TurnId
    files: tuple[str, ...] = ()
    note: str = ""


@attrs.frozen(kw_only=True)
class FileDiff:
    """What a turn did to a file.

    Attributes:
        path: relative to the working directory.
        before, after: what it was and is; None: nothing was there.
        text: the difference as a unified diff; empty for what is no text.
    """

    path: str
    before: TreeEntry | None
    after: TreeEntry | None
    text: str = ""


@attrs.frozen(eq=False)
class UndoHistory:
    """Undoes and redoes turns in the record of a session. The caller ensures that no turn runs."""

    _journal: Journal
    _deps: Deps

    async def undo(self, *, force: bool) -> Undone:
        """Undo the newest turn that counts. See `Session.undo`."""
        events = await self._events()
        seen = await to_thread(turn_history, events, CRASHED)
        if not seen.done:
            raise NothingToUndo("there is no turn to undo")
        turn = seen.done[-1]
        # The state before the turn: its messages, and the context that its tools shared.
        before = await to_thread(fold, events[: turn.begins])
        transcript = before.transcript[:]
        inputs = await to_thread(inputs_of, events, turn.turn_id)
        note = ""
        try:
            return await self._undo_files(seen, turn, before, transcript, inputs, force=force)
        except SnapshotError as error:
            if not force:
                raise
            note = str(error)
        self._append_undone(turn, before, transcript, ())
        await self._flush()
        return Undone(turn_id=turn.turn_id, inputs=inputs, note=note)

    async def _undo_files(
        self,
        seen: TurnHistory,
        turn: PastTurn,
        before: SessionState,
        transcript: Sequence[Message],
        inputs: tuple[UserMessage, ...],
        *,
        force: bool,
    ) -> Undone:
        if not turn.trees:
            self._append_undone(turn, before, transcript, ())
            await self._flush()
            return Undone(turn_id=turn.turn_id, inputs=inputs, remarks=(_UNNOTED,) if turn.has_no_snapshot else ())
        snapshots = self._snapshots()
        changed = await self._changed(snapshots, turn)
        remarks: list[str] = []
        now = await self._now(snapshots, {*changed.own, *changed.foreign}, remarks)
        plan, targets = await self._plan_undo(snapshots, turn, changed, now, force=force)
        self._raise_conflicts(plan, changed.from_others)
        if plan.older:
            remarks.append(_OLDER.format(self._some(plan.older)))
        remarks += self._remarks(plan, changed, force=force)
        # Files that an earlier attempt has restored before it was cut off are a part of this undo.
        earlier = await self._differing(snapshots, turn.trees[0], seen.saved)
        restored = [path for path in plan.settled if path in targets and path in earlier]
        files = self._shown(sorted([*restored, *(put.path for put in plan.puts)]))
        # The locks that tools take: a sub-agent in the background may be changing the same files.
        async with self._deps.locks.hold(*(f"file:{put.path}" for put in plan.puts)):
            if plan.puts:
                await self._save(now)
                await snapshots.put(now, plan.puts, cwd=self._cwd)
            # No checkpoint after the files: the turn is undone once they are in place.
            self._append_undone(turn, before, transcript, files)
        await self._flush()
        return Undone(
            turn_id=turn.turn_id, inputs=inputs, files=files, left=self._shown(plan.left), remarks=tuple(remarks)
        )

    async def redo(self, *, force: bool) -> Redone:
        """Redo the turn that was undone last. See `Session.redo`."""
        events = await self._events()
        seen = await to_thread(turn_history, events, CRASHED)
        if not seen.undone:
            raise NothingToUndo("there is no turn to redo: none was undone, or a new prompt came after that")
        undone = seen.undone[-1]
        # The event before `TurnUndone` has put the older context back, so the one before that has what redo needs.
        context = (await to_thread(fold, events[: undone.at - 1])).context
        note = ""
        try:
            files = await self._redo_files(undone.turn, undone.files, undone.saved, force=force)
        except SnapshotError as error:
            if not force:
                raise
            files, note = (), str(error)
        self._journal.append(ContextChanged.of(_NO_CALL, self._journal.state.context, context))
        self._journal.append(TurnRedone(redone=undone.turn.turn_id, files=files))
        await self._flush()
        return Redone(turn_id=undone.turn.turn_id, files=files, note=note)

    async def _redo_files(
        self, turn: PastTurn, files: Collection[str], saved: Sequence[str], *, force: bool
    ) -> tuple[str, ...]:
        if not files:
            return ()
        snapshots = self._snapshots()
        paths = {self._named(file) for file in files}
        first = turn.trees[0]
        targets = await self._differing(snapshots, first, saved)
        now = await self._now(snapshots, paths)
        since = {change.path: change for change in await self._diff(snapshots, first, now)}
        plan = UndoPlan()
        for path in sorted(paths & targets.keys()):
            target = targets[path]
            is_now = since[path].after if path in since else target.before
            plan.add(path, now=is_now, usual=target.before, want=target.after, force=force)
        self._raise_conflicts(plan)
        async with self._deps.locks.hold(*(f"file:{put.path}" for put in plan.puts)):
            if plan.puts:
                await self._save(now)
                await snapshots.put(now, plan.puts, cwd=self._cwd)
        # If the turn is undone again, this snapshot shows what it has left.
        self._journal.append(SnapshotTaken(step=0, tree=await self._now(snapshots, paths)))
        return self._shown(sorted([*plan.settled, *(put.path for put in plan.puts)]))

    async def diff(self, turn_id: str | None) -> tuple[FileDiff, ...]:
        """Return what a turn did to files. See `Session.diff`."""
        turn = self._turn(await to_thread(turn_history, await self._events(), CRASHED), turn_id)
        if turn.has_no_snapshot and not turn.trees:
            raise SnapshotError(f"what turn {turn.turn_id} changed was not noted, so it can't be compared")
        if not turn.trees:
            return ()
        snapshots = self._snapshots()
        changed = dict((await self._changed(snapshots, turn)).own)
        if turn.is_last_change_missed and turn.redone is None:
            now = await self._now(snapshots, changed)
            late = await self._late_changes(snapshots, turn, changed, now)
            changed |= {**late.own, **late.unsure}
        entries = [e for change in changed.values() for e in (change.before, change.after) if e is not None]
        contents = await snapshots.read(turn.trees[0], [entry for entry in entries if not entry.is_left_out])
        return await to_thread(self._diffs, changed, contents)

    async def restore(self, paths: Sequence[str], turn_id: str | None, *, force: bool) -> tuple[str, ...]:
        """Put chosen files back as they were before a turn, or before they were overwritten. See `Session.restore`."""
        seen = await to_thread(turn_history, await self._events(), CRASHED)
        overwrites = [one for one in seen.overwrites if turn_id in {None, one.turn.turn_id}]
        try:
            turn = self._turn(seen, turn_id, with_files=True)
        except NothingToUndo:
            if not overwrites:
                raise
            turn = overwrites[-1].turn
        snapshots = self._snapshots()
        # A folder on the way may be a link by now, and the user may mean the path of then or of now.
        names = [whole for path in paths for whole in (self._named(path), self._real(path))]
        now = await self._now(snapshots, names)
        own = await self._as_left(snapshots, seen, turn, now)
        plan = UndoPlan()
        kept = await self._add_overwritten(
            snapshots,
            plan,
            [o for o in overwrites if o.at > turn.begins],
            now,
            names,
            force=force,
            is_all=turn_id is not None,
        )
        changes = [
            c for c in await self._diff(snapshots, turn.trees[0], now) if is_among(c.path, names) and c.path not in kept
        ]
        older = await to_thread(find_older, changes, turn.began)
        for change in changes:
            if change.path not in older:
                may = force or change.path in own
                plan.add(change.path, now=change.after, usual=None, want=change.before, force=may)
        self._raise_conflicts(plan)
        if plan.left:
            raise SnapshotError(f"snapshots do not hold {', '.join(self._shown(plan.left))}: left out, being too large")
        files = self._shown(sorted(put.path for put in plan.puts))
        if files:
            async with self._deps.locks.hold(*(f"file:{put.path}" for put in plan.puts)):
                await self._save(now)
                await snapshots.put(now, plan.puts, cwd=self._cwd)
                self._journal.append(SnapshotTaken(step=0, tree=await self._now(snapshots, names)))
                text = f"put back as before turn {turn.turn_id}: {', '.join(files)}; before that they were {now}"
                self._notice("info", "files_restored", text)
            await self._flush()
        return files

    async def _add_overwritten(
        self,
        snapshots: Snapshots,
        plan: UndoPlan,
        overwrites: Sequence[Overwrite],
        now: str,
        names: Sequence[str],
        *,
        force: bool,
        is_all: bool,
    ) -> set[str]:
        """Plan to put back what an undo or a redo has overwritten; return the paths.

        Unless *is_all*, only what not only the turn has changed: what its undo was forced to overwrite.
        """
        done = set[str]()
        for one in reversed(overwrites):
            files = {path for path in map(self._named, one.files) if is_among(path, names)} - done
            if files and not is_all:
                files &= await self._forced(snapshots, one)
            if not files:
                continue
            before = await self._differing(snapshots, one.made, one.saved)
            since = {change.path: change for change in await self._diff(snapshots, one.made, now)}
            for path in sorted(files & before.keys()):
                is_now = since[path].after if path in since else before[path].before
                plan.add(path, now=is_now, usual=before[path].before, want=before[path].after, force=force)
                done.add(path)
        return done

    async def _forced(self, snapshots: Snapshots, one: Overwrite) -> set[str]:
        """Return what an undo or a redo has overwritten although not only the turn had changed it."""
        forced = {change.path for tree in one.saved for change in await self._diff(snapshots, one.usual, tree)}
        if one.is_undo:
            changed = await self._changed(snapshots, one.turn)
            forced |= {*changed.shared, *changed.foreign}
        return forced

    async def _as_left(self, snapshots: Snapshots, seen: TurnHistory, turn: PastTurn, now: str) -> set[str]:
        """Return the files that nothing but the session has changed since the beginning of a turn."""
        left, disturbed = set[str](), set[str]()
        for later in seen.done:
            if later.trees and later.begins >= turn.begins:
                changed = await self._changed(snapshots, later)
                last = later.trees[-1] if later.redone is None else later.tree_redone
                left |= changed.own.keys() - await self._paths(snapshots, last, now)
                disturbed |= {*changed.shared, *changed.foreign}
        left -= disturbed
        for one in seen.overwrites:
            if one.at > turn.begins:
                left |= set(map(self._named, one.files)) - await self._paths(snapshots, one.made, now)
        for at, old, new in seen.restores:
            if at > turn.begins:
                left |= await self._paths(snapshots, old, new) - await self._paths(snapshots, new, now)
        return left

    async def _paths(self, snapshots: Snapshots, old: str, new: str) -> set[str]:
        return {change.path for change in await self._diff(snapshots, old, new)}

    # -- what has changed -----------------------------------------------------------------

    async def _changed(self, snapshots: Snapshots, turn: PastTurn) -> TurnChanges:
        """Return what a turn has changed, as far as it was noted, and what others have changed meanwhile."""
        first = turn.trees[0]
        if turn.redone is not None:
            again = {self._named(file) for file in turn.redone}
            return TurnChanges(
                {c.path: c for c in await self._diff(snapshots, first, turn.tree_redone) if c.path in again}
            )
        changes = {change.path: change for change in await self._diff(snapshots, first, turn.trees[-1])}
        if not isinstance(snapshots, Attributing):
            return TurnChanges(changes)
        who = await snapshots.attribution(
            turn.trees, owner=self._journal.session_id, began=turn.began, ended=turn.ended
        )
        reported, possible, others = set[str](), set[str](), set[str]()
        for (old, new), paths in zip(pairwise(turn.trees), who.calls, strict=True):
            # What calls report may lead through links.
            names = None if paths is None else await to_thread(_with_real, paths)
            reported.update(names or ())
            for change in await self._diff(snapshots, old, new):
                is_own = names is None or is_among(change.path, names)
                (possible if is_own else others).add(change.path)
        # Another session may have made what seems to be the work of a call that reports nothing.
        elsewhere = {
            path
            for path in changes
            if is_among(path, who.others) or (path in who.others_unsure and not is_among(path, reported))
        }
        others |= elsewhere
        # What the other one reports, and the turn's calls do not, is the other's.
        own = {
            p: c for p, c in changes.items() if p in possible and (is_among(p, reported) or not is_among(p, who.others))
        }
        return TurnChanges(
            own,
            shared=frozenset(others & own.keys()),
            foreign={path: change for path, change in changes.items() if path not in own},
            from_others=frozenset(elsewhere),
        )

    async def _late_changes(
        self, snapshots: Snapshots, turn: PastTurn, changed: Mapping[str, Change], now: str
    ) -> LateChanges:
        """Return what has changed since the last snapshot of a turn that was cut off, and may be its doing.

        A removed file has no time of its removal; restoring it does no harm, so it counts as the turn's doing.
        """
        since = [
            Change(c.path, changed[c.path].before if c.path in changed else c.before, c.after)
            for c in await self._diff(snapshots, turn.trees[-1], now)
        ]
        times = await to_thread(lambda: {c.path: changed_at(c.path) for c in since})
        # `until` is the last sign of life of the turn, `ended` when its end was noted: in between it is unknown.
        own = {c.path: c for c in since if c.after is None or times[c.path] <= turn.until + CLOCK_SLACK}
        unsure = {c.path: c for c in since if c.path not in own and times[c.path] <= turn.ended + CLOCK_SLACK}
        return LateChanges(own, unsure)

    async def _plan_undo(
        self, snapshots: Snapshots, turn: PastTurn, changed: TurnChanges, now: str, *, force: bool
    ) -> tuple[UndoPlan, dict[str, Change]]:
        last = turn.tree_redone if turn.redone is not None else turn.trees[-1]
        since = {change.path: change for change in await self._diff(snapshots, last, now)}
        targets = {**changed.own, **(changed.foreign if force else {})}
        unsure = {*changed.shared, *(changed.foreign if force else ())}
        if turn.is_last_change_missed and turn.redone is None:
            late = await self._late_changes(snapshots, turn, targets, now)
            # What has changed again is not as it was when something else has changed it; still, it is not the turn's.
            own = {path: change for path, change in late.own.items() if force or path not in changed.foreign}
            targets |= {**own, **late.unsure}
            unsure |= late.unsure.keys()
        older = set[str]() if turn.redone is not None else await to_thread(find_older, targets.values(), turn.began)
        plan = UndoPlan()
        for path, change in sorted(targets.items()):
            if path in older:
                plan.older.append(path)
                continue
            is_now = since[path].after if path in since else change.after
            usual = change.before if path in unsure else change.after
            plan.add(path, now=is_now, usual=usual, want=change.before, force=force)
        return plan, targets

    async def _diff(self, snapshots: Snapshots, old: str, new: str) -> Sequence[Change]:
        return await snapshots.diff(old, new, owner=self._journal.session_id)

    async def _differing(self, snapshots: Snapshots, first: str, saved: Iterable[str]) -> dict[str, Change]:
        """Return what differed from the snapshot before a turn, as it was in the latest attempt in which it did."""
        changes: dict[str, Change] = {}
        for tree in saved:
            changes |= {change.path: change for change in await self._diff(snapshots, first, tree)}
        return changes

    async def _now(self, snapshots: Snapshots, paths: Iterable[str], remarks: list[str] | None = None) -> str:
        """Take a snapshot of the files as they are; append what is to be known of it to *remarks*. A checkpoint."""
        snapshot = await snapshots.take(
            self._cwd, owner=self._journal.session_id, paths=frozenset(paths), within=_SECONDS
        )
        if snapshot.tree is None:
            raise SnapshotError(
                f"the files can't be noted as they are now: {'; '.join(snapshot.remarks) or 'too slow'}"
            )
        if remarks is not None:
            remarks.extend(snapshot.remarks)
        return snapshot.tree

    def _diffs(self, changed: Mapping[str, Change], contents: Mapping[str, bytes]) -> tuple[FileDiff, ...]:
        # Imported here: only comparing needs it.
        from engine.snapshots.file_diff import unified_diff

        return tuple(
            FileDiff(
                path=self._shown([path])[0],
                before=change.before,
                after=change.after,
                text=unified_diff(self._shown([path])[0], change, contents),
            )
            for path, change in sorted(changed.items())
        )

    async def _events(self) -> tuple[Durable, ...]:
        """Return all events. In a thread, since a long session takes a second to read from the disk. A checkpoint."""
        return await to_thread(self._journal.events)

    # -- the record -----------------------------------------------------------------------

    def _append_undone(
        self, turn: PastTurn, before: SessionState, transcript: Sequence[Message], files: tuple[str, ...]
    ) -> None:
        """Record that a turn was undone. Not a checkpoint."""
        state = self._journal.state
        # Only what differs is written: the record must not repeat the history of a long session.
        keep = 0
        for mine, its in zip(state.transcript, transcript, strict=False):
            if mine is not its and mine != its:
                break
            keep += 1
        self._journal.append(ContextChanged.of(_NO_CALL, state.context, before.context))
        self._journal.append(TurnUndone(undone=turn.turn_id, keep=keep, messages=tuple(transcript[keep:]), files=files))

    async def _save(self, tree: str) -> None:
        """Make it durable which snapshot holds what is about to be overwritten. A checkpoint.

        Before the first file is touched: after a crash in between, redo could not find what the files held.
        """
        self._journal.append(SnapshotTaken(step=0, tree=tree))
        await self._flush()

    def _notice(self, level: Literal["info"], code: str, text: str) -> None:
        self._journal.append(Notice(level=level, code=code, text=text))

    async def _flush(self) -> None:
        await self._deps.store.flushed(self._journal.session_id, self._journal.seq)

    # -- words ----------------------------------------------------------------------------

    @property
    def _cwd(self) -> str:
        return self._journal.state.context.cwd

    def _snapshots(self) -> Snapshots:
        if self._deps.snapshots is None:
            raise SnapshotError("the engine was opened without snapshots, so it can't put files back")
        return self._deps.snapshots

    def _turn(self, seen: TurnHistory, turn_id: str | None, *, with_files: bool = False) -> PastTurn:
        """Return the turn with that id, or the newest that changed files. Raises `NothingToUndo`."""
        if turn_id is None:
            turn = _newest_change(seen, with_files=with_files)
        else:
            turn = next((turn for turn in seen.turns if turn.turn_id == turn_id), None)
        if turn is None or (with_files and not turn.trees):
            named = "no turn" if turn_id is None else f"no turn {turn_id!r}"
            raise NothingToUndo(f"there is {named} {'that has changed files' if with_files else 'that is over'}")
        return turn

    def _raise_conflicts(self, plan: UndoPlan, from_others: Collection[str] = ()) -> None:
        if plan.conflicts:
            shown = self._shown(plan.conflicts)
            other = self._shown(path for path in plan.conflicts if path in from_others)
            by = f" ({', '.join(other)}: by another session)" if other else ""
            raise UndoConflict(
                f"changed since by another program, so nothing was done: {', '.join(shown)}{by}. With force they are "
                "overwritten.",
                shown,
            )

    def _remarks(self, plan: UndoPlan, changed: TurnChanges, *, force: bool) -> list[str]:
        """Return what is to be said of files that not only the turn has changed."""
        remarks: list[str] = []
        if plan.forced:
            remarks.append(_FORCED.format(self._some(plan.forced)))
        if force:
            return remarks
        for text, paths in (
            (_OTHERS, sorted(changed.foreign.keys() & changed.from_others)),
            (_FOREIGN, sorted(changed.foreign.keys() - changed.from_others)),
        ):
            if paths:
                remarks.append(text.format(self._some(paths)))
        return remarks

    def _named(self, file: str) -> str:
        """Return the absolute path of a file in the record, without following links that have appeared since."""
        return os.path.normpath(os.path.join(os.path.realpath(self._cwd), file))  # noqa: PTH118 - of a str, which may be no UTF-8

    def _real(self, file: str) -> str:
        whole = self._named(file)
        # The folder that a file is in, for real; the file itself may be a link that is meant.
        return os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))  # noqa: PTH118, PTH120, PTH119

    def _some(self, paths: Sequence[str]) -> str:
        """Return the first of them, and how many more there are."""
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        return ", ".join(self._shown(paths[:_NAMED])) + more

    def _shown(self, paths: Iterable[str]) -> tuple[str, ...]:
        folder = os.path.realpath(self._cwd)
        return tuple(os.path.relpath(path, folder) for path in paths)


def _with_real(paths: Iterable[str]) -> frozenset[str]:
    """Return paths, and where they really are: the folder followed, the file itself not. It blocks."""
    names = set[str]()
    for path in paths:
        folder, name = os.path.split(os.path.normpath(path))
        names |= {os.path.normpath(path), os.path.join(os.path.realpath(folder), name), os.path.realpath(path)}  # noqa: PTH118
    return frozenset(names)


def _newest_change(seen: TurnHistory, *, with_files: bool) -> PastTurn | None:
    """Return the newest turn that counts and changed files, or the newest of all unless it must be one *with files*."""
    # One without a snapshot may have changed files: it is not passed over in silence, unless files are needed.
    turn = next((t for t in reversed(seen.done) if t.trees or (t.has_no_snapshot and not with_files)), None)
    return seen.done[-1] if turn is None and seen.done and not with_files else turn
