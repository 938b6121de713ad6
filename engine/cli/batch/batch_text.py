"""What `engine batch` prints: a line for each attempt that ends, and how the batch ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from engine.batch.batch_events import BatchEvent, BatchStarted, TaskEnded
from engine.batch.batch_scheduler import BatchOutcome
from engine.cli.terminal.exit_codes import DONE, FAILED, USAGE_ERROR, WITHHELD
from engine.cli.terminal.standard_streams import print_note
from engine.cli.terminal.terminal_text import duration, one_line
from engine.tools.tool_text import counted

_MAX_LISTED: Final = 10
_MESSAGE_CHARS: Final = 160


@attrs.define(eq=False, repr=False)
class EventPrinter:
    """Prints events to standard error."""

    def show(self, event: BatchEvent) -> None:
        """Print what an event says, if it is for people. Not a checkpoint."""
        match event:
            case BatchStarted():
                before = f", {event.done} of them done before" if event.done else ""
                print_note(f"{event.name}: {counted(event.tasks, 'task')}{before}")
            case TaskEnded():
                print_note(_row_line(event))
            case _:
                pass


def _row_line(event: TaskEnded) -> str:
    row = event.row
    parts = [f"{row.status:<9} {one_line(row.id, 60)}", duration(sum(row.times.values()))]
    if row.cost:
        parts.append(f"${row.cost:.4f}")
    if row.denied:
        parts.append(f"{row.denied} denied")
    if row.error is not None:
        parts.append(one_line(f"{row.error.kind}: {row.error.message}", _MESSAGE_CHARS))
    if event.retry_in is not None:
        parts.append(f"again in {duration(event.retry_in)}")
    return "  ".join(parts)


def outcome_text(name: str, results: Path, outcome: BatchOutcome) -> str:
    """Return how the batch ended, for people."""
    return "".join(f"{line}\n" for line in _outcome_lines(name, results, outcome))


def _outcome_lines(name: str, results: Path, outcome: BatchOutcome) -> Iterator[str]:
    yield f"{one_line(name, 100)}: {counted(outcome.tasks, 'task')}"
    yield from _count_lines(outcome)
    yield from _remarks(outcome)
    yield f"results: {results}"
    if outcome.left:
        yield "The same command runs what is left."


def _count_lines(outcome: BatchOutcome) -> Iterator[str]:
    """Yield how many tasks ended in each way."""
    tally = outcome.tally
    unretried = tally.counts_without_retried
    for status, count in tally.counts.items():
        retried = count - unretried.get(status, 0)
        yield f"  {status:<9} {count:>6}" + (f"  ({retried} of them retried)" if retried else "")
    missing = outcome.left - sum(not tally.is_done(key) for key in tally.records)
    if missing > 0:
        yield f"  {'not run':<9} {missing:>6}"


def _remarks(outcome: BatchOutcome) -> Iterator[str]:
    """Yield what else a user should know: faults, denials, money."""
    tally = outcome.tally
    faults = [(key, record) for key, record in tally.records.items() if record.status == "infra"]
    for key, record in faults[:_MAX_LISTED]:
        yield one_line(f"  infra {key}: {record.error_class}: {record.message}", _MESSAGE_CHARS + 60)
    if len(faults) > _MAX_LISTED:
        yield f"  and {len(faults) - _MAX_LISTED} more"
    if tally.denied:
        yield f"{counted(tally.denied, 'call')} denied, by rules or for lack of a user to ask"
    if tally.cost or not tally.has_whole_cost:
        yield f"cost ${tally.cost:.4f}" + ("" if tally.has_whole_cost else ", and more of models without a price")
    if outcome.damaged:
        yield f"{counted(len(outcome.damaged), 'line')} of the ledger can't be read, the first is line {outcome.damaged[0]}"
    if outcome.reason:
        yield f"stopped early: {outcome.reason}"


def exit_code(outcome: BatchOutcome, interrupted_by: int | None) -> int:
    """Return the exit code: what is left counts for more than what is wrong with tasks, and that for more than results."""
    if interrupted_by is not None:
        return 128 + interrupted_by
    counts = outcome.tally.counts
    if outcome.left > counts.get("bad_task", 0):
        return WITHHELD
    if outcome.bad or counts.get("bad_task", 0):
        return USAGE_ERROR
    return FAILED if any(counts.get(status, 0) for status in ("failed", "stopped", "timeout")) else DONE
