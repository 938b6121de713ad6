"""The journal and its cursors: order, nothing lost, nothing twice, nothing seen before its time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.core.errors import JournalCorrupt
from engine.core.events import (
    ArgumentsDelta,
    CallProgress,
    CallStarted,
    Delta,
    Durable,
    InputAdmitted,
    Live,
    Notice,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    ReasoningDelta,
    SessionCreated,
    SharedContext,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnEnding,
    TurnResult,
    TurnStarted,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import CallPart, ProviderPart, TextPart, Usage, UserMessage
from engine.journal.cursors import REFILL, Cursor, follow
from engine.journal.fold import apply, fold
from engine.journal.log import Journal, TurnJournal
from engine.journal.position import Position
from engine.journal.state import OpenPart, Resync, SessionState
from engine.store.memory import MemoryStore
from tests.support.scribe import Scribe, Wall, new_journal, open_parts

Entry = Durable | Live | Resync
DELTAS = (TextDelta, ReasoningDelta, ArgumentsDelta)


# -- a reader that checks all it is given ------------------------------------------------------


@attrs.define(eq=False)
class Reader:
    """Takes what a cursor gives, and complains at the first thing that is wrong.

    Attributes:
        state: what a client makes of the session itself, from where the cursor began.
        seen: all that was handed over since.
        seqs: of each session, the last number; of one that is not in it, any may come first.
        ending: of each session, after which number the end of a turn was announced last.
        others: what a client makes of the descendants that it knows from their beginning or from a snapshot.
        texts: of each part, what its deltas came to; where one is joined in the middle, "?" stands for the rest.
    """

    journal: Journal
    cursor: Cursor
    state: SessionState
    seen: list[Durable | Live] = attrs.field(factory=list[Durable | Live])
    seqs: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int])
    texts: dict[PartId, str] = attrs.field(factory=dict[PartId, str])
    ending: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int])
    others: dict[SessionId, SessionState] = attrs.field(factory=dict[SessionId, SessionState])
    must_resync: bool = False

    @classmethod
    def of(cls, journal: Journal, cursor: Cursor, base: SessionState, **more: Any) -> Reader:
        reader = cls(journal=journal, cursor=cursor, state=base, **more)
        reader._begin(base)
        return reader

    def _begin(self, base: SessionState) -> None:
        self.state = base
        self.seen.clear()
        self.seqs = {self.journal.session_id: base.seq}
        self.texts, self.ending, self.others = {part.part_id: part.text for part in open_parts(base)}, {}, {}

    def adopt(self, snapshot: Resync) -> None:
        """Discard everything, and go on from a snapshot."""
        assert (snapshot.session_id, snapshot.epoch) == (self.journal.session_id, self.journal._store.epoch)
        assert snapshot.seq == snapshot.state.seq
        assert snapshot.position == self.cursor.position
        self.must_resync = False
        self._begin(snapshot.state)
        self.others = {member.state.session_id: member.state for member in snapshot.descendants}
        for state in self.others.values():
            self.seqs[state.session_id] = state.seq
            self.texts |= {part.part_id: part.text for part in open_parts(state)}

    def take(self, most: int) -> int:
        """Take up to *most* entries that are there now; return how many were."""
        for taken in range(most):
            has_next, has_durable = self.cursor.has_next(), self.cursor.has_next(durable=True)
            entry = self.cursor.try_next()
            assert has_next == (entry is not None)
            if entry is None:
                return taken
            assert has_durable or isinstance(entry, Live), "who waits for the record would not have been woken"
            self.look_at(entry)
        return most

    def drain(self) -> None:
        while self.take(100):
            pass

    def look_at(self, entry: Entry) -> None:
        if isinstance(entry, Resync):
            assert self.must_resync, "a resync came out of the blue"
            self.adopt(entry)
            return
        assert not self.must_resync, "something came before the resync"
        if isinstance(entry, DELTAS):
            self._look_at_delta(entry)
        elif entry.seq is not None:
            last = self.seqs.get(entry.session_id, entry.seq - 1)
            assert entry.seq == last + 1, f"{entry.session_id}: {entry.seq} came after {last}"
            self.seqs[entry.session_id] = entry.seq
            self._look_at_part(entry)
        if isinstance(entry, TurnEnding):
            assert self.ending.get(entry.session_id) != entry.after, "an ending was announced twice"
            assert self.seqs.get(entry.session_id, entry.after) == entry.after, "an ending is out of its place"
            self.ending[entry.session_id] = entry.after
        self.seen.append(entry)
        if entry.session_id == self.journal.session_id:
            self.state = apply(self.state, entry)
        elif entry.seq == 1 or entry.session_id in self.others:
            self.others[entry.session_id] = apply(self.others.get(entry.session_id, SessionState()), entry)

    def _look_at_delta(self, delta: Delta) -> None:
        so_far = self.texts.get(delta.part_id)
        if so_far is None:
            assert delta.session_id != self.journal.session_id, "a delta of a part that is not open"
            so_far = "?" * delta.offset
        assert delta.offset == len(so_far), f"a delta begins at {delta.offset}; there were {len(so_far)}"
        assert delta.text
        assert delta.after == self.seqs.get(delta.session_id, delta.after)
        self.texts[delta.part_id] = so_far + delta.text

    def _look_at_part(self, event: Durable | Live) -> None:
        match event:
            case PartStarted():
                self.texts[event.part_id] = ""
            case PartReplaced():
                self.texts[event.part_id] = ""
            case PartDiscarded():
                self.texts.pop(event.part_id, None)
            case PartEnded():
                part = event.part
                so_far = self.texts.pop(part.id, None)
                text = (
                    ""
                    if isinstance(part, ProviderPart)
                    else part.arguments
                    if isinstance(part, CallPart)
                    else part.text
                )
                if so_far is not None:
                    unknown = len(so_far) - len(so_far.lstrip("?"))
                    assert so_far[unknown:] == text[unknown:]
                    assert len(so_far) == len(text)
            case _:
                pass

    def durable(self) -> list[tuple[SessionId, int]]:
        return [(event.session_id, event.seq) for event in self.seen if event.seq is not None]


def take_all(cursor: Cursor) -> list[Entry]:
    found: list[Entry] = []
    while (entry := cursor.try_next()) is not None:
        found.append(entry)
    return found


# -- the machine -----------------------------------------------------------------------------------


class JournalMachine(RuleBasedStateMachine):
    """Scribes write into a session and its children; readers of every kind follow it.

    Most rings hold few entries, so a reader that rests for some moves has fallen out of them. One reader takes
    everything at once: the order in which it saw the durable events is the order in which all must see them.
    """

    @initialize(ring=st.sampled_from([1, 2, 3, 4, 6, 30]))
    def begin(self, ring: int) -> None:
        self.wall = Wall()
        self.scribes = [Scribe(new_journal(ring=ring, wall=self.wall), self.wall)]
        self.root = self.scribes[0].journal
        self.eager = self._reader_from_start()
        self.readers: list[Reader] = []
        self.shown: list[SessionState] = []

    def _reader_from_start(self) -> Reader:
        return Reader.of(self.root, follow(self.root, 0), SessionState())

    # -- writing --

    @rule(data=st.data(), moves=st.integers(1, 12))
    def write(self, data: st.DataObject, moves: int) -> None:
        for _ in range(moves):
            scribe = self.scribes[data.draw(st.integers(0, len(self.scribes) - 1))]
            scribe.move(lambda n: data.draw(st.integers(0, n - 1)))

    @rule(seed=st.integers(0, 2**32), moves=st.integers(20, 60))
    def write_much(self, seed: int, moves: int) -> None:
        draw = random.Random(seed).randrange
        for _ in range(moves):
            self.scribes[draw(len(self.scribes))].move(draw)

    @precondition(lambda self: len(self.scribes) < 4)
    @rule(data=st.data())
    def branch(self, data: st.DataObject) -> None:
        parent = self.scribes[data.draw(st.integers(0, len(self.scribes) - 1))].journal
        name = f"s{len(self.scribes)}"
        self.scribes.append(
            Scribe(new_journal(session_id=name, parent=parent, ring=self.root._ring, wall=self.wall), self.wall)
        )

    # -- following --

    @rule()
    def follow_from_the_start(self) -> None:
        self.readers.append(self._reader_from_start())

    @rule()
    def follow_from_now(self) -> None:
        self.readers.append(Reader.of(self.root, follow(self.root), self.root.snapshot()))

    @rule(data=st.data())
    def follow_after(self, data: st.DataObject) -> None:
        visible = self.eager.seqs[self.root.session_id]
        after = data.draw(st.integers(0, visible))
        self.readers.append(Reader.of(self.root, follow(self.root, after), fold(self.root.events()[:after])))

    @rule(data=st.data())
    def follow_from_nowhere(self, data: st.DataObject) -> None:
        future = self.root.seq + 1
        nowhere: list[int | Position] = [-1, future, Position(epoch="another", seq=0), Position(epoch="e", seq=future)]
        after = data.draw(st.sampled_from(nowhere))
        self.readers.append(Reader.of(self.root, follow(self.root, after), SessionState(), must_resync=True))

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def resume_elsewhere(self, data: st.DataObject) -> None:
        """Go on from where a cursor is, in another one, wherever that is."""
        reader = self._one(data)
        if not reader.must_resync:
            reader.cursor = follow(self.root, reader.cursor.position)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def take_a_snapshot(self, data: st.DataObject) -> None:
        """Wherever the cursor is, and also where an event is held."""
        reader = self._one(data)
        reader.adopt(reader.cursor.snapshot())

    # -- reading --

    def _one(self, data: st.DataObject) -> Reader:
        return self.readers[data.draw(st.integers(0, len(self.readers) - 1))]

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), most=st.integers(1, 30))
    def read(self, data: st.DataObject, most: int) -> None:
        self._one(data).take(most)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def merge_what_waits(self, data: st.DataObject) -> None:
        self._one(data).cursor.merge()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def read_to_the_end(self, data: st.DataObject) -> None:
        self._one(data).drain()

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), most=st.integers(1, 5))
    def be_cancelled_while_reading(self, data: st.DataObject, most: int) -> None:
        """Each `__anext__` is cancelled once before it is let through: the event must still be there."""
        reader = self._one(data)

        async def read() -> None:
            for _ in range(most):
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await reader.cursor.__anext__()
                assert scope.cancelled_caught
                with trio.move_on_after(0.1):  # virtual: it has nothing to wait for, or will wait for ever
                    reader.look_at(await reader.cursor.__anext__())

        trio.run(read, clock=trio.testing.MockClock(autojump_threshold=0))

    # -- what must hold --

    @invariant()
    def the_eager_reader_sees_what_is_visible(self) -> None:
        self.eager.drain()
        assert self.eager.state == self.root.snapshot()

    @invariant()
    def a_snapshot_is_what_was_seen_of_all(self) -> None:
        self.eager.drain()
        found = follow(self.root).snapshot()
        assert found.state == self.eager.state
        assert {member.state.session_id: member.state for member in found.descendants} == self.eager.others
        assert [member.depth for member in found.descendants] == [
            len(s.journal.path) - 1
            for member in found.descendants
            for s in self.scribes
            if s.journal.session_id == member.state.session_id
        ]

    @invariant()
    def nothing_after_a_held_end_is_visible(self) -> None:
        self.eager.drain()
        for scribe in self.scribes:
            ended = [
                e for e in self.eager.seen if isinstance(e, TurnEnded) and e.session_id == scribe.journal.session_id
            ]
            hidden = 1 if scribe.ended_held else 0
            written = sum(isinstance(event, TurnEnded) for event in scribe.journal.events())
            if not any(
                other.ended_held for other in self.scribes if other.journal.session_id in scribe.journal.path[:-1]
            ):
                assert len(ended) == written - hidden

    def teardown(self) -> None:
        if not hasattr(self, "scribes"):
            return
        for scribe in reversed(self.scribes):
            scribe.finish()
        self.the_eager_reader_sees_what_is_visible()
        assert self.eager.seqs == {
            s.journal.session_id: s.journal.seq for s in self.scribes if s.journal.seq or s is self.scribes[0]
        }
        order = self.eager.durable()
        for reader in self.readers:
            reader.drain()
            assert reader.state == self.root.snapshot() == self.root.state
            seen = reader.durable()
            assert seen == order[len(order) - len(seen) :]
            assert all(state == self.eager.others[session_id] for session_id, state in reader.others.items())
        for scribe in self.scribes:
            own = [event for event in self.eager.seen if event.session_id == scribe.journal.session_id]
            assert fold(own) == scribe.journal.snapshot() == fold(scribe.journal.events())


TestJournal = JournalMachine.TestCase
# (Explaining a failure by tracing every line takes minutes here, and tells little.)
TestJournal.settings = settings(stateful_step_count=30, phases=set(Phase) - {Phase.explain})


# -- the same, by name -----------------------------------------------------------------------------


@attrs.define(eq=False)
class HookRunner:
    """A journal with a turn under way, a step in it and an open part of text."""

    wall: Wall = attrs.field(factory=Wall)
    ring: int = 4
    session_id: str = "s"
    parent: Journal | None = None
    journal: Journal = attrs.field(init=False)
    turn: TurnJournal = attrs.field(init=False)
    part_id: PartId = PartId("p")

    def __attrs_post_init__(self) -> None:
        self.journal = new_journal(session_id=self.session_id, parent=self.parent, wall=self.wall, ring=self.ring)
        self.journal.append(SessionCreated(context=SharedContext(cwd="/"), model="m"))
        self.turn = self.start_turn("t")
        self.turn.append(StepStarted(step=1, attempt=1, message_id=MESSAGE, model="m"))
        self.turn.append(PartStarted(message_id=MESSAGE, part_id=self.part_id, kind="text"))

    def start_turn(self, name: str) -> TurnJournal:
        turn = TurnJournal(self.journal, TurnId(name))
        turn.append(TurnStarted())
        return turn

    def grow(self, text: str, times: int = 1) -> None:
        for _ in range(times):
            self.turn.append_delta(self.part_id, text, self.wall.now())

    def end_step(self) -> None:
        text = self.journal.open_text(self.part_id)
        self.turn.append(PartEnded(message_id=MESSAGE, part=TextPart(id=self.part_id, text=text)))
        self.turn.append(
            StepEnded(step=1, message_id=MESSAGE, results_id=MessageId("r"), finish="stop", usage=Usage(), cost=0.0)
        )

    def notices(self, count: int) -> None:
        for number in range(count):
            self.turn.append(Notice(level="info", code=str(number), text=""))


MESSAGE = MessageId("m")
ENDED = TurnEnded(result=TurnResult(stop_reason="completed"))


def kinds(entries: Sequence[Entry]) -> list[str]:
    return [type(entry).__name__ for entry in entries]


def test_deltas_of_a_slow_reader_are_merged() -> None:
    desk = HookRunner()
    slow, quick = follow(desk.journal, 0), follow(desk.journal, 0)
    assert len(take_all(quick)) == 4
    for _ in range(1_000):
        desk.grow("ab")
        assert kinds(take_all(quick)) == ["TextDelta"]
    *durable, delta = take_all(slow)
    assert kinds(durable) == ["SessionCreated", "TurnStarted", "StepStarted", "PartStarted"]
    assert isinstance(delta, TextDelta)
    assert (delta.offset, delta.text, delta.after, delta.turn_id) == (0, "ab" * 1_000, 4, "t")
    desk.grow("c")
    assert [entry.text for entry in take_all(slow) if isinstance(entry, TextDelta)] == ["c"]


def test_held_end_hides_no_text_from_before_it() -> None:
    """Also of a sub-agent's sub-agent, from a reader that has fallen behind: it sees what a snapshot shows."""
    root = HookRunner(ring=1)
    agent = HookRunner(ring=1, session_id="agent", parent=root.journal)
    below = HookRunner(ring=1, session_id="below", parent=agent.journal, part_id=PartId("q"))
    slow = follow(root.journal, 0)
    below.grow("before ")
    agent.end_step()
    agent.journal.append(ENDED, turn_id=TurnId("t"), held=True)
    below.grow("behind")
    texts = [entry.text for entry in take_all(slow) if isinstance(entry, TextDelta)]
    assert texts == ["before "]
    shown = follow(root.journal).snapshot().descendants[-1].state
    assert [part.text for part in open_parts(shown)] == texts
    agent.journal.release()
    assert [entry.text for entry in take_all(slow) if isinstance(entry, TextDelta)] == ["behind"]


