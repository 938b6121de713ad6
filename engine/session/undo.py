"""Undo, compare and restore: what a session does with the snapshots of its turns. `rewind` has redo, and several turns.

Undoing a turn takes its messages back and restores the files that it changed. Both are one event, which is written once the
files are in place. A snapshot of what the files held is taken before, so that redo restores exactly that. If a crash or a
cancel comes between the files and the event, the turn still counts; undoing it again finds those files restored already,
and does the rest.

A file is restored only if it is as the turn has left it. If the turn was cut off before a snapshot recorded that, the time
of the file's last change decides whether the turn can have made it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from engine.core.errors import NothingToUndo, SnapshotError, UndoConflict
from engine.core.events import (
    ContextChanged,
    Durable,
    Notice,
    SnapshotTaken,
    TurnUndone,
)
from engine.core.ids import CallId, TurnId
from engine.core.messages import Message, UserMessage
from engine.core.protocols import Deps
from engine.core.snapshot_types import Change, Put, TreeEntry
from engine.core.threads import to_thread
from engine.journal.closing_events import CRASHED
from engine.journal.fold import fold
from engine.journal.log import Journal
from engine.journal.state import SessionState
from engine.snapshots.turn_changes import SessionSnapshots, TurnChanges
from engine.snapshots.turn_history import PastCall, PastTurn, TurnHistory, turn_history
from engine.snapshots.undo_plan import UndoPlan, find_turn, inputs_of, plan_restore, plan_undo, turn_to_restore

if TYPE_CHECKING:
    from engine.snapshots.file_versions import FileVersion

NO_CALL: Final = CallId("")
_OLDER: Final = "older than the turn, and left out before it, so left as they are: {}"
_FOREIGN: Final = "changed while the turn ran, but not by its calls, so left as they are: {}"
_OTHERS: Final = "changed by another session while the turn ran, so left as they are: {}"
_DURING: Final = "changed while {} ran, perhaps by another program: {}"
_FORCED: Final = "overwritten although something else has changed them; redo or restore brings that back: {}"
# Paths in one message.
_NAMED: Final = 5
# Calls in one message, and characters of the name of one.
_CALLS: Final = 3
_NAME_CHARS: Final = 40
_COMMAND: Final = re.compile(r'"command"\s*:\s*("(?:[^"\\]|\\.)*")')
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
        unsure: those of the files that changed while a command ran, perhaps by another program.
    """

    turn_id: TurnId
    inputs: tuple[UserMessage, ...] = ()
    files: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    note: str = ""
    remarks: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

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


@attrs.frozen
class BeforeTurn:
    """What was true before a turn.

    Attributes:
        state: the session's state, with the context that tools shared.
        transcript: its messages.
        inputs: what the user said in the turn.
    """

    state: SessionState
    transcript: Sequence[Message]
    inputs: tuple[UserMessage, ...]


