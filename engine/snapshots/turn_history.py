"""Reads from a session's events which turns can be undone or redone, and their snapshots. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from engine.core import events as ev
from engine.core.ids import TurnId
from engine.core.value_base import Value

# The codes of notices: all files were rewound to before a turn, and that was taken back.
FILES_REWOUND: Final = "files_rewound"
REWIND_REDONE: Final = "rewind_redone"
# The events that another engine adds after a crash, to close the turn.
_CLOSING: Final = (
    ev.PermissionAnswered,
    ev.QuestionAnswered,
    ev.RecoveryAnswered,
    ev.PartEnded,
    ev.PartDiscarded,
    ev.CallSettled,
    ev.CallDelivered,
    ev.StepEnded,
)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PastCall(Value):
    """A call, or a command in the background.

    Attributes:
        tool: its tool; in the background, the command.
        arguments: as the model wrote them.
        began, ended: in seconds since the epoch.
    """

    tool: str
    arguments: str = ""
    began: float = float("inf")
    ended: float = float("inf")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PastTurn(Value):
    """A finished turn.

    Attributes:
        turn_id: the turn.
        begins: the index of its first event.
        began: when it began, in seconds since the epoch.
        trees: its snapshots; the first one is of the files before its first change.
        is_last_change_missed: no snapshot was taken after its last change.
        has_no_snapshot: it may have changed files, and there is no snapshot from before.
        until: changes before this can be the turn's, in seconds since the epoch.
        ended: when its record was closed; after a crash this is later, and changes in between may not be the turn's.
        redone: the files that the last redo changed; None: it was never redone.
        tree_redone: the snapshot after that.
        calls: what was at work while it ran.
        next_tree: the first snapshot of the turn after it.
        next_began: when that one began.
    """

    turn_id: TurnId
    begins: int
    began: float = 0.0
    trees: tuple[str, ...] = ()
    is_last_change_missed: bool = False
    has_no_snapshot: bool = False
    until: float = 0.0
    ended: float = 0.0
    redone: tuple[str, ...] | None = None
    tree_redone: str = ""
    calls: tuple[PastCall, ...] = ()
    next_tree: str = ""
    next_began: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UndoneTurnRecord(Value):
    """A turn that was undone.

    Attributes:
        turn: the turn.
        at: the index of the event that undid it.
        files: the restored files.
        saved: snapshots from before the undo, one for each attempt, the last attempt at the end.
        rewind: the oldest turn that was undone together with it, if there are several.
    """

    turn: PastTurn
    at: int
    files: tuple[str, ...]
    saved: tuple[str, ...]
    rewind: TurnId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Overwrite(Value):
    """An undo, or a redo, that has overwritten files.

    Attributes:
        turn: the turn that it was about.
        at: the index of its event.
        is_undo: whether it was an undo.
        files: the files.
        saved: snapshots of what they held before, one for each attempt, the last attempt at the end.
        made: a snapshot of what they were made to hold.
    """

    turn: PastTurn
    at: int
    is_undo: bool
    files: tuple[str, ...]
    saved: tuple[str, ...]
    made: str

    @property
    def usual(self) -> str:
        """The snapshot of what the files held if nothing else than the turn has changed them."""
        if not self.is_undo:
            return self.turn.trees[0]
        return self.turn.trees[-1] if self.turn.redone is None else self.turn.tree_redone


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FileRewind(Value):
    """All files were rewound to before a turn, and the conversation was not.

    Attributes:
        turn_id: the turn.
        at: the index of the event.
        saved: snapshots of what the files held before, one for each attempt, the last attempt at the end.
        made: a snapshot of what they were made to hold.
    """

    turn_id: TurnId
    at: int
    saved: tuple[str, ...]
    made: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnHistory(Value):
    """The turns of a session, as its events record them.

    Attributes:
        turns: all finished turns, in order.
        done: those that are not undone, the newest last.
        undone: those that can be redone, the next one last.
        saved: snapshots taken by attempts to undo or redo, since the last turn ended or was undone or redone.
        last_tree: the newest snapshot of all.
        overwrites: all undos and redos that have overwritten files, the newest last.
        restores: for each restoring of files the index of its event, and the snapshots before and after it.
        rewinds: those that have rewound all files, and were not redone, the newest last.
    """

    turns: tuple[PastTurn, ...]
    done: tuple[PastTurn, ...]
    undone: tuple[UndoneTurnRecord, ...]
    saved: tuple[str, ...]
    last_tree: str
    overwrites: tuple[Overwrite, ...] = ()
    restores: tuple[tuple[int, str, str], ...] = ()
    rewinds: tuple[FileRewind, ...] = ()


def turn_history(events: Sequence[ev.Durable], crashed: str) -> TurnHistory:
    """Read the history from *events*; *crashed* is the detail of a turn's end after a crash."""
    reader = _Reader(events, crashed)
    for index, event in enumerate(events):
        reader.read(index, event)
    return TurnHistory(
        turns=tuple(reader.turns),
        done=tuple(reader.done),
        undone=tuple(reader.undone),
        saved=tuple(reader.saved),
        last_tree=reader.last_tree,
        overwrites=tuple(reader.overwrites),
        restores=tuple(reader.restores),
        rewinds=tuple(reader.rewinds),
    )


