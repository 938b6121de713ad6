"""Which turns only wait, so that another engine can go on with them: pure functions.

A turn *only waits* if the answer of its open step is whole, and each of its calls is
settled, or has not begun, or is inside a tool that may be entered again; and somebody has
been asked, or is expected to bring a result. Nothing is under way then that an end of
the process could cut in two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.core.events import Durable, StepEnded, TurnStarted
from engine.core.messages import Usage
from engine.journal.state import OpenCall, SessionState


def only_waits(state: SessionState, may_enter_again: Callable[[str], bool]) -> bool:
    """Tell whether the open turn of *state* waits for somebody, and for nothing else."""
    turn = state.turn
    if turn is None or turn.step is None or turn.step.received is None:
        return False
    if turn.recovery is not None or turn.retry is not None or any(part.part is None for part in turn.step.parts):
        return False
    running = [call for call in turn.step.calls if call.state == "running"]
    if not turn.requests and not turn.questions and not running:
        return False
    return all(call.state != "receiving" for call in turn.step.calls) and all(
        may_enter_again(call.tool) for call in running
    )


def waiting_calls(state: SessionState) -> tuple[OpenCall, ...]:
    """Return the calls of the open step that have no terminal state."""
    step = None if state.turn is None else state.turn.step
    return () if step is None else tuple(call for call in step.calls if call.settlement is None)


def spent(newest_first: Iterable[Durable], turn_id: str) -> tuple[Usage, float]:
    """Return what the ended steps of a turn have used, by the newest events of its session."""
    usage, cost = Usage(), 0.0
    for event in newest_first:
        if isinstance(event, TurnStarted) and event.turn_id == turn_id:
            break
        if isinstance(event, StepEnded):
            usage, cost = usage + event.usage, cost + event.cost
    return usage, cost
