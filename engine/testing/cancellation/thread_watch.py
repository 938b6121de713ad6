"""The cancels that `trio.from_thread.check_cancelled` raises in worker threads, until the waiting tasks run again."""

from __future__ import annotations

import attrs
import trio

from engine.testing.cancellation.cancel_target import CancelTarget
from engine.testing.cancellation.source_places import Place, calling_place
from engine.testing.cancellation.trio_internals import is_cancelled_by


@attrs.define(eq=False)
class ThreadWatch:
    """What was raised first in the thread that a task waits for, and where."""

    target: CancelTarget
    _raised: dict[trio.lowlevel.Task, tuple[BaseException, Place]] = attrs.field(
        factory=dict["trio.lowlevel.Task", tuple[BaseException, Place]], init=False
    )

    def note(self, task: trio.lowlevel.Task, error: BaseException) -> None:
        """Remember *error*, which is about to be raised in this thread, if it comes from our cancel."""
        if is_cancelled_by(task, (self.target.first, self.target.second)):
            self._raised.setdefault(task, (error, calling_place()))

    def take(self, task: trio.lowlevel.Task) -> tuple[BaseException, Place] | None:
        """Return what was raised in the thread of *task*, once."""
        return self._raised.pop(task, None)
