"""The fold of a turn's events: its steps, the message that is being written, its calls, and its open questions."""

from __future__ import annotations

from engine.core import events as ev
from engine.core.errors import JournalCorrupt
from engine.core.ids import CallId, PartId, RequestId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ReasoningPart,
    ResultsMessage,
    Settlement,
)
from engine.journal.state import (
    CallState,
    CountedRequest,
    OpenCall,
    OpenPart,
    OpenStep,
    OpenTurn,
    Received,
    Retry,
    SessionState,
    copy_with,
)

StepEvent = ev.TurnStarted | ev.TurnResumed | ev.StepStarted | ev.StepReceived | ev.StepEnded | ev.TurnEnded
PartEvent = ev.PartStarted | ev.PartEnded | ev.PartReplaced | ev.PartDiscarded
CallEvent = ev.CallAnnounced | ev.CallQueued | ev.CallStarted | ev.CallSettled | ev.CallDelivered
WaitEvent = (
    ev.PermissionAsked
    | ev.PermissionAnswered
    | ev.QuestionAsked
    | ev.QuestionAnswered
    | ev.RecoveryAsked
    | ev.RecoveryAnswered
    | ev.RetryScheduled
)
TurnEvent = StepEvent | PartEvent | CallEvent | WaitEvent | ev.LoopContinued

# From which states a call may reach a state. A journal in which a call skipped one is corrupt.
_PREVIOUS_STATES: dict[CallState, tuple[CallState, ...]] = {
    "queued": ("receiving",),
    "running": ("queued",),
    "settled": ("receiving", "queued", "running"),
    "delivered": ("settled",),
}


def apply_to_turn(state: SessionState, event: TurnEvent) -> SessionState:
    """Return *state* after an event of the open turn, or of one that opens. Raises `JournalCorrupt` if it can't follow."""
    if isinstance(event, PartEvent):
        return _with_step(state, _apply_to_message(_require_open_message(state, event), event))
    if isinstance(event, CallEvent):
        return _with_step(state, _apply_to_calls(_require_open_step(state, event), event))
    if isinstance(event, StepEvent):
        return _apply_to_steps(state, event)
    turn = require_open_turn(state, event)
    if isinstance(event, WaitEvent):
        return copy_with(state, turn=_apply_to_waiting(turn, event))
    if event.reason == "signature_retry":
        # The host refused the signatures of earlier reasoning: requests leave it out from here back.
        return copy_with(state, reasoning_from=len(state.transcript))
    return state


def apply_delta(state: SessionState, delta: ev.Delta) -> SessionState:
    """Return *state* with a delta at its offset, so that one which comes twice changes nothing."""
    step = _require_open_step(state, delta)
    part = _require_open_part(step, delta.part_id, delta)
    if delta.offset > len(part.text):
        raise JournalCorrupt(
            f"a delta of part {part.part_id} begins at {delta.offset}, but {len(part.text)} came: a gap"
        )
    text = part.text[: delta.offset] + delta.text + part.text[delta.offset + len(delta.text) :]
    return _with_step(state, _with_part(step, copy_with(part, text=text)))


def note_ending(state: SessionState, event: ev.TurnEnding) -> SessionState:
    """Return *state* with why the open turn ends."""
    ending = ev.Ending(cause=event.cause, detail=event.detail, until=event.until, by=event.by, at=event.time)
    return copy_with(state, turn=copy_with(require_open_turn(state, event), ending=ending))


def _apply_to_steps(state: SessionState, event: StepEvent) -> SessionState:
    match event:
        case ev.TurnStarted():
            if state.turn is not None or event.turn_id is None:
                raise JournalCorrupt(f"turn {event.turn_id} begins inside another")
            return copy_with(state, turn=OpenTurn(turn_id=event.turn_id), undone=())
        case ev.TurnResumed():
            return copy_with(state, turn=_resume_turn(require_open_turn(state, event)))
        case ev.StepStarted():
            turn = require_open_turn(state, event)
            if turn.step is not None:
                raise JournalCorrupt(f"step {event.step} begins inside step {turn.step.step}")
            step = OpenStep(step=event.step, attempt=event.attempt, message_id=event.message_id, model=event.model)
            return copy_with(state, turn=copy_with(turn, step=step, retry=None, steps=event.step))
        case ev.StepReceived():
            received = Received(
                finish=event.finish,
                detail=event.detail,
                usage=event.usage,
                cost=event.cost,
                prefix_broken_at=event.prefix_broken_at,
            )
            return _with_step(state, copy_with(_require_open_message(state, event), received=received))
        case ev.StepEnded():
            return _close_step(state, event)
        case ev.TurnEnded():
            if require_open_turn(state, event).step is not None:
                raise JournalCorrupt(f"turn {event.turn_id} ends with an open step")
            return copy_with(state, turn=None, last_result=event.result, turns=state.turns + 1)


