"""`HostBlock`: a nursery that a host's `async with` holds open, and what to do when another task leaves it.

A nursery can be left only by the task that entered it. The block of an async generator that was not iterated to its end
is left by the task that finalises the generator, and there Trio would wait for ever.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Final, Self

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import WrongTask
from engine.core.exception_groups import leave
from engine.nursery.cleanup import until_empty

# How long the tasks of a concluded block have; those still running then will never stop.
_SECONDS: Final = 1.0


@attrs.define(eq=False, repr=False)
class HostBlock:
    """A block.

    Attributes:
        what: what it belongs to, for messages.
        nursery: the nursery of its tasks.
        is_misplaced: another task left it, so its nursery is still open in the task that entered it.
    """

    what: str
    nursery: trio.Nursery
    _manager: AbstractAsyncContextManager[trio.Nursery]
    _task: trio.lowlevel.Task = attrs.field(factory=trio.lowlevel.current_task, init=False)
    is_misplaced: bool = attrs.field(default=False, init=False)
    _is_left: bool = attrs.field(default=False, init=False)

    @classmethod
    async def enter(cls, what: str) -> Self:
        """Open a nursery in this task. Not a checkpoint."""
        manager = trio.open_nursery()
        # Entered by hand, since the block is the host's; `leave` handles its errors.
        return cls(what, await manager.__aenter__(), manager)

    @property
    def is_own(self) -> bool:
        """Whether it is open, and this task entered it."""
        return not self._is_left and trio.lowlevel.current_task() is self._task

    @enable_ki_protection
    async def leave(self, error: BaseException | None) -> None:
        """Leave the nursery, in the task that entered it; *error* is the block's exception. A schedule point."""
        self._is_left = True
        await leave(self._manager, error)

    async def leave_elsewhere(self) -> WrongTask:
        """Wait until its tasks, which are ending, have ended; return what to raise. For any task.

        A checkpoint; shielded.

        The nursery stays open, without tasks, in the task that entered it.
        """
        self.is_misplaced = True
        if not self._is_left:
            await until_empty(self.nursery, _SECONDS)  # noqa: ASYNC102  # bounded: see cleanup.py
        return WrongTask(self.what)