def test_deltas_are_merged_when_asked() -> None:
    book = HookRunner(ring=64)
    cursor = follow(book.journal)
    book.grow("ab", 8)
    cursor.merge()
    (delta,) = take_all(cursor)
    assert isinstance(delta, TextDelta)
    assert (delta.offset, delta.text) == (0, "ab" * 8)
    book.grow("c")
    cursor.merge()
    assert kinds(take_all(cursor)) == ["TextDelta"]


def test_merging_loses_no_progress() -> None:
    book = HookRunner(ring=64)
    cursor = follow(book.journal)
    book.grow("ab", 8)
    book.turn.append_live(CallProgress(call_id=CallId("c"), message="50%"))
    cursor.merge()
    assert kinds(take_all(cursor)) == [*["TextDelta"] * 8, "CallProgress"]


def test_merged_delta_precedes_the_ended_part() -> None:
    desk = HookRunner()
    slow = follow(desk.journal, 0)
    desk.grow("ab", 10)
    desk.end_step()
    assert kinds(take_all(slow))[4:] == ["TextDelta", "PartEnded", "StepEnded"]


def test_slow_reader_learns_that_a_turn_ends() -> None:
    book = HookRunner()
    slow, resumed = follow(book.journal, 0), follow(book.journal, 0)
    book.turn.append_live(TurnEnding(cause="user", detail="", until=2.0, after=book.journal.seq))
    take_all(resumed)
    again = follow(book.journal, resumed.position)
    book.notices(20)
    missed = kinds(take_all(slow))
    assert missed[-21:] == ["TurnEnding", *["Notice"] * 20]
    assert kinds(take_all(again)) == ["Notice"] * 20


