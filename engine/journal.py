"""The journal: one ordered log per session, and cursors over it.

`append` is synchronous and has no checkpoint, so a state change and its event are
one indivisible thing between two checkpoints, and nothing here needs a lock.

- Durable events get a `seq` and go to the store in that order. The folded state is
  kept beside them.
- Live events (deltas, heartbeats) have no `seq`. They stand in the *tail*, a bounded
  window of the newest events of both kinds, at their place in the order.
- A subscriber is a `Cursor`: a position, no task and no queue. One that is slower
  than the tail loses nothing: durable events are read from the log, and the deltas
  which it missed come merged, one for each part.
- An event may be appended *held*: it, and all that follow it, stay invisible to
  cursors until `release`. So `TurnEnded` is seen only after it is durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.events import (
    ArgumentsDelta,
    CallQueued,
    Delta,
    Durable,
    InputAdmitted,
    Live,
    PartDiscarded,
    PartEnded,
    PartKind,
    PartReplaced,
    PartStarted,
    ReasoningDelta,
    TextDelta,
)
from engine.fold import apply, fold
from engine.ids import InputId, MessageId, PartId, SessionId, TurnId
from engine.messages import CallPart, ProviderPart
from engine.state import OpenPart, Resync, SessionState

if TYPE_CHECKING:
    from engine.ports import Store, Trace, WallClock

RING = 4_096
REFILL = 512

E = TypeVar("E", bound=Durable)
Entry = Durable | Live


@attrs.frozen(kw_only=True)
class Position:
    """Where a cursor is: enough to go on from there later, in another cursor."""

    epoch: str
    seq: int
    offsets: tuple[tuple[PartId, int], ...] = ()


@attrs.define(eq=False)
class _OpenText:
    """The text of an open part, outside the folded state so that a delta costs no copy."""

    message_id: MessageId
    turn_id: TurnId | None
    kind: PartKind
    chunks: list[str] = attrs.field(factory=list[str])
    length: int = 0

    def text(self) -> str:
        if len(self.chunks) > 1:
            self.chunks = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""


@attrs.define(eq=False)
class Journal:
    """The ordered log of one session."""

    session_id: SessionId
    path: tuple[SessionId, ...]
    store: Store
    clock: WallClock
    trace: Trace
    parent: Journal | None = None
    state: SessionState = attrs.field(factory=SessionState, init=False)
    inputs: dict[InputId, str] = attrs.field(factory=dict[InputId, str], init=False)
    _durable: list[Durable] = attrs.field(factory=list[Durable], init=False)
    _tail: list[Entry] = attrs.field(factory=list[Entry], init=False)
    _base: int = attrs.field(default=0, init=False)
    _visible: int = attrs.field(default=0, init=False)
    _held: int | None = attrs.field(default=None, init=False)
    _open: dict[PartId, _OpenText] = attrs.field(factory=dict[PartId, _OpenText], init=False)
    _children: list[Journal] = attrs.field(factory=list["Journal"], init=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        if self.parent is not None:
            self.parent._children.append(self)

    # -- writing ------------------------------------------------------------------

    def restore(self, events: Sequence[Durable]) -> None:
        """Begin with *events* from the store. Raises `JournalCorrupt` if they don't follow."""
        self.state = fold(events)
        self._durable = list(events)
        self.inputs = {event.input_id: event.message.text for event in events if isinstance(event, InputAdmitted)}

    @enable_ki_protection
    def append(self, event: E, *, turn_id: TurnId | None = None, held: bool = False) -> E:
        """Put *event* into the log and return it as it stands there. Not a checkpoint."""
        self.trace.point("journal.append")
        stamped = attrs.evolve(
            event,
            session_id=self.session_id,
            turn_id=turn_id,
            path=self.path,
            time=self.clock.now(),
            seq=len(self._durable) + 1,
        )
        self.state = apply(self.state, stamped)
        self._durable.append(stamped)
        self.store.put(stamped)
        self._track(stamped)
        if held:
            self._held = self._base + len(self._tail)
        self._push(stamped)
        self.trace.point("journal.appended")
        return stamped

    @enable_ki_protection
    def append_live(self, event: Live, *, turn_id: TurnId | None) -> None:
        """Show a live event to whoever watches now. Not a checkpoint."""
        self._push(
            attrs.evolve(
                event, session_id=self.session_id, turn_id=turn_id, path=self.path, time=self.clock.now()
            )
        )

    @enable_ki_protection
    def grow(self, part_id: PartId, text: str, time: float) -> None:
        """Append a delta to an open part: the hot path, so it takes its parts and no event. Not a checkpoint."""
        part = self._open[part_id]
        delta = _DELTAS[part.kind](
            session_id=self.session_id,
            turn_id=part.turn_id,
            path=self.path,
            time=time,
            message_id=part.message_id,
            part_id=part_id,
            after=len(self._durable),
            offset=part.length,
            text=text,
        )
        part.chunks.append(text)
        part.length += len(text)
        self._push(delta)

    @enable_ki_protection
    def release(self, replacement: Durable | None = None) -> None:
        """Let cursors see the held event and all after it; *replacement* stands in its place."""
        if self._held is None:
            return
        if replacement is not None:
            self._replace(replacement)
        waiting = self._tail[self._held - self._base :]
        self._held = None
        self._visible = self._base + len(self._tail)
        self._lot.unpark_all()
        if self.parent is not None:
            for entry in waiting:
                self.parent._push(entry)

    def _replace(self, event: Durable) -> None:
        assert event.seq is not None and self._held is not None
        self._durable[event.seq - 1] = event
        self._tail[self._held - self._base] = event

    def _push(self, entry: Entry) -> None:
        tail = self._tail
        tail.append(entry)
        if self._held is None:
            self._visible = self._base + len(tail)
            if self._lot:
                self._lot.unpark_all()
            if len(tail) > 2 * RING:
                self._trim()
            if self.parent is not None:
                self.parent._push(entry)

    def _trim(self) -> None:
        del self._tail[:RING]
        self._base += RING

    def _track(self, event: Durable) -> None:
        match event:
            case InputAdmitted():
                self.inputs[event.input_id] = event.message.text
            case PartStarted():
                self._open[event.part_id] = _OpenText(event.message_id, event.turn_id, event.kind)
            case PartEnded():
                self._open.pop(event.part.id, None)
            case PartReplaced():
                opened = self._open[event.part_id]
                opened.chunks, opened.length = [], 0
            case PartDiscarded():
                self._open.pop(event.part_id, None)
            case _:
                pass

    def _descendants(self) -> Iterator[Journal]:
        for child in self._children:
            yield child
            yield from child._descendants()

    # -- reading ------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The number of the last durable event."""
        return len(self._durable)

    def open_text(self, part_id: PartId) -> str:
        """Return what an open part has received so far."""
        return self._open[part_id].text()

    def snapshot(self) -> SessionState:
        """Return the folded state with the text of open parts filled in."""
        state = self.state
        if state.turn is None or state.turn.step is None or not self._open:
            return state
        step = state.turn.step
        parts = tuple(self._filled(part) for part in step.parts)
        return attrs.evolve(state, turn=attrs.evolve(state.turn, step=attrs.evolve(step, parts=parts)))

    def _filled(self, part: OpenPart) -> OpenPart:
        opened = self._open.get(part.part_id)
        return part if opened is None else attrs.evolve(part, text=opened.text())

    def follow(self, after: int | Position | None = None) -> Cursor:
        """Return a cursor which begins after that sequence number, or after now. Not a checkpoint.

        A `Position` of another epoch, or of a future, yields one `Resync` first.
        """
        cursor = Cursor(self)
        if after is None:
            cursor._go_to_end()
        elif isinstance(after, Position) and after.epoch != self.store.epoch:
            cursor._must_resync = True
        else:
            seq, offsets = (after, ()) if isinstance(after, int) else (after.seq, after.offsets)
            cursor._must_resync = not 0 <= seq <= self.seq
            cursor._seq = seq
            cursor._offsets = dict(offsets)
        return cursor

    def events(self) -> tuple[Durable, ...]:
        """Return all durable events."""
        return tuple(self._durable)


