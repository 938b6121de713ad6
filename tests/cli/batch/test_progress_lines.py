"""The lines of a batch: counts, a row for each task that runs, what has ended."""

from __future__ import annotations

import attrs
import pytest

from engine.batch.attempt_row import AttemptError, AttemptRow
from engine.batch.batch_events import BatchStarted, BatchTotals, TaskEnded, TaskPhase, TaskStarted, TaskStep
from engine.batch.batch_progress import BatchProgress
from engine.cli.batch.progress_lines import counts_line, ended_line, running_rows
from engine.cli.terminal.terminal_text import ASCII, UNICODE
from engine.cli.text.styled_text import cell_width, plain_text
from engine.pace.pace_port import LaneStatus, PaceKey

ENDED = AttemptRow(id="click-2", attempt=1, status="passed", steps=12, cost=0.031, times={"model": 60.0, "check": 4.0})


def progress(tasks: int = 500, running: int = 3, *, blocked: str = "") -> BatchProgress:
    state = BatchProgress()
    state.feed(BatchStarted(name="b", tasks=tasks, done=0, jobs=8), 0.0)
    for number in range(3):
        state.feed(TaskEnded(row=ENDED), 0.0)
        state.feed(TaskStarted(id=f"t{number}", attempt=1), 0.0)
    for number in range(running):
        state.feed(TaskStarted(id=f"task-{number}", attempt=number + 1), 10.0 * number)
        state.feed(TaskPhase(id=f"task-{number}", attempt=1, phase="model"), 0.0)
        state.feed(TaskStep(id=f"task-{number}", attempt=1, steps=number, tokens=1, cost=0.5 * number), 0.0)
    for number in range(3):
        state.running.pop(f"t{number}")
    counts = BatchTotals(
        tasks=tasks,
        counts={"passed": 30, "failed": 6, "infra": 1},
        running=running,
        waiting=48,
        cost=1.42,
        tokens=1,
        seconds=1.0,
        blocked=blocked,
    )
    state.feed(counts, 0.0)
    return state


def test_counts() -> None:
    assert counts_line(progress(), 0.0, UNICODE) == (
        "36 of 500 done · 3 running · passed 30 · failed 6 · infra 1 · $1.42 · about 7 min left"
    )
    assert counts_line(progress(), 0.0, ASCII).startswith("36 of 500 done - 3 running - passed 30")


def test_pace_at_each_host() -> None:
    key = PaceKey(host="anthropic", model="anthropic/claude")
    lane = LaneStatus(key=key, limit=20.0, permits=20, in_flight=18, waiting=4, cooldown=0.0, rate_limits=0)
    line = counts_line(progress(), 0.0, UNICODE, (lane, attrs.evolve(lane, cooldown=12.0)))
    assert "$1.42 · anthropic 18/20 · anthropic 18/20, paused 12.0 s · about 7 min left" in line


def test_reason_of_a_pause_stands_for_the_estimate() -> None:
    line = counts_line(progress(blocked="2 GiB free\nof 5"), 0.0, UNICODE)
    assert line.endswith("$1.42 · paused: 2 GiB free of 5")


def test_unknown_prices_are_said() -> None:
    state = progress()
    state.feed(TaskEnded(row=AttemptRow(id="x", attempt=1, status="passed", cost_known=False)), 0.0)
    assert "$1.42 and what has no known price" in counts_line(state, 0.0, UNICODE)


def test_each_running_task_has_a_row() -> None:
    assert running_rows(progress(), 60.0, 80, 10) == [
        "  task-0  model                           1 min 0 s",
        "  task-1  model      step 1     $0.50     50.0 s  attempt 2",
        "  task-2  model      step 2     $1.00     40.0 s  attempt 3",
    ]


def test_rows_that_have_no_room_are_counted() -> None:
    rows = running_rows(progress(running=30), 60.0, 80, 4)
    assert len(rows) == 4
    assert rows[-1] == "  and 27 more"


def test_large_batch_has_no_rows() -> None:
    assert running_rows(progress(tasks=9_999), 0.0, 80, 10)
    assert not running_rows(progress(tasks=10_000), 0.0, 80, 10)


@pytest.mark.parametrize("width", [1, 20, 40, 80])
def test_rows_fit_and_obey_nothing(width: int) -> None:
    state = progress()
    state.feed(TaskStarted(id="日本" * 60 + "\x1b[2J\n\u202e", attempt=1), 0.0)
    rows = running_rows(state, 0.0, width, 10)
    assert all(cell_width(row) <= width and row.isprintable() for row in rows)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (TaskEnded(row=ENDED), "✓ passed  click-2 · 12 steps · $0.0310 · 1 min 4 s"),
        (
            TaskEnded(
                row=AttemptRow(
                    id="a\x1b[2J",
                    attempt=2,
                    status="infra",
                    error=AttemptError(kind="folder", message="no\nsuch folder"),
                ),
                retry_in=4.0,
            ),
            "✗ infra  a^[[2J · folder: no such folder · 0 ms · attempt 2 · again in 4.0 s",
        ),
        (
            TaskEnded(row=AttemptRow(id="a", attempt=1, status="stopped", stop_reason="cost_limit")),
            "✗ stopped  a · cost_limit · 0 ms",
        ),
        (TaskEnded(row=AttemptRow(id="a", attempt=1, status="cancelled")), "■ cancelled  a · 0 ms"),
    ],
)
def test_ended_attempt_is_a_line(event: TaskEnded, expected: str) -> None:
    assert plain_text(ended_line(event, UNICODE, 100)) == expected
    assert cell_width(plain_text(ended_line(event, UNICODE, 20))) <= 20