def _resume_turn(turn: OpenTurn) -> OpenTurn:
    """Return a waiting turn as it is after its engine was replaced: no open questions, and running calls are queued again."""
    turn = copy_with(turn, requests=(), questions=(), recovery=None, retry=None)
    if turn.step is None:
        return turn
    calls = tuple(copy_with(call, state="queued") if call.state == "running" else call for call in turn.step.calls)
    return copy_with(turn, step=copy_with(turn.step, calls=calls))


def _close_step(state: SessionState, event: ev.StepEnded) -> SessionState:
    step = _require_open_message(state, event)
    turn = copy_with(require_open_turn(state, event), step=None)
    # The host's own count of the prompt. Later requests are estimated from it, which is better than counting from zero.
    counted = state.counted
    if event.usage.prompt:
        counted = CountedRequest(usage=event.usage, messages=len(state.transcript))
    state = copy_with(state, turn=turn, usage=state.usage + event.usage, cost=state.cost + event.cost, counted=counted)
    if not event.kept:
        return state
    return copy_with(state, transcript=state.transcript.append(*_messages_of(step, event)))


def _messages_of(step: OpenStep, event: ev.StepEnded) -> tuple[Message, ...]:
    """Return the messages that a closed step adds to the transcript; reasoning alone adds none.

    Hosts refuse a message with nothing but reasoning in a later request, so it stays
    in the journal only.
    """
    parts = tuple(part.part for part in step.parts if part.part is not None)
    if all(isinstance(part, ReasoningPart) for part in parts):
        return ()
    message = AssistantMessage(id=event.message_id, parts=parts, model=step.model, finish=event.finish)
    results = tuple(
        CallResult(call_id=call.call_id, tool=call.tool, settlement=_settlement_of(call)) for call in step.calls
    )
    return (message, ResultsMessage(id=event.results_id, results=results)) if results else (message,)


def _settlement_of(call: OpenCall) -> Settlement:
    if call.settlement is None:
        raise JournalCorrupt(f"a step was saved while call {call.call_id} was {call.state}")
    return call.settlement


def _apply_to_message(step: OpenStep, event: PartEvent) -> OpenStep:
    match event:
        case ev.PartStarted():
            return _open_new_part(step, event)
        case ev.PartEnded():
            part = event.part
            text = part.arguments if isinstance(part, CallPart) else getattr(part, "text", "")
            return _with_part(step, copy_with(_require_open_part(step, part.id, event), part=part, text=text))
        case ev.PartReplaced():
            return _with_part(step, copy_with(_require_open_part(step, event.part_id, event), text=""))
        case ev.PartDiscarded():
            return _discard_part(step, event)


def _open_new_part(step: OpenStep, event: ev.PartStarted) -> OpenStep:
    if any(part.part_id == event.part_id for part in step.parts):
        raise JournalCorrupt(f"part {event.part_id} began twice")
    return copy_with(step, parts=(*step.parts, OpenPart(part_id=event.part_id, kind=event.kind)))


def _discard_part(step: OpenStep, event: ev.PartDiscarded) -> OpenStep:
    kept = tuple(part for part in step.parts if part.part_id != event.part_id)
    if len(kept) == len(step.parts):
        raise JournalCorrupt(f"part {event.part_id} was discarded but never began")
    calls = tuple(call for call in step.calls if call.part_id != event.part_id)
    return copy_with(step, parts=kept, calls=calls)


