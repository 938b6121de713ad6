"""The fold: what each event makes of a session, and what it refuses."""

from __future__ import annotations

import random

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import JournalCorrupt
from engine.core.events import (
    ArgumentsDelta,
    CallAnnounced,
    CallChanged,
    CallDelivered,
    CallHeartbeat,
    CallJudged,
    CallProgress,
    CallQueued,
    CallSettled,
    CallStarted,
    ContextChanged,
    DoomDetected,
    Durable,
    HistoryReplaced,
    InputAdmitted,
    InputPromoted,
    Live,
    LoopContinued,
    Notice,
    NudgeAdded,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    PermissionAnswered,
    PermissionAsked,
    PromptBlocked,
    ReasoningDelta,
    RetryScheduled,
    SessionCreated,
    SharedContext,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResult,
    TurnStarted,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    Usage,
    UserMessage,
)
from engine.journal.codec import decode_event, encode_event
from engine.journal.cursors import follow
from engine.journal.fold import apply, fold
from engine.journal.state import (
    Busy,
    CountedRequest,
    Idle,
    OpenCall,
    OpenPart,
    OpenStep,
    OpenTurn,
    PendingInput,
    Retry,
    SessionState,
    Status,
    Waiting,
    copy_with,
)
from tests.support.scribe import Scribe, Wall, new_journal

T = TurnId("t")
M = MessageId("m")
P, P2 = PartId("p"), PartId("p2")
C, C2 = CallId("c"), CallId("c2")
USER = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("u1"), text="do it"),))
DONE = Settlement(status="completed", text="done")

TURN_STARTED = TurnStarted(turn_id=T)
STEP_STARTED = StepStarted(turn_id=T, step=1, attempt=1, message_id=M, model="model")
TEXT_STARTED = PartStarted(turn_id=T, message_id=M, part_id=P, kind="text")

# Each is a history that goes on from the one before.
TURN: tuple[Durable, ...] = (TURN_STARTED,)
STEP: tuple[Durable, ...] = (*TURN, STEP_STARTED)
TEXT: tuple[Durable, ...] = (*STEP, TEXT_STARTED)
CALL: tuple[Durable, ...] = (
    *STEP,
    PartStarted(turn_id=T, message_id=M, part_id=P, kind="call"),
    CallAnnounced(turn_id=T, call_id=C, message_id=M, part_id=P, tool=""),
)
CALL_PART = CallPart(id=P, call_id=C, tool="read", arguments="{}")
QUEUED: tuple[Durable, ...] = (
    *CALL,
    PartEnded(turn_id=T, message_id=M, part=CALL_PART),
    CallQueued(turn_id=T, call_id=C, tool="read", arguments="{}"),
)
RUNNING: tuple[Durable, ...] = (*QUEUED, CallStarted(turn_id=T, call_id=C))
SETTLED: tuple[Durable, ...] = (*RUNNING, CallSettled(turn_id=T, call_id=C, settlement=DONE))
DELIVERED: tuple[Durable, ...] = (*SETTLED, CallDelivered(turn_id=T, call_id=C))
RESULT = TurnResult(stop_reason="completed", text="hi")


def step_ended(*, kept: bool = True, message_id: MessageId = M) -> StepEnded:
    return StepEnded(
        turn_id=T,
        step=1,
        message_id=message_id,
        results_id=MessageId("r"),
        finish="stop",
        usage=Usage(input=3, output=4),
        cost=0.5,
        kept=kept,
    )


def text_ended(text: str) -> PartEnded:
    return PartEnded(turn_id=T, message_id=M, part=TextPart(id=P, text=text))


def delta(offset: int, text: str, part_id: PartId = P) -> TextDelta:
    return TextDelta(turn_id=T, message_id=M, part_id=part_id, after=3, offset=offset, text=text)


def asked(name: str) -> PermissionAsked:
    return PermissionAsked(turn_id=T, request_id=RequestId(name), call_id=C, tool="t", permission="p", patterns=())


def answered(name: str) -> PermissionAnswered:
    return PermissionAnswered(turn_id=T, request_id=RequestId(name), answer="once")


def step_of(*events: Durable | Live) -> OpenStep:
    turn = fold(events).turn
    assert turn is not None
    assert turn.step is not None
    return turn.step


# -- what each event makes ------------------------------------------------------------------------


def test_state_copy_refuses_unknown_fields() -> None:
    before = SessionState()
    assert copy_with(before, seq=1) == SessionState(seq=1)
    assert before == SessionState()
    with pytest.raises(AssertionError, match="SessionState: one of number"):
        copy_with(before, number=1)


