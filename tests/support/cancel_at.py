"""A cancel at one step of Trio's scheduler, for what is no turn: a turn has `engine.testing.cancel_everywhere`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import attrs
import trio


@attrs.define(eq=False)
class CancelAt(trio.abc.Instrument):
    """Counts the steps inside of its scope, before and after each task's, and cancels at one of them.

    Attributes:
        step: at which; None: at none, to count them.
        steps: how many there were.
    """

    step: int | None = None
    steps: int = attrs.field(default=0, init=False)
    has_fired: bool = attrs.field(default=False, init=False)
    _cancels: trio.CancelScope | None = attrs.field(default=None, init=False)

    @contextmanager
    def scope(self) -> Generator[trio.CancelScope]:
        """Count the steps inside; the cancel ends there."""
        with trio.CancelScope() as scope:
            self._cancels = scope
            try:
                yield scope
            finally:
                self._cancels = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        self._count()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has run to its next checkpoint."""
        self._count()

    def _count(self) -> None:
        if self._cancels is None:
            return
        if self.steps == self.step:
            self._cancels.cancel(reason="injected by the test")
            self.has_fired = True
        self.steps += 1
