"""How far a batch is: what events make of the counts, the rows and the estimate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_events import (
    BatchEvent,
    BatchStarted,
    BatchTotals,
    TaskEnded,
    TaskPhase,
    TaskQueued,
    TaskStarted,
    TaskStep,
)
from engine.batch.batch_progress import BatchProgress
from engine.batch.batch_status import PHASES, STATUSES, BatchStatus


def ended(task_id: str, seconds: float = 10.0, status: BatchStatus = "passed", *, cost_known: bool = True) -> TaskEnded:
    row = AttemptRow(id=task_id, attempt=1, status=status, times={"model": seconds}, cost_known=cost_known)
    return TaskEnded(row=row)


def totals(tasks: int, waiting: int, **counts: int) -> BatchTotals:
    return BatchTotals(
        tasks=tasks,
        counts={status: counts[status] for status in STATUSES if status in counts},
        running=0,
        waiting=waiting,
        cost=1.5,
        tokens=7,
        seconds=1.0,
    )


def fed(*events: BatchEvent, jobs: int = 2, tasks: int = 10) -> BatchProgress:
    progress = BatchProgress()
    for event in (BatchStarted(name="b", tasks=tasks, done=0, jobs=jobs), *events):
        progress.feed(event, 0.0)
    return progress


def test_running_task_has_its_phase_step_and_cost() -> None:
    progress = fed(
        TaskQueued(id="a", attempt=1),
        TaskStarted(id="a", attempt=2),
        TaskPhase(id="a", attempt=2, phase="model"),
        TaskStep(id="a", attempt=2, steps=3, tokens=100, cost=0.25),
        TaskPhase(id="a", attempt=2, phase="tools"),
    )
    (task,) = progress.running.values()
    assert (task.attempt, task.phase, task.steps, task.cost) == (2, "tools", 3, 0.25)


def test_result_is_done_and_fault_is_not() -> None:
    progress = fed(totals(10, 4, passed=2, failed=1, timeout=1, infra=1, cancelled=1))
    assert (progress.done, progress.tasks, progress.cost) == (4, 10, 1.5)


def test_task_to_be_run_again_is_not_done() -> None:
    assert fed(totals(10, 6, passed=8)).done == 4


def test_tasks_of_earlier_runs_are_done() -> None:
    progress = BatchProgress()
    progress.feed(BatchStarted(name="b", tasks=10, done=7, jobs=1), 0.0)
    assert progress.done == 7


def test_estimate_is_from_the_median() -> None:
    # One of the three took very long.
    progress = fed(
        ended("a", 10.0), ended("b", 1_000.0), ended("c", 20.0), totals(10, 6), TaskStarted(id="d", attempt=1)
    )
    assert progress.seconds_left(0.0) == (20 + 5 * 20) / 2
    assert progress.seconds_left(15.0) == (5 + 5 * 20) / 2
    assert progress.seconds_left(1_000.0) == 5 * 20 / 2


def test_faults_do_not_count_for_the_estimate() -> None:
    progress = fed(*(ended(str(n), 0.1, "infra") for n in range(9)), totals(10, 9))
    assert progress.seconds_left(0.0) is None


def test_unknown_price_is_remembered() -> None:
    assert not fed(ended("a", cost_known=False), ended("b")).is_cost_known


_IDS = st.sampled_from(["a", "b", "c"])
_EVENTS = st.one_of(
    st.builds(TaskQueued, id=_IDS, attempt=st.just(1)),
    st.builds(TaskStarted, id=_IDS, attempt=st.just(1)),
    st.builds(TaskPhase, id=_IDS, attempt=st.just(1), phase=st.sampled_from(PHASES)),
    st.builds(TaskStep, id=_IDS, attempt=st.just(1), steps=st.integers(0, 9), tokens=st.just(1), cost=st.floats(0, 9)),
    st.builds(ended, _IDS, st.floats(0, 1e6), st.sampled_from(STATUSES)),
    st.builds(totals, st.integers(0, 99), st.integers(0, 99)),
)


@given(st.lists(_EVENTS, max_size=30), st.floats(0, 1e6))
def test_estimate_is_finite_whatever_comes(events: list[BatchEvent], now: float) -> None:
    left = fed(*events).seconds_left(now)
    assert left is None or (left >= 0 and math.isfinite(left))


@pytest.mark.parametrize("attempts", [1_000, 20_000])
def test_memory_does_not_grow_with_attempts(attempts: int) -> None:
    progress = fed()
    for number in range(attempts):
        progress.feed(TaskStarted(id=str(number), attempt=1), 0.0)
        progress.feed(ended(str(number)), 0.0)
    assert not progress.running
    assert len(progress._seconds) == 500  # what it remembers