def test_discarded_parts_are_not_replayed() -> None:
    desk = HookRunner()
    slow = follow(desk.journal, 0)
    desk.grow("wrong")
    desk.turn.append(PartReplaced(message_id=MESSAGE, part_id=desk.part_id))
    desk.grow("right", 5)
    told = take_all(slow)[4:]
    assert kinds(told) == ["PartReplaced", "TextDelta"]
    assert [entry.text for entry in told if isinstance(entry, TextDelta)] == ["right" * 5]


def test_a_clock_set_back_changes_no_order() -> None:
    """A reader that fell behind sorted by the wall clock as soon as there was a child."""
    desk = HookRunner()
    child = new_journal(session_id="c", parent=desk.journal, wall=desk.wall)
    slow = follow(desk.journal, 0)
    for number in range(10):
        desk.wall.time -= 100.0
        desk.notices(1)
        child.append(Notice(level="info", code=str(number), text=""))
    told = [entry for entry in take_all(slow) if not isinstance(entry, Resync)]
    assert [(entry.session_id, entry.seq) for entry in told[4:]] == [
        pair for number in range(10) for pair in (("s", number + 5), ("c", number + 1))
    ]


def test_missed_delta_keeps_its_turn() -> None:
    """Queued input belongs to no turn; a delta that was told behind it had no turn either."""
    desk = HookRunner()
    slow = follow(desk.journal, 0)
    desk.grow("ab", 10)
    said = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("u1"), text="later"),), origin="queue")
    desk.journal.append(InputAdmitted(input_id=InputId("i"), mode="queue", message=said))
    told = [entry for entry in take_all(slow) if not isinstance(entry, Resync)]
    assert fold(told) == desk.journal.snapshot()
    assert told[-1].turn_id == "t"


