"""How far a batch is: events in, counts and an estimate out. Pure; times are seconds on one monotonic clock.

It keeps what runs, the newest totals, and the durations of the last attempts: a batch of a million tasks takes no more
memory than one of a thousand.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from typing import Final, assert_never

import attrs

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
from engine.batch.batch_status import DONE_STATUSES, BatchStatus, Phase

# The median is of so many attempts: later ones may be quite different from the first.
_REMEMBERED: Final = 500
# With fewer, an estimate would be a guess.
_FEWEST: Final = 3


@attrs.frozen(kw_only=True)
class RunningAttempt:
    """An attempt that runs.

    Attributes:
        since: when it began.
    """

    id: str
    attempt: int
    since: float
    phase: Phase = "wait"
    steps: int = 0
    cost: float = 0.0


@attrs.define(eq=False)
class BatchProgress:
    """The state of a batch, for a display.

    Attributes:
        name: of the batch.
        jobs: how many run at once.
        tasks: how many there are.
        counts: how many tasks have ended in each way, those of earlier runs included.
        running: what runs, the oldest first.
        cost: what this run has cost, in dollars, as far as that is known.
        is_cost_known: whether all that was used so far has a price.
        blocked: why nothing new may start; empty: it may.
    """

    name: str = ""
    jobs: int = 1
    tasks: int = 0
    counts: Mapping[BatchStatus, int] = attrs.field(factory=dict[BatchStatus, int], init=False)
    running: dict[str, RunningAttempt] = attrs.field(factory=dict[str, RunningAttempt], init=False)
    cost: float = attrs.field(default=0.0, init=False)
    is_cost_known: bool = attrs.field(default=True, init=False)
    blocked: str = attrs.field(default="", init=False)
    _done_before: int = attrs.field(default=0, init=False)
    _waiting: int = attrs.field(default=0, init=False)
    _seconds: deque[float] = attrs.field(factory=lambda: deque[float](maxlen=_REMEMBERED), init=False)

    def feed(self, event: BatchEvent, now: float) -> None:
        """Take note of *event*, which comes at *now*."""
        match event:
            case BatchStarted():
                self.name, self.jobs, self.tasks = event.name, max(1, event.jobs), event.tasks
                self._done_before, self._waiting = event.done, event.tasks - event.done
            case TaskQueued():
                pass  # the totals count it
            case TaskStarted():
                self._waiting = max(0, self._waiting - 1)
                self.running[event.id] = RunningAttempt(id=event.id, attempt=event.attempt, since=now)
            case TaskPhase() | TaskStep():
                self._advance(event)
            case TaskEnded():
                self._end(event)
            case BatchTotals():
                self._total(event)
            case _:
                assert_never(event)

    @property
    def done(self) -> int:
        """How many tasks are done: with a result, also one that is no success."""
        if not self.counts:
            return self._done_before
        # Of those with a result, some may wait to be run again.
        left = self._waiting + len(self.running)
        return min(sum(self.counts.get(status, 0) for status in DONE_STATUSES), max(0, self.tasks - left))

    def seconds_left(self, now: float) -> float | None:
        """Estimate how long the rest takes, from the median of what has ended; None: too little has."""
        left = self._waiting + len(self.running)
        if len(self._seconds) < _FEWEST or not left:
            return None
        median = statistics.median(self._seconds)
        running = [max(0.0, median - (now - task.since)) for task in self.running.values()]
        # The work is shared by all jobs; what runs longest can't be shared.
        return max((sum(running) + self._waiting * median) / min(self.jobs, left), max(running, default=0.0))

    def _advance(self, event: TaskPhase | TaskStep) -> None:
        task = self.running.get(event.id)
        if task is None:  # it has just ended
            return
        if isinstance(event, TaskPhase):
            self.running[event.id] = attrs.evolve(task, phase=event.phase)
        else:
            self.running[event.id] = attrs.evolve(task, steps=event.steps, cost=event.cost)

    def _end(self, event: TaskEnded) -> None:
        row = event.row
        self.running.pop(row.id, None)
        self.is_cost_known &= row.cost_known
        # What failed at once, or was interrupted, does not say how long a task takes.
        if row.status in DONE_STATUSES:
            self._seconds.append(sum(row.times.values()))

    def _total(self, totals: BatchTotals) -> None:
        self.tasks, self.counts, self._waiting = totals.tasks, totals.counts, totals.waiting
        self.cost, self.blocked = totals.cost, totals.blocked
