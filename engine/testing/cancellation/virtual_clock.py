"""A clock that jumps while nothing happens, and follows real time while a thread or a child process is at work.

`trio.testing.MockClock` jumps also while a thread works, so that a deadline passes in no time.
"""

from __future__ import annotations

import time
from math import inf

import attrs
import trio

from engine.testing.cancellation.leftovers import child_pids
from engine.testing.cancellation.trio_internals import busy_threads, shortest_cushion

# How often to look whether a thread or a child process has ended, in real seconds; Trio is woken when its own have.
LOOK = 0.005


@attrs.define(eq=False)
class VirtualClock(trio.abc.Clock):
    """Virtual time for one run; no task sleeps in real time.

    Attributes:
        steps: counts the scheduler's steps; the run's instrument does.
    """

    steps: int = 0
    _others: set[int] = attrs.field(factory=child_pids, init=False)
    _busy: set[int] = attrs.field(factory=busy_threads, init=False)
    _now: float = 0.0
    _quiet_at: int = -1
    _real: float | None = None

    def start_clock(self) -> None:
        """Do nothing: the time begins with 0."""

    def current_time(self) -> float:
        """Return the virtual time."""
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long to wait for the network; called when no task can run."""
        if deadline <= self._now:
            return 0
        if busy_threads() - self._busy or child_pids() - self._others:
            self._quiet_at = -1
            return self._follow_real_time(deadline)
        self._real = None
        if self._quiet_at != self.steps:
            # Look at the network once more, without waiting: a thread may have ended since it was looked at last.
            self._quiet_at = self.steps
            return 0
        self._quiet_at = -1
        if shortest_cushion() is not None:
            # Trio wakes a task in `wait_all_tasks_blocked` before time passes, if it may wait for longer than the cushion.
            return inf
        if deadline == inf:
            # Nothing will ever happen, unless a signal comes: the watchdog of a run has a deadline.
            return LOOK
        self._now = deadline
        return 0

    def _follow_real_time(self, deadline: float) -> float:
        real = time.monotonic()
        if self._real is not None:
            self._now = min(deadline, self._now + real - self._real)
        self._real = real
        left = max(0.0, deadline - self._now)
        cushion = shortest_cushion()
        # A look for a thread that has ended would begin the cushion again.
        return left if cushion is not None and LOOK <= cushion < left else min(LOOK, left)