def test_a_session_begins() -> None:
    created = SessionCreated(
        session_id=SessionId("s"), seq=1, context=SharedContext(cwd="/home"), model="m", parent_id=SessionId("above")
    )
    assert fold([]) == SessionState()
    assert fold([created]) == SessionState(
        session_id=SessionId("s"), seq=1, model="m", parent_id=SessionId("above"), context=SharedContext(cwd="/home")
    )


def test_input_waits_and_then_has_its_place() -> None:
    other = attrs.evolve(USER, id=MessageId("u2"))
    admitted: list[Durable] = [
        InputAdmitted(input_id=InputId("i"), mode="steer", message=USER),
        InputAdmitted(input_id=InputId("j"), mode="queue", message=other),
    ]
    first = PendingInput(input_id=InputId("i"), mode="steer", message=USER)
    second = PendingInput(input_id=InputId("j"), mode="queue", message=other)
    assert fold(admitted) == SessionState(inbox=(first, second))
    promoted = fold([*admitted, InputPromoted(input_id=InputId("j"))])
    assert promoted == SessionState(inbox=(first,), transcript=Transcript([other]))


def test_a_nudge_is_in_the_transcript_at_once() -> None:
    assert fold([NudgeAdded(message=USER)]).transcript == Transcript([USER])


@pytest.mark.parametrize(("taken", "left", "reasoning_from"), [("a", "bc", 1), ("b", "ac", 1), ("c", "ab", 2)])
def test_blocked_prompt_is_removed(taken: str, left: str, reasoning_from: int) -> None:
    """Of the rest, what was rejected before stays rejected."""
    said = {name: attrs.evolve(USER, id=MessageId(name)) for name in "abc"}
    state = attrs.evolve(fold([NudgeAdded(message=message) for message in said.values()]), reasoning_from=2)
    blocked = apply(state, PromptBlocked(message_id=MessageId(taken), source="a hook", reason=""))
    assert blocked == SessionState(transcript=Transcript([said[name] for name in left]), reasoning_from=reasoning_from)


def test_another_history_takes_the_place_of_the_old() -> None:
    kept = attrs.evolve(USER, id=MessageId("kept"))
    replaced = fold([NudgeAdded(message=USER), HistoryReplaced(kind="compact", messages=(kept,))])
    assert replaced == SessionState(transcript=Transcript([kept]))


def test_a_turn_from_its_start_to_its_end() -> None:
    events = [*TEXT, delta(0, "h"), delta(1, "i"), text_ended("hi"), step_ended()]
    said = AssistantMessage(id=M, parts=(TextPart(id=P, text="hi"),), model="model", finish="stop")
    assert fold(events) == SessionState(
        transcript=Transcript([said]),
        turn=OpenTurn(turn_id=T, steps=1),
        usage=Usage(input=3, output=4),
        cost=0.5,
        counted=CountedRequest(usage=Usage(input=3, output=4), messages=0),
    )
    ended = fold([*events, TurnEnded(turn_id=T, result=RESULT)])
    assert ended == SessionState(
        transcript=Transcript([said]),
        last_result=RESULT,
        turns=1,
        usage=Usage(input=3, output=4),
        cost=0.5,
        counted=CountedRequest(usage=Usage(input=3, output=4), messages=0),
    )


def test_discarded_step_leaves_no_messages() -> None:
    assert fold([*TEXT, text_ended("wrong"), step_ended(kept=False)]).transcript == Transcript()


def test_discarded_steps_count_in_usage() -> None:
    second = attrs.evolve(STEP_STARTED, step=2, attempt=2)
    state = fold([*STEP, step_ended(kept=False), second, step_ended()])
    assert (state.usage, state.cost) == (Usage(input=6, output=8), 1.0)


def test_an_open_message_grows() -> None:
    opened = OpenPart(part_id=P, kind="text")
    assert step_of(*TEXT) == OpenStep(step=1, attempt=1, message_id=M, model="model", parts=(opened,))
    grown = step_of(*TEXT, delta(0, "ab"), delta(2, "cd"))
    assert grown.parts == (OpenPart(part_id=P, kind="text", text="abcd"),)
    ended = step_of(*TEXT, delta(0, "ab"), text_ended("abc"))
    assert ended.parts == (OpenPart(part_id=P, kind="text", text="abc", part=TextPart(id=P, text="abc")),)


@pytest.mark.parametrize(
    "again", [delta(0, "ab"), delta(2, "cd"), delta(0, "abcd"), delta(1, "bc"), delta(4, "")], ids=lambda d: d.text
)
def test_repeated_delta_changes_nothing(again: TextDelta) -> None:
    events = [*TEXT, delta(0, "ab"), delta(2, "cd")]
    assert fold([*events, again]) == fold(events)


