"""`render_history`: all messages of a session, in order, for people to read. Pure.

Not the transcript, from which a compaction removes messages. Undone turns and prompts
that a hook blocked are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from engine.core.events import (
    Durable,
    PermissionAnswered,
    PermissionAsked,
    PromptBlocked,
    SessionCreated,
    StepEnded,
    TurnEnded,
    TurnRedone,
    TurnResult,
    TurnUndone,
)
from engine.core.ids import CallId, MessageId, RequestId, TurnId
from engine.core.messages import Message, Transcript
from engine.journal.fold import apply
from engine.journal.state import SessionState
from engine.permission.question_text import answer_text


@attrs.frozen(kw_only=True)
class HistoryEntry:
    """A message, and when it came into the transcript, in seconds since the epoch."""

    message: Message
    time: float
    turn_id: TurnId | None = None


@attrs.frozen(kw_only=True)
class History:
    """The messages of a session, with the results of its turns and steps.

    Attributes:
        state: the present state of the session.
        entries: the messages.
        created: when it was created.
        parent_call_id: the call of its parent that created it.
        turns: how each turn has ended, and what it used.
        steps: the end of each step, by the id of its message.
        answers: how the questions for permission of each call were answered, by whom, and which rule asked.
    """

    state: SessionState
    entries: tuple[HistoryEntry, ...]
    created: float = 0.0
    parent_call_id: CallId | None = None
    turns: Mapping[TurnId, TurnResult] = attrs.field(factory=dict[TurnId, TurnResult])
    steps: Mapping[MessageId, StepEnded] = attrs.field(factory=dict[MessageId, StepEnded])
    answers: Mapping[CallId, tuple[str, ...]] = attrs.field(factory=dict[CallId, tuple[str, ...]])


def render_history(events: Iterable[Durable]) -> History:
    """Collect the messages of the session of *events*. Raises `JournalCorrupt` for an event that can't follow."""
    builder = _Builder()
    first: Durable | None = None
    for event in events:
        first = first or event
        builder.add(event)
    return History(
        state=builder.state,
        entries=tuple(builder.entries.values()),
        created=0.0 if first is None else first.time,
        parent_call_id=first.parent_call_id if isinstance(first, SessionCreated) else None,
        turns=builder.turns,
        steps=builder.steps,
        answers=builder.answers,
    )


@attrs.define(eq=False)
class _Builder:
    """Folds events, and keeps the messages that a fold drops."""

    state: SessionState = attrs.field(factory=SessionState, init=False)
    entries: dict[MessageId, HistoryEntry] = attrs.field(factory=dict[MessageId, HistoryEntry], init=False)
    turns: dict[TurnId, TurnResult] = attrs.field(factory=dict[TurnId, TurnResult], init=False)
    steps: dict[MessageId, StepEnded] = attrs.field(factory=dict[MessageId, StepEnded], init=False)
    answers: dict[CallId, tuple[str, ...]] = attrs.field(factory=dict[CallId, tuple[str, ...]], init=False)
    _asked: dict[RequestId, PermissionAsked] = attrs.field(factory=dict[RequestId, PermissionAsked], init=False)
    _undone: dict[TurnId, list[HistoryEntry]] = attrs.field(factory=dict[TurnId, list[HistoryEntry]], init=False)

    def add(self, event: Durable) -> None:
        # The fold does the work: this only compares the transcript before and after each event.
        before = self.state.transcript
        self.state = apply(self.state, event)
        match event:
            case TurnUndone():
                self._undo(event.undone, before)
            case TurnRedone():
                self.entries.update({entry.message.id: entry for entry in self._undone.pop(event.redone, [])})
            case PromptBlocked():
                self.entries.pop(event.message_id, None)
            case TurnEnded() if event.turn_id is not None:
                self.turns[event.turn_id] = event.result
            case PermissionAsked():
                self._asked[event.request_id] = event
            case PermissionAnswered():
                self._answer(event)
            case _:
                if isinstance(event, StepEnded):
                    self.steps[event.message_id] = event
                for message in _new(before, self.state.transcript):
                    entry = HistoryEntry(message=message, time=event.time, turn_id=event.turn_id)
                    # A compaction puts messages back that are here already, with the time at which they came.
                    self.entries.setdefault(message.id, entry)

    def _answer(self, event: PermissionAnswered) -> None:
        request = self._asked.pop(event.request_id, None)
        if request is not None:
            earlier = self.answers.get(request.call_id, ())
            self.answers[request.call_id] = (*earlier, answer_text(request, event))

    def _undo(self, turn_id: TurnId, before: Transcript) -> None:
        """Remove the whole turn: also what a compaction in it had replaced, and the messages that this one added."""
        dropped = {message.id for message in before} - {message.id for message in self.state.transcript}
        removed = [e for e in self.entries.values() if e.turn_id == turn_id or e.message.id in dropped]
        self._undone[turn_id] = removed
        for entry in removed:
            del self.entries[entry.message.id]


def _new(before: Transcript, now: Transcript) -> Iterable[Message]:
    if now is before:
        return ()
    # Of another lineage: the transcript was replaced, and any of its messages may be new.
    return now[len(before) :] if now.lineage is before.lineage else now
