"""A batch as lines: the counts, a row for each task that runs, a line for each that has ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_events import BatchStarted, TaskEnded
from engine.batch.batch_progress import BatchProgress, RunningAttempt
from engine.batch.batch_status import STATUSES, BatchStatus
from engine.cli.terminal.terminal_text import Symbols, duration, escape_on_one_line, one_line
from engine.cli.text.styled_text import Line, Style, cell_width, clip_line, line_of, line_width, plain_text
from engine.export.format_cost import format_cost
from engine.pace.pace_port import LaneStatus
from engine.tools.tool_text import counted

# With more, a row for each would only flicker.
MOST_SHOWN: Final = 10_000

_MOST_ID_CELLS: Final = 40
_PHASE_CELLS: Final = 9
_MOST_MESSAGE_CHARS: Final = 200
_STYLES: Final[Mapping[BatchStatus, Style]] = {
    "passed": Style.GOOD,
    "finished": Style.GOOD,
    "failed": Style.BAD,
    "stopped": Style.WARNING,
    "timeout": Style.WARNING,
    "infra": Style.BAD,
    "cancelled": Style.DIM,
    "bad_task": Style.BAD,
}


def started_line(event: BatchStarted) -> str:
    """Return how the batch begins: `NAME: 500 tasks, 37 of them done before`."""
    before = f", {event.done:,} of them done before" if event.done else ""
    return f"{one_line(event.name, _MOST_MESSAGE_CHARS)}: {counted(event.tasks, 'task')}{before}"


def counts_line(progress: BatchProgress, now: float, symbols: Symbols, lanes: Sequence[LaneStatus] = ()) -> str:
    """Return the counts: `37 of 500 done · 8 running · passed 30 · infra 1 · $1.42 · anthropic 18/20 · about 12 min left`."""
    facts = [f"{progress.done:,} of {progress.tasks:,} done"]
    if progress.running:
        facts.append(f"{len(progress.running):,} running")
    facts += [f"{name} {count:,}" for name in STATUSES if (count := progress.counts.get(name, 0))]
    cost = format_cost(progress.cost)
    facts.append(cost if progress.is_cost_known else f"{cost or '$0'} and what has no known price")
    facts += [_pace(lane) for lane in lanes]
    if progress.blocked:
        facts.append(f"paused: {one_line(progress.blocked, _MOST_MESSAGE_CHARS, symbols.cut)}")
    left = progress.seconds_left(now)
    if left is not None and not progress.blocked:
        facts.append(f"about {_rough_duration(left)} left")
    return symbols.between.join(fact for fact in facts if fact)


def running_rows(progress: BatchProgress, now: float, width: int, most: int) -> Sequence[str]:
    """Return a row for each task that runs, at most *most*, the oldest first; none in a batch of 10,000 tasks or more."""
    if progress.tasks >= MOST_SHOWN or most <= 0:
        return ()
    tasks = list(progress.running.values())
    shown = tasks if len(tasks) <= most else tasks[: most - 1]
    names = [_short_id(task.id) for task in shown]
    widest = max(map(cell_width, names), default=0)
    rows = [_row(task, name, widest, now, width) for task, name in zip(shown, names, strict=True)]
    return rows if len(shown) == len(tasks) else [*rows, f"  and {len(tasks) - len(shown):,} more"]


def ended_line(event: TaskEnded, symbols: Symbols, width: int) -> Line:
    """Return what stays of an attempt that has ended: `✓ passed  ID · step 12 · $0.03 · 1 min 4 s`."""
    row = event.row
    style = _STYLES[row.status]
    sign = symbols.done if style is Style.GOOD else symbols.stopped if style is Style.DIM else symbols.failed
    facts = [
        escape_on_one_line(row.id),
        _reason(row, symbols),
        counted(row.steps, "step") if row.steps else "",
        format_cost(row.cost),
        duration(sum(row.times.values())),
        f"attempt {row.attempt}" if row.attempt > 1 else "",
        "" if event.retry_in is None else f"again in {duration(event.retry_in)}",
    ]
    text = f"  {symbols.between.join(fact for fact in facts if fact)}"
    return clip_line((*line_of(f"{sign} {row.status}", style), *line_of(text)), width)


def _pace(lane: LaneStatus) -> str:
    """Return how many requests are under way at a host, and how many may be."""
    wait = f", paused {duration(lane.cooldown)}" if lane.cooldown > 0 else ""
    return f"{one_line(lane.key.host, _MOST_ID_CELLS)} {lane.in_flight}/{lane.permits}{wait}"


def _reason(row: AttemptRow, symbols: Symbols) -> str:
    if row.error is not None:
        return f"{row.error.kind}: {one_line(row.error.message, _MOST_MESSAGE_CHARS, symbols.cut)}"
    return row.stop_reason or "" if row.status == "stopped" else ""


def _row(task: RunningAttempt, name: str, widest: int, now: float, width: int) -> str:
    facts = [
        f"  {name}{' ' * (widest - cell_width(name))}",
        f"{task.phase:<{_PHASE_CELLS}}",
        f"{f'step {task.steps}' if task.steps else '':<9}",
        f"{format_cost(task.cost):<8}",
        duration(now - task.since),
        f"attempt {task.attempt}" if task.attempt > 1 else "",
    ]
    return plain_text(clip_line(line_of("  ".join(facts).rstrip()), width))


def _short_id(task_id: str) -> str:
    line = line_of(escape_on_one_line(task_id))
    return (
        plain_text(line)
        if line_width(line) <= _MOST_ID_CELLS
        else f"{plain_text(clip_line(line, _MOST_ID_CELLS - 1))}…"
    )


def _rough_duration(seconds: float) -> str:
    """Return an estimate without digits that it can't have."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
