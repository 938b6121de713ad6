"""Rewinding: several turns are undone at once, or only their messages, or only their changes of files; and redo.

Turns are undone one after the other, each by an event of its own, once a dry run has found no file that another program has
changed. So a cancel or a crash leaves some of them undone, and rewinding again does the rest. The events name the oldest
turn of the rewind, and redo brings all of it back. If only files are rewound, no turn is undone: a notice marks the
snapshots, and redo brings those files back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from engine.core.errors import NothingToUndo, SnapshotError, UndoConflict, UndoIncomplete
from engine.core.events import ContextChanged, Durable, Notice, SnapshotTaken, TurnRedone
from engine.core.ids import TurnId
from engine.core.messages import UserMessage
from engine.core.snapshot_types import Change, Put, TreeEntry
from engine.core.threads import to_thread
from engine.journal.fold import fold
from engine.journal.state import SessionState
from engine.session.undo import NO_CALL, BeforeTurn, FileDiff, Redone, UndoHistory, Undone, name_some
from engine.snapshots.turn_history import PastTurn, TurnHistory, UndoneTurnRecord
from engine.snapshots.undo_plan import UndoPlan, inputs_by_turn, plan_undo

RewindScope: TypeAlias = Literal["both", "conversation", "files"]

# Turns whose files are compared for a list of all: each comparison takes some milliseconds.
_MOST_COMPARED: Final = 50
_NOTHING_TO_REDO: Final = "there is no turn to redo: none was undone, or a new prompt came after that"
_UNSURE: Final = "changed while commands of these turns ran, perhaps by another program: {}"
_NO_FILES: Final = "these turns changed no file that a snapshot holds"


@attrs.frozen(kw_only=True)
class RewindPoint:
    """A prompt that a session can be rewound to.

    Attributes:
        turn_id: its turn.
        prompt: what the user said.
        time: when, in seconds since the epoch.
        files: the files that changed while the turn ran, relative to the working directory.
        has_files: whether it changed any; those of old turns are not listed.
    """

    turn_id: TurnId
    prompt: str
    time: float
    files: tuple[str, ...] = ()
    has_files: bool = False


@attrs.frozen(kw_only=True)
class RewindPreview:
    """What rewinding would do.

    Attributes:
        turns: the turns that would be undone, the newest first.
        files: the files that would change, from what they hold now to what they would hold.
        conflicts: files that another program has changed: they are overwritten by force only.
        left: files that have changed, too, but are not in snapshots.
    """

    turns: tuple[TurnId, ...]
    files: tuple[FileDiff, ...] = ()
    conflicts: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Rewound:
    """What was rewound.

    Attributes:
        turns: the turns, the newest first.
        inputs: what the user had said in the oldest of them, the prompt first.
        files: the files that were changed, relative to the working directory.
        left: what has changed, too, but is not in snapshots.
        remarks: what else is to be known.
    """

    turns: tuple[TurnId, ...]
    inputs: tuple[UserMessage, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def prompt(self) -> str:
        """The words that the oldest turn began with; empty if it began without."""
        return self.inputs[0].text if self.inputs else ""


@attrs.frozen
class _FilePlan:
    """What becomes of all files.

    Attributes:
        now: a snapshot of them.
        names: the paths of all files that the turns have changed.
        steps: what is put back from what is there now, the conflicts, and what is left.
    """

    now: str
    names: tuple[str, ...]
    steps: UndoPlan


@attrs.frozen(eq=False)
class RewindHistory:
    """Rewinds the record of a session, and redoes what was undone. The caller ensures that no turn runs."""

    _history: UndoHistory

    async def points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts to rewind to, the oldest first. See `SessionFiles.rewind_points`."""
        events, seen = await self._history.read()
        inputs = await to_thread(inputs_by_turn, events)
        turns = [turn for turn in seen.done if turn.turn_id in inputs]
        with_files = [turn.turn_id for turn in turns if turn.trees][-_MOST_COMPARED:]
        points: list[RewindPoint] = []
        for turn in turns:
            files = await self._files_of(turn) if turn.turn_id in with_files else ()
            points.append(
                RewindPoint(
                    turn_id=turn.turn_id,
                    prompt=inputs[turn.turn_id][0].text,
                    time=turn.began,
                    files=files,
                    has_files=bool(files) or (bool(turn.trees) and turn.turn_id not in with_files),
                )
            )
        return tuple(points)

    async def _files_of(self, turn: PastTurn) -> tuple[str, ...]:
        try:
            changes = await self._history.snapshots().diff(turn.trees[0], turn.trees[-1])
        except SnapshotError:
            return ()
        return self._history.shown(sorted(changes))

    async def preview(self, turn_id: str) -> RewindPreview:
        """Return what rewinding would do. See `SessionFiles.preview_rewind`."""
        _, seen = await self._history.read()
        turns = _turns_from(seen, turn_id)
        ids = tuple(turn.turn_id for turn in turns)
        if not any(turn.trees for turn in turns):
            return RewindPreview(turns=ids)
        history = self._history
        # As if it were forced, so that the user sees what that would overwrite.
        forced = await self._plan(seen, turns, force=True)
        usual = await self._plan(seen, turns, force=False)
        changed = {put.path: Change(put.path, put.now, put.want) for put in forced.steps.puts}
        diffs = await history.diffs(history.snapshots(), forced.now, changed)
        conflicts = history.shown(usual.steps.conflicts)
        usual_files = set(history.shown(put.path for put in usual.steps.puts))
        return RewindPreview(
            turns=ids,
            files=tuple(diff for diff in diffs if diff.path in usual_files or diff.path in conflicts),
            conflicts=conflicts,
            left=history.shown(sorted({*usual.steps.left, *usual.steps.older})),
        )

    async def rewind(self, turn_id: str, scope: RewindScope, *, force: bool) -> Rewound:
        """Rewind. See `SessionFiles.rewind`."""
        events, seen = await self._history.read()
        turns = _turns_from(seen, turn_id)
        if scope == "files":
            return await self._rewind_files(seen, turns, force=force)
        before = await to_thread(_states_before, events, turns)
        if scope == "conversation":
            # Without a checkpoint: all of them are undone, or none.
            for turn in turns:
                self._history.append_undone(turn, before[turn.turn_id], rewind=turns[-1].turn_id)
            await self._history.flush()
            return Rewound(turns=tuple(before), inputs=before[turns[-1].turn_id].inputs)
        if not force and any(turn.trees for turn in turns):
            self._history.raise_conflicts((await self._plan(seen, turns, force=False)).steps)
        return await self._undo_all(seen, turns, before, force=force)

    async def _undo_all(
        self, seen: TurnHistory, turns: Sequence[PastTurn], before: Mapping[TurnId, BeforeTurn], *, force: bool
    ) -> Rewound:
        undone: list[Undone] = []
        for turn in turns:
            try:
                one = await self._history.undo_turn(
                    seen, turn, before[turn.turn_id], force=force, rewind=turns[-1].turn_id
                )
            except UndoConflict as error:
                raise _cut_short(error, undone, "undone") from error
            undone.append(one)
            # Snapshots of an earlier attempt are about the turn that comes first.
            seen = attrs.evolve(seen, saved=())
        # One line for all turns: nearly every file that a command has changed is among them.
        unsure = sorted(_unique(one.unsure for one in undone))
        summary = (_UNSURE.format(name_some(unsure)),) if unsure else ()
        return Rewound(
            turns=tuple(one.turn_id for one in undone),
            inputs=undone[-1].inputs,
            files=_files_of(undone),
            left=_unique(one.left for one in undone),
            remarks=(*_unique((one.note, *one.remarks) for one in undone), *summary),
        )

    async def _rewind_files(self, seen: TurnHistory, turns: Sequence[PastTurn], *, force: bool) -> Rewound:
        if not any(turn.trees for turn in turns):
            raise NothingToUndo(_NO_FILES)
        plan = await self._plan(seen, turns, force=force)
        history = self._history
        history.raise_conflicts(plan.steps)
        earlier = await history.snapshots().differing(plan.now, seen.saved)
        restored = [path for path in plan.steps.settled if path in earlier]
        how = f"as before turn {turns[-1].turn_id}"
        files = await history.put_back(
            history.snapshots(),
            plan.steps.puts,
            plan.names,
            plan.now,
            notice=Notice(level="info", code="files_rewound", text=how),
            restored=restored,
            turn_id=turns[-1].turn_id,
        )
        return Rewound(
            turns=tuple(turn.turn_id for turn in turns),
            files=files,
            left=history.shown(plan.steps.left),
            remarks=() if files else ("these files are as they were before that prompt",),
        )

    async def _plan(self, seen: TurnHistory, turns: Sequence[PastTurn], *, force: bool) -> _FilePlan:
        """Plan what becomes of files when *turns* are undone, the newest first. A checkpoint."""
        snapshots = self._history.snapshots()
        changed = [(turn, await snapshots.changed(turn)) for turn in turns if turn.trees]
        names = sorted({path for _, one in changed for path in (*one.own, *one.foreign)})
        now = await snapshots.take(names)
        total = UndoPlan()
        planned: dict[str, TreeEntry | None] = {}
        present: dict[str, TreeEntry | None] = {}
        for turn, its in changed:
            rewound = await snapshots.rewound(seen, turn)
            one, _ = await plan_undo(snapshots, turn, its, now, force=force, rewound=rewound, planned=planned)
            total.merge(one)
            present = {put.path: put.now for put in one.puts} | present
            planned |= {put.path: put.want for put in one.puts}
        puts = (Put(path, entry, planned[path]) for path, entry in sorted(present.items()))
        total.puts = [put for put in puts if put.now != put.want]
        total.settled = sorted(set(names).difference(put.path for put in total.puts))
        return _FilePlan(now, tuple(names), total)

    # -- redo --------------------------------------------------------------------------------

    async def redo(self, *, force: bool) -> Redone:
        """Redo the turn that was undone last, or all that was rewound last. See `Session.redo`."""
        events, seen = await self._history.read()
        if _is_file_rewind_last(seen):
            return await self._redo_files_only(seen, force=force)
        if not seen.undone:
            raise NothingToUndo(_NOTHING_TO_REDO)
        records = _undone_together(seen)
        if not force and len(records) > 1:
            await self._check_redo(records)
        redone: list[Redone] = []
        for record in records:
            try:
                one = await self._redo_turn(events, record, force=force)
            except UndoConflict as error:
                raise _cut_short(error, redone, "redone") from error
            redone.append(one)
        return attrs.evolve(
            redone[-1],
            files=_files_of(redone),
            note="; ".join(_unique([one.note] for one in redone)),
        )

    async def _redo_turn(self, events: Sequence[Durable], undone: UndoneTurnRecord, *, force: bool) -> Redone:
        # The event before `TurnUndone` has put the older context back, so the one before that has what redo needs.
        context = (await to_thread(fold, events[: undone.at - 1])).context
        history, note = self._history, ""
        try:
            files = await self._redo_files(undone.turn, undone.files, undone.saved, force=force)
        except SnapshotError as error:
            if not force:
                raise
            files, note = (), str(error)
        history.journal.append(ContextChanged.of(NO_CALL, history.journal.state.context, context))
        history.journal.append(TurnRedone(redone=undone.turn.turn_id, files=files))
        await history.flush()
        return Redone(turn_id=undone.turn.turn_id, files=files, note=note)

    async def _redo_files(
        self, turn: PastTurn, files: Collection[str], saved: Sequence[str], *, force: bool
    ) -> tuple[str, ...]:
        if not files:
            return ()
        history = self._history
        snapshots = history.snapshots()
        paths = {snapshots.named(file) for file in files}
        first = turn.trees[0]
        overwritten = await snapshots.differing(first, saved)
        now = await snapshots.take(paths)
        plan = UndoPlan()
        plan.add_saved(paths, overwritten, await snapshots.diff(first, now), force=force)
        history.raise_conflicts(plan)
        async with history.deps.locks.hold(*(f"file:{put.path}" for put in plan.puts)):
            if plan.puts:
                await history.save(now)
                await snapshots.backend.put(now, plan.puts, cwd=history.cwd)
        # If the turn is undone again, this snapshot shows what it has left.
        history.journal.append(SnapshotTaken(step=0, tree=await snapshots.take(paths)))
        return history.shown(sorted([*plan.settled, *(put.path for put in plan.puts)]))

    async def _check_redo(self, records: Sequence[UndoneTurnRecord]) -> None:
        """Raise `UndoConflict` if another program has changed a file that redoing *records* would overwrite. A checkpoint."""
        records = [record for record in records if record.files]
        if not records:
            return
        snapshots = self._history.snapshots()
        paths = {record.turn.turn_id: {snapshots.named(file) for file in record.files} for record in records}
        now = await snapshots.take({path for each in paths.values() for path in each})
        total = UndoPlan()
        planned: dict[str, TreeEntry | None] = {}
        for record in records:
            first, own = record.turn.trees[0], paths[record.turn.turn_id]
            saved, since = await snapshots.differing(first, record.saved), await snapshots.diff(first, now)
            one = UndoPlan()
            one.add_saved(own, saved, since, force=False, planned=planned)
            planned |= {put.path: put.want for put in one.puts}
            total.merge(one)
        self._history.raise_conflicts(total)

    async def _redo_files_only(self, seen: TurnHistory, *, force: bool) -> Redone:
        """Bring back the files that were rewound without their turns. A checkpoint."""
        history = self._history
        snapshots = history.snapshots()
        rewind = seen.rewinds[-1]
        saved = await snapshots.differing(rewind.made, rewind.saved)
        now = await snapshots.take(saved)
        plan = UndoPlan()
        plan.add_saved(set(saved), saved, await snapshots.diff(rewind.made, now), force=force)
        history.raise_conflicts(plan)
        earlier = await snapshots.differing(now, seen.saved)
        files = await history.put_back(
            snapshots,
            plan.puts,
            list(saved),
            now,
            notice=Notice(level="info", code="rewind_redone", text="as before the rewind"),
            restored=[path for path in plan.settled if path in earlier],
        )
        if not files:
            raise NothingToUndo(_NOTHING_TO_REDO)
        return Redone(turn_id=seen.done[-1].turn_id, files=files)


