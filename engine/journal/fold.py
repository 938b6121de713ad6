"""`fold(events) -> SessionState`: the only projection of the journal.

The loop, the store's reader, snapshots and the tests all use this one function,
so none of them can disagree about what a session is. It is pure and total:
an event that can't follow is answered with `JournalCorrupt`, never half applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import attrs

from engine.core import events as ev
from engine.core.errors import JournalCorrupt
from engine.core.ids import CallId, PartId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Message,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    Transcript,
    UserMessage,
)
from engine.journal.state import (
    BackgroundWork,
    CallState,
    CountedRequest,
    OpenCall,
    OpenPart,
    OpenStep,
    OpenTurn,
    PendingInput,
    PromptState,
    PromptUpdate,
    Received,
    Retry,
    SessionState,
    UndoneTurn,
)


def fold(events: Iterable[ev.Durable | ev.Live], state: SessionState | None = None) -> SessionState:
    """Return the state after *events*, beginning with *state*."""
    folded = SessionState() if state is None else state
    for event in events:
        folded = apply(folded, event)
    return folded


def apply(state: SessionState, event: ev.Durable | ev.Live) -> SessionState:
    """Return *state* after one more *event*. Raises `JournalCorrupt` if it can't follow."""
    if event.session_id != state.session_id and state.session_id:
        raise JournalCorrupt(f"an event of session {event.session_id} came among those of {state.session_id}")
    if isinstance(event, (ev.TextDelta, ev.ReasoningDelta, ev.ArgumentsDelta)):
        return _with_step(state, _grown(_open_step(state, event), event))
    if isinstance(event, (ev.CallProgress, ev.CallHeartbeat)):
        return state
    if event.seq is not None and event.seq != state.seq + 1:
        raise JournalCorrupt(f"event {event.seq} of session {event.session_id} follows {state.seq}: a gap")
    if event.seq is not None:
        state = attrs.evolve(state, seq=event.seq)
    return _apply_durable(state, event)


def _apply_durable(state: SessionState, event: ev.Durable) -> SessionState:
    match event:
        case (
            ev.SessionCreated()
            | ev.InputAdmitted()
            | ev.InputPromoted()
            | ev.PromptBlocked()
            | ev.NudgeAdded()
            | ev.HistoryReplaced()
        ):
            return _apply_to_session(state, event)
        case (
            ev.SessionTitled()
            | ev.ModelSwitched()
            | ev.PromptSet()
            | ev.PromptUpdated()
            | ev.BackgroundStarted()
            | ev.BackgroundEnded()
        ):
            return _apply_to_heading(state, event)
        case ev.CompactionStarted() | ev.CompactionEnded():
            return _summarised(state, event)
        case ev.TurnUndone() | ev.TurnRedone():
            return _apply_to_past(state, event)
        case (
            ev.TurnStarted() | ev.TurnResumed() | ev.StepStarted() | ev.StepReceived() | ev.StepEnded() | ev.TurnEnded()
        ):
            return _apply_to_turn(state, event)
        case ev.PartStarted() | ev.PartEnded() | ev.PartReplaced() | ev.PartDiscarded():
            return _apply_to_message(state, event)
        case ev.CallAnnounced() | ev.CallQueued() | ev.CallStarted() | ev.CallSettled() | ev.CallDelivered():
            return _with_step(state, _apply_to_calls(_open_step(state, event), event))
        case ev.ContextChanged():
            return attrs.evolve(state, context=state.context.merged(event.cwd, event.values, event.removed))
        case (
            ev.PermissionAsked()
            | ev.PermissionAnswered()
            | ev.QuestionAsked()
            | ev.QuestionAnswered()
            | ev.RecoveryAsked()
            | ev.RecoveryAnswered()
            | ev.RetryScheduled()
            | ev.LoopContinued()
        ):
            state = attrs.evolve(state, turn=_apply_to_status(_open_turn(state, event), event))
            if isinstance(event, ev.LoopContinued) and event.reason == "signature_retry":
                return attrs.evolve(state, reasoning_from=len(state.transcript))
            return state
        case ev.CallJudged() | ev.CallChanged() | ev.SnapshotTaken() | ev.DoomDetected() | ev.Notice():
            return state
    assert_never(event)


