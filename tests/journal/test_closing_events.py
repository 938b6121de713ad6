"""Recovery: a journal that stops anywhere is brought to its end, and nothing is run again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import (
    CallAnnounced,
    CallDelivered,
    CallQueued,
    CallSettled,
    CallStarted,
    Durable,
    During,
    Live,
    PartDiscarded,
    PartEnded,
    PartKind,
    PartStarted,
    PermissionAnswered,
    PermissionAsked,
    SessionCreated,
    SharedContext,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResult,
    TurnResumed,
    TurnStarted,
)
from engine.core.ids import CallId, MessageId, PartId, RequestId, TurnId
from engine.core.messages import CallPart, ReasoningPart, Settlement, TextPart, Usage
from engine.journal.closing_events import CRASHED, closing_events
from engine.journal.codec import decode_event, encode_event
from engine.journal.cursors import follow
from engine.journal.fold import fold
from engine.journal.log import Journal
from engine.journal.state import Idle, Resync, SessionState
from engine.testing.invariants import check_events, check_transcript
from tests.support.scribe import Scribe, Wall, new_journal

T = TurnId("t")
M = MessageId("m")
R = MessageId("r")
C = CallId("c")
NOT_EXECUTED = Settlement(
    status="aborted",
    reason="not_executed",
    text="Not executed: the engine's process ended before it could start. The tool itself is fine.",
)
INTERRUPTED = Settlement(
    status="aborted",
    reason="interrupted_by_crash",
    outcome_unknown=True,
    text="Interrupted: the engine's process ended while this ran. What it did is not known; check before running it "
    "again.",
)
DONE = Settlement(status="completed", text="done")

# -- what is left open, and what closes it ----------------------------------------------------------

BEGUN: tuple[Durable | Live, ...] = (
    SessionCreated(context=SharedContext(cwd="/"), model="m"),
    TurnStarted(turn_id=T),
)
STEP: tuple[Durable | Live, ...] = (*BEGUN, StepStarted(turn_id=T, step=1, attempt=1, message_id=M, model="model"))
CALL: tuple[Durable | Live, ...] = (
    *STEP,
    PartStarted(turn_id=T, message_id=M, part_id=PartId("p"), kind="call"),
    CallAnnounced(turn_id=T, call_id=C, message_id=M, part_id=PartId("p"), tool="read"),
)
WHOLE: tuple[Durable | Live, ...] = (
    *CALL,
    PartEnded(turn_id=T, message_id=M, part=CallPart(id=PartId("p"), call_id=C, tool="read", arguments="{}")),
)
QUEUED: tuple[Durable | Live, ...] = (*WHOLE, CallQueued(turn_id=T, call_id=C, tool="read", arguments="{}"))
RUNNING: tuple[Durable | Live, ...] = (*QUEUED, CallStarted(turn_id=T, call_id=C))
SETTLED: tuple[Durable | Live, ...] = (*RUNNING, CallSettled(turn_id=T, call_id=C, settlement=DONE))
DELIVERED: tuple[Durable | Live, ...] = (*SETTLED, CallDelivered(turn_id=T, call_id=C))


def opened(kind: PartKind, text: str = "") -> tuple[Durable | Live, ...]:
    started = PartStarted(turn_id=T, message_id=M, part_id=PartId("p"), kind=kind)
    grown = TextDelta(turn_id=T, message_id=M, part_id=PartId("p"), after=0, offset=0, text=text)
    return (*STEP, started, grown)


def asked(*names: str) -> list[Durable | Live]:
    return [
        PermissionAsked(turn_id=T, request_id=RequestId(name), call_id=C, tool="t", permission="p", patterns=())
        for name in names
    ]


STEP_ENDED = StepEnded(step=1, message_id=M, results_id=R, finish=None, usage=Usage(), cost=0.0)


def turn_ended(steps: int = 1) -> TurnEnded:
    during: During = "tools" if steps else "waiting"
    return TurnEnded(result=TurnResult(stop_reason="aborted", during=during, detail=CRASHED, steps=steps))


def settled(settlement: Settlement) -> CallSettled:
    return CallSettled(call_id=C, settlement=settlement)


HANDED = CallDelivered(call_id=C)


@pytest.mark.parametrize(
    ("events", "closing"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(BEGUN[:1], [], id="an idle session"),
        pytest.param(BEGUN, [turn_ended(0)], id="a turn without a step"),
        pytest.param(STEP, [STEP_ENDED, turn_ended()], id="an empty step"),
        pytest.param(
            opened("text", "so far"),
            [PartEnded(message_id=M, part=TextPart(id=PartId("p"), text="so far")), STEP_ENDED, turn_ended()],
            id="open text",
        ),
        pytest.param(
            opened("reasoning", "hm"),
            [
                PartEnded(message_id=M, part=ReasoningPart(id=PartId("p"), text="hm", model="model")),
                STEP_ENDED,
                turn_ended(),
            ],
            id="an open thought",
        ),
        *[
            pytest.param(
                opened(kind),
                [
                    PartDiscarded(message_id=M, part_id=PartId("p"), reason="failed"),
                    STEP_ENDED,
                    turn_ended(),
                ],
                id=f"an empty {kind} part",
            )
            for kind in ("text", "reasoning", "provider", "call")
        ],
        pytest.param(
            [*CALL, TextDelta(turn_id=T, message_id=M, part_id=PartId("p"), after=0, offset=0, text='{"a')],
            [
                PartEnded(
                    message_id=M,
                    part=CallPart(id=PartId("p"), call_id=C, tool="read", arguments='{"a', complete=False),
                ),
                settled(NOT_EXECUTED),
                HANDED,
                STEP_ENDED,
                turn_ended(),
            ],
            id="a call that was being received",
        ),
        pytest.param(WHOLE, [settled(NOT_EXECUTED), HANDED, STEP_ENDED, turn_ended()], id="a call that was received"),
        pytest.param(QUEUED, [settled(NOT_EXECUTED), HANDED, STEP_ENDED, turn_ended()], id="a queued call"),
        pytest.param(RUNNING, [settled(INTERRUPTED), HANDED, STEP_ENDED, turn_ended()], id="a running call"),
        pytest.param(SETTLED, [HANDED, STEP_ENDED, turn_ended()], id="a settled call"),
        pytest.param(DELIVERED, [STEP_ENDED, turn_ended()], id="a delivered call"),
        pytest.param(
            [*RUNNING, *asked("a", "b")],
            [
                PermissionAnswered(request_id=RequestId("a"), answer="withdrawn"),
                PermissionAnswered(request_id=RequestId("b"), answer="withdrawn"),
                settled(INTERRUPTED),
                HANDED,
                STEP_ENDED,
                turn_ended(),
            ],
            id="open questions",
        ),
    ],
)
def test_open_state_is_closed(events: Sequence[Durable | Live], closing: list[Durable]) -> None:
    assert closing_events(fold(events), R) == closing


# -- every prefix ---------------------------------------------------------------------------------------


def history(seed: int, moves: int) -> tuple[Durable, ...]:
    """A journal as the engine may leave it behind."""
    wall = Wall()
    scribe = Scribe(new_journal(wall=wall), wall, whims=False)
    draw = random.Random(seed).randrange
    for _ in range(moves):
        scribe.move(draw)
    return scribe.journal.events()


def recovered(events: Sequence[Durable]) -> Journal:
    """Open a session as the service does, from what a store would give."""
    journal = new_journal()
    journal.restore([decode_event(encode_event(event)) for event in events])  # type: ignore[misc]  # all durable
    turn = journal.state.turn
    for event in closing_events(journal.state, MessageId("results")):
        journal.append(event, turn_id=None if turn is None else turn.turn_id)
    return journal


def seen(journal: Journal) -> list[Durable | Live]:
    found: list[Durable | Live] = []
    cursor = follow(journal, 0)
    while (entry := cursor.try_next()) is not None:
        assert not isinstance(entry, Resync)
        found.append(entry)
    return found


def check(journal: Journal, before: SessionState) -> None:
    state = journal.state
    assert state.status == Idle()
    assert state.turn is None
    assert fold(journal.events()) == state == journal.snapshot()
    assert check_transcript(state.transcript) == []
    assert check_events(seen(journal)) == []
    assert closing_events(state, R) == []
    # It ends what was open and touches nothing else.
    assert state.transcript[: len(before.transcript)] == before.transcript[:]
    assert (state.inbox, state.context) == (before.inbox, before.context)
    assert state.turns == before.turns + (before.turn is not None)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), moves=st.integers(1, 80))
def test_every_prefix_of_a_journal_can_be_recovered(seed: int, moves: int) -> None:
    events = history(seed, moves)
    for length in range(1, len(events) + 1):
        before = fold(events[:length])
        journal = recovered(events[:length])
        check(journal, before)
        after = journal.events()[length:]
        assert not any(isinstance(event, (CallStarted, CallQueued, StepStarted, PartStarted)) for event in after)
        assert [type(event) for event in after].count(TurnEnded) == (before.turn is not None)


@given(seed=st.integers(0, 2**32), moves=st.integers(1, 80))
def test_a_settlement_that_was_reached_is_kept(seed: int, moves: int) -> None:
    events = history(seed, moves)
    reached = {event.call_id: event.settlement for event in events if isinstance(event, CallSettled)}
    journal = recovered(events)
    told = [event for event in journal.events() if isinstance(event, CallSettled)]
    assert len({event.call_id for event in told}) == len(told)
    for event in told:
        # What waited inside its tool when a turn went on is queued again.
        resumed = max((index for index, e in enumerate(events) if isinstance(e, TurnResumed)), default=0)
        since = events[resumed:] if event.call_id not in reached else events
        started = any(isinstance(e, CallStarted) and e.call_id == event.call_id for e in since)
        assert event.settlement == reached.get(event.call_id, INTERRUPTED if started else NOT_EXECUTED)


@given(seed=st.integers(0, 2**32), moves=st.integers(1, 80))
def test_the_text_that_was_received_is_kept(seed: int, moves: int) -> None:
    """With the deltas at hand (a store saves them now and then), what is open keeps its text."""
    wall = Wall()
    scribe = Scribe(new_journal(wall=wall, ring=1_000), wall, whims=False)
    draw = random.Random(seed).randrange
    for _ in range(moves):
        scribe.move(draw)
    journal = scribe.journal
    journal.release()
    before = journal.snapshot()
    open_texts: dict[PartId, str] = {}
    if before.turn is not None and before.turn.step is not None:
        open_texts = {part.part_id: part.text for part in before.turn.step.parts if part.part is None and part.text}
    for event in closing_events(before, MessageId("results")):
        journal.append(event, turn_id=None if before.turn is None else before.turn.turn_id)
    check(journal, before)
    ended = {event.part.id: event.part for event in journal.events() if isinstance(event, PartEnded)}
    for part_id, text in open_texts.items():
        part = ended[part_id]
        assert isinstance(part, (TextPart, ReasoningPart, CallPart))
        assert text == (part.arguments if isinstance(part, CallPart) else part.text)
