"""`fold(events) -> SessionState`: the only projection of the journal.

The loop, the store's reader, snapshots and the tests all use this one function,
so they agree about the state of a session. It is pure: an event that can't
follow raises `JournalCorrupt`, and nothing of it is applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import attrs

from engine.core import events as ev
from engine.core.errors import JournalCorrupt
from engine.core.messages import Message, Transcript, UserMessage
from engine.journal.fold_turn import TurnEvent, apply_delta, apply_to_turn, note_ending, require_open_turn
from engine.journal.state import (
    BackgroundWork,
    PendingInput,
    PromptState,
    PromptUpdate,
    SessionState,
    UndoneTurn,
    copy_with,
)

InputEvent = ev.InputAdmitted | ev.InputPromoted | ev.InputEdited | ev.InputRemoved | ev.PromptBlocked | ev.NudgeAdded
HeadingEvent = (
    ev.SessionTitled
    | ev.ModelSwitched
    | ev.SessionConfigured
    | ev.PromptSet
    | ev.PromptUpdated
    | ev.BackgroundStarted
    | ev.BackgroundEnded
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
    if isinstance(event, ev.Delta):
        return apply_delta(state, event)
    if isinstance(event, (ev.CallProgress, ev.CallHeartbeat)):
        return state
    if isinstance(event, ev.TurnEnding):
        return note_ending(state, event)
    if event.seq is not None and event.seq != state.seq + 1:
        raise JournalCorrupt(f"event {event.seq} of session {event.session_id} follows {state.seq}: a gap")
    folded = _apply_durable(state, event)
    return folded if event.seq is None else _numbered(folded, event.seq, is_new=folded is not state)


def _numbered(state: SessionState, seq: int, *, is_new: bool) -> SessionState:
    """Return *state* with the number of its last event."""
    if not is_new:
        return copy_with(state, seq=seq)
    # Made by the fold a moment ago, so this is its first use. A second copy of its fields would double an event's cost.
    object.__setattr__(state, "seq", seq)
    return state


def _apply_durable(state: SessionState, event: ev.Durable) -> SessionState:
    if isinstance(event, TurnEvent):
        return apply_to_turn(state, event)
    if isinstance(event, HeadingEvent):
        return _apply_to_heading(state, event)
    if isinstance(event, InputEvent):
        return _apply_to_input(state, event)
    match event:
        case ev.SessionCreated():
            return _create(state, event)
        case ev.ContextChanged():
            return attrs.evolve(state, context=state.context.merged(event.cwd, event.values, event.removed))
        case ev.HistoryReplaced():
            return _replace_history(state, event)
        case ev.CompactionStarted() | ev.CompactionEnded():
            return _apply_to_compaction(state, event)
        case ev.TurnUndone() | ev.TurnRedone():
            return _apply_to_undo(state, event)
        case ev.CallJudged() | ev.CallChanged() | ev.SnapshotTaken() | ev.DoomDetected() | ev.Notice():
            return state
    assert_never(event)


def _create(state: SessionState, event: ev.SessionCreated) -> SessionState:
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


def _apply_to_input(state: SessionState, event: InputEvent) -> SessionState:
    match event:
        case ev.InputAdmitted():
            if any(item.input_id == event.input_id for item in state.inbox):
                raise JournalCorrupt(f"input {event.input_id} was admitted twice")
            pending = PendingInput(input_id=event.input_id, mode=event.mode, message=event.message)
            return attrs.evolve(state, inbox=(*state.inbox, pending))
        case ev.InputPromoted():
            return _promote_input(state, event)
        case ev.InputEdited() | ev.InputRemoved():
            return _change_input(state, event)
        case ev.PromptBlocked():
            return _take_back_prompt(state, event)
        case ev.NudgeAdded():
            return attrs.evolve(state, transcript=state.transcript.append(event.message))


def _promote_input(state: SessionState, event: ev.InputPromoted) -> SessionState:
    pending = next((item for item in state.inbox if item.input_id == event.input_id), None)
    if pending is None:
        raise JournalCorrupt(f"input {event.input_id} was promoted but is not in the inbox")
    return attrs.evolve(
        state,
        inbox=tuple(item for item in state.inbox if item is not pending),
        transcript=state.transcript.append(pending.message),
    )


def _change_input(state: SessionState, event: ev.InputEdited | ev.InputRemoved) -> SessionState:
    if all(item.input_id != event.input_id for item in state.inbox):
        raise JournalCorrupt(f"input {event.input_id} was changed but is not in the inbox")
    inbox = [
        attrs.evolve(item, message=event.message)
        if item.input_id == event.input_id and isinstance(event, ev.InputEdited)
        else item
        for item in state.inbox
        if item.input_id != event.input_id or isinstance(event, ev.InputEdited)
    ]
    return attrs.evolve(state, inbox=tuple(inbox))


def _take_back_prompt(state: SessionState, event: ev.PromptBlocked) -> SessionState:
    index = next((n for n, message in enumerate(state.transcript) if message.id == event.message_id), None)
    if index is None or not isinstance(state.transcript[index], UserMessage):
        raise JournalCorrupt(f"prompt {event.message_id} was taken back but is not in the transcript")
    return attrs.evolve(
        state,
        transcript=Transcript((*state.transcript[:index], *state.transcript[index + 1 :])),
        counted=None,
        reasoning_from=state.reasoning_from - (index < state.reasoning_from),
    )


def _apply_to_heading(state: SessionState, event: HeadingEvent) -> SessionState:
    match event:
        case ev.BackgroundStarted() | ev.BackgroundEnded():
            return attrs.evolve(state, background=_apply_to_background(state, event))
        case ev.SessionTitled():
            return _set_title(state, event)
        case ev.ModelSwitched():
            return attrs.evolve(state, model=event.model)
        case ev.SessionConfigured():
            return attrs.evolve(state, profile=event.profile, profile_by=event.by if event.profile else "")
        case ev.PromptSet() | ev.PromptUpdated():
            return _apply_to_prompt(state, event)


def _set_title(state: SessionState, event: ev.SessionTitled) -> SessionState:
    state = attrs.evolve(state, usage=state.usage + event.usage, cost=state.cost + event.cost)
    if event.by == "model" and (state.titled_by == "user" or not event.title):
        return state
    return attrs.evolve(state, title=event.title, titled_by=event.by)


def _apply_to_prompt(state: SessionState, event: ev.PromptSet | ev.PromptUpdated) -> SessionState:
    prompt = state.prompt
    if isinstance(event, ev.PromptSet):
        names = {section.name for section in event.sections}
        updates = () if prompt is None else prompt.updates
        # Sections that are not in the new beginning may still be known to the model from a message in the transcript.
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


def _apply_to_background(
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


def _replace_history(state: SessionState, event: ev.HistoryReplaced) -> SessionState:
    transcript = Transcript(event.messages)
    # What the host rejected may be among the messages that were kept.
    reasoning_from = len(transcript) if state.reasoning_from else 0
    prompt = _mark_held_updates(state.prompt, transcript)
    if prompt is not None and event.kind == "compact":
        prompt = attrs.evolve(prompt, is_outdated=True)
    return attrs.evolve(state, transcript=transcript, reasoning_from=reasoning_from, prompt=prompt, counted=None)


def _mark_held_updates(prompt: PromptState | None, transcript: Transcript) -> PromptState | None:
    """Return *prompt* with its updates marked by whether their messages are in *transcript*: another history may lack them."""
    if prompt is None or not prompt.updates:
        return prompt
    ids = {message.id for message in transcript}
    updates = tuple(attrs.evolve(update, is_held=update.message_id in ids) for update in prompt.updates)
    return attrs.evolve(prompt, updates=updates)


def _apply_to_compaction(state: SessionState, event: ev.CompactionStarted | ev.CompactionEnded) -> SessionState:
    # A retry that was scheduled for the summary's request is over.
    turn = attrs.evolve(require_open_turn(state, event), retry=None)
    if isinstance(event, ev.CompactionStarted):
        return attrs.evolve(state, turn=turn)
    return attrs.evolve(state, turn=turn, usage=state.usage + event.usage, cost=state.cost + event.cost)


def _apply_to_undo(state: SessionState, event: ev.TurnUndone | ev.TurnRedone) -> SessionState:
    """Undo a turn, or redo it. The messages of an undone turn are kept for that."""
    if state.turn is not None:
        raise JournalCorrupt(f"{type(event).__name__} came while turn {state.turn.turn_id} was open")
    messages, undone = _undo_turn(state, event) if isinstance(event, ev.TurnUndone) else _redo_turn(state, event)
    transcript = Transcript(messages)
    return attrs.evolve(
        state,
        transcript=transcript,
        counted=None,
        prompt=_mark_held_updates(state.prompt, transcript),
        undone=undone,
        reasoning_from=len(messages) if state.reasoning_from else 0,
    )


def _undo_turn(state: SessionState, event: ev.TurnUndone) -> tuple[tuple[Message, ...], tuple[UndoneTurn, ...]]:
    if not 0 <= event.keep <= len(state.transcript):
        raise JournalCorrupt(f"turn {event.undone} was undone to message {event.keep} of {len(state.transcript)}")
    undone = UndoneTurn(turn_id=event.undone, keep=event.keep, messages=state.transcript[event.keep :])
    return (*state.transcript[: event.keep], *event.messages), (*state.undone, undone)


def _redo_turn(state: SessionState, event: ev.TurnRedone) -> tuple[tuple[Message, ...], tuple[UndoneTurn, ...]]:
    last = state.undone[-1] if state.undone else None
    if last is None or last.turn_id != event.redone:
        raise JournalCorrupt(f"turn {event.redone} was redone but is not the one that was undone last")
    return (*state.transcript[: last.keep], *last.messages), state.undone[:-1]