def _apply_to_session(
    state: SessionState,
    event: ev.SessionCreated
    | ev.InputAdmitted
    | ev.InputPromoted
    | ev.PromptBlocked
    | ev.NudgeAdded
    | ev.HistoryReplaced,
) -> SessionState:
    match event:
        case ev.SessionCreated():
            if state.session_id:
                raise JournalCorrupt(f"session {state.session_id} was created twice")
            return attrs.evolve(
                state,
                session_id=event.session_id,
                context=event.context,
                model=event.model,
                agent=event.agent,
                parent_id=event.parent_id,
                forked_from=event.forked_from,
            )
        case ev.InputAdmitted():
            if any(item.input_id == event.input_id for item in state.inbox):
                raise JournalCorrupt(f"input {event.input_id} was admitted twice")
            pending = PendingInput(input_id=event.input_id, mode=event.mode, message=event.message)
            return attrs.evolve(state, inbox=(*state.inbox, pending))
        case ev.InputPromoted():
            return _promoted(state, event)
        case ev.PromptBlocked():
            return _without_turns(state, event)
        case ev.NudgeAdded():
            return attrs.evolve(state, transcript=state.transcript.append(event.message))
        case ev.HistoryReplaced():
            transcript = Transcript(event.messages)
            # What the host rejected may be among the messages that were kept.
            reasoning_from = len(transcript) if state.reasoning_from else 0
            prompt = _held(state.prompt, transcript)
            if prompt is not None and event.kind == "compact":
                prompt = attrs.evolve(prompt, is_outdated=True)
            return attrs.evolve(
                state, transcript=transcript, reasoning_from=reasoning_from, prompt=prompt, counted=None
            )


def _apply_to_prompt(state: SessionState, event: ev.PromptSet | ev.PromptUpdated) -> SessionState:
    prompt = state.prompt
    if isinstance(event, ev.PromptSet):
        names = {section.name for section in event.sections}
        updates = () if prompt is None else prompt.updates
        # What the baseline does not say, a message that is still there may have told.
        kept = tuple(
            attrs.evolve(update, sections=rest, removed=())
            for update in updates
            if (rest := tuple(section for section in update.sections if section.name not in names))
        )
        fresh = PromptState(sections=event.sections, cwd=event.cwd, project=event.project, updates=kept)
        return attrs.evolve(state, prompt=fresh)
    if prompt is None:
        raise JournalCorrupt(f"the prompt of session {event.session_id} was updated before it was set")
    update = PromptUpdate(message_id=event.message.id, sections=event.sections, removed=event.removed)
    return attrs.evolve(
        state,
        transcript=state.transcript.append(event.message),
        prompt=attrs.evolve(prompt, updates=(*prompt.updates, update)),
    )


def _held(prompt: PromptState | None, transcript: Transcript) -> PromptState | None:
    """Return *prompt* with what is still told of it: a message may be gone with another history, or be back."""
    if prompt is None or not prompt.updates:
        return prompt
    ids = {message.id for message in transcript}
    updates = tuple(attrs.evolve(update, is_held=update.message_id in ids) for update in prompt.updates)
    return attrs.evolve(prompt, updates=updates)


def _promoted(state: SessionState, event: ev.InputPromoted) -> SessionState:
    pending = next((item for item in state.inbox if item.input_id == event.input_id), None)
    if pending is None:
        raise JournalCorrupt(f"input {event.input_id} was promoted but is not in the inbox")
    return attrs.evolve(
        state,
        inbox=tuple(item for item in state.inbox if item is not pending),
        transcript=state.transcript.append(pending.message),
    )


def _without_turns(state: SessionState, event: ev.PromptBlocked) -> SessionState:
    index = next((n for n, message in enumerate(state.transcript) if message.id == event.message_id), None)
    if index is None or not isinstance(state.transcript[index], UserMessage):
        raise JournalCorrupt(f"prompt {event.message_id} was taken back but is not in the transcript")
    return attrs.evolve(
        state,
        transcript=Transcript((*state.transcript[:index], *state.transcript[index + 1 :])),
        counted=None,
        reasoning_from=state.reasoning_from - (index < state.reasoning_from),
    )


def _apply_to_heading(
    state: SessionState,
    event: ev.SessionTitled
    | ev.ModelSwitched
    | ev.PromptSet
    | ev.PromptUpdated
    | ev.BackgroundStarted
    | ev.BackgroundEnded,
) -> SessionState:
    match event:
        case ev.BackgroundStarted() | ev.BackgroundEnded():
            return attrs.evolve(state, background=_note_background(state, event))
        case ev.SessionTitled():
            return _titled(state, event)
        case ev.ModelSwitched():
            return attrs.evolve(state, model=event.model)
        case ev.PromptSet() | ev.PromptUpdated():
            return _apply_to_prompt(state, event)


