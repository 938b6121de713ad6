"""Ends a run whose clock is the test's own and stands still: no limit of virtual time ends what waits there."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import attrs
import trio

from engine.testing.cancellation.function_points import FunctionPoints
from engine.testing.cancellation.leftovers import child_pids
from engine.testing.cancellation.trio_internals import busy_threads


@attrs.define(eq=False)
class StandstillWatch(trio.abc.Instrument):
    """A thread that looks, now and then, whether a task has run since its last look."""

    _points: FunctionPoints
    _steps: int = attrs.field(default=0, init=False)
    _waits: bool = attrs.field(default=False, init=False)
    _ended: threading.Event = attrs.field(factory=threading.Event, init=False)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        self._steps += 1

    def before_io_wait(self, timeout: float) -> None:
        """No task can run."""
        self._waits = True

    def after_io_wait(self, timeout: float) -> None:
        """A task may be able to run."""
        self._waits = False

    @contextmanager
    def watching(self) -> Generator[None]:
        """Watch the run that is made inside."""
        thread = threading.Thread(target=self._watch, name="standstill watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        target = self._points.target
        threads, children = busy_threads(), child_pids()
        steps = -1
        while not self._ended.wait(target.most_quiet_seconds):
            is_quiet = self._waits and self._steps == steps
            steps = self._steps
            if is_quiet and target.token and not busy_threads() - threads and not child_pids() - children:
                with suppress(trio.RunFinishedError):
                    target.token.run_sync_soon(self._stand_still)

    def _stand_still(self) -> None:
        """Let the watchdog say that nothing happens; if that was said, and the function still has not ended, stop the run."""
        points = self._points
        if points.armed and points.target.stands_still:
            points.stop()
        elif points.armed:
            points.target.stands_still = True
            points.target.watchdog.cancel(reason="nothing happens")
