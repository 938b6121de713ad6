"""Cursors over a journal: each reads on from a position in it.

- A cursor has no task and no queue. A slow one loses nothing: it reads durable events from the
  log, and missed deltas come merged, one for each part.
- A `Position` is a value: another cursor can continue from it later.
"""

# pyright: reportPrivateUsage=false
# A journal and its cursors share private state.

from __future__ import annotations

from collections.abc import Iterable

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core import events as ev
from engine.core.ids import PartId, SessionId
from engine.core.messages import AssistantPart, CallPart, ProviderPart, ReasoningPart, TextPart
from engine.core.threads import check_run
from engine.journal.log import Journal, JournalEntry
from engine.journal.open_text import DELTAS, LONGEST_DELTA
from engine.journal.position import Position
from engine.journal.state import Descendant, OpenQuestion, Resync, SessionState

# Events between two schedule points, so that a cursor with much to read does not starve other tasks.
REFILL = 512
# So many events and more are merged, if a cursor is asked for that.
_WORTH_MERGING = 8
# What a cursor loses that has fallen behind.
_LOST_BEHIND = frozenset({ev.CallProgress, ev.CallHeartbeat})

_KINDS: dict[type[AssistantPart], ev.PartKind] = {TextPart: "text", ReasoningPart: "reasoning", CallPart: "call"}


def follow(
    journal: Journal, after: int | Position | None = None, *, token: trio.lowlevel.TrioToken | None = None
) -> Cursor:
    """Return a cursor over *journal* which begins after that sequence number, or after now. Not a checkpoint.

    A `Position` of another epoch or session, or of a future, yields one `Resync` first. With *token*, it waits in that Trio run only.
    """
    cursor = Cursor(journal)
    cursor._token = token
    epoch = journal._store.epoch
    if after is None:
        cursor._go_to_end()
    elif isinstance(after, Position) and (after.epoch != epoch or after.session_id not in {"", journal.session_id}):
        cursor._must_resync = True
    else:
        begin = after if isinstance(after, Position) else Position(epoch=epoch, seq=after)
        cursor._must_resync = not 0 <= begin.seq <= journal.seq
        if not cursor._must_resync:
            cursor._begin(begin)
    return cursor