_DELTAS: dict[PartKind, type[TextDelta] | type[ReasoningDelta] | type[ArgumentsDelta]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "call": ArgumentsDelta,
    "provider": TextDelta,
}


@attrs.define(eq=False)
class Cursor:
    """A position in a journal: `async for event in cursor`.

    It has no task and no buffer; a slow one costs nothing and blocks nobody. It
    takes synchronously, parks only when there is nothing, lets other tasks run once
    every `REFILL` events, and moves on only when the event is certain to be handed
    over, so a cancelled `__anext__` loses nothing.
    """

    journal: Journal
    _position: int = attrs.field(default=-1, init=False)
    _seq: int = attrs.field(default=0, init=False)
    _child_seqs: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    _offsets: dict[PartId, int] = attrs.field(factory=dict[PartId, int], init=False)
    _catch_up: Iterator[Entry | Resync] | None = attrs.field(default=None, init=False)
    _must_resync: bool = attrs.field(default=False, init=False)
    _credit: int = attrs.field(default=REFILL, init=False)

    def __aiter__(self) -> Cursor:
        """Return itself."""
        return self

    async def __anext__(self) -> Entry | Resync:
        """Return the next event. A cancellation point; it parks, or lets others run, only at times.

        If cancelled, the event that was not returned is returned next time.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._credit -= 1
        if self._credit <= 0:
            await trio.lowlevel.checkpoint()
            self._credit = REFILL
        while True:
            entry = self.take()
            if entry is not None:
                return entry
            await self.journal._lot.park()
            self._credit = REFILL

    @enable_ki_protection
    def take(self) -> Entry | Resync | None:
        """Return the next event if there is one now. Not a checkpoint."""
        journal = self.journal
        while True:
            if self._catch_up is not None:
                entry = next(self._catch_up, None)
                if entry is not None:
                    return entry
                self._catch_up = None
            if self._must_resync or self._position < journal._base:
                self._catch_up = iter(self._missed())
                continue
            if self._position >= journal._visible:
                return None
            entry = journal._tail[self._position - journal._base]
            self._position += 1
            self._note(entry)
            return entry

    @property
    def position(self) -> Position:
        """Where it is, to go on from in another cursor of the same session."""
        return Position(epoch=self.journal.store.epoch, seq=self._seq, offsets=tuple(self._offsets.items()))

    def _note(self, entry: Entry) -> None:
        if type(entry) in _DELTA_SET:
            self._offsets[entry.part_id] = entry.offset + len(entry.text)  # type: ignore[union-attr]  # a delta
        elif entry.seq is not None:
            self._note_durable(entry)  # type: ignore[arg-type]  # an event with a seq is durable

    def _note_durable(self, event: Durable) -> None:
        assert event.seq is not None
        if event.session_id == self.journal.session_id:
            self._seq = event.seq
        else:
            self._child_seqs[event.session_id] = event.seq
        if isinstance(event, PartEnded):
            self._offsets.pop(event.part.id, None)
        elif isinstance(event, (PartDiscarded, PartReplaced)):
            self._offsets.pop(event.part_id, None)

    def _go_to_end(self) -> None:
        journal = self.journal
        self._position = journal._visible
        self._seq = journal.seq
        if journal._held is not None:
            held = journal._tail[journal._held - journal._base]
            assert held.seq is not None
            self._seq = held.seq - 1
        self._offsets = {part_id: part.length for part_id, part in journal._open.items()}
        for child in journal._descendants():
            self._child_seqs[child.session_id] = child.seq

    def _missed(self) -> list[Entry | Resync]:
        """Return what was missed, and go to the newest visible event.

        Durable events come as they are. A delta that was missed is told again from
        the part's text: before the end of a part that has ended, at the end for one
        that is open. So deltas always concatenate to the text.
        """
        if self._must_resync:
            self._must_resync = False
            self._go_to_end()
            journal = self.journal
            return [
                Resync(
                    session_id=journal.session_id,
                    epoch=journal.store.epoch,
                    seq=self._seq,
                    state=journal.snapshot(),
                )
            ]
        missed: list[Entry | Resync] = []
        limit = self.journal.seq
        if self.journal._held is not None:
            limit = self._held_seq() - 1
        events = self.journal._durable[self._seq : limit]
        descendants = tuple(self.journal._descendants())
        for child in descendants:
            seen = self._child_seqs.get(child.session_id, 0)
            events = [*events, *child._durable[seen:]]
        if descendants:
            events = sorted(events, key=lambda event: event.time)
        for event in events:
            missed.extend(self._rest_before(event))
            missed.append(event)
            self._note_durable(event)
        for journal in (self.journal, *descendants):
            missed.extend(self._rest_of_open(journal))
        self._position = self.journal._visible
        return missed

    def _held_seq(self) -> int:
        held = self.journal._tail[(self.journal._held or 0) - self.journal._base]
        assert held.seq is not None
        return held.seq

    def _rest_before(self, event: Durable) -> Iterator[Delta]:
        if isinstance(event, PartEnded) and not isinstance(event.part, ProviderPart):
            part = event.part
            kind: PartKind = "call" if isinstance(part, CallPart) else _KINDS[type(part).__name__]
            text = part.arguments if isinstance(part, CallPart) else part.text
            yield from self._rest(event, event.message_id, part.id, kind, text)

    def _rest_of_open(self, journal: Journal) -> Iterator[Delta]:
        for part_id, part in journal._open.items():
            source = journal._durable[-1]
            yield from self._rest(source, part.message_id, part_id, part.kind, part.text())

    def _rest(
        self, source: Durable, message_id: MessageId, part_id: PartId, kind: PartKind, text: str
    ) -> Iterator[Delta]:
        offset = self._offsets.get(part_id, 0)
        if offset < len(text):
            self._offsets[part_id] = len(text)
            yield _DELTAS[kind](
                session_id=source.session_id,
                turn_id=source.turn_id,
                path=source.path,
                time=source.time,
                message_id=message_id,
                part_id=part_id,
                after=self._seq,
                offset=offset,
                text=text[offset:],
            )


_KINDS: dict[str, PartKind] = {"TextPart": "text", "ReasoningPart": "reasoning"}
_DELTA_SET = frozenset((TextDelta, ReasoningDelta, ArgumentsDelta))


@attrs.define(eq=False)
class TurnJournal:
    """A turn's way to the journal; once closed, it drops what comes late, and counts it."""

    journal: Journal
    turn_id: TurnId
    is_closed: bool = attrs.field(default=False, init=False)
    dropped: int = attrs.field(default=0, init=False)

    @enable_ki_protection
    def append(self, event: Durable) -> None:
        """Append *event*, unless the turn's record is closed. Not a checkpoint."""
        if self.is_closed:
            self.dropped += 1
            return
        self.journal.append(event, turn_id=self.turn_id)

    @enable_ki_protection
    def append_live(self, event: Live) -> None:
        """Show a live event, unless the turn's record is closed. Not a checkpoint."""
        if self.is_closed:
            self.dropped += 1
            return
        self.journal.append_live(event, turn_id=self.turn_id)

    @enable_ki_protection
    def grow(self, part_id: PartId, text: str, time: float) -> None:
        """Append a delta, unless the turn's record is closed. Not a checkpoint."""
        if self.is_closed:
            self.dropped += 1
            return
        self.journal.grow(part_id, text, time)

    @enable_ki_protection
    def close(self, last: E) -> E:
        """Append *last*, held, and take nothing more. Not a checkpoint."""
        self.is_closed = True
        return self.journal.append(last, turn_id=self.turn_id, held=True)
