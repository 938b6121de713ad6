"""Which turns only wait, so that another engine can go on with them: pure functions.

A turn *only waits* if the answer of its open step is complete, each of its calls is settled, has not begun, or is inside a
tool that may be entered again, and a question is open or a result from outside is expected. Then nothing is under way that
the end of the process could cut in two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.core.errors import TurnParked
from engine.core.events import Durable, StepEnded, TurnStarted
from engine.core.messages import Usage
from engine.journal.state import OpenCall, OpenStep, SessionState


def only_waits(state: SessionState, may_enter_again: Callable[[str], bool]) -> bool:
    """Return whether the open turn of *state* waits for an answer or a result, and for nothing else."""
    turn = state.turn
    if turn is None or turn.step is None or turn.step.received is None:
        return False
    if turn.recovery is not None or turn.retry is not None:
        # Between two requests nothing is lost by a new prompt, and the wait would be over when the turn is resumed.
        return False
    running = [call.tool for call in turn.step.calls if call.state == "running"]
    has_reason = bool(turn.requests or turn.questions or running)
    return has_reason and _is_received(turn.step) and all(map(may_enter_again, running))


def _is_received(step: OpenStep) -> bool:
    return all(part.part is not None for part in step.parts) and all(call.state != "receiving" for call in step.calls)


def waiting_calls(state: SessionState) -> tuple[OpenCall, ...]:
    """Return the calls of the open step that have no terminal state."""
    step = None if state.turn is None else state.turn.step
    return () if step is None else tuple(call for call in step.calls if call.settlement is None)


def spent(newest_first: Iterable[Durable], turn_id: str) -> tuple[Usage, float]:
    """Return what the ended steps of a turn have used, by the newest events of its session."""
    # From the end and only to the turn's start: a long session is read lazily from the disk.
    usage, cost = Usage(), 0.0
    for event in newest_first:
        if isinstance(event, TurnStarted) and event.turn_id == turn_id:
            break
        if isinstance(event, StepEnded):
            usage, cost = usage + event.usage, cost + event.cost
    return usage, cost


def check_not_parked(state: SessionState, request_id: object = None, *, is_running: bool = False) -> None:
    """Raise `TurnParked` if the session has a parked turn that waits for *request_id*; None: for anything."""
    if state.turn is None or is_running or (request_id is not None and request_id not in state.turn.waiting):
        return
    raise TurnParked(
        f"turn {state.turn.turn_id} of session {state.session_id} is parked: go on with it first, with session.resume(); "
        "what it asks is then asked again"
    )