def test_held_event_is_invisible() -> None:
    """Not in events, nor in a snapshot, nor in a resync; what comes after it waits behind it."""
    desk = HookRunner()
    desk.grow("ab")
    quick = follow(desk.journal, 0)
    desk.end_step()
    take_all(quick)
    before = desk.journal.snapshot()
    ended = desk.turn.close(ENDED)
    desk.journal.append(
        InputAdmitted(input_id=InputId("i"), mode="queue", message=UserMessage(id=MessageId("u"), parts=()))
    )
    assert desk.journal.snapshot() == before
    assert desk.journal.state.turn is None
    late, foreign = follow(desk.journal, 0), follow(desk.journal, Position(epoch="other", seq=1))
    new = follow(desk.journal)
    assert take_all(quick) == []
    assert ended not in take_all(late)
    (resync,) = take_all(foreign)
    assert isinstance(resync, Resync)
    assert (resync.seq, resync.state, resync.position) == (before.seq, before, foreign.position)
    desk.journal.release()
    for cursor in (quick, late, foreign, new):
        assert kinds(take_all(cursor)) == ["TurnEnded", "InputAdmitted"]
    assert desk.journal.snapshot() == desk.journal.state == fold(desk.journal.events())


def test_a_held_event_may_be_replaced() -> None:
    desk = HookRunner()
    desk.end_step()
    cursor = follow(desk.journal)
    ended = desk.turn.close(ENDED)
    told = attrs.evolve(ended, result=attrs.evolve(ended.result, durable=False))
    desk.journal.append(
        InputAdmitted(input_id=InputId("i"), mode="queue", message=UserMessage(id=MessageId("u"), parts=()))
    )
    desk.journal.release(told)
    assert take_all(cursor)[0] == told
    assert desk.journal.events()[-2] == told
    assert desk.journal.state == fold(desk.journal.events())
    assert desk.journal.state.last_result == told.result
    assert len(desk.journal.state.inbox) == 1


