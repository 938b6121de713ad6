"""What `engine batch` prints at its end: how the batch ended, for people and for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.batch.batch_scheduler import BatchOutcome
from engine.batch.batch_summary import batch_summary
from engine.cli.terminal.exit_codes import DONE, FAILED, USAGE_ERROR, WITHHELD
from engine.cli.terminal.terminal_text import one_line
from engine.tools.tool_text import counted

_MAX_LISTED: Final = 10
_MESSAGE_CHARS: Final = 160


def outcome_line(name: str, results: Path, outcome: BatchOutcome, code: int) -> str:
    """Return how the batch ended as the last line of `--json`, with what `summary.json` holds."""
    document = {
        "type": "batch_ended",
        "time": round(time.time(), 3),
        "exit_code": code,
        "left": outcome.left,
        "reason": outcome.reason,
        "results": str(results),
        "summary": batch_summary(name, outcome.tally, tasks=outcome.tasks + outcome.bad),
    }
    return json.dumps(document) + "\n"


def outcome_text(
    name: str, results: Path, outcome: BatchOutcome, again: str = "The same command runs what is left."
) -> str:
    """Return how the batch ended, for people; *again* says how to run what is left."""
    lines = [*_outcome_lines(name, results, outcome), *([again] if outcome.left else [])]
    return "".join(f"{line}\n" for line in lines)


def _outcome_lines(name: str, results: Path, outcome: BatchOutcome) -> Iterator[str]:
    yield f"{one_line(name, 100)}: {counted(outcome.tasks, 'task')}"
    yield from _count_lines(outcome)
    yield from _remarks(outcome)
    yield f"results: {results}"


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