def test_every_kind_of_delta_grows_its_part() -> None:
    for kind in (TextDelta, ReasoningDelta, ArgumentsDelta):
        grown = step_of(*TEXT, kind(turn_id=T, message_id=M, part_id=P, after=3, offset=0, text="x"))
        assert [part.text for part in grown.parts] == ["x"]


def test_part_can_be_replaced() -> None:
    events = [*TEXT, delta(0, "wrong"), PartReplaced(turn_id=T, message_id=M, part_id=P), delta(0, "ri")]
    assert [part.text for part in step_of(*events).parts] == ["ri"]


def test_discarded_part_removes_its_call() -> None:
    discarded = PartDiscarded(turn_id=T, message_id=M, part_id=P, reason="failed")
    assert step_of(*CALL, discarded) == step_of(*STEP)
    assert step_of(*DELIVERED, discarded) == step_of(*STEP)
    assert fold([*DELIVERED, discarded, step_ended(kept=False)]).transcript == Transcript()


def test_a_call_goes_its_way() -> None:
    call = OpenCall(call_id=C, part_id=P, tool="", state="receiving")
    assert step_of(*CALL).calls == (call,)
    call = attrs.evolve(call, tool="read", arguments="{}", state="queued")
    assert step_of(*QUEUED).calls == (call,)
    call = attrs.evolve(call, state="running")
    assert step_of(*RUNNING).calls == (call,)
    call = attrs.evolve(call, state="settled", settlement=DONE)
    assert step_of(*SETTLED).calls == (call,)
    assert step_of(*DELIVERED).calls == (attrs.evolve(call, state="delivered"),)


def test_results_stand_behind_their_message_in_call_order() -> None:
    second: list[Durable] = [
        PartStarted(turn_id=T, message_id=M, part_id=P2, kind="call"),
        CallAnnounced(turn_id=T, call_id=C2, message_id=M, part_id=P2, tool="write"),
        PartEnded(turn_id=T, message_id=M, part=attrs.evolve(CALL_PART, id=P2, call_id=C2, tool="write")),
        CallQueued(turn_id=T, call_id=C2, tool="write", arguments="{}"),
    ]
    refused = Settlement(status="denied", text="no")
    events = [
        *QUEUED,
        *second,
        CallStarted(turn_id=T, call_id=C),
        CallSettled(turn_id=T, call_id=C2, settlement=refused),
        CallSettled(turn_id=T, call_id=C, settlement=DONE),
        CallDelivered(turn_id=T, call_id=C),
        CallDelivered(turn_id=T, call_id=C2),
        step_ended(),
    ]
    calls = (CALL_PART, attrs.evolve(CALL_PART, id=P2, call_id=C2, tool="write"))
    results = (
        CallResult(call_id=C, tool="read", settlement=DONE),
        CallResult(call_id=C2, tool="write", settlement=refused),
    )
    expected: list[Message] = [
        AssistantMessage(id=M, parts=calls, model="model", finish="stop"),
        ResultsMessage(id=MessageId("r"), results=results),
    ]
    assert fold(events).transcript == Transcript(expected)


def test_reasoning_alone_makes_no_message() -> None:
    thought = PartEnded(turn_id=T, message_id=M, part=ReasoningPart(id=P, text="hm"))
    assert fold([*TEXT, thought, step_ended()]).transcript == Transcript()
    assert fold([*STEP, step_ended()]).transcript == Transcript()


def test_latest_context_change_counts() -> None:
    before = SharedContext(cwd="/a").with_value("kept", "1").with_value("gone", "2").with_value("new", "3")
    after = SharedContext(cwd="/b").with_value("kept", "1").with_value("new", "4").with_value("more", "5")
    created = SessionCreated(context=before, model="m")
    changed = ContextChanged.of(C, before, after)
    assert (changed.values, changed.removed) == ((("more", "5"), ("new", "4")), ("gone",))
    assert fold([created, changed]).context == after
    assert after.without("more").get("more", "nothing") == "nothing"


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([], Idle()),
        (TURN, Busy(0)),
        (STEP, Busy(1)),
        ([*STEP, step_ended()], Busy(1)),
        ([*TURN, RetryScheduled(turn_id=T, attempt=2, message="busy", next_at=9.0)], Retry(2, "busy", 9.0)),
        ([*TURN, RetryScheduled(turn_id=T, attempt=2, message="busy", next_at=9.0), STEP_STARTED], Busy(1)),
        ([*STEP, asked("a")], Waiting((RequestId("a"),))),
        ([*STEP, asked("a"), asked("b")], Waiting((RequestId("a"), RequestId("b")))),
        ([*STEP, asked("a"), asked("b"), answered("a")], Waiting((RequestId("b"),))),
        ([*STEP, asked("a"), answered("a")], Busy(1)),
        ([*TURN, TurnEnded(turn_id=T, result=RESULT)], Idle()),
    ],
)
def test_the_status(events: list[Durable], status: Status) -> None:
    assert fold(events).status == status