def test_replaced_end_keeps_the_ending_of_the_next_turn() -> None:
    book = HookRunner()
    book.end_step()
    held = book.turn.close(ENDED)
    turn = book.start_turn("t2")
    turn.append_live(TurnEnding(cause="user", detail="", until=2.0, after=book.journal.seq))
    book.journal.release(attrs.evolve(held, time=held.time + 1))
    state = book.journal.snapshot()
    assert state.turn is not None
    assert state.turn.ending is not None


def test_release_without_a_hold_does_nothing() -> None:
    desk = HookRunner()
    before = desk.journal.state
    desk.journal.release()
    desk.journal.release(desk.journal.events()[-1])
    assert desk.journal.state == before


def test_childs_held_end_reaches_parent_on_release() -> None:
    desk = HookRunner()
    child = new_journal(session_id="c", parent=desk.journal, wall=desk.wall)
    cursor = follow(desk.journal)
    turn = TurnJournal(child, TurnId("ct"))
    turn.append(TurnStarted())
    turn.close(ENDED)
    assert kinds(take_all(cursor)) == ["TurnStarted"]
    desk.notices(1)
    child.release()
    assert kinds(take_all(cursor)) == ["Notice", "TurnEnded"]
    behind = follow(desk.journal, 4)
    assert kinds(take_all(behind)) == ["TurnStarted", "Notice", "TurnEnded"]


