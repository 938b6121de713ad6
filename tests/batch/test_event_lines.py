"""Events of a batch as lines of JSON."""

import json

import pytest

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_events import BatchEvent, BatchStarted, BatchTotals, TaskEnded, TaskPhase
from engine.batch.event_lines import event_line


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            BatchStarted(name="b", tasks=2, done=1, jobs=4),
            {"type": "batch_started", "time": 1.5, "name": "b", "tasks": 2, "done": 1, "jobs": 4},
        ),
        (
            TaskPhase(id="a\n\u2028", attempt=1, phase="model", session="ses_a"),
            {"type": "task_phase", "time": 1.5, "id": "a\n\u2028", "attempt": 1, "phase": "model", "session": "ses_a"},
        ),
    ],
)
def test_event_is_one_line(event: BatchEvent, expected: dict[str, object]) -> None:
    line = event_line(event, 1.5)
    assert line.count("\n") == 1
    assert line.isascii()
    assert json.loads(line) == expected


def test_row_is_as_in_the_ledger() -> None:
    document = json.loads(event_line(TaskEnded(row=AttemptRow(id="a", attempt=2, status="passed"), retry_in=4.0), 1.5))
    assert (document["type"], document["retry_in"]) == ("task_ended", 4.0)
    assert (document["row"]["id"], document["row"]["attempt"], document["row"]["status"]) == ("a", 2, "passed")


def test_totals_have_their_counts() -> None:
    totals = BatchTotals(
        tasks=3, counts={"passed": 2}, running=1, waiting=0, cost=0.5, tokens=9, seconds=1.0, blocked="disk"
    )
    document = json.loads(event_line(totals, 1.5))
    assert (document["type"], document["counts"], document["blocked"]) == ("batch_totals", {"passed": 2}, "disk")