def _apply_to_calls(step: OpenStep, event: CallEvent) -> OpenStep:
    match event:
        case ev.CallAnnounced():
            if any(call.call_id == event.call_id for call in step.calls):
                raise JournalCorrupt(f"call {event.call_id} was announced twice")
            _require_open_part(step, event.part_id, event)
            call = OpenCall(call_id=event.call_id, part_id=event.part_id, tool=event.tool, state="receiving")
            return copy_with(step, calls=(*step.calls, call))
        case ev.CallQueued():
            return _move_call(step, event.call_id, "queued", arguments=event.arguments, tool=event.tool)
        case ev.CallStarted():
            return _move_call(step, event.call_id, "running")
        case ev.CallSettled():
            return _move_call(step, event.call_id, "settled", settlement=event.settlement)
        case ev.CallDelivered():
            return _move_call(step, event.call_id, "delivered")


def _move_call(
    step: OpenStep,
    call_id: CallId,
    state: CallState,
    *,
    arguments: str | None = None,
    tool: str | None = None,
    settlement: Settlement | None = None,
) -> OpenStep:
    calls = list(step.calls)
    for index, call in enumerate(calls):
        if call.call_id != call_id:
            continue
        if call.state not in _PREVIOUS_STATES[state]:
            raise JournalCorrupt(f"call {call_id} became {state} while {call.state}")
        calls[index] = copy_with(
            call,
            state=state,
            tool=call.tool if tool is None else tool,
            arguments=call.arguments if arguments is None else arguments,
            settlement=call.settlement if settlement is None else settlement,
        )
        return copy_with(step, calls=tuple(calls))
    raise JournalCorrupt(f"call {call_id} became {state} but was never announced")


def _apply_to_waiting(turn: OpenTurn, event: WaitEvent) -> OpenTurn:
    match event:
        case ev.QuestionAsked():
            return copy_with(turn, questions=(*turn.questions, event.request_id))
        case ev.QuestionAnswered():
            return copy_with(turn, questions=_without(turn.questions, event.request_id))
        case ev.PermissionAsked():
            return copy_with(turn, requests=(*turn.requests, event.request_id))
        case ev.PermissionAnswered():
            return copy_with(turn, requests=_without(turn.requests, event.request_id))
        case ev.RecoveryAsked():
            return copy_with(turn, recovery=event.request_id)
        case ev.RecoveryAnswered():
            _without(() if turn.recovery is None else (turn.recovery,), event.request_id)
            return copy_with(turn, recovery=None)
        case ev.RetryScheduled():
            return copy_with(turn, retry=Retry(event.attempt, event.message, event.next_at))


def _without(open_requests: tuple[RequestId, ...], answered: RequestId) -> tuple[RequestId, ...]:
    if answered not in open_requests:
        raise JournalCorrupt(f"question {answered} was answered but is not open")
    return tuple(request for request in open_requests if request != answered)


def require_open_turn(state: SessionState, event: ev.Durable | ev.Live) -> OpenTurn:
    """Return the open turn, to which *event* must belong. Raises `JournalCorrupt`."""
    if state.turn is None or state.turn.turn_id != event.turn_id:
        raise JournalCorrupt(f"{type(event).__name__} of turn {event.turn_id} came while that turn was not open")
    return state.turn


def _require_open_step(state: SessionState, event: ev.Durable | ev.Live) -> OpenStep:
    step = require_open_turn(state, event).step
    if step is None:
        raise JournalCorrupt(f"{type(event).__name__} came while no step was open")
    return step


def _require_open_message(
    state: SessionState,
    event: ev.StepReceived | ev.StepEnded | ev.PartStarted | ev.PartEnded | ev.PartReplaced | ev.PartDiscarded,
) -> OpenStep:
    step = _require_open_step(state, event)
    if event.message_id != step.message_id:
        raise JournalCorrupt(
            f"{type(event).__name__} of message {event.message_id} came while {step.message_id} was open"
        )
    return step


def _require_open_part(step: OpenStep, part_id: PartId, event: ev.Durable | ev.Live) -> OpenPart:
    part = next((part for part in step.parts if part.part_id == part_id), None)
    if part is None or part.part is not None:
        raise JournalCorrupt(f"{type(event).__name__} of part {part_id} came while that part was not open")
    return part


def _with_step(state: SessionState, step: OpenStep) -> SessionState:
    assert state.turn is not None
    return copy_with(state, turn=copy_with(state.turn, step=step))


def _with_part(step: OpenStep, part: OpenPart) -> OpenStep:
    parts = tuple(part if old.part_id == part.part_id else old for old in step.parts)
    return copy_with(step, parts=parts)
