"""Events of a batch as lines of JSON, for programs that follow it."""

from __future__ import annotations

import json
import re

import attrs

from engine.batch.attempt_row import encode_row
from engine.batch.batch_events import BatchEvent, BatchTotals, TaskEnded


def event_line(event: BatchEvent, at: float) -> str:
    """Return *event* as a line of JSON; *at* is its time in seconds since the epoch. A row is as in the ledger."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    fields: dict[str, object] = {field.name: getattr(event, field.name) for field in attrs.fields(type(event))}
    match event:
        case TaskEnded():
            fields["row"] = json.loads(encode_row(event.row))
        case BatchTotals():
            fields["counts"] = dict(event.counts)
        case _:
            pass
    return json.dumps({"type": name, "time": round(at, 3), **fields}) + "\n"
