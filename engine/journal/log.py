"""The journal: one ordered log per session. `cursors.follow` returns what reads on in it.

`append` is synchronous and has no checkpoint, so a state change and its event are
one indivisible thing between two checkpoints, and nothing here needs a lock.

- Durable events get a `seq` and go to the store in that order. The journal also keeps
  their folded state.
- Live events (deltas, heartbeats) have no `seq`. They stand in the *tail*, a bounded
  window of the newest events of both kinds, at their place in the order.
- Events of descendants also appear in the logs of their ancestors, in the one order in
  which they happened; clocks play no part.
- An event may be appended *held*: it, and all that follow it, stay invisible to
  cursors until `release`. So `TurnEnded` is seen only after it is durable.
"""

# pyright: reportPrivateUsage=false
# A journal shares private state with its parent and with the turn that writes to it.

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence, Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeVar

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import SessionClosed
from engine.core.events import (
    Durable,
    InputAdmitted,
    Live,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    PermissionAnswered,
    QuestionAnswered,
    RecoveryAnswered,
    SessionCreated,
    TurnEnding,
    TurnStarted,
)
from engine.core.ids import CallId, InputId, PartId, RequestId, SessionId, TurnId
from engine.core.value_base import Value
from engine.journal.event_index import Answered, EventIndex, answer_index, input_index, select_events
from engine.journal.fold import apply, fold
from engine.journal.open_text import LONGEST_DELTA, OpenText, cut_delta
from engine.journal.partial_output import DraftSaver
from engine.journal.span_port import NO_TELEMETRY, SessionSpans, Telemetry
from engine.journal.state import OpenPart, SessionState

if TYPE_CHECKING:
    from engine.core.protocols import Store, Trace, WallClock

# Entries in the tail at least: a watcher may fall behind by so many and still get each delta.
RING = 4_096
# Kept after a turn for cursors near the end; an idle session should use little memory.
RESTING = 32

E = TypeVar("E", bound=Durable)
JournalEntry = Durable | Live


@attrs.frozen(eq=False, repr=False)
class _Hold(Value):
    """Where the held event stands in the tail and in the log, and the state before it.

    Attributes:
        family: the states of the descendants, too.
        texts: the open parts as they were before it, see `_open_texts`.
    """

    position: int
    index: int
    state: SessionState
    family: tuple[tuple[Journal, SessionState], ...]
    texts: tuple[tuple[int, OpenText], ...]