def _titled(state: SessionState, event: ev.SessionTitled) -> SessionState:
    state = attrs.evolve(state, usage=state.usage + event.usage, cost=state.cost + event.cost)
    if event.by == "model" and (state.titled_by == "user" or not event.title):
        return state
    return attrs.evolve(state, title=event.title, titled_by=event.by)


def _summarised(state: SessionState, event: ev.CompactionStarted | ev.CompactionEnded) -> SessionState:
    # A request for a summary that was sent again waits no longer.
    turn = attrs.evolve(_open_turn(state, event), retry=None)
    if isinstance(event, ev.CompactionStarted):
        return attrs.evolve(state, turn=turn)
    return attrs.evolve(state, turn=turn, usage=state.usage + event.usage, cost=state.cost + event.cost)


def _note_background(
    state: SessionState, event: ev.BackgroundStarted | ev.BackgroundEnded
) -> tuple[BackgroundWork, ...]:
    others = tuple(work for work in state.background if work.work_id != event.work_id)
    is_there = len(others) < len(state.background)
    if isinstance(event, ev.BackgroundEnded):
        if not is_there:
            raise JournalCorrupt(f"background work {event.work_id} ended but never began")
        return others
    if is_there:
        raise JournalCorrupt(f"background work {event.work_id} began twice")
    return (
        *others,
        BackgroundWork(work_id=event.work_id, kind=event.kind, name=event.name, detail=event.detail),
    )


def _apply_to_past(state: SessionState, event: ev.TurnUndone | ev.TurnRedone) -> SessionState:
    """Take a turn back, or put it back. What the messages were is kept, so that nothing is lost."""
    if state.turn is not None:
        raise JournalCorrupt(f"{type(event).__name__} came while turn {state.turn.turn_id} was open")
    messages, undone = _undone(state, event) if isinstance(event, ev.TurnUndone) else _redone(state, event)
    transcript = Transcript(messages)
    return attrs.evolve(
        state,
        transcript=transcript,
        counted=None,
        prompt=_held(state.prompt, transcript),
        undone=undone,
        reasoning_from=len(messages) if state.reasoning_from else 0,
    )


def _undone(state: SessionState, event: ev.TurnUndone) -> tuple[tuple[Message, ...], tuple[UndoneTurn, ...]]:
    if not 0 <= event.keep <= len(state.transcript):
        raise JournalCorrupt(f"turn {event.undone} was undone to message {event.keep} of {len(state.transcript)}")
    undone = UndoneTurn(turn_id=event.undone, keep=event.keep, messages=state.transcript[event.keep :])
    return (*state.transcript[: event.keep], *event.messages), (*state.undone, undone)


def _redone(state: SessionState, event: ev.TurnRedone) -> tuple[tuple[Message, ...], tuple[UndoneTurn, ...]]:
    last = state.undone[-1] if state.undone else None
    if last is None or last.turn_id != event.redone:
        raise JournalCorrupt(f"turn {event.redone} was redone but is not the one that was undone last")
    return (*state.transcript[: last.keep], *last.messages), state.undone[:-1]


def _apply_to_turn(
    state: SessionState,
    event: ev.TurnStarted | ev.TurnResumed | ev.StepStarted | ev.StepReceived | ev.StepEnded | ev.TurnEnded,
) -> SessionState:
    match event:
        case ev.TurnStarted():
            if state.turn is not None or event.turn_id is None:
                raise JournalCorrupt(f"turn {event.turn_id} begins inside another")
            return attrs.evolve(state, turn=OpenTurn(turn_id=event.turn_id), undone=())
        case ev.TurnResumed():
            return attrs.evolve(state, turn=_resumed(_open_turn(state, event)))
        case ev.StepStarted():
            turn = _open_turn(state, event)
            if turn.step is not None:
                raise JournalCorrupt(f"step {event.step} begins inside step {turn.step.step}")
            step = OpenStep(step=event.step, attempt=event.attempt, message_id=event.message_id, model=event.model)
            return attrs.evolve(state, turn=attrs.evolve(turn, step=step, retry=None, steps=event.step))
        case ev.StepReceived():
            received = Received(
                finish=event.finish,
                detail=event.detail,
                usage=event.usage,
                cost=event.cost,
                prefix_broken_at=event.prefix_broken_at,
            )
            return _with_step(state, attrs.evolve(_open_message(state, event), received=received))
        case ev.StepEnded():
            return _step_closed(state, event)
        case ev.TurnEnded():
            if _open_turn(state, event).step is not None:
                raise JournalCorrupt(f"turn {event.turn_id} ends with an open step")
            return attrs.evolve(state, turn=None, last_result=event.result, turns=state.turns + 1)


