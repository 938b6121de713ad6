"""The summary of a batch: `summary.json`, derived from the rows of the ledger each time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from engine.batch.batch_status import BatchStatus
from engine.batch.batch_tally import BatchTally
from engine.core.errors import StoreError
from engine.core.version import __version__
from engine.snapshots.snapshot_dir import write_atomically

SUMMARY_NAME: Final = "summary.json"


def batch_summary(name: str, tally: BatchTally, *, tasks: int) -> dict[str, object]:
    """Return the summary as a JSON object.

    Args:
        name: the batch.
        tally: of all rows.
        tasks: how many tasks the file has; those without a row never ended.
    """
    retried = [name for name, record in tally.records.items() if record.was_retried]
    infra = [
        {"id": name, "class": record.error_class, "message": record.message, "attempts": record.attempt}
        for name, record in tally.records.items()
        if record.status == "infra"
    ]
    return {
        "name": name,
        "engine": __version__,
        "tasks": tasks,
        "without_row": max(0, tasks - len(tally.records)),
        "counts": tally.counts,
        "pass_rate": _pass_rate(tally.counts),
        "retried": retried,
        "without_retried": {
            "counts": tally.counts_without_retried,
            "pass_rate": _pass_rate(tally.counts_without_retried),
        },
        "infra": infra,
        "configurations": sorted({record.config_hash for record in tally.records.values()}),
        "attempts": tally.rows,
        "denied": tally.denied,
        "usage": {field.name: getattr(tally.usage, field.name) for field in attrs.fields(type(tally.usage))},
        "cost": tally.cost,
        "cost_known": tally.has_whole_cost,
    }


def write_summary(folder: Path, summary: Mapping[str, object], name: str = SUMMARY_NAME) -> None:
    """Write the file. It blocks. Raises `StoreError`."""
    path = folder / name
    try:
        write_atomically(path, f"{json.dumps(summary, indent=2)}\n".encode())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


def _pass_rate(counts: Mapping[BatchStatus, int]) -> float | None:
    """Return the share of tasks with a check that passed it; None: there are none. A stopped task did not pass."""
    compared = sum(counts.get(status, 0) for status in ("passed", "failed", "stopped", "timeout"))
    return round(counts.get("passed", 0) / compared, 6) if counts.get("passed", 0) + counts.get("failed", 0) else None