@attrs.define(eq=False, repr=False)
class Journal:
    """The ordered log of one session.

    Attributes:
        state: the fold of all events, held ones included.
        refused: the error with which the store rejected an event; nothing of the session is durable since then.
    """

    session_id: SessionId
    path: tuple[SessionId, ...]
    _store: Store = attrs.field(alias="store")
    _clock: WallClock = attrs.field(alias="clock")
    _trace: Trace = attrs.field(alias="trace")
    _parent: Journal | None = attrs.field(default=None, alias="parent")
    _ring: int = attrs.field(default=RING, alias="ring")
    _drafts: DraftSaver | None = attrs.field(default=None, alias="drafts")
    _telemetry: Telemetry = attrs.field(default=NO_TELEMETRY, alias="telemetry")
    _note_change: Callable[[SessionId], None] = attrs.field(default=lambda _: None, alias="note_change")
    state: SessionState = attrs.field(factory=SessionState, init=False)
    is_closed: bool = attrs.field(default=False, init=False)
    refused: Exception | None = attrs.field(default=None, init=False)
    _spans: SessionSpans = attrs.field(init=False)
    # The call that started its last turn, or the session; None: no call did.
    _call_id: CallId | None = attrs.field(default=None, init=False)
    _inputs: EventIndex[InputId, InputAdmitted] = attrs.field(factory=input_index, init=False)
    # Those of descendants, too: their questions are answered here.
    _answers: EventIndex[RequestId, Answered] = attrs.field(factory=answer_index, init=False)
    _durable: MutableSequence[Durable] = attrs.field(factory=list[Durable], init=False)
    _log: MutableSequence[Durable] = attrs.field(factory=list[Durable], init=False)
    _tail: list[JournalEntry] = attrs.field(factory=list[JournalEntry], init=False)
    _base: int = attrs.field(default=0, init=False)
    _visible: int = attrs.field(default=0, init=False)
    _hold: _Hold | None = attrs.field(default=None, init=False)
    # By the place in the log before which they came.
    _endings: dict[int, list[TurnEnding]] = attrs.field(factory=dict[int, list[TurnEnding]], init=False)
    _open: dict[PartId, OpenText] = attrs.field(factory=dict[PartId, OpenText], init=False)
    _children: list[Journal] = attrs.field(factory=list["Journal"], init=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)
    # For those who would do nothing about live events now: waking a thousand of them for each delta would stop the turn.
    _durable_lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self._spans = self._telemetry.follow(self, self._clock.now)
        if self._parent is not None:
            self._parent._children.append(self)

    def attach(self, parent: Journal) -> None:
        """Show later events in *parent* and its ancestors too, for a child that was restored. Not a checkpoint."""
        self._parent = parent
        parent._children.append(self)

    # -- writing ------------------------------------------------------------------

    def restore(self, events: Sequence[Durable], *, state: SessionState | None = None) -> None:
        """Begin with *events* from the store. Raises `JournalCorrupt` if they don't follow.

        If the store provides their fold, *state*, events may be decoded only when they are read.
        """
        self.state = fold(events) if state is None else state
        # `copy`, not `list`: a copy of `LazyEvents` decodes nothing.
        kept = events if isinstance(events, MutableSequence) else list(events)
        self._durable, self._log = copy(kept), copy(kept)
        earlier = select_events(events)
        self._inputs.restore(earlier)
        self._answers.restore(earlier)

    # Protected: a KeyboardInterrupt in the middle would leave a state without its event, or an event that is not stored.
    @enable_ki_protection
    def append(self, event: E, *, turn_id: TurnId | None = None, held: bool = False) -> E:
        """Append *event* to the log, and return it with its number and time. Not a checkpoint. Raises `SessionClosed`."""
        if self.is_closed:
            # Its number may be taken by now, by another engine that has opened the session.
            raise SessionClosed(f"session {self.session_id} was closed: open it again, with open_session()")
        self._trace.point("journal.append")
        stamped = attrs.evolve(
            event,
            session_id=self.session_id,
            turn_id=turn_id,
            path=self.path,
            time=self._clock.now(),
            seq=len(self._durable) + 1,
        )
        # Before anything is changed: it raises for an event that can't follow, and then nothing has happened.
        state = apply(self.state, stamped)
        stamped = self._spans.note(stamped)
        # The first: what comes after a held event can't be seen either.
        if held and self._hold is None:
            texts = tuple((seq, text.copy()) for seq, text in self._open_texts())
            self._hold = _Hold(self._base + len(self._tail), len(self._log), self.state, self._family(), texts)
        self.state = state
        self._durable.append(stamped)
        try:
            self._store.put(stamped)
        except Exception as error:  # noqa: BLE001  # a port's; half an append would leave a turn that can't end
            self.refused = self.refused or error
        if self._drafts is not None:
            self._drafts.note(stamped)
        self._track(stamped)
        self._push(stamped)
        if self._hold is None:
            self._note_change(self.session_id)
        self._trace.point("journal.appended")
        return stamped

    @enable_ki_protection
    def append_live(self, event: Live, *, turn_id: TurnId | None) -> None:
        """Show a live event to current watchers. Not a checkpoint."""
        stamped = attrs.evolve(
            event, session_id=self.session_id, turn_id=turn_id, path=self.path, time=self._clock.now()
        )
        if isinstance(stamped, TurnEnding):
            self.state = apply(self.state, stamped)
            self._note_change(self.session_id)
        self._push(stamped)

    @enable_ki_protection
    def _append_delta(self, part_id: PartId, text: str, time: float) -> None:
        """Append a delta to an open part: the hot path, so it takes its parts and no event. Not a checkpoint."""
        for piece in (text,) if len(text) <= LONGEST_DELTA else cut_delta(text):
            self._push(self._open[part_id].extend(piece, after=len(self._durable), time=time))

    @enable_ki_protection
    def close(self) -> None:
        """Close the journal: it takes no more events, and cursors end once they have read everything. Not a checkpoint."""
        self.is_closed = True
        if self._parent is not None and self in self._parent._children:
            # The parent's log has its events. Without this, a parent would keep each of its sub-agents in memory.
            self._parent._children.remove(self)
        # A slow cursor reads the rest from the log.
        self._base += len(self._tail)
        self._tail.clear()
        self._spans.close()
        # Telemetry refers to the journal: together they would stay in memory until a collection.
        self._spans = NO_TELEMETRY.follow(self, self._clock.now)
        self._wake_all()
        self._note_change(self.session_id)

    @enable_ki_protection
    def release(self, replacement: Durable | None = None) -> None:
        """Show the held event and all after it to cursors; *replacement* takes its place."""
        hold = self._hold
        if hold is None:
            return
        if replacement is not None:
            assert replacement.seq is not None
            self._durable[replacement.seq - 1] = replacement
            self._log[hold.index] = replacement
            self._tail[hold.position - self._base] = replacement
            # Everything after the held event is folded again, on the state from before it. A turn that is ending is live.
            self.state = hold.state
            for entry in self._tail[hold.position - self._base :]:
                if entry.session_id == self.session_id and (entry.seq is not None or isinstance(entry, TurnEnding)):
                    self.state = apply(self.state, entry)
        waiting = self._tail[hold.position - self._base :]
        self._hold = None
        self._visible = self._base + len(self._tail)
        # The turn is over. Cursors near the end still get single deltas, slower ones get merged
        # ones: otherwise an idle session would keep a hundred kilobytes or more of deltas.
        self._trim(keep=max(RESTING, len(waiting)))
        self._wake_all()
        if self._parent is not None:
            for entry in waiting:
                self._parent._push(entry)
        self._note_change(self.session_id)

    def _push(self, entry: JournalEntry) -> None:
        tail = self._tail
        tail.append(entry)
        if entry.seq is not None:
            self._log.append(entry)  # type: ignore[arg-type]  # an event with a seq is durable
        elif isinstance(entry, TurnEnding):
            # Live, but it still has to reach those who join later or fell behind.
            self._endings.setdefault(len(self._log), []).append(entry)
        if self._hold is None:
            self._visible = self._base + len(tail)
            if self._lot:
                self._lot.unpark_all()
            if entry.seq is not None and self._durable_lot:
                self._durable_lot.unpark_all()
            # Trimmed from twice the size to the size: deleting at the front each time would be quadratic.
            if len(tail) > 2 * self._ring:
                self._trim(keep=self._ring)
            if self._parent is not None:
                self._parent._push(entry)

    def _wake_all(self) -> None:
        self._lot.unpark_all()
        self._durable_lot.unpark_all()

    def _trim(self, *, keep: int) -> None:
        old = len(self._tail) - keep
        if old > 0:
            del self._tail[:old]
            self._base += old

    def _track(self, event: Durable) -> None:
        match event:
            case SessionCreated():
                self._call_id = event.parent_call_id
            case TurnStarted():
                self._call_id = event.call_id
            case InputAdmitted():
                self._inputs.add(event)
            case PermissionAnswered() | QuestionAnswered() | RecoveryAnswered():
                self._root._answers.add(event)
            case PartStarted():
                self._open[event.part_id] = OpenText(
                    session_id=self.session_id,
                    path=self.path,
                    turn_id=event.turn_id,
                    message_id=event.message_id,
                    part_id=event.part_id,
                    kind=event.kind,
                )
            case PartEnded():
                self._open.pop(event.part.id, None)
            case PartReplaced():
                self._open[event.part_id].clear()
            case PartDiscarded():
                self._open.pop(event.part_id, None)
            case _:
                pass

    @property
    def draft_interval(self) -> float | None:
        """In how many seconds to save the text of open parts again; None: the store keeps none."""
        return None if self._drafts is None else self._drafts.interval()

    def save_drafts(self) -> None:
        """Save what open parts have received since the last call, if drafts are kept. Not a checkpoint."""
        if self._drafts is not None:
            self._drafts.save(self._open.values(), after=self.seq, time=self._clock.now())

    # -- reading ------------------------------------------------------------------

    @property
    def is_attached(self) -> bool:
        """Whether its events are shown in the journal of a parent, too."""
        return self._parent is not None

    @property
    def seq(self) -> int:
        """The number of the last durable event."""
        return len(self._durable)

    def admitted(self, input_id: InputId) -> InputAdmitted | None:
        """Return how an input was admitted, whatever became of it; None if there was no such input."""
        return self._inputs.find(input_id)

    @property
    def _root(self) -> Journal:
        return self if self._parent is None else self._parent._root

    def open_text(self, part_id: PartId) -> str:
        """Return what an open part has received so far."""
        return self._open[part_id].text()

    def snapshot(self) -> SessionState:
        """Return the state as cursors see it: up to a held event, and with the text of open parts filled in."""
        if self._hold is not None:
            return self._hold.state
        state = self.state
        if state.turn is None or state.turn.step is None or not self._open:
            return state
        step = state.turn.step
        parts = tuple(self._filled(part) for part in step.parts)
        return attrs.evolve(state, turn=attrs.evolve(state.turn, step=attrs.evolve(step, parts=parts)))

    def _filled(self, part: OpenPart) -> OpenPart:
        opened = self._open.get(part.part_id)
        return part if opened is None else attrs.evolve(part, text=opened.text())

    def _family(self) -> tuple[tuple[Journal, SessionState], ...]:
        """Return its state and those of its open descendants, as its own cursors see them; the upper ones first.

        Events behind a held one are in none of them.
        """
        if self._hold is not None:
            return self._hold.family
        below = [member for child in self._children for member in child._family() if member[1].seq]
        return ((self, self.snapshot()), *below)

    def _visible_newest_first(self) -> Iterator[Durable]:
        """Yield the events that cursors may see, those of descendants too, the last one first."""
        # One at a time: a slice would decode all of a session that was read from the store.
        return (self._log[index] for index in range(self._visible_events - 1, -1, -1))

    def newest_first(self) -> Iterator[Durable]:
        """Yield the durable events, the last one first."""
        return reversed(self._durable)

    def events(self) -> tuple[Durable, ...]:
        """Return all durable events."""
        return tuple(self._durable)

    def _index_after(self, seq: int) -> int:
        """Return where, in the log, the events after the own one of that number begin."""
        # Without descendants the two lists are the same. Else the event is at `seq - 1` at the earliest.
        if seq == 0 or len(self._log) == len(self._durable):
            return seq
        event = self._durable[seq - 1]
        return self._log.index(event, seq - 1) + 1

    @property
    def _visible_events(self) -> int:
        """How much of the log cursors may see."""
        return len(self._log) if self._hold is None else self._hold.index

    def _open_texts(self) -> Iterator[tuple[int, OpenText]]:
        """Yield its open parts and those of its descendants, as cursors may see them, and the number of the event before."""
        if self._hold is not None:
            yield from self._hold.texts
            return
        for text in self._open.values():
            yield self.seq, text
        for child in self._children:
            yield from child._open_texts()