@attrs.define(eq=False, repr=False)
class Cursor:
    """A position in a journal: `async for event in cursor`.

    It has no task and no buffer; a slow one costs nothing and blocks nothing. It
    takes synchronously, parks only when there is nothing, lets other tasks run once
    every `REFILL` events, and moves on only when the event is certain to be handed
    over, so a cancelled `__anext__` loses nothing.

    It reads from the tail while it keeps up. Once it has fallen out of there it is
    *behind*: it reads the log, gets the missed text of each part as one delta, and returns
    to the tail when it has caught up.
    """

    journal: Journal
    _position: int = attrs.field(default=0, init=False)
    _index: int = attrs.field(default=0, init=False)
    _behind: bool = attrs.field(default=True, init=False)
    _seq: int = attrs.field(default=0, init=False)
    _child_seqs: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    _offsets: dict[PartId, int] = attrs.field(factory=dict[PartId, int], init=False)
    _endings: dict[SessionId, None] = attrs.field(factory=dict[SessionId, None], init=False)
    _must_resync: bool = attrs.field(default=False, init=False)
    # When the first of the deltas came that are merged.
    _since: float | None = attrs.field(default=None, init=False)
    _credit: int = attrs.field(default=REFILL, init=False)
    _token: trio.lowlevel.TrioToken | None = attrs.field(default=None, init=False)

    def __aiter__(self) -> Cursor:
        """Return itself."""
        return self

    async def __anext__(self) -> JournalEntry | Resync:
        """Return the next event; the iteration ends when the engine has closed and nothing is left.

        A cancellation point; it parks, or lets others run, only at times. If cancelled,
        the event that was not returned is returned next time.
        """
        # Not a full checkpoint each time: with thousands of deltas, rescheduling would cost more than handing them over.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._credit -= 1
        if self._credit <= 0:
            await trio.lowlevel.checkpoint()
            self._credit = REFILL
        while True:
            entry = self.try_next()
            if entry is not None:
                return entry
            if self.journal.is_closed:
                raise StopAsyncIteration
            # The task that appends wakes those in the lot: a task of another run would break it.
            check_run(self._token)
            await self.journal._lot.park()
            self._credit = REFILL

    async def wait(self, *, durable: bool = False) -> bool:
        """Wait until there is an event to return, and return True; False: the engine has closed, and nothing is left.

        With *durable*, live events alone do not end it: who sends events in batches parks here between two of them at
        no cost. It takes nothing. A cancellation point; it parks only if there is nothing.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        journal = self.journal
        lot = journal._durable_lot if durable else journal._lot
        while not self.has_next(durable=durable):
            if journal.is_closed:
                return self.has_next()
            check_run(self._token)
            await lot.park()
        return True

    @enable_ki_protection
    def has_next(self, *, durable: bool = False) -> bool:
        """Return whether there is an event to return now; with *durable*, one that is not live. Not a checkpoint."""
        journal = self.journal
        if durable:
            # One of a descendant may have been seen already, which shows only when it is read.
            return self._must_resync or self._index < journal._visible_events
        if not self._behind and self._position >= journal._base:
            return self._position < journal._visible
        self._behind = True
        return self._must_resync or self._next_missed() is not None

    @enable_ki_protection
    def merge(self) -> int:
        """Merge the deltas that are waiting, as for a cursor that has fallen behind; return how many. Not a checkpoint.

        It does nothing where there are few events, or some that would be lost by that.
        """
        journal = self.journal
        count = journal._visible - self._position
        if self._behind or self._position < journal._base or count < _WORTH_MERGING:
            return 0
        waiting = journal._tail[self._position - journal._base :]
        if not _LOST_BEHIND.isdisjoint(map(type, waiting)):
            return 0
        self._behind = True
        durable = journal._visible_events - self._index
        # Deltas alone keep the time of the first.
        self._since = None if durable else waiting[0].time
        return count - durable

    @enable_ki_protection
    def try_next(self) -> JournalEntry | Resync | None:
        """Return the next event if there is one now. Not a checkpoint."""
        journal = self.journal
        if not self._behind and self._position >= journal._base:
            if self._position >= journal._visible:
                return None
            entry = journal._tail[self._position - journal._base]
            self._position += 1
            self._note(entry)
            return entry
        if self._must_resync:
            return self.snapshot()
        self._behind = True
        missed = self._next_missed()
        if missed is not None:
            self._note(missed)
        return missed

    @enable_ki_protection
    def snapshot(self) -> Resync:
        """Return the session and its open sub-agents as they are now, and continue from there. Not a checkpoint.

        What it would have returned before that is skipped. It takes as long for a long history as for a short one.
        """
        journal = self.journal
        self._must_resync = False
        self._go_to_end()
        (_, state), *below = family = journal._family()
        return Resync(
            session_id=journal.session_id,
            epoch=journal._store.epoch,
            seq=state.seq,
            state=state,
            descendants=tuple(
                Descendant(state=member, depth=len(child.path) - len(journal.path), call_id=child._call_id)
                for child, member in below
            ),
            open_questions=_open_questions(journal, [member for _, member in family]),
            position=self.position,
        )

    @property
    def position(self) -> Position:
        """Where it is, to continue from in another cursor of the same session."""
        return Position(
            session_id=self.journal.session_id,
            epoch=self.journal._store.epoch,
            seq=self._seq,
            offsets=tuple(self._offsets.items()),
            children=tuple(self._child_seqs.items()),
            endings=tuple(self._endings),
        )

    def _begin(self, position: Position) -> None:
        self._index = self.journal._index_after(position.seq)
        self._seq = position.seq
        self._offsets = dict(position.offsets)
        self._child_seqs = dict(position.children)
        self._endings = dict.fromkeys(position.endings)

    def _go_to_end(self) -> None:
        journal = self.journal
        self._position, self._index, self._behind = journal._visible, journal._visible_events, False
        self._seq = journal.snapshot().seq
        self._offsets = {text.part_id: text.length for _, text in journal._open_texts()}
        self._endings = {event.session_id: None for event in journal._endings.get(self._index, ())}
        self._child_seqs = {}
        for event in reversed(journal._log[journal._index_after(self._seq) : self._index]):
            assert event.seq is not None
            self._child_seqs.setdefault(event.session_id, event.seq)

    # -- what was handed over ------------------------------------------------------------

    def _note(self, entry: JournalEntry) -> None:
        if isinstance(entry, (ev.TextDelta, ev.ReasoningDelta, ev.ArgumentsDelta)):
            self._offsets[entry.part_id] = entry.offset + len(entry.text)
        elif isinstance(entry, ev.TurnEnding):
            self._endings[entry.session_id] = None
        elif not isinstance(entry, (ev.CallProgress, ev.CallHeartbeat)):
            self._note_durable(entry)

    def _note_durable(self, event: ev.Durable) -> None:
        assert event.seq is not None
        self._index += 1
        if event.session_id == self.journal.session_id:
            self._seq = event.seq
            self._child_seqs.clear()
        else:
            self._child_seqs[event.session_id] = event.seq
        if isinstance(event, ev.PartEnded):
            self._offsets.pop(event.part.id, None)
        elif isinstance(event, (ev.PartDiscarded, ev.PartReplaced)):
            self._offsets.pop(event.part_id, None)
        elif isinstance(event, ev.TurnEnded):
            self._endings.pop(event.session_id, None)

    # -- what was missed --------------------------------------------------------------------

    def _next_missed(self) -> JournalEntry | None:
        """Return the next of what was missed; None when it has caught up.

        Durable events come as they are, and so does `TurnEnding`, at its place. A missed delta is rebuilt from
        the part's text: before the end of a part that has ended, at the end for one
        that is open. So deltas always concatenate to the text.
        """
        journal = self.journal
        while self._index < journal._visible_events:
            event = journal._log[self._index]
            assert event.seq is not None
            if event.seq > self._child_seqs.get(event.session_id, 0):
                return self._missed_ending() or self._rest_before(event) or event
            self._index += 1  # the cursor whose position this one continues from has seen it
        rest = self._missed_ending() or self._rest_of_open()
        if rest is None:
            self._position, self._behind, self._since = journal._visible, False, None
        return rest

    def _missed_ending(self) -> ev.TurnEnding | None:
        """Return the end of a turn that was announced here, if it was not seen."""
        for event in self.journal._endings.get(self._index, ()):
            own = event.session_id == self.journal.session_id
            seq = self._seq if own else self._child_seqs.get(event.session_id, 0)
            # By then the turn may have ended, so `_endings` does not name it any more.
            if event.session_id not in self._endings and seq <= event.after:
                return event
        return None

    def _rest_before(self, event: ev.Durable) -> ev.Delta | None:
        if not isinstance(event, ev.PartEnded) or isinstance(event.part, ProviderPart):
            return None
        part = event.part
        text = part.arguments if isinstance(part, CallPart) else part.text
        offset = self._offsets.get(part.id, 0)
        if offset >= len(text):
            return None
        assert event.seq is not None
        return DELTAS[_KINDS[type(part)]](
            session_id=event.session_id,
            turn_id=event.turn_id,
            path=event.path,
            time=event.time,
            message_id=event.message_id,
            part_id=part.id,
            after=event.seq - 1,
            offset=offset,
            text=text[offset : offset + LONGEST_DELTA],
        )

    def _rest_of_open(self) -> ev.Delta | None:
        for seq, text in self.journal._open_texts():
            offset = self._offsets.get(text.part_id, 0)
            if offset < text.length:
                time = self.journal._clock.now() if self._since is None else self._since
                return text.rest(offset=offset, after=seq, time=time, most=LONGEST_DELTA)
        return None


def _open_questions(journal: Journal, states: Iterable[SessionState]) -> tuple[OpenQuestion, ...]:
    """Return the events that asked what is open, the oldest first."""
    waiting = {request_id for state in states if state.turn is not None for request_id in state.turn.waiting}
    found: list[OpenQuestion] = []
    if waiting:
        for event in journal._visible_newest_first():
            if isinstance(event, OpenQuestion) and event.request_id in waiting:
                waiting.remove(event.request_id)
                found.append(event)
                if not waiting:
                    break
    return tuple(reversed(found))
