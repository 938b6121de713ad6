"""The queue of a batch: what may run next. Two tasks with one folder are never out of it at once."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import attrs
import trio

from engine.batch.attempt_runner import Attempt
from engine.core.value_base import Value

# A gate may open by itself: space on the disk does not announce itself.
_LOOK_SECONDS: Final = 1.0


@attrs.frozen(eq=False, repr=False)
class QueuedAttempt(Value):
    """An attempt that waits.

    Attributes:
        attempt: what to run.
        tries: how many there were in this run, with this one.
    """

    attempt: Attempt
    tries: int = 1

    @property
    def folder(self) -> str:
        """The folder that it needs for itself; empty: it has its own."""
        task = self.attempt.task
        return task.cwd if task.in_place else ""


@attrs.define(eq=False, repr=False)
class TaskQueue:
    """The attempts that wait, in their order.

    Attributes:
        running: how many were taken and are not over.
        reason: why it was closed before it was empty; empty: it was not.
    """

    _blocked: Callable[[], str]
    running: int = attrs.field(default=0, init=False)
    reason: str = attrs.field(default="", init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _ready: deque[QueuedAttempt] = attrs.field(factory=deque[QueuedAttempt], init=False)
    _later: list[tuple[float, int, QueuedAttempt]] = attrs.field(
        factory=list[tuple[float, int, QueuedAttempt]], init=False
    )
    _busy: set[str] = attrs.field(factory=set[str], init=False)
    _parked: dict[str, deque[QueuedAttempt]] = attrs.field(factory=dict[str, deque[QueuedAttempt]], init=False)
    _order: Iterator[int] = attrs.field(factory=itertools.count, init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._ready) + len(self._later) + sum(map(len, self._parked.values()))

    def put(self, item: QueuedAttempt, delay: float = 0.0) -> None:
        """Add an attempt, to be taken after *delay* seconds at the earliest. Not a checkpoint."""
        if delay:
            heapq.heappush(self._later, (trio.current_time() + delay, next(self._order), item))
        else:
            self._ready.append(item)
        self._notify()

    def close(self, reason: str = "") -> None:
        """Give out no more. Not a checkpoint."""
        self.reason = self.reason or reason
        self._is_closed = True
        self._notify()

    async def take(self) -> QueuedAttempt | None:
        """Return the next attempt that may run; None: no more will come. A checkpoint. If cancelled, none is taken."""
        await trio.lowlevel.checkpoint()
        while not self._is_closed:
            why = self._blocked()
            item = None if why else self._next()
            if item is not None:
                self.running += 1
                return item
            if not self.running and (why or not len(self)):
                # With nothing running, nothing that we do would open the gate.
                self.close(why)
                break
            until = self._later[0][0] if self._later else float("inf")
            with trio.move_on_at(min(until, trio.current_time() + _LOOK_SECONDS) if why else until):
                await self._changed.wait()
        return None

    def finish(self, item: QueuedAttempt) -> None:
        """Let what needs the same folder run. Not a checkpoint."""
        self.running -= 1
        self._busy.discard(item.folder)
        waiting = self._parked.get(item.folder)
        if waiting:
            self._ready.appendleft(waiting.popleft())
        if not waiting:
            self._parked.pop(item.folder, None)
        self._notify()

    def _next(self) -> QueuedAttempt | None:
        while self._later and self._later[0][0] <= trio.current_time():
            self._ready.append(heapq.heappop(self._later)[2])
        while self._ready:
            item = self._ready.popleft()
            if not item.folder:
                return item
            if item.folder not in self._busy:
                self._busy.add(item.folder)
                return item
            self._parked.setdefault(item.folder, deque()).append(item)
        return None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
