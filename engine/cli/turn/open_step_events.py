"""What an open step has brought so far, as events: for who comes later."""

from __future__ import annotations

import time
from collections.abc import Iterator

from engine.core import events as ev
from engine.journal.state import OpenStep, SessionState


def events_so_far(state: SessionState, step: OpenStep) -> Iterator[ev.Durable | ev.Live]:
    """Yield events that show what the open step has brought so far, as if they came now."""
    assert state.turn is not None
    turn_id, path, now = state.turn.turn_id, (state.session_id,), time.time()
    for part in step.parts:
        if part.kind == "text" and part.text:
            yield ev.TextDelta(
                session_id=state.session_id,
                turn_id=turn_id,
                path=path,
                time=now,
                message_id=step.message_id,
                part_id=part.part_id,
                after=state.seq,
                offset=0,
                text=part.text,
            )
    for call in step.calls:
        if call.state in {"settled", "delivered"}:
            continue
        yield ev.CallAnnounced(
            session_id=state.session_id,
            turn_id=turn_id,
            path=path,
            time=now,
            call_id=call.call_id,
            message_id=step.message_id,
            part_id=call.part_id,
            tool=call.tool,
        )
        yield ev.CallQueued(turn_id=turn_id, time=now, call_id=call.call_id, tool=call.tool, arguments=call.arguments)
        if call.state == "running":
            yield ev.CallStarted(turn_id=turn_id, time=now, call_id=call.call_id)