def _resumed(turn: OpenTurn) -> OpenTurn:
    """Return a turn that only waited as it stands when it goes on: nothing is asked, and what waited is queued."""
    turn = attrs.evolve(turn, requests=(), questions=(), recovery=None, retry=None)
    if turn.step is None:
        return turn
    calls = tuple(attrs.evolve(call, state="queued") if call.state == "running" else call for call in turn.step.calls)
    return attrs.evolve(turn, step=attrs.evolve(turn.step, calls=calls))


def _step_closed(state: SessionState, event: ev.StepEnded) -> SessionState:
    step = _open_message(state, event)
    turn = attrs.evolve(_open_turn(state, event), step=None)
    counted = state.counted
    if event.usage.prompt:
        counted = CountedRequest(usage=event.usage, messages=len(state.transcript))
    state = attrs.evolve(
        state, turn=turn, usage=state.usage + event.usage, cost=state.cost + event.cost, counted=counted
    )
    if not event.kept:
        return state
    return attrs.evolve(state, transcript=state.transcript.append(*_messages_of(step, event)))


def _messages_of(step: OpenStep, event: ev.StepEnded) -> tuple[Message, ...]:
    """Return what a closed step adds to the transcript; thinking alone adds nothing.

    A message of nothing but reasoning can't be sent back (hosts refuse it), so it
    stays in the journal only.
    """
    parts = tuple(part.part for part in step.parts if part.part is not None)
    if all(isinstance(part, ReasoningPart) for part in parts):
        return ()
    message = AssistantMessage(id=event.message_id, parts=parts, model=step.model, finish=event.finish)
    results = tuple(
        CallResult(call_id=call.call_id, tool=call.tool, settlement=_settlement(call)) for call in step.calls
    )
    return (message, ResultsMessage(id=event.results_id, results=results)) if results else (message,)


def _settlement(call: OpenCall) -> Settlement:
    if call.settlement is None:
        raise JournalCorrupt(f"a step was saved while call {call.call_id} was {call.state}")
    return call.settlement


def _apply_to_message(
    state: SessionState, event: ev.PartStarted | ev.PartEnded | ev.PartReplaced | ev.PartDiscarded
) -> SessionState:
    step = _open_message(state, event)
    match event:
        case ev.PartStarted():
            if any(part.part_id == event.part_id for part in step.parts):
                raise JournalCorrupt(f"part {event.part_id} began twice")
            opened = OpenPart(part_id=event.part_id, kind=event.kind)
            return _with_step(state, attrs.evolve(step, parts=(*step.parts, opened)))
        case ev.PartEnded():
            part = event.part
            text = part.arguments if isinstance(part, CallPart) else getattr(part, "text", "")
            ended = attrs.evolve(_open_part(step, part.id, event), part=part, text=text)
            return _with_step(state, _with_part(step, ended))
        case ev.PartReplaced():
            return _with_step(state, _with_part(step, attrs.evolve(_open_part(step, event.part_id, event), text="")))
        case ev.PartDiscarded():
            kept = tuple(part for part in step.parts if part.part_id != event.part_id)
            if len(kept) == len(step.parts):
                raise JournalCorrupt(f"part {event.part_id} was discarded but never began")
            calls = tuple(call for call in step.calls if call.part_id != event.part_id)
            return _with_step(state, attrs.evolve(step, parts=kept, calls=calls))


_FOLLOWS: dict[CallState, tuple[CallState, ...]] = {
    "queued": ("receiving",),
    "running": ("queued",),
    "settled": ("receiving", "queued", "running"),
    "delivered": ("settled",),
}


def _apply_to_calls(
    step: OpenStep, event: ev.CallAnnounced | ev.CallQueued | ev.CallStarted | ev.CallSettled | ev.CallDelivered
) -> OpenStep:
    match event:
        case ev.CallAnnounced():
            if any(call.call_id == event.call_id for call in step.calls):
                raise JournalCorrupt(f"call {event.call_id} was announced twice")
            _open_part(step, event.part_id, event)
            call = OpenCall(call_id=event.call_id, part_id=event.part_id, tool=event.tool, state="receiving")
            return attrs.evolve(step, calls=(*step.calls, call))
        case ev.CallQueued():
            return _moved(step, event.call_id, "queued", arguments=event.arguments, tool=event.tool)
        case ev.CallStarted():
            return _moved(step, event.call_id, "running")
        case ev.CallSettled():
            return _moved(step, event.call_id, "settled", settlement=event.settlement)
        case ev.CallDelivered():
            return _moved(step, event.call_id, "delivered")


