"""`trace_lines`: what ran when in a session, as lanes of characters. Pure.

Each turn is drawn to its own scale: the hours between two turns say nothing. The page (`render_trace`) shows more, and is
what to open for details.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from engine.core import events as ev
from engine.core.ids import CallId, InputId
from engine.export.sanitize import one_line
from engine.tools.tool_text import main_argument

_LABEL: Final = 28
_STATE: Final = 22
_LEAST_BAR: Final = 20
_MOST_PROMPT: Final = 60


@attrs.frozen(kw_only=True)
class LaneSymbols:
    """The characters of the lanes."""

    wait: str = "·"
    run: str = "█"
    question: str = "?"
    cancel: str = "┃"


ASCII_LANES: Final = LaneSymbols(wait=".", run="=", cancel="|")

LEGEND: Final = "{wait} waiting   {run} working   {question} question   {cancel} cancelled here"


@attrs.define(eq=False)
class _Lane:
    """A row: what a task did when."""

    label: str
    state: str = ""
    # (from, to, symbol's name); what comes later is drawn over what is there.
    bars: list[tuple[float, float, str]] = attrs.field(factory=list[tuple[float, float, str]])
    since: float = 0.0

    def add(self, until: float, kind: str) -> None:
        """Add a bar from where the last one ended."""
        self.bars.append((self.since, until, kind))
        self.since = until


@attrs.define(eq=False)
class _Turn:
    """The lanes of a turn."""

    started: float
    prompt: str = ""
    model: _Lane = attrs.field(factory=lambda: _Lane("model"))
    summary: _Lane = attrs.field(factory=lambda: _Lane("summary of the history"))
    calls: dict[CallId, _Lane] = attrs.field(factory=dict[CallId, _Lane])
    agents: list[_Lane] = attrs.field(factory=list[_Lane])
    questions: dict[str, CallId] = attrs.field(factory=dict[str, CallId])
    running: dict[CallId, float] = attrs.field(factory=dict[CallId, float])
    requests: int = 0
    # A request is on its way, or its answer is.
    is_waiting: bool = False
    is_answering: bool = False
    is_retrying: bool = False
    last: float = 0.0
    end: ev.TurnEnded | None = None

    @property
    def seconds(self) -> float:
        """How long it took, so far."""
        return max(self.last - self.started, 0.001)


def trace_lines(
    journals: Sequence[Iterable[ev.Durable]], width: int, symbols: LaneSymbols | None = None
) -> Iterator[str]:
    """Yield the lanes of a session, turn by turn.

    Args:
        journals: the events of the session, then those of its sub-agents.
        width: of a line, in characters.
        symbols: to draw with.
    """
    symbols = symbols or LaneSymbols()
    turns = _turns(journals[0])
    for journal in journals[1:]:
        _add_agent(turns, journal)
    for number, turn in enumerate(turns, 1):
        if number > 1:
            yield ""
        yield from _turn_lines(number, turn, width, symbols)
    if turns:
        yield ""
        yield LEGEND.format(**attrs.asdict(symbols))


# -- from events to lanes ---------------------------------------------------------------------


def _turns(journal: Iterable[ev.Durable]) -> list[_Turn]:
    turns: list[_Turn] = []
    prompts: dict[InputId, str] = {}
    for event in journal:
        match event:
            case ev.InputAdmitted():
                message = event.message
                prompts[event.input_id] = message.display or _text_of(message.parts)
            case ev.InputPromoted() if turns and not turns[-1].prompt:
                turns[-1].prompt = prompts.get(event.input_id, "")
            case ev.TurnStarted():
                turns.append(_Turn(event.time, last=event.time))
            case _ if turns:
                _feed(turns[-1], event)
            case _:
                pass
    return turns


def _text_of(parts: Iterable[object]) -> str:
    return " ".join(text for part in parts if isinstance(text := getattr(part, "text", None), str))


def _feed(turn: _Turn, event: ev.Durable) -> None:
    """Draw *event* into the lanes of *turn*."""
    if turn.end is not None:
        return
    turn.last = max(turn.last, event.time)
    match event:
        case ev.StepStarted() | ev.StepReceived() | ev.RetryScheduled() | ev.TurnEnded():
            _feed_request(turn, event)
        case ev.PartStarted() | ev.CallAnnounced() if turn.is_waiting and not turn.is_answering:
            turn.is_answering = True
            turn.model.add(event.time, "wait")
        case ev.CallQueued() | ev.CallStarted() | ev.CallSettled() | ev.PermissionAsked() | ev.PermissionAnswered():
            _feed_call(turn, event)
        case ev.CompactionStarted():
            turn.summary.since = event.time
        case ev.CompactionEnded():
            turn.summary.add(event.time, "run")
        case _:
            pass


def _feed_request(turn: _Turn, event: ev.StepStarted | ev.StepReceived | ev.RetryScheduled | ev.TurnEnded) -> None:
    if turn.is_retrying:
        turn.model.add(event.time, "wait")
        turn.is_retrying = False
    match event:
        case ev.StepStarted():
            turn.requests += 1
            turn.model.since, turn.is_waiting = event.time, True
        case ev.StepReceived():
            _end_request(turn, event.time)
        case ev.RetryScheduled():
            _end_request(turn, event.time)
            turn.is_retrying = True
        case ev.TurnEnded():
            # Whatever ends a turn early ends its request at once.
            _end_request(turn, event.time if event.ending is None else event.ending.at or event.time)
            turn.end = event


def _end_request(turn: _Turn, time: float) -> None:
    if turn.is_waiting:
        turn.model.add(time, "run" if turn.is_answering else "wait")
    turn.is_waiting = turn.is_answering = False


def _feed_call(
    turn: _Turn,
    event: ev.CallQueued | ev.CallStarted | ev.CallSettled | ev.PermissionAsked | ev.PermissionAnswered,
) -> None:
    match event:
        case ev.CallQueued():
            label = f"{event.tool} {main_argument(event.arguments)}".rstrip()
            turn.calls[event.call_id] = _Lane(label, "running", since=event.time)
        case ev.PermissionAsked():
            if (lane := turn.calls.get(event.call_id)) is not None:
                lane.add(event.time, "run" if event.call_id in turn.running else "wait")
                turn.questions[event.request_id] = event.call_id
        case ev.PermissionAnswered():
            call_id = turn.questions.pop(event.request_id, None)
            if call_id is not None:
                turn.calls[call_id].add(event.time, "question")
        case ev.CallStarted():
            if (lane := turn.calls.get(event.call_id)) is not None:
                lane.add(event.time, "wait")
                turn.running[event.call_id] = event.time
        case ev.CallSettled():
            if (lane := turn.calls.get(event.call_id)) is not None:
                has_run = turn.running.pop(event.call_id, None) is not None
                lane.add(event.time, "run" if has_run else "wait")
                lane.state = _state(event)


def _state(event: ev.CallSettled) -> str:
    settlement = event.settlement
    if settlement.status == "completed":
        return "failed" if settlement.failed else ""
    return (settlement.reason or settlement.status).replace("_", " ")


def _add_agent(turns: Sequence[_Turn], journal: Iterable[ev.Durable]) -> None:
    """Add the lane of a sub-agent to the turn in which it worked."""
    name = "sub-agent"
    for event in journal:
        if isinstance(event, ev.SessionCreated):
            name = event.agent or name
    for own in _turns(journal):
        # The last turn that had started by then.
        host = next((turn for turn in reversed(turns) if turn.started <= own.started), None)
        if host is not None:
            lane = _Lane(f"  agent {name}", _stop(own))
            lane.bars = [*own.model.bars, *(bar for call in own.calls.values() for bar in call.bars if bar[2] == "run")]
            host.agents.append(lane)


def _stop(turn: _Turn) -> str:
    if turn.end is None:
        return "running"
    reason = turn.end.result.stop_reason
    return "" if reason == "completed" else reason.replace("_", " ")


# -- from lanes to text -----------------------------------------------------------------------


def _turn_lines(number: int, turn: _Turn, width: int, symbols: LaneSymbols) -> Iterator[str]:
    facts = f"{_stop(turn) or 'completed'}, {_seconds(turn.seconds)}, {turn.requests} request{'' if turn.requests == 1 else 's'}"
    prompt = one_line(turn.prompt, min(_MOST_PROMPT, max(1, width - len(facts) - 14)))
    yield f"Turn {number}  {facts}" + (f"  {prompt}" if prompt else "")
    columns = max(_LEAST_BAR, width - _LABEL - _STATE - 2)
    yield f"{'':{_LABEL}} {_axis(turn.seconds, columns)}".rstrip()
    ending = None if turn.end is None else turn.end.ending
    # Sessions of older engines do not say when.
    cancelled = 0.0 if ending is None else ending.at
    lanes = (turn.model, turn.summary, *turn.calls.values(), *turn.agents)
    for lane in (lane for lane in lanes if lane.bars or lane.state):
        label = one_line(lane.label, _LABEL)
        bar = _bar(lane, turn, columns, symbols, cancelled)
        yield f"{label:{_LABEL}} {bar} {lane.state}".rstrip()
    if ending is not None and cancelled:
        yield _ending_line(turn, ending)


def _ending_line(turn: _Turn, ending: ev.Ending) -> str:
    at, after = ending.at - turn.started, turn.last - ending.at
    grace = max(0.0, ending.until - ending.at)
    detail = one_line(ending.detail or ending.cause.replace("_", " "), 40)
    return f"{'':{_LABEL}} {detail} at {_seconds(at)}; over {_seconds(after)} later (grace {_seconds(grace)})"


def _bar(lane: _Lane, turn: _Turn, columns: int, symbols: LaneSymbols, cancelled: float) -> str:
    scale = columns / turn.seconds
    cells = [" "] * columns

    def column(time: float) -> int:
        return min(columns - 1, max(0, int((time - turn.started) * scale)))

    bars = list(lane.bars)
    if lane.state == "running":
        bars.append((lane.since, turn.last, "run"))
    for start, until, kind in bars:
        # What has taken time has a character, however short it was; waiting for nothing has none.
        if kind == "wait" and column(start) == column(until):
            continue
        for index in range(column(start), column(until) + 1):
            cells[index] = getattr(symbols, kind)
    if cancelled and any(start <= cancelled <= until for start, until, _ in bars):
        cells[column(cancelled)] = symbols.cancel
    return "".join(cells)


def _axis(seconds: float, columns: int) -> str:
    middle, end = _seconds(seconds / 2), _seconds(seconds)
    left = f"0{middle:>{columns // 2 - 1 + len(middle) // 2}}"
    return f"{left}{end:>{max(0, columns - len(left))}}"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{max(0.0, seconds):.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