def test_grandchild_events_behind_held_end_have_no_gap() -> None:
    """A reader that caught up during the hold must not go on from the tail: deltas that it never saw are behind it."""
    desk = HookRunner()
    child = new_journal(session_id="c", parent=desk.journal, wall=desk.wall)
    grandchild = new_journal(session_id="g", parent=child, wall=desk.wall)
    reader = Reader.of(desk.journal, follow(desk.journal, 0), SessionState())
    above = TurnJournal(child, TurnId("ct"))
    above.append(TurnStarted())
    below = TurnJournal(grandchild, TurnId("gt"))
    for event in (
        TurnStarted(),
        StepStarted(step=1, attempt=1, message_id=MESSAGE, model="m"),
        PartStarted(message_id=MESSAGE, part_id=PartId("gp"), kind="text"),
    ):
        below.append(event)
    for _ in range(20):  # out of the ring
        below.append_delta(PartId("gp"), "ab", 0.0)
    above.close(ENDED)
    below.append_delta(PartId("gp"), "cd", 0.0)
    reader.drain()
    below.append_delta(PartId("gp"), "ef", 0.0)
    child.release()
    reader.drain()
    assert reader.texts[PartId("gp")] == "ab" * 20 + "cdef"


def test_snapshot_holds_nothing_behind_a_held_end() -> None:
    desk = HookRunner()
    child = new_journal(session_id="c", parent=desk.journal, wall=desk.wall)
    child.append(SessionCreated(context=SharedContext(cwd="/"), model="m"))
    below = TurnJournal(child, TurnId("ct"))
    below.append(TurnStarted())
    below.append(StepStarted(step=1, attempt=1, message_id=MESSAGE, model="m"))
    below.append(PartStarted(message_id=MESSAGE, part_id=PartId("cp"), kind="text"))
    below.append_delta(PartId("cp"), "ab", 0.0)
    desk.end_step()
    before = follow(desk.journal).snapshot()
    desk.turn.close(ENDED)
    below.append_delta(PartId("cp"), "cd", 0.0)
    below.append(Notice(level="info", code="1", text=""))
    reader = Reader.of(desk.journal, follow(desk.journal, 0), SessionState())
    found = reader.cursor.snapshot()
    assert found == before
    reader.adopt(found)
    again = follow(desk.journal, found.position)
    desk.journal.release()
    reader.drain()
    assert reader.others == {child.session_id: child.snapshot()}
    assert reader.texts[PartId("cp")] == "abcd"
    assert kinds(take_all(again)) == ["TurnEnded", "Notice", "TextDelta"]


def test_position_covers_exactly_what_was_returned() -> None:
    """It ran ahead: to the end of what a reader that had fallen behind was about to be told."""
    desk = HookRunner()
    desk.grow("ab", 10)
    first = follow(desk.journal, 0)
    told = [first.try_next() for _ in range(2)]
    second = follow(desk.journal, first.position)
    told += take_all(second)
    assert kinds([entry for entry in told if entry is not None]) == [
        "SessionCreated",
        "TurnStarted",
        "StepStarted",
        "PartStarted",
        "TextDelta",
    ]


def test_position_separates_parent_and_child_events() -> None:
    desk = HookRunner()
    child = new_journal(session_id="c", parent=desk.journal, wall=desk.wall)
    cursor = follow(desk.journal)
    for number in range(6):
        child.append(Notice(level="info", code=str(number), text=""))
    assert len([cursor.try_next() for _ in range(2)]) == 2
    again = follow(desk.journal, cursor.position)
    assert [entry.seq for entry in take_all(again) if isinstance(entry, Notice)] == [3, 4, 5, 6]
    assert dict(again.position.children) == {"c": 6}
    desk.notices(1)
    take_all(again)
    assert again.position.seq == 5
    assert dict(again.position.children) == {}, "it does not grow with the children there ever were"


@pytest.mark.parametrize("after", [-1, 5, Position(epoch="x", seq=2), Position(epoch="e", seq=5)])
def test_a_cursor_from_nowhere_begins_with_one_resync(after: int | Position) -> None:
    desk = HookRunner()
    desk.grow("ab")
    cursor = follow(desk.journal, after)
    assert take_all(cursor) == [
        Resync(
            session_id=SessionId("s"),
            epoch="e",
            seq=4,
            state=desk.journal.snapshot(),
            position=Position(session_id=SessionId("s"), epoch="e", seq=4, offsets=((PartId("p"), 2),)),
        ),
    ]
    turn = desk.journal.snapshot().turn
    assert turn is not None
    assert turn.step is not None
    assert turn.step.parts == (OpenPart(part_id=PartId("p"), kind="text", text="ab"),)
    desk.grow("cd")
    assert [(e.offset, e.text) for e in take_all(cursor) if isinstance(e, TextDelta)] == [(2, "cd")]