@attrs.define(eq=False, repr=False)
class TurnJournal:
    """A turn's access to the journal; once closed, it drops late events and counts them."""

    log: Journal
    turn_id: TurnId
    is_closed: bool = attrs.field(default=False, init=False)
    dropped: int = attrs.field(default=0, init=False)

    @property
    def spans(self) -> SessionSpans:
        """The telemetry of the session."""
        return self.log._spans

    @enable_ki_protection
    def append(self, event: E) -> E | None:
        """Append *event*, and return it with its number and time; None: the turn's record is closed. Not a checkpoint."""
        if self.is_closed:
            self.dropped += 1
            return None
        return self.log.append(event, turn_id=self.turn_id)

    @enable_ki_protection
    def append_live(self, event: Live) -> None:
        """Show a live event, unless the turn's record is closed. Not a checkpoint."""
        if self.is_closed:
            self.dropped += 1
            return
        self.log.append_live(event, turn_id=self.turn_id)

    @enable_ki_protection
    def append_delta(self, part_id: PartId, text: str, time: float) -> None:
        """Append a delta, unless the turn's record is closed. Not a checkpoint."""
        if self.is_closed:
            self.dropped += 1
            return
        self.log._append_delta(part_id, text, time)

    @enable_ki_protection
    def stop(self) -> None:
        """Take nothing more; the turn stays open in the record. Not a checkpoint."""
        self.is_closed = True

    @enable_ki_protection
    def close(self, last: E) -> E:
        """Append *last*, held, and take nothing more. Not a checkpoint."""
        self.is_closed = True
        return self.log.append(last, turn_id=self.turn_id, held=True)
