"""`render_history`: all messages of a session, in order, for people to read. Pure.

Not the transcript, from which a compaction removes messages. Undone turns and prompts
that a hook blocked are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from engine.core.events import (
    Durable,
    PromptBlocked,
    SessionCreated,
    StepEnded,
    TurnEnded,
    TurnRedone,
    TurnResult,
    TurnUndone,
)
from engine.core.fold import apply
from engine.core.ids import CallId, MessageId, TurnId
from engine.core.messages import Message, Transcript
from engine.core.state import SessionState


@attrs.frozen(kw_only=True)
class HistoryEntry:
    """A message, and when it came into the transcript, in seconds since the epoch."""

    message: Message
    time: float
    turn_id: TurnId | None = None


@attrs.frozen(kw_only=True)
class History:
    """The messages of a session, with the facts of its turns and steps.

    Attributes:
        state: as it stands.
        entries: the messages.
        created: when it began.
        parent_call_id: the call of its parent that has made it.
        turns: how each turn has ended, and what it took.
        steps: the end of each step, by the id of its message.
    """

    state: SessionState
    entries: tuple[HistoryEntry, ...]
    created: float = 0.0
    parent_call_id: CallId | None = None
    turns: Mapping[TurnId, TurnResult] = attrs.field(factory=dict[TurnId, TurnResult])
    steps: Mapping[MessageId, StepEnded] = attrs.field(factory=dict[MessageId, StepEnded])


def render_history(events: Iterable[Durable]) -> History:
    """Collect the messages of the session of *events*. Raises `JournalCorrupt` for an event that can't follow."""
    state = SessionState()
    entries: dict[MessageId, HistoryEntry] = {}
    undone: dict[TurnId, list[HistoryEntry]] = {}
    turns: dict[TurnId, TurnResult] = {}
    steps: dict[MessageId, StepEnded] = {}
    first: Durable | None = None
    for event in events:
        first = first or event
        before = state.transcript
        state = apply(state, event)
        match event:
            case TurnUndone():
                # The whole turn, also what a compaction inside it had replaced; and what that put there.
                left = {message.id for message in before} - {message.id for message in state.transcript}
                gone = [e for e in entries.values() if e.turn_id == event.undone or e.message.id in left]
                undone[event.undone] = gone
                for entry in gone:
                    del entries[entry.message.id]
            case TurnRedone():
                entries.update({entry.message.id: entry for entry in undone.pop(event.redone, [])})
            case PromptBlocked():
                entries.pop(event.message_id, None)
            case TurnEnded() if event.turn_id is not None:
                turns[event.turn_id] = event.result
            case _:
                if isinstance(event, StepEnded):
                    steps[event.message_id] = event
                for message in _new(before, state.transcript):
                    entries.setdefault(
                        message.id, HistoryEntry(message=message, time=event.time, turn_id=event.turn_id)
                    )
    return History(
        state=state,
        entries=tuple(entries.values()),
        created=0.0 if first is None else first.time,
        parent_call_id=first.parent_call_id if isinstance(first, SessionCreated) else None,
        turns=turns,
        steps=steps,
    )


def _new(before: Transcript, now: Transcript) -> Iterable[Message]:
    if now is before:
        return ()
    return now[len(before) :] if now.lineage is before.lineage else now
