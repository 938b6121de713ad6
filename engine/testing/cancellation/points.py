"""The points of a run, and a cancel at one of them.

Points lie before and after each scheduler step, and where a program marks one; neither kind alone finds every bug.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import contextmanager

import attrs
import trio

from engine.testing.cancellation.injections import Injection

_counters: list[PointCounter] = []


@attrs.define(eq=False)
class PointCounter(trio.abc.Instrument):
    """Counts the points of a run while it is armed, and strikes at the selected one.

    It is a trio instrument, and has the method of a port's trace. A subclass says what a strike does.

    Attributes:
        injection: where to strike; None: nowhere, to count the points.
        names: the points, in order.
        armed: points are counted; the set-up of a run is the same every time.
        fired: the number of strikes.
        fired_at: Trio's time at the first one.
    """

    injection: Injection | None
    names: list[str] = attrs.field(factory=list[str], init=False)
    armed: bool = attrs.field(default=False, init=False)
    fired: int = attrs.field(default=0, init=False)
    fired_at: float | None = attrs.field(default=None, init=False)
    _first: int = attrs.field(default=0, init=False)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        self.point(f"before {task.name}")

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has run to its next checkpoint."""
        self.point(f"after {task.name}")

    def point(self, name: str) -> None:
        """Count this point, and strike if it is the selected one."""
        if not self.armed:
            return
        index = len(self.names)
        self.names.append(name)
        injection = self.injection
        if injection is None:
            return
        if not self.fired:
            if injection.is_at(index, name):
                self.fired += 1
                self.fired_at = trio.current_time()
                self._first = index
                self.strike(first=True)
        elif index == self._first + injection.second and self.strikes_twice():
            self.fired += 1
            self.strike(first=False)

    @abstractmethod
    def strikes_twice(self) -> bool:
        """Tell whether the way of the injection has a second part."""

    @abstractmethod
    def strike(self, *, first: bool) -> None:
        """Cancel, in the way of the injection."""


@contextmanager
def installed(counter: PointCounter) -> Generator[None]:
    """Let `mark_point` reach *counter*."""
    _counters.append(counter)
    try:
        yield
    finally:
        _counters.remove(counter)


def mark_point(name: str) -> None:
    """Name a point inside a step, at which `cancel_everywhere` cancels as well; it does nothing otherwise.

    For code whose state changes between two checkpoints: a callback may cancel there.
    """
    if _counters:
        _counters[-1].point(name)