def test_journal_continues_the_stored_events() -> None:
    desk = HookRunner()
    desk.end_step()
    desk.turn.append(ENDED)
    again = new_journal()
    again.restore(desk.journal.events())
    assert again.state == desk.journal.state
    assert take_all(follow(again, 0)) == list(desk.journal.events())
    assert take_all(follow(again)) == []
    assert again.append(TurnStarted(), turn_id=TurnId("t2")).seq == desk.journal.seq + 1
    assert kinds(take_all(follow(again, desk.journal.seq))) == ["TurnStarted"]


def test_journal_knows_the_stored_inputs() -> None:
    journal = new_journal()
    said = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("u1"), text="wire"),), display="shown")
    journal.append(SessionCreated(context=SharedContext(cwd="/"), model="m"))
    journal.append(InputAdmitted(input_id=InputId("i"), mode="steer", message=said))
    again = new_journal()
    again.restore(journal.events())
    assert again.admitted(InputId("i")) == journal.admitted(InputId("i")) is not None
    assert again.admitted(InputId("another")) is None


def test_events_with_a_gap_are_refused() -> None:
    events = HookRunner().journal.events()
    with pytest.raises(JournalCorrupt, match="event 3 of session s follows 1: a gap"):
        new_journal().restore([*events[:1], *events[2:]])


def test_inconsistent_event_changes_nothing() -> None:
    desk = HookRunner()
    cursor = follow(desk.journal)
    before = desk.journal.events(), desk.journal.snapshot()
    for event in (TurnStarted(), ENDED, CallStarted(call_id=CallId("c"))):
        with pytest.raises(JournalCorrupt):
            desk.turn.append(event)
    with pytest.raises(JournalCorrupt):
        desk.journal.append(ENDED, turn_id=TurnId("t"), held=True)
    assert (desk.journal.events(), desk.journal.snapshot()) == before
    desk.notices(1)
    assert kinds(take_all(cursor)) == ["Notice"]


class Refusing(MemoryStore):
    """A store that takes no step."""

    def put(self, event: Durable) -> None:
        if isinstance(event, (StepStarted, StepEnded)):
            raise OSError("the disk is gone")
        super().put(event)


def test_event_refused_by_the_store_still_counts() -> None:
    """Half an append would leave a turn that can't end; that it is not durable is noted, once."""
    journal = attrs.evolve(new_journal(), store=Refusing(epoch="e"))
    cursor = follow(journal, 0)
    turn = TurnJournal(journal, TurnId("t"))
    turn.append(TurnStarted())
    refusals = [journal.refused]
    turn.append(StepStarted(step=1, attempt=1, message_id=MESSAGE, model="m"))
    refusals.append(journal.refused)
    turn.append(
        StepEnded(step=1, message_id=MESSAGE, results_id=MessageId("r"), finish="stop", usage=Usage(), cost=0.0)
    )
    turn.append(ENDED)
    assert [str(refused) for refused in refusals] == ["None", "the disk is gone"]
    assert journal.refused is refusals[-1]
    assert kinds(take_all(cursor)) == ["TurnStarted", "StepStarted", "StepEnded", "TurnEnded"]
    assert journal.state == fold(journal.events())


def test_closed_turn_counts_dropped_events() -> None:
    desk = HookRunner()
    desk.end_step()
    desk.turn.close(ENDED)
    desk.journal.release()
    before = desk.journal.events()
    cursor = follow(desk.journal)
    desk.notices(2)
    desk.turn.append_live(CallProgress(call_id=CallId("c"), message="still here"))
    desk.grow("late")
    assert desk.turn.dropped == 4
    assert desk.journal.events() == before
    assert take_all(cursor) == []


def test_live_events_carry_their_session_and_no_number() -> None:
    desk = HookRunner()
    cursor = follow(desk.journal)
    desk.turn.append_live(CallProgress(call_id=CallId("c"), message="half"))
    assert take_all(cursor) == [
        CallProgress(
            session_id=SessionId("s"),
            turn_id=TurnId("t"),
            path=(SessionId("s"),),
            time=desk.wall.time,
            call_id=CallId("c"),
            message="half",
        )
    ]


def test_unread_journal_has_bounded_memory() -> None:
    desk = HookRunner()
    desk.grow("a", 10_000)
    assert len(desk.journal._tail) <= 2 * desk.journal._ring


# -- waiting ----------------------------------------------------------------------------------------


async def read_until(cursor: Cursor, last: type[Entry], found: list[Entry]) -> None:
    async for entry in cursor:
        found.append(entry)
        if isinstance(entry, last):
            return


