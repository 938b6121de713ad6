"""Journals of sessions to which all sorts of things happened, and what the transcript was each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from hypothesis import strategies as st

from engine.core.events import Durable, HistoryReplaced, PromptBlocked, TurnEnded, TurnRedone, TurnResult, TurnUndone
from engine.core.events import TurnStarted as Started
from engine.core.ids import MessageId, PartId, TurnId
from engine.core.messages import AssistantMessage, Message, ResultsMessage, TextPart, Transcript, UserMessage
from engine.journal.fold import apply
from engine.journal.state import SessionState
from tests.store.journals import A, asked, created, numbered, turn

ACTIONS = ("turn", "turn", "long turn", "blocked", "compact", "prune", "undo", "redo")


@attrs.define
class _Past:
    """What a journal under way knows of its turns."""

    state: SessionState = attrs.field(factory=SessionState)
    begun: list[tuple[TurnId, int]] = attrs.field(factory=list[tuple[TurnId, int]])


def journal_of(actions: Sequence[str]) -> list[Durable]:
    """Return the journal of a session to which these happened; what can't happen is left out."""
    events: list[Durable] = []
    past = _Past()
    for number, action in enumerate(("create", *actions), 1):
        keep = len(past.state.transcript)
        for event in numbered(list(_events(past, number, action)), A, after=len(events)):
            events.append(event)
            past.state = apply(past.state, event)
        if "turn" in action:
            past.begun.append((TurnId(f"turn{number}"), keep))
    return events


def journals(max_size: int = 8) -> st.SearchStrategy[list[Durable]]:
    """Journals of sessions."""
    return st.lists(st.sampled_from(ACTIONS), max_size=max_size).map(journal_of)


def transcripts_of(events: Sequence[Durable]) -> Iterator[Transcript]:
    """Yield what the transcript was after each event."""
    state = SessionState()
    for event in events:
        state = apply(state, event)
        yield state.transcript


def _events(past: _Past, number: int, action: str) -> Iterator[Durable]:
    now = past.state.transcript
    match action:
        case "create":
            yield created()
        case "turn":
            yield from turn(number, f"ask {number}", f"answer {number}")
        case "long turn":
            yield from turn(number, f"ask {number}", f"answer {number}", steps=3)
        case "blocked":
            admitted, promoted = asked(number, "not to be said")
            blocked = PromptBlocked(message_id=MessageId(f"u{number}"), source="hook", reason="no")
            ended = TurnEnded(result=TurnResult(stop_reason="hook_stopped"))
            yield admitted
            yield from (attrs.evolve(e, turn_id=TurnId(f"b{number}")) for e in (Started(), promoted, blocked, ended))
        case "compact" if now:
            yield HistoryReplaced(kind="compact", messages=(_said(f"sum{number}", "the summary"), *_tail(now)))
            past.begun.clear()
        case "prune" if now:
            yield HistoryReplaced(kind="prune", messages=tuple(_pruned(message) for message in now))
        case "undo" if past.begun:
            undone, keep = past.begun.pop()
            yield TurnUndone(undone=undone, keep=keep)
        case "redo" if past.state.undone:
            redone = past.state.undone[-1]
            past.begun.append((redone.turn_id, redone.keep))
            yield TurnRedone(redone=redone.turn_id)
        case _:
            return


def _said(message_id: str, words: str) -> UserMessage:
    part = TextPart(id=PartId(f"{message_id}.p"), text=words)
    return UserMessage(id=MessageId(message_id), parts=(part,), origin="engine")


def _tail(now: Transcript) -> Sequence[Message]:
    start = max((i for i, message in enumerate(now) if isinstance(message, UserMessage)), default=0)
    return now[start:]


def _pruned(message: Message) -> Message:
    if not isinstance(message, ResultsMessage):
        return message
    results = tuple(attrs.evolve(r, settlement=attrs.evolve(r.settlement, text="[gone]")) for r in message.results)
    return attrs.evolve(message, results=results)


def is_whole(messages: Sequence[Message]) -> bool:
    """Tell whether each call has its result, right behind it."""
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.calls:
            after = messages[index + 1] if index + 1 < len(messages) else None
            if not isinstance(after, ResultsMessage) or len(after.results) != len(message.calls):
                return False
    return True
