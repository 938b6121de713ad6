"""Journals to store: any events at all, and those of sessions as they happen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from hypothesis import strategies as st

from engine.core.events import (
    DURABLE_TYPES,
    CallAnnounced,
    CallDelivered,
    CallJudged,
    CallQueued,
    CallSettled,
    CallStarted,
    Durable,
    InputAdmitted,
    InputPromoted,
    LoopContinued,
    Notice,
    PartEnded,
    PartStarted,
    SessionCreated,
    SharedContext,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnResult,
    TurnStarted,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import CallPart, Settlement, TextPart, Usage, UserMessage
from tests.support.values import values

A, B = SessionId("ses_a"), SessionId("ses_b")
MODEL = "anthropic/claude-sonnet-4-5"
BEGIN = 1_700_000_000.0
STEP_USAGE = Usage(input=100, output=50, cache_read=20, cache_write=10, reasoning=5)


def noted(session_id: SessionId, seq: int, text: str = "") -> Durable:
    """One event whose text says which it is."""
    said = text or f"{session_id} {seq}"
    return Notice(level="info", code="test", text=said, session_id=session_id, path=(session_id,), time=BEGIN, seq=seq)


def notes(session_id: SessionId, count: int, *, after: int = 0) -> list[Durable]:
    """Events that are only counted."""
    return [noted(session_id, seq) for seq in range(after + 1, after + count + 1)]


def numbered(
    events: Sequence[Durable],
    session_id: SessionId,
    *,
    after: int = 0,
    at: float = BEGIN,
    root: SessionId | None = None,
) -> list[Durable]:
    """The same events as a journal would have stamped them, one second apart."""
    path = (session_id,) if root is None else (root, session_id)
    return [
        attrs.evolve(event, session_id=session_id, path=path, seq=after + number, time=at + number)
        for number, event in enumerate(events, 1)
    ]


def any_journals(session_id: SessionId, *, max_size: int = 12) -> st.SearchStrategy[list[Durable]]:
    """Events of all kinds with all sorts of values, in no sensible order."""
    events = st.one_of([values(kind) for kind in DURABLE_TYPES])
    return st.lists(events, max_size=max_size).map(lambda drawn: numbered(drawn, session_id))


def created(parent: SessionId | None = None, cwd: str = "/home/dev/project") -> SessionCreated:
    return SessionCreated(context=SharedContext(cwd=cwd), model=MODEL, parent_id=parent)


def asked(number: int, words: str) -> list[Durable]:
    """A user's words, admitted and in their place."""
    message = UserMessage(id=MessageId(f"u{number}"), parts=(TextPart(id=PartId(f"up{number}"), text=words),))
    input_id = InputId(f"in{number}")
    return [InputAdmitted(input_id=input_id, mode="prompt", message=message), InputPromoted(input_id=input_id)]


def turn(number: int, words: str, answer: str, *, steps: int = 1, result: str = "read it") -> Iterator[Durable]:
    """The events of a turn: all but its last step have a call."""
    turn_id = TurnId(f"turn{number}")
    admitted, promoted = asked(number, words)
    yield admitted
    for event in (TurnStarted(), promoted, *_steps(number, answer, steps, result)):
        yield attrs.evolve(event, turn_id=turn_id)
    usage = sum([STEP_USAGE] * steps, Usage())
    ended = TurnResult(stop_reason="completed", text=answer, steps=steps, usage=usage, cost=0.25 * steps)
    yield attrs.evolve(TurnEnded(result=ended), turn_id=turn_id)


def _steps(number: int, answer: str, steps: int, result: str) -> Iterator[Durable]:
    for step in range(1, steps + 1):
        message_id = MessageId(f"m{number}.{step}")
        text_id = PartId(f"{message_id}.text")
        yield StepStarted(step=step, attempt=1, message_id=message_id, model=MODEL)
        yield PartStarted(message_id=message_id, part_id=text_id, kind="text")
        yield PartEnded(message_id=message_id, part=TextPart(id=text_id, text=answer))
        if step < steps:
            yield from _call(message_id, result)
        yield StepEnded(
            step=step,
            message_id=message_id,
            results_id=MessageId(f"{message_id}.results"),
            finish="calls" if step < steps else "stop",
            usage=STEP_USAGE,
            cost=0.25,
        )
        if step < steps:
            yield LoopContinued(reason="next_step", step=step + 1)


def _call(message_id: MessageId, result: str) -> Iterator[Durable]:
    part_id, call_id = PartId(f"{message_id}.call"), CallId(f"{message_id}.c")
    arguments = '{"path":"engine/service.py","offset":100}'
    yield PartStarted(message_id=message_id, part_id=part_id, kind="call")
    yield CallAnnounced(call_id=call_id, message_id=message_id, part_id=part_id, tool="read")
    yield PartEnded(message_id=message_id, part=CallPart(id=part_id, call_id=call_id, tool="read", arguments=arguments))
    yield CallQueued(call_id=call_id, tool="read", arguments=arguments)
    yield CallJudged(call_id=call_id, verdict="allow", source="rule")
    yield CallStarted(call_id=call_id)
    yield CallSettled(call_id=call_id, settlement=Settlement(status="completed", text=result))
    yield CallDelivered(call_id=call_id)


def session(
    session_id: SessionId = A,
    *turns: tuple[str, str],
    steps: int = 1,
    at: float = BEGIN,
    parent: SessionId | None = None,
    cwd: str = "/home/dev/project",
) -> list[Durable]:
    """The journal of a session of so many turns: what was asked, and answered."""
    events: list[Durable] = [created(parent, cwd)]
    for number, (words, answer) in enumerate(turns, 1):
        events += turn(number, words, answer, steps=steps)
    return numbered(events, session_id, at=at, root=parent)
