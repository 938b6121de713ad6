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
from engine.core.protocols import Deps, Snapshots
from engine.core.snapshot_types import Change, TreeEntry
from engine.core.threads import to_thread
from engine.journal.closing_events import CRASHED
from engine.journal.fold import fold
from engine.journal.log import Journal
from engine.journal.state import SessionState
from engine.session.undo_plan import CLOCK_SLACK, LateChanges, UndoPlan, changed_at, find_older, inputs_of, is_among
from engine.snapshots.turn_history import PastTurn, TurnHistory, turn_history

# Seconds for a snapshot. The user has asked for it and waits, so it may take longer than within a turn.
_SECONDS: Final = 60.0
_NO_CALL: Final = CallId("")
_OLDER: Final = "older than the turn, and left out before it, so left as they are: {}"
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
        now = await self._now(snapshots, changed, remarks)
        plan, targets = await self._plan_undo(snapshots, turn, changed, now, force=force)
        self._raise_conflicts(plan)
        if plan.older:
            remarks.append(_OLDER.format(self._some(plan.older)))
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
        changed = await self._changed(snapshots, turn)
        if turn.is_last_change_missed and turn.redone is None:
            now = await self._now(snapshots, changed)
            late = await self._late_changes(snapshots, turn, changed, now)
            changed |= {**late.own, **late.unsure}
        entries = [e for change in changed.values() for e in (change.before, change.after) if e is not None]
        contents = await snapshots.read(turn.trees[0], [entry for entry in entries if not entry.is_left_out])
        return await to_thread(self._diffs, changed, contents)

    async def restore(self, paths: Sequence[str], turn_id: str | None, *, force: bool) -> tuple[str, ...]:
        """Put chosen files back as they were before a turn. See `Session.restore`."""
        seen = await to_thread(turn_history, await self._events(), CRASHED)
        turn = self._turn(seen, turn_id, with_files=True)
        snapshots = self._snapshots()
        # A folder on the way may be a link by now, and the user may mean the path of then or of now.
        names = [whole for path in paths for whole in (self._named(path), self._real(path))]
        now = await self._now(snapshots, names)
        changes = [c for c in await self._diff(snapshots, turn.trees[0], now) if is_among(c.path, names)]
        foreign = await self._foreign(snapshots, seen, now)
        older = await to_thread(find_older, changes, turn.began)
        plan = UndoPlan()
        for change in changes:
            if change.path not in older:
                may = force or change.path not in foreign
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

    async def _foreign(self, snapshots: Snapshots, seen: TurnHistory, now: str) -> set[str]:
        """Return the files that something else than the session has changed."""
        # What only the session has changed is as the last snapshot has it, or as an undo has left it.
        foreign = {change.path for change in await self._diff(snapshots, seen.last_tree, now)}
        if seen.undone and seen.undone[-1].turn.trees:
            foreign &= {change.path for change in await self._diff(snapshots, seen.undone[-1].turn.trees[0], now)}
        return foreign

    # -- what has changed -----------------------------------------------------------------

    async def _changed(self, snapshots: Snapshots, turn: PastTurn) -> dict[str, Change]:
        """Return what a turn has changed, as far as it was noted."""
        first = turn.trees[0]
        if turn.redone is not None:
            again = {self._named(file) for file in turn.redone}
            return {c.path: c for c in await self._diff(snapshots, first, turn.tree_redone) if c.path in again}
        return {change.path: change for change in await self._diff(snapshots, first, turn.trees[-1])}

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
        self, snapshots: Snapshots, turn: PastTurn, changed: Mapping[str, Change], now: str, *, force: bool
    ) -> tuple[UndoPlan, dict[str, Change]]:
        last = turn.tree_redone if turn.redone is not None else turn.trees[-1]
        since = {change.path: change for change in await self._diff(snapshots, last, now)}
        targets = dict(changed)
        unsure: Mapping[str, Change] = {}
        if turn.is_last_change_missed and turn.redone is None:
            late = await self._late_changes(snapshots, turn, changed, now)
            targets |= {**late.own, **late.unsure}
            unsure = late.unsure
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

    def _raise_conflicts(self, plan: UndoPlan) -> None:
        if plan.conflicts:
            shown = self._shown(plan.conflicts)
            raise UndoConflict(
                f"changed since by another program, so nothing was done: {', '.join(shown)}. With force they are overwritten.",
                shown,
            )

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


def _newest_change(seen: TurnHistory, *, with_files: bool) -> PastTurn | None:
    """Return the newest turn that counts and changed files, or the newest of all unless it must be one *with files*."""
    # One without a snapshot may have changed files: it is not passed over in silence, unless files are needed.
    turn = next((t for t in reversed(seen.done) if t.trees or (t.has_no_snapshot and not with_files)), None)
    return seen.done[-1] if turn is None and seen.done and not with_files else turn
