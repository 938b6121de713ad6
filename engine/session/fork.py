"""`forked`: the history that a fork of a session begins with, at any message that was ever in it. Pure.

A message counts as it came: what stands before it is what stood there then, so that a
fork before a compaction has the messages which that replaced, and one inside a turn
that was undone later has that turn. A model's message and the results of its calls are
one: whoever names either gets both, or no host would take the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.core.errors import MessageNotFound
from engine.core.events import Durable, PromptBlocked
from engine.core.ids import MessageId
from engine.core.messages import AssistantMessage, Message, ResultsMessage, Transcript
from engine.journal.fold import apply
from engine.journal.state import SessionState


def forked(events: Iterable[Durable], at: str | None = None) -> tuple[Message, ...]:
    """Return the messages that a fork begins with: up to the one whose id is *at*, it included; by default all.

    Raises `MessageNotFound` if it was never in the transcript, or its words were not let
    pass; `JournalCorrupt` for an event that can't follow.
    """
    state = SessionState()
    messages: tuple[Message, ...] | None = None
    for event in events:
        before = state.transcript
        state = apply(state, event)
        if at is None or state.transcript is before:
            continue
        if messages is None:
            messages = _up_to(state.transcript, _first_new(before, state.transcript), MessageId(at))
        elif isinstance(event, PromptBlocked) and event.message_id == at:
            # A hook has taken these words back. That must not be undone by a fork.
            messages = None
    if at is None:
        return state.transcript[:]
    if messages is None:
        raise MessageNotFound(f"session {state.session_id} never had a message {at!r}")
    return messages


def _first_new(before: Transcript, now: Transcript) -> int:
    """Return from where on messages have to be looked at."""
    return len(before) if now.lineage is before.lineage else 0


def _up_to(messages: Sequence[Message], start: int, at: MessageId) -> tuple[Message, ...] | None:
    for index in range(start, len(messages)):
        message = messages[index]
        if message.id == at:
            after = messages[index + 1] if index + 1 < len(messages) else None
            has_results = isinstance(message, AssistantMessage) and isinstance(after, ResultsMessage)
            return tuple(messages[: index + 1 + has_results])
    return None
