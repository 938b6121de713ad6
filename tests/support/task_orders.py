"""Every order in which Trio may resume the tasks of a run, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, MutableSequence
from contextlib import contextmanager

import attrs
import trio

from engine.testing.cancellation.trio_internals import order_tasks


@attrs.define(eq=False)
class TaskOrders:
    """The orders, as a tree that is walked depth first: at each step of the scheduler with several tasks, one of their orders.

    For each run: `while orders.next_run(): with orders.taken(): trio.run(...)`. It must do the same each time.

    Attributes:
        of: how the names of the tasks begin of which every order is taken; all others keep their places, by age.
        runs: how many have begun.
        widest: the most of those tasks that one step had.
    """

    of: str
    runs: int = 0
    widest: int = 0
    _path: list[int] = attrs.field(factory=list[int])
    _sizes: list[int] = attrs.field(factory=list[int])
    _at: int = 0
    _counts: Callable[[], bool] = attrs.field(default=bool)

    def next_run(self) -> bool:
        """Go to the next order; return whether there is one."""
        assert self._at == len(self._path), "a run took fewer steps than the one before it"
        self._at = 0
        while self.runs and self._path and self._path[-1] + 1 == math.factorial(self._sizes[-1]):
            del self._path[-1], self._sizes[-1]
        if self.runs and not self._path:
            return False
        if self._path:
            self._path[-1] += 1
        self.runs += 1
        return True

    @contextmanager
    def taken(self) -> Generator[None]:
        """Take that order in the block, from `begin` on."""
        self._counts = bool
        with order_tasks(self._order):
            yield

    def begin(self, counts: Callable[[], bool]) -> None:
        """Order tasks for as long as *counts*: what comes afterwards can change nothing any more."""
        self._counts = counts

    def _order(self, tasks: MutableSequence[trio.lowlevel.Task]) -> None:
        places = [place for place, task in enumerate(tasks) if task.name.startswith(self.of)]
        if len(places) < 2 or not self._counts():
            return
        if self._at == len(self._path):
            self._path.append(0)
            self._sizes.append(len(places))
        assert self._sizes[self._at] == len(places), "a run did not do what the one before it did"
        number = self._path[self._at]
        self._at += 1
        self.widest = max(self.widest, len(places))
        left = [tasks[place] for place in places]
        for place in places:
            number, index = divmod(number, len(left))
            tasks[place] = left.pop(index)
