"""What a turn is doing, for a user who waits: pure functions of a state and the time.

`feed` takes the events of a turn. `status_text` is for a line that replaces itself, `report_text` and `next_report` for
one that is added now and then. Times are seconds on any one clock.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from engine.cli.terminal.terminal_text import duration, one_line
from engine.core import events as ev
from engine.core.ids import CallId
from engine.core.value_base import Value
from engine.journal.state import Resync
from engine.tools.tool_text import main_argument

Activity = Literal["none", "waiting", "thinking", "writing", "tool", "retry", "compacting"]

# A quick answer shows nothing.
_SHOWN_AFTER: Final = 0.299
_SIGN_OF_LIFE_AFTER: Final = 20.0
_LIMIT_AFTER: Final = 60.0
_REPORTS: Final = (30.0, 120.0)
_REPORT_EVERY: Final = 300.0
_MAX_TOOL_CHARS: Final = 60


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WaitState(Value):
    """What a turn is doing, and since when.

    Attributes:
        activity: what it does; "none": it waits for the user, or has ended.
        model: the model that was asked.
        tool: the tool that runs, and what it runs.
        since: when this began.
        last_sign: when something last came from the model or the tool.
        until: when a retry begins.
        limit: for how many seconds a model may be silent; 0: no limit is known.
        calls: the calls that run, the oldest first, each with what it runs.
    """

    activity: Activity = "none"
    model: str = ""
    tool: str = ""
    since: float = 0.0
    last_sign: float = 0.0
    until: float = 0.0
    limit: float = 0.0
    calls: tuple[tuple[CallId, str], ...] = ()


def feed(state: WaitState, event: ev.Durable | ev.Live | Resync, now: float) -> WaitState:
    """Return the state after *event*, which came at *now*."""
    if isinstance(event, (Resync, ev.CallHeartbeat)):  # a heartbeat is ours, and proves nothing
        return state
    if len(event.path) > 1:  # a sub-agent works: its parent's call is what runs
        return attrs.evolve(state, last_sign=now)
    match event:
        case ev.StepStarted():
            return _begin(state, "waiting", now, model=event.model)
        case ev.ReasoningDelta():
            return _go_on(state, "thinking", now)
        case ev.TextDelta() | ev.ArgumentsDelta():
            return _go_on(state, "writing", now)
        case ev.RetryScheduled():
            return _begin(state, "retry", now, until=now + event.next_at - event.time)
        case ev.CompactionStarted():
            return _begin(state, "compacting", now)
        case ev.CallQueued() | ev.CallStarted() | ev.CallProgress() | ev.CallSettled():
            return _call(state, event, now)
        case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked() | ev.TurnEnding() | ev.TurnEnded():
            return attrs.evolve(state, activity="none", since=now, last_sign=now)
        case _:
            return state


def _call(
    state: WaitState, event: ev.CallQueued | ev.CallStarted | ev.CallProgress | ev.CallSettled, now: float
) -> WaitState:
    match event:
        case ev.CallQueued():
            # What it runs is known now; it is shown once it has started.
            what = f"{event.tool}: {' '.join(main_argument(event.arguments).split())}".rstrip(": ")
            return attrs.evolve(state, calls=(*state.calls, (event.call_id, what)))
        case ev.CallStarted():
            tool = next((what for call_id, what in state.calls if call_id == event.call_id), "")
            return _begin(state, "tool", now, tool=tool) if state.activity != "tool" else state
        case ev.CallProgress():
            return attrs.evolve(state, last_sign=now)
        case ev.CallSettled():
            calls = tuple(call for call in state.calls if call[0] != event.call_id)
            state = attrs.evolve(state, calls=calls, last_sign=now)
            if state.activity != "tool":
                return state
            return attrs.evolve(state, tool=calls[0][1]) if calls else _begin(state, "none", now)


def _begin(
    state: WaitState, activity: Activity, now: float, *, model: str = "", tool: str = "", until: float = 0.0
) -> WaitState:
    return attrs.evolve(
        state, activity=activity, since=now, last_sign=now, model=model or state.model, tool=tool, until=until
    )


def _go_on(state: WaitState, activity: Activity, now: float) -> WaitState:
    if state.activity == activity:
        return attrs.evolve(state, last_sign=now)
    return _begin(state, activity, now)


def status_text(state: WaitState, now: float, *, stop_key: str = "Ctrl-C", is_short: bool = False) -> str:
    """Return the status at *now*: `Waiting for MODEL · 3 s`; empty if there is none.

    Args:
        state: what the turn is doing.
        now: the time.
        stop_key: the key that stops it.
        is_short: only what is added to a line that already says what runs.
    """
    elapsed = now - state.since
    if state.activity == "none" or elapsed < _SHOWN_AFTER:
        return ""
    parts = [] if is_short else [_doing(state, now)]
    if state.activity == "retry":
        return " · ".join(parts)
    silence = now - state.last_sign
    if silence >= _SIGN_OF_LIFE_AFTER:
        parts.append(f"last sign of life {_span(silence)} ago")
    if silence >= _LIMIT_AFTER:
        if state.limit and state.activity != "tool":
            parts.append(f"limit {_span(state.limit)}")
        parts.append(f"{stop_key}: stop")
    return " · ".join(parts)


def _doing(state: WaitState, now: float) -> str:
    match state.activity:
        case "retry":
            return f"Retrying in {_span(max(0.0, state.until - now))}"
        case "waiting":
            what = f"Waiting for {one_line(state.model, _MAX_TOOL_CHARS) or 'the model'}"
        case "tool":
            what = f"Running {one_line(state.tool, _MAX_TOOL_CHARS) or 'a tool'}"
        case "compacting":
            what = "Summarising"
        case _:
            what = state.activity.capitalize()
    return f"{what} · {_span(now - state.since)}"


def next_report(state: WaitState, now: float) -> float | None:
    """Return when the next line of a report is due, after *now*; None: nothing is being waited for."""
    if state.activity in {"none", "retry"}:  # a retry has a line of its own
        return None
    elapsed = now - state.since
    first = next((due for due in _REPORTS if due > elapsed), None)
    if first is not None:
        return state.since + first
    count = int((elapsed - _REPORTS[-1]) // _REPORT_EVERY) + 1
    return state.since + _REPORTS[-1] + count * _REPORT_EVERY


def _span(seconds: float) -> str:
    """Return a time in whole seconds: `3 s`, `2 min 5 s`."""
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else duration(whole)