def _cut_short(error: UndoConflict, done: Sequence[Undone | Redone], what: str) -> UndoConflict | UndoIncomplete:
    """Return what to raise if another program has changed a file after the dry run, and some turns are done."""
    if not done:
        return error
    text = f"{len(done)} {'turn is' if len(done) == 1 else 'turns are'} {what}; the next is not: {error}"
    return UndoIncomplete(text, done=_files_of(done), left=error.paths)


def _is_file_rewind_last(seen: TurnHistory) -> bool:
    """Return whether only files were rewound, and neither a turn nor an undo came after that."""
    later = [*(turn.begins for turn in seen.turns[-1:]), *(record.at for record in seen.undone[-1:])]
    return bool(seen.rewinds) and all(at < seen.rewinds[-1].at for at in later)


def _turns_from(seen: TurnHistory, turn_id: str) -> tuple[PastTurn, ...]:
    """Return the turns that count from that one on, the newest first. Raises `NothingToUndo`."""
    ids = [turn.turn_id for turn in seen.done]
    if turn_id not in ids:
        raise NothingToUndo(f"there is no turn {turn_id!r} that is over and was not undone")
    return seen.done[ids.index(TurnId(turn_id)) :][::-1]


def _states_before(events: Sequence[Durable], turns: Sequence[PastTurn]) -> dict[TurnId, BeforeTurn]:
    """Return what was true before each of *turns*, the newest first. All events are read once. It blocks."""
    inputs = inputs_by_turn(events)
    before: list[tuple[TurnId, BeforeTurn]] = []
    state, at = SessionState(), 0
    for turn in reversed(turns):
        state, at = fold(events[at : turn.begins], state), turn.begins
        # Copied now: what is folded later continues the same transcript.
        before.append((turn.turn_id, BeforeTurn(state, state.transcript[:], inputs.get(turn.turn_id, ()))))
    return dict(reversed(before))


def _undone_together(seen: TurnHistory) -> list[UndoneTurnRecord]:
    """Return the turns that were undone by the last undo or rewind, the oldest first: the order in which they are redone."""
    last = seen.undone[-1]
    records = [last]
    for record in seen.undone[-2::-1]:
        if last.rewind is None or record.rewind != last.rewind:
            break
        records.append(record)
    return records


def _files_of(done: Iterable[Undone | Redone]) -> tuple[str, ...]:
    return tuple(sorted(_unique(one.files for one in done)))


def _unique(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return all texts of *groups* that are not empty, each once."""
    return tuple(dict.fromkeys(text for group in groups for text in group if text))