@pytest.mark.parametrize(
    "event",
    [
        Notice(level="info", code="c", text="t"),
        DoomDetected(kind="repeat", action="nudge", detail=""),
        LoopContinued(turn_id=T, reason="next_step", step=1),
        CallJudged(turn_id=T, call_id=C, verdict="ask", source="a rule"),
        CallChanged(turn_id=T, call_id=C, kind="result", text="", source="a hook"),
        CallProgress(turn_id=T, call_id=C, message="half"),
        CallHeartbeat(turn_id=T, call_id=C, tool="t", elapsed=1.0, last_progress="", pending_inputs=0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_informational_events_change_nothing(event: Durable | Live) -> None:
    state = fold(RUNNING)
    assert apply(state, event) == state


def test_the_number_of_the_last_event_is_kept() -> None:
    events = [attrs.evolve(event, seq=number) for number, event in enumerate(RUNNING, 1)]
    assert fold(events) == attrs.evolve(fold(RUNNING), seq=len(RUNNING))


# -- what it refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([attrs.evolve(TURN_STARTED, seq=2)], "event 2 of session  follows 0: a gap"),
        ([attrs.evolve(TURN_STARTED, seq=1), attrs.evolve(STEP_STARTED, seq=1)], "event 1 of session  follows 1"),
        (
            [SessionCreated(session_id=SessionId("s"), context=SharedContext(cwd=""), model="")] * 2,
            "session s was created twice",
        ),
        (
            [SessionCreated(session_id=SessionId("s"), context=SharedContext(cwd=""), model=""), *TURN],
            "an event of session  came among those of s",
        ),
        ([InputAdmitted(input_id=InputId("i"), mode="queue", message=USER)] * 2, "input i was admitted twice"),
        ([InputPromoted(input_id=InputId("i"))], "input i was promoted but is not in the inbox"),
        ([PromptBlocked(message_id=M, source="", reason="")], "prompt m was taken back but is not in the transcript"),
        (
            [*TEXT, text_ended("hi"), step_ended(), PromptBlocked(message_id=M, source="", reason="")],
            "prompt m was taken back but is not in the transcript",
        ),
        ([TurnStarted()], "turn None begins"),
        ([*TURN, *TURN], "turn t begins inside another"),
        ([*TURN, TurnStarted(turn_id=TurnId("t2"))], "turn t2 begins inside another"),
        ([STEP_STARTED], "StepStarted of turn t came while that turn was not open"),
        ([*TURN, attrs.evolve(STEP_STARTED, turn_id=None)], "StepStarted of turn None came"),
        ([*STEP, attrs.evolve(STEP_STARTED, step=2)], "step 2 begins inside step 1"),
        ([*TURN, step_ended()], "StepEnded came while no step was open"),
        ([*STEP, step_ended(message_id=MessageId("x"))], "StepEnded of message x came while m was open"),
        ([TurnEnded(turn_id=T, result=RESULT)], "TurnEnded of turn t came while that turn was not open"),
        ([*STEP, TurnEnded(turn_id=T, result=RESULT)], "turn t ends with an open step"),
        ([*TURN, TEXT_STARTED], "PartStarted came while no step was open"),
        (
            [*STEP, attrs.evolve(TEXT_STARTED, message_id=MessageId("x"))],
            "PartStarted of message x came while m was open",
        ),
        ([*TEXT, TEXT_STARTED], "part p began twice"),
        ([*STEP, text_ended("x")], "PartEnded of part p came while that part was not open"),
        ([*TEXT, text_ended("x"), text_ended("x")], "PartEnded of part p came while that part was not open"),
        ([*STEP, PartReplaced(turn_id=T, message_id=M, part_id=P)], "PartReplaced of part p came"),
        ([*TEXT, text_ended("x"), PartReplaced(turn_id=T, message_id=M, part_id=P)], "PartReplaced of part p came"),
        (
            [*STEP, PartDiscarded(turn_id=T, message_id=M, part_id=P, reason="failed")],
            "part p was discarded but never began",
        ),
        ([*STEP, delta(0, "x")], "TextDelta of part p came while that part was not open"),
        ([*TEXT, text_ended("x"), delta(1, "y")], "TextDelta of part p came while that part was not open"),
        ([*TEXT, delta(0, "x"), delta(2, "z")], "a delta of part p begins at 2, but 1 came: a gap"),
        ([*TURN, delta(0, "x")], "TextDelta came while no step was open"),
        ([*STEP, CALL[3]], "CallAnnounced of part p came while that part was not open"),
        ([*CALL, CALL[3]], "call c was announced twice"),
        ([*STEP, CallStarted(turn_id=T, call_id=C)], "call c became running but was never announced"),
        ([*CALL, CallStarted(turn_id=T, call_id=C)], "call c became running while receiving"),
        ([*QUEUED, QUEUED[-1]], "call c became queued while queued"),
        ([*RUNNING, RUNNING[-1]], "call c became running while running"),
        ([*RUNNING, CallDelivered(turn_id=T, call_id=C)], "call c became delivered while running"),
        ([*SETTLED, SETTLED[-1]], "call c became settled while settled"),
        ([*SETTLED, CallStarted(turn_id=T, call_id=C)], "call c became running while settled"),
        ([*DELIVERED, DELIVERED[-1]], "call c became delivered while delivered"),
        ([*RUNNING, step_ended()], "a step was saved while call c was running"),
        ([*TURN, answered("a")], "question a was answered but is not open"),
        ([*TURN, asked("a"), answered("a"), answered("a")], "question a was answered but is not open"),
        ([asked("a")], "PermissionAsked of turn t came while that turn was not open"),
        ([RetryScheduled(turn_id=T, attempt=1, message="", next_at=0.0)], "RetryScheduled of turn t came"),
        ([LoopContinued(turn_id=T, reason="steered", step=1)], "LoopContinued of turn t came"),
    ],
)
def test_inconsistent_event_is_refused(events: list[Durable | Live], told: str) -> None:
    *before, last = events
    state = fold(before)
    copy = attrs.evolve(state)
    with pytest.raises(JournalCorrupt, match=told):
        apply(state, last)
    assert state == copy


# -- any valid history ---------------------------------------------------------------------------------


def history(seed: int, moves: int) -> list[Durable | Live]:
    """What a reader sees of a session into which a scribe has written."""
    wall = Wall()
    scribe = Scribe(new_journal(wall=wall), wall)
    cursor = follow(scribe.journal, 0)
    draw = random.Random(seed).randrange
    seen: list[Durable | Live] = []
    for _ in range(moves):
        scribe.move(draw)
        while (entry := cursor.try_next()) is not None:
            seen.append(entry)  # type: ignore[arg-type]  # it never fell behind: no resync
    return seen


HISTORIES = st.builds(history, st.integers(0, 2**32), st.integers(0, 120))


@given(events=HISTORIES, cut=st.integers(0, 200))
def test_folding_on_is_folding_it_all(events: list[Durable | Live], cut: int) -> None:
    assert fold(events[cut:], fold(events[:cut])) == fold(events)


@given(events=HISTORIES)
def test_live_events_only_add_text_and_ending(events: list[Durable | Live]) -> None:
    durable = fold([event for event in events if event.seq is not None])
    whole = fold(events)
    if whole.turn is not None:
        whole = attrs.evolve(whole, turn=attrs.evolve(whole.turn, ending=None))
    if whole.turn is None or whole.turn.step is None:
        assert durable == whole
    else:
        parts = tuple(part if part.part is not None else attrs.evolve(part, text="") for part in whole.turn.step.parts)
        step = attrs.evolve(whole.turn.step, parts=parts)
        assert durable == attrs.evolve(whole, turn=attrs.evolve(whole.turn, step=step))


@given(events=HISTORIES)
def test_fold_is_equal_after_json_round_trip(events: list[Durable | Live]) -> None:
    assert fold(decode_event(encode_event(event)) for event in events) == fold(events)


@given(events=HISTORIES, data=st.data())
def test_a_durable_event_that_is_missing_is_noticed(events: list[Durable | Live], data: st.DataObject) -> None:
    durable = [event for event in events if event.seq is not None]
    if len(durable) < 2:
        return
    gap = data.draw(st.integers(0, len(durable) - 2))
    with pytest.raises(JournalCorrupt):
        fold(durable[:gap] + durable[gap + 1 :])
    with pytest.raises(JournalCorrupt):
        fold([*durable[: gap + 1], *durable[gap:]])