_CallEvent = ev.CallQueued | ev.CallStarted | ev.CallSettled | ev.BackgroundStarted | ev.BackgroundEnded


@attrs.define(eq=False, repr=False)
class _Reader:
    _events: Sequence[ev.Durable]
    _crashed: str
    turns: list[PastTurn] = attrs.field(factory=list[PastTurn], init=False)
    done: list[PastTurn] = attrs.field(factory=list[PastTurn], init=False)
    undone: list[UndoneTurnRecord] = attrs.field(factory=list[UndoneTurnRecord], init=False)
    saved: list[str] = attrs.field(factory=list[str], init=False)
    overwrites: list[Overwrite] = attrs.field(factory=list[Overwrite], init=False)
    restores: list[tuple[int, str, str]] = attrs.field(factory=list[tuple[int, str, str]], init=False)
    rewinds: list[FileRewind] = attrs.field(factory=list[FileRewind], init=False)
    last_tree: str = attrs.field(default="", init=False)
    _open: PastTurn | None = attrs.field(default=None, init=False)
    # Those at work now, in the background too, and those of the open turn that have ended.
    _calls: dict[str, PastCall] = attrs.field(factory=dict[str, PastCall], init=False)
    _past_calls: list[PastCall] = attrs.field(factory=list[PastCall], init=False)

    def read(self, index: int, event: ev.Durable) -> None:
        match event:
            case ev.TurnStarted() if event.turn_id is not None:
                self._open = PastTurn(turn_id=event.turn_id, begins=index, began=event.time)
                self.undone, self.saved = [], []
            case ev.SnapshotTaken():
                self._add_snapshot(event)
            case ev.Notice() if self._open is not None and _reports_missing_snapshot(event):
                self._open = attrs.evolve(self._open, is_last_change_missed=True, has_no_snapshot=not self._open.trees)
            case ev.Notice() if event.code in {"files_restored", FILES_REWOUND, REWIND_REDONE}:
                self._note_restore(index, event)
            case ev.TurnEnded():
                self._end_turn(index, event)
            case ev.CallQueued() | ev.CallStarted() | ev.CallSettled() | ev.BackgroundStarted() | ev.BackgroundEnded():
                self._note_call(event)
            case ev.TurnUndone() if self.done:
                self._undo_turn(index, event)
            case ev.TurnRedone() if self.undone:
                self._redo_turn(index, event)
            case _:
                pass

    def _note_restore(self, index: int, event: ev.Notice) -> None:
        *saved, made = self.saved or [""]
        if saved:
            self.restores.append((index, saved[-1], made))
        if event.code == FILES_REWOUND and saved and event.turn_id is not None:
            self.rewinds.append(FileRewind(turn_id=event.turn_id, at=index, saved=tuple(saved), made=made))
        elif event.code == REWIND_REDONE and self.rewinds:
            self.rewinds.pop()
        self.saved = []

    def _add_snapshot(self, event: ev.SnapshotTaken) -> None:
        self.last_tree = event.tree
        if event.turn_id is None and event.step and self.done:
            # Of the turn that has ended: its end had no time for it. Another turn may have begun.
            last = self.done[-1]
            self._replace_last(attrs.evolve(last, trees=(*last.trees, event.tree), is_last_change_missed=False))
        elif self._open is None:
            self.saved.append(event.tree)
        else:
            if self.done and not self._open.trees:
                began = self._open.began
                self._replace_last(attrs.evolve(self.done[-1], next_tree=event.tree, next_began=began))
            self._open = attrs.evolve(self._open, trees=(*self._open.trees, event.tree), is_last_change_missed=False)

    def _note_call(self, event: _CallEvent) -> None:
        match event:
            case ev.CallQueued():
                self._calls[event.call_id] = PastCall(tool=event.tool, arguments=event.arguments)
            case ev.BackgroundStarted():
                self._calls[event.work_id] = PastCall(tool=event.detail or event.name, began=event.time)
            case ev.CallStarted():
                if event.call_id in self._calls:
                    self._calls[event.call_id] = attrs.evolve(self._calls[event.call_id], began=event.time)
            case ev.CallSettled() | ev.BackgroundEnded():
                call = self._calls.pop(event.call_id if isinstance(event, ev.CallSettled) else event.work_id, None)
                if call is not None and call.began < float("inf"):
                    self._past_calls.append(attrs.evolve(call, ended=event.time))

    def _replace_last(self, turn: PastTurn) -> None:
        """Replace the newest turn that counts."""
        self.turns = [turn if one.turn_id == turn.turn_id else one for one in self.turns]
        self.done[-1] = turn

    def _end_turn(self, index: int, event: ev.TurnEnded) -> None:
        if self._open is None:
            return
        is_crashed = event.result.detail == self._crashed
        until = _last_activity(self._events[self._open.begins : index]) if is_crashed else event.time
        is_last_change_missed = self._open.is_last_change_missed or is_crashed
        # What is at work still is in the background.
        calls = (*self._past_calls, *(call for call in self._calls.values() if call.began < float("inf")))
        self._past_calls = []
        ended = attrs.evolve(
            self._open, is_last_change_missed=is_last_change_missed, until=until, ended=event.time, calls=calls
        )
        self._open, self.saved = None, []
        self.turns.append(ended)
        self.done.append(ended)

    def _undo_turn(self, index: int, event: ev.TurnUndone) -> None:
        """Move the newest turn to those that can be redone."""
        turn = self.done[-1]
        if event.files and self.saved and turn.trees:
            saved = tuple(self.saved)
            self.overwrites.append(
                Overwrite(turn=turn, at=index, is_undo=True, files=event.files, saved=saved, made=turn.trees[0])
            )
        self.undone.append(
            UndoneTurnRecord(
                turn=self.done.pop(), at=index, files=event.files, saved=tuple(self.saved), rewind=event.rewind
            )
        )
        self.saved = []

    def _redo_turn(self, index: int, event: ev.TurnRedone) -> None:
        """Let the turn that was undone last count again."""
        turn = self.undone.pop().turn
        # What its undo has overwritten is back. The last snapshot is of what the redo has made.
        self.overwrites = [one for one in self.overwrites if one.turn.turn_id != turn.turn_id]
        if event.files and len(self.saved) > 1 and turn.trees:
            saved, made = tuple(self.saved[:-1]), self.saved[-1]
            self.overwrites.append(
                Overwrite(turn=turn, at=index, is_undo=False, files=event.files, saved=saved, made=made)
            )
        if event.files:
            turn = attrs.evolve(turn, redone=event.files, tree_redone=self.last_tree)
        self.done.append(turn)
        self.saved = []


def _reports_missing_snapshot(event: ev.Notice) -> bool:
    """Tell whether a notice reports that a snapshot is missing."""
    is_in_vain = event.code in {"snapshot_failed", "snapshot_limited"} and event.level == "warning"
    return is_in_vain or event.code == "snapshot_missed"


def _last_activity(events: Iterable[ev.Durable]) -> float:
    """Return the time of the turn's last own event before a crash, not of those that closed its record later."""
    return max((event.time for event in events if not isinstance(event, _CLOSING)), default=0.0)