def _moved(
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
        if call.state not in _FOLLOWS[state]:
            raise JournalCorrupt(f"call {call_id} became {state} while {call.state}")
        calls[index] = attrs.evolve(
            call,
            state=state,
            tool=call.tool if tool is None else tool,
            arguments=call.arguments if arguments is None else arguments,
            settlement=call.settlement if settlement is None else settlement,
        )
        return attrs.evolve(step, calls=tuple(calls))
    raise JournalCorrupt(f"call {call_id} became {state} but was never announced")


def _apply_to_status(
    turn: OpenTurn,
    event: ev.PermissionAsked
    | ev.PermissionAnswered
    | ev.QuestionAsked
    | ev.QuestionAnswered
    | ev.RecoveryAsked
    | ev.RecoveryAnswered
    | ev.RetryScheduled
    | ev.LoopContinued,
) -> OpenTurn:
    match event:
        case ev.QuestionAsked():
            return attrs.evolve(turn, questions=(*turn.questions, event.request_id))
        case ev.QuestionAnswered():
            if event.request_id not in turn.questions:
                raise JournalCorrupt(f"question {event.request_id} was answered but is not open")
            return attrs.evolve(turn, questions=tuple(q for q in turn.questions if q != event.request_id))
        case ev.PermissionAsked():
            return attrs.evolve(turn, requests=(*turn.requests, event.request_id))
        case ev.PermissionAnswered():
            if event.request_id not in turn.requests:
                raise JournalCorrupt(f"question {event.request_id} was answered but is not open")
            return attrs.evolve(turn, requests=tuple(r for r in turn.requests if r != event.request_id))
        case ev.RecoveryAsked():
            return attrs.evolve(turn, recovery=event.request_id)
        case ev.RecoveryAnswered():
            if event.request_id != turn.recovery:
                raise JournalCorrupt(f"question {event.request_id} was answered but is not open")
            return attrs.evolve(turn, recovery=None)
        case ev.RetryScheduled():
            return attrs.evolve(turn, retry=Retry(event.attempt, event.message, event.next_at))
        case ev.LoopContinued():
            return turn


def _open_turn(state: SessionState, event: ev.Durable | ev.Live) -> OpenTurn:
    if state.turn is None or state.turn.turn_id != event.turn_id:
        raise JournalCorrupt(f"{type(event).__name__} of turn {event.turn_id} came while that turn was not open")
    return state.turn


def _open_step(state: SessionState, event: ev.Durable | ev.Live) -> OpenStep:
    step = _open_turn(state, event).step
    if step is None:
        raise JournalCorrupt(f"{type(event).__name__} came while no step was open")
    return step


def _open_message(
    state: SessionState,
    event: ev.StepReceived | ev.StepEnded | ev.PartStarted | ev.PartEnded | ev.PartReplaced | ev.PartDiscarded,
) -> OpenStep:
    step = _open_step(state, event)
    if event.message_id != step.message_id:
        raise JournalCorrupt(
            f"{type(event).__name__} of message {event.message_id} came while {step.message_id} was open"
        )
    return step


def _open_part(step: OpenStep, part_id: PartId, event: ev.Durable | ev.Live) -> OpenPart:
    part = next((part for part in step.parts if part.part_id == part_id), None)
    if part is None or part.part is not None:
        raise JournalCorrupt(f"{type(event).__name__} of part {part_id} came while that part was not open")
    return part


def _with_step(state: SessionState, step: OpenStep) -> SessionState:
    assert state.turn is not None
    return attrs.evolve(state, turn=attrs.evolve(state.turn, step=step))


def _with_part(step: OpenStep, part: OpenPart) -> OpenStep:
    parts = tuple(part if old.part_id == part.part_id else old for old in step.parts)
    return attrs.evolve(step, parts=parts)


def _grown(step: OpenStep, delta: ev.Delta) -> OpenStep:
    """Return *step* with a delta put where its offset says, so a repeated one changes nothing."""
    part = _open_part(step, delta.part_id, delta)
    if delta.offset > len(part.text):
        raise JournalCorrupt(
            f"a delta of part {part.part_id} begins at {delta.offset}, but {len(part.text)} came: a gap"
        )
    text = part.text[: delta.offset] + delta.text + part.text[delta.offset + len(delta.text) :]
    return _with_part(step, attrs.evolve(part, text=text))