async def test_readers_that_wait_are_woken(autojump_clock: trio.testing.MockClock) -> None:
    desk = HookRunner()
    found: list[list[Entry]] = [[] for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for entries in found:
            nursery.start_soon(read_until, follow(desk.journal), TurnEnded, entries)
        await trio.testing.wait_all_tasks_blocked()
        desk.grow("ab")
        await trio.testing.wait_all_tasks_blocked()
        assert [kinds(entries) for entries in found] == [["TextDelta"]] * 3
        desk.end_step()
        desk.turn.close(ENDED)
        await trio.testing.wait_all_tasks_blocked()
        assert [kinds(entries) for entries in found] == [["TextDelta", "PartEnded", "StepEnded"]] * 3
        desk.journal.release()
    assert [kinds(entries)[-1] for entries in found] == ["TurnEnded"] * 3


async def test_who_waits_for_the_record_sleeps_through_deltas(autojump_clock: trio.testing.MockClock) -> None:
    book = HookRunner()
    cursor = follow(book.journal)
    woken = trio.Event()

    async def wait() -> None:
        assert await cursor.wait(durable=True)
        woken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        book.grow("ab", 20)
        await trio.testing.wait_all_tasks_blocked()
        assert await cursor.wait()
        assert not woken.is_set()
        book.notices(1)
        await woken.wait()
    assert sorted(kinds(take_all(cursor))) == ["Notice", "TextDelta"]
    book.journal.close()
    assert not await cursor.wait(durable=True)
    assert not await cursor.wait()


async def test_a_closed_journal_ends_its_readers(autojump_clock: trio.testing.MockClock) -> None:
    """Who waits is told at once, who is slow when it has seen all there is."""
    desk = HookRunner()
    slow = follow(desk.journal, 0)
    found: list[list[Entry]] = [[], []]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_until, follow(desk.journal), TurnEnded, found[0])
        await trio.testing.wait_all_tasks_blocked()
        desk.notices(20)
        desk.journal.close()
    await read_until(slow, TurnEnded, found[1])
    assert found[0] == found[1][4:] == list(desk.journal.events()[4:])


async def test_child_event_wakes_a_reader_of_the_parent(autojump_clock: trio.testing.MockClock) -> None:
    desk = HookRunner()
    child = new_journal(session_id="c", parent=desk.journal)
    found: list[Entry] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_until, follow(desk.journal), Notice, found)
        await trio.testing.wait_all_tasks_blocked()
        child.append(Notice(level="info", code="", text=""))
    assert [entry.session_id for entry in found] == ["c"]


async def test_cancel_together_with_an_event_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """The event is appended while the reader is parked, and its scope is cancelled in the same breath."""
    desk = HookRunner()
    for order in ("event first", "cancel first"):
        cursor = follow(desk.journal)
        found: list[Entry] = []
        scope = trio.CancelScope()

        async def read(scope: trio.CancelScope, cursor: Cursor, found: list[Entry]) -> None:
            with scope:
                found.append(await cursor.__anext__())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, scope, cursor, found)
            await trio.testing.wait_all_tasks_blocked()
            if order == "event first":
                desk.notices(1)
            scope.cancel()
            if order == "cancel first":
                desk.notices(1)
        assert kinds([*found, *take_all(cursor)]) == ["Notice"]


async def test_a_reader_lets_others_run(autojump_clock: trio.testing.MockClock) -> None:
    desk = HookRunner()
    desk.notices(3 * REFILL)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await trio.lowlevel.checkpoint()
        cursor = follow(desk.journal, 0)
        for _ in range(3 * REFILL):
            await cursor.__anext__()
        nursery.cancel_scope.cancel()
    assert 2 <= turns <= 10


@pytest.mark.parametrize("seed", range(5))
def test_repeatedly_cancelled_reader_loses_nothing(seed: int) -> None:
    """Cancelled at any scheduler step: while it parks, at a refill, or with an event there for it."""
    draw = random.Random(seed)
    desk = HookRunner()
    found: list[Entry] = []
    total = 2_000

    async def write(scopes: list[trio.CancelScope]) -> None:
        written = 0
        while written < total:
            count = draw.choice((1, 2, 700))
            desk.notices(min(count, total - written))
            written += count
            for _ in range(draw.randrange(3)):
                await trio.lowlevel.checkpoint()
            scopes[-1].cancel()
            for _ in range(draw.randrange(3)):
                await trio.lowlevel.checkpoint()

    async def main() -> None:
        cursor = follow(desk.journal)
        scopes = [trio.CancelScope()]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, scopes)
            while len(found) < total:
                with scopes[-1]:
                    while len(found) < total:
                        found.append(await cursor.__anext__())
                scopes.append(trio.CancelScope())
        assert len(scopes) > 5

    trio.run(main)
    assert [entry.seq for entry in found if isinstance(entry, Notice)] == list(range(5, 5 + total))


async def test_cancelled_reader_raises_despite_available_events(autojump_clock: trio.testing.MockClock) -> None:
    desk = HookRunner()
    cursor = follow(desk.journal, 0)
    with trio.CancelScope() as scope:
        scope.cancel()
        await cursor.__anext__()
        raise AssertionError("it was not told")
    assert len(take_all(cursor)) == 4