@attrs.frozen(eq=False)
class UndoHistory:
    """Undoes turns in the record of a session. The caller ensures that no turn runs.

    Attributes:
        journal: the record.
        deps: the snapshots, the store and the locks of files.
    """

    journal: Journal
    deps: Deps

    async def undo(self, *, force: bool) -> Undone:
        """Undo the newest turn that counts. See `Session.undo`."""
        events, seen = await self.read()
        if not seen.done:
            raise NothingToUndo("there is no turn to undo")
        turn = seen.done[-1]
        state = await to_thread(fold, events[: turn.begins])
        before = BeforeTurn(state, state.transcript[:], await to_thread(inputs_of, events, turn.turn_id))
        return await self.undo_turn(seen, turn, before, force=force)

    async def undo_turn(
        self,
        seen: TurnHistory,
        turn: PastTurn,
        before: BeforeTurn,
        *,
        force: bool,
        rewind: TurnId | None = None,
    ) -> Undone:
        """Undo the newest turn that counts.

        In *seen*, the snapshots `saved` are of earlier attempts to undo this one. *rewind*: see `TurnUndone`.
        """
        note = ""
        try:
            return await self._undo_files(seen, turn, before, force=force, rewind=rewind)
        except SnapshotError as error:
            if not force:
                raise
            note = str(error)
        self.append_undone(turn, before, rewind=rewind)
        await self.flush()
        return Undone(turn_id=turn.turn_id, inputs=before.inputs, note=note)

    async def _undo_files(
        self, seen: TurnHistory, turn: PastTurn, before: BeforeTurn, *, force: bool, rewind: TurnId | None
    ) -> Undone:
        inputs = before.inputs
        if not turn.trees:
            self.append_undone(turn, before, rewind=rewind)
            await self.flush()
            return Undone(turn_id=turn.turn_id, inputs=inputs, remarks=(_UNNOTED,) if turn.has_no_snapshot else ())
        snapshots = self.snapshots()
        changed = await snapshots.changed(turn)
        remarks: list[str] = []
        now = await snapshots.take({*changed.own, *changed.foreign}, remarks)
        plan, targets = await plan_undo(
            snapshots, turn, changed, now, force=force, rewound=await snapshots.rewound(seen, turn)
        )
        self.raise_conflicts(plan, changed.from_others)
        if plan.older:
            remarks.append(_OLDER.format(self._some(plan.older)))
        remarks += self._remarks(plan, changed, force=force)
        unsure = _unsure(plan, changed)
        remarks += self._during(unsure, changed) if rewind is None else []
        # Files that an earlier attempt has restored before it was cut off are a part of this undo.
        earlier = await snapshots.differing(turn.trees[0], seen.saved)
        restored = [path for path in plan.settled if path in targets and path in earlier]
        files = self.shown(sorted([*restored, *(put.path for put in plan.puts)]))
        # The locks that tools take: a sub-agent in the background may be changing the same files.
        async with self.deps.locks.hold(*(f"file:{put.path}" for put in plan.puts)):
            if plan.puts:
                await self.save(now)
                await snapshots.backend.put(now, plan.puts, cwd=self.cwd)
            # No checkpoint after the files: the turn is undone once they are in place.
            self.append_undone(turn, before, files, rewind=rewind)
        await self.flush()
        return Undone(
            turn_id=turn.turn_id,
            inputs=inputs,
            files=files,
            left=self.shown(plan.left),
            remarks=tuple(remarks),
            unsure=self.shown(unsure),
        )

    async def diff(self, turn_id: str | None) -> tuple[FileDiff, ...]:
        """Return what a turn did to files. See `Session.diff`."""
        _, seen = await self.read()
        turn = find_turn(seen, turn_id)
        if turn.has_no_snapshot and not turn.trees:
            raise SnapshotError(f"what turn {turn.turn_id} changed was not noted, so it can't be compared")
        if not turn.trees:
            return ()
        snapshots = self.snapshots()
        changed = dict((await snapshots.changed(turn)).own)
        if turn.is_last_change_missed and turn.redone is None:
            now = await snapshots.take(changed)
            late = await snapshots.late_changes(turn, changed, now)
            changed |= {**late.own, **late.unsure}
        return await self.diffs(snapshots, turn.trees[0], changed)

    async def restore(self, paths: Sequence[str], turn_id: str | None, *, force: bool) -> tuple[str, ...]:
        """Put chosen files back as they were before a turn, or before they were overwritten. See `Session.restore`."""
        _, seen = await self.read()
        turn = turn_to_restore(seen, turn_id)
        snapshots = self.snapshots()
        # A folder on the way may be a link by now, and the user may mean the path of then or of now.
        names = [whole for path in paths for whole in (snapshots.named(path), snapshots.real(path))]
        now = await snapshots.take(names)
        plan = await plan_restore(snapshots, seen, turn, names, now, turn_id=turn_id, force=force)
        self.raise_conflicts(plan)
        if plan.left:
            raise SnapshotError(f"snapshots do not hold {', '.join(self.shown(plan.left))}: left out, being too large")
        return await self.put_back(
            snapshots,
            plan.puts,
            names,
            now,
            notice=Notice(level="info", code="files_restored", text=f"as before turn {turn.turn_id}"),
        )

    async def versions(self, path: str) -> tuple[FileVersion, ...]:
        """Return what a file has held, as far as snapshots show. See `Session.files.versions`."""
        from engine.snapshots.file_versions import file_versions

        snapshots = self.snapshots()
        name = snapshots.named(path)
        return await file_versions(snapshots, await self._events(), name, await snapshots.take([name]))

    async def restore_version(self, path: str, version: str) -> tuple[str, ...]:
        """Put a version of a file back. See `Session.files.restore`."""
        from engine.snapshots.file_versions import plan_version

        snapshots = self.snapshots()
        name = snapshots.named(path)
        now = await snapshots.take([name])
        puts = await plan_version(snapshots, await self._events(), name, version, now)
        return await self.put_back(
            snapshots,
            puts,
            [name],
            now,
            notice=Notice(level="info", code="files_restored", text=f"as version {version}"),
        )

    async def put_back(
        self,
        snapshots: SessionSnapshots,
        puts: Sequence[Put],
        names: Collection[str],
        now: str,
        *,
        notice: Notice,
        restored: Collection[str] = (),
        turn_id: TurnId | None = None,
    ) -> tuple[str, ...]:
        """Put chosen files back, after noting what they hold *now*; return them. A checkpoint if there are any.

        Args:
            snapshots: those of the session.
            puts: what to put back.
            names: the paths that may have changed.
            now: a snapshot of the files.
            notice: the notice that records it; its text says how they are put back.
            restored: files that an earlier attempt has put back before it was cut off.
            turn_id: the turn of the notice.
        """
        files = self.shown(sorted([*restored, *(put.path for put in puts)]))
        if files:
            async with self.deps.locks.hold(*(f"file:{put.path}" for put in puts)):
                if puts:
                    await self.save(now)
                    await snapshots.backend.put(now, puts, cwd=self.cwd)
                self.journal.append(SnapshotTaken(step=0, tree=await snapshots.take(names)))
                text = f"put back {notice.text}: {', '.join(files)}; before that they were {now}"
                self.journal.append(attrs.evolve(notice, text=text), turn_id=turn_id)
            await self.flush()
        return files

    async def diffs(
        self, snapshots: SessionSnapshots, tree: str, changed: Mapping[str, Change]
    ) -> tuple[FileDiff, ...]:
        """Return *changed* files for people; *tree* is a snapshot of the project. A checkpoint."""
        entries = [e for change in changed.values() for e in (change.before, change.after) if e is not None]
        contents = await snapshots.backend.read(tree, [entry for entry in entries if not entry.is_left_out])
        return await to_thread(self._diffs, changed, contents)

    def _diffs(self, changed: Mapping[str, Change], contents: Mapping[str, bytes]) -> tuple[FileDiff, ...]:
        # Imported here: only comparing needs it.
        from engine.snapshots.file_diff import unified_diff

        return tuple(
            FileDiff(
                path=self.shown([path])[0],
                before=change.before,
                after=change.after,
                text=unified_diff(self.shown([path])[0], change, contents),
            )
            for path, change in sorted(changed.items())
        )

    async def _events(self) -> tuple[Durable, ...]:
        """Return all events. In a thread, since a long session takes a second to read from the disk. A checkpoint."""
        return await to_thread(self.journal.events)

    async def read(self) -> tuple[tuple[Durable, ...], TurnHistory]:
        """Return all events, and the turns in them. A checkpoint."""
        events = await self._events()
        return events, await to_thread(turn_history, events, CRASHED)

    # -- the record -----------------------------------------------------------------------

    def append_undone(
        self, turn: PastTurn, before: BeforeTurn, files: tuple[str, ...] = (), *, rewind: TurnId | None
    ) -> None:
        """Record that a turn was undone. Not a checkpoint."""
        state = self.journal.state
        # Only what differs is written: the record must not repeat the history of a long session.
        keep = 0
        for mine, its in zip(state.transcript, before.transcript, strict=False):
            if mine is not its and mine != its:
                break
            keep += 1
        messages = tuple(before.transcript[keep:])
        self.journal.append(ContextChanged.of(NO_CALL, state.context, before.state.context))
        self.journal.append(TurnUndone(undone=turn.turn_id, keep=keep, messages=messages, files=files, rewind=rewind))

    async def save(self, tree: str) -> None:
        """Make it durable which snapshot holds what is about to be overwritten. A checkpoint.

        Before the first file is touched: after a crash in between, redo could not find what the files held.
        """
        self.journal.append(SnapshotTaken(step=0, tree=tree))
        await self.flush()

    async def flush(self) -> None:
        """Wait until the record is durable. A checkpoint."""
        await self.deps.store.flushed(self.journal.session_id, self.journal.seq)

    # -- words ----------------------------------------------------------------------------

    @property
    def cwd(self) -> str:
        """The session's working directory."""
        return self.journal.state.context.cwd

    def snapshots(self) -> SessionSnapshots:
        """Return the session's snapshots. Raises `SnapshotError` if there are none."""
        if self.deps.snapshots is None:
            raise SnapshotError("the engine was opened without snapshots, so it can't put files back")
        return SessionSnapshots(self.deps.snapshots, self.journal.session_id, self.cwd)

    def raise_conflicts(self, plan: UndoPlan, from_others: Collection[str] = ()) -> None:
        """Raise `UndoConflict` if other programs have changed files of *plan*."""
        if plan.conflicts:
            shown = self.shown(plan.conflicts)
            other = self.shown(path for path in plan.conflicts if path in from_others)
            by = f" ({', '.join(other)}: by another session)" if other else ""
            raise UndoConflict(
                f"changed by another program, since or while the turn ran, so nothing was done: {', '.join(shown)}{by}. "
                "With force they are overwritten.",
                shown,
            )

    def _remarks(self, plan: UndoPlan, changed: TurnChanges, *, force: bool) -> list[str]:
        """Return what is to be said of files that not only the turn has changed."""
        remarks: list[str] = []
        if plan.forced:
            remarks.append(_FORCED.format(self._some(plan.forced)))
        for text, paths in (
            (_OTHERS, sorted(changed.foreign.keys() & changed.from_others)),
            (_FOREIGN, sorted(changed.foreign.keys() - changed.from_others)),
        ):
            if paths and not force:
                remarks.append(text.format(self._some(paths)))
        return remarks

    def _during(self, unsure: Sequence[str], changed: TurnChanges) -> list[str]:
        """Return what is to be said of files that changed while a call ran; a rewind says it once for all turns."""
        calls = [call for path in unsure for call in changed.during[path]]
        return [_DURING.format(_names_of(calls), self._some(unsure))] if unsure else []

    def _some(self, paths: Sequence[str]) -> str:
        return name_some(self.shown(paths))

    def shown(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return *paths* relative to the working directory."""
        folder = os.path.realpath(self.cwd)
        return tuple(os.path.relpath(path, folder) for path in paths)


def _unsure(plan: UndoPlan, changed: TurnChanges) -> list[str]:
    """Return the files that no call has reported, and that changed while one ran."""
    return sorted({*(put.path for put in plan.puts), *plan.settled} & changed.during.keys())


def name_some(paths: Sequence[str]) -> str:
    """Return the first of *paths*, and how many more there are."""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more


def _names_of(calls: Collection[PastCall]) -> str:
    """Return the commands, or tools, of calls, for people."""
    names = [f"`{name}`" for name in dict.fromkeys(map(_name_of, calls))]
    more = f" and {len(names) - _CALLS} more" if len(names) > _CALLS else ""
    return ", ".join(names[:_CALLS]) + more


def _name_of(call: PastCall) -> str:
    found = _COMMAND.search(call.arguments)
    name = " ".join(str(json.loads(found[1])).split()) if found else call.tool
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"
