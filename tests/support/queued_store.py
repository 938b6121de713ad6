"""A store in memory with a queue of tasks: for workers that are cancelled at every point, where no database can be."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from engine.core.errors import InputConflict
from engine.store.memory import MemoryStore
from engine.store.work_queue import FAILED, QueuedTask, TaskSpec


@attrs.define(eq=False, repr=False)
class MemoryQueue:
    """See `WorkQueue`: of workers that share one process and never die."""

    tasks: dict[str, QueuedTask] = attrs.field(factory=dict[str, QueuedTask], init=False)
    taken: list[str] = attrs.field(factory=list[str], init=False)

    async def add(self, spec: TaskSpec) -> QueuedTask:
        await trio.lowlevel.checkpoint()
        task = self.tasks.setdefault(spec.key, QueuedTask(spec=spec, state="waiting", enqueued=0.0))
        if task.spec != spec:
            raise InputConflict(f"the key {spec.key!r} was used before for another task")
        return task

    async def take(self, *, most_attempts: int) -> QueuedTask | None:
        await trio.lowlevel.checkpoint()
        task = next((task for task in self.tasks.values() if task.state == "waiting"), None)
        if task is None:
            return None
        if task.attempts >= most_attempts:
            self._keep(attrs.evolve(task, state="ended", ended=1.0, outcome=FAILED))
            return None
        self.taken.append(task.spec.key)
        return self._keep(attrs.evolve(task, state="running", attempts=task.attempts + 1))

    async def end(self, key: str, outcome: str, detail: str) -> bool:
        await trio.lowlevel.checkpoint()
        self._keep(attrs.evolve(self.tasks[key], state="ended", ended=1.0, outcome=outcome, detail=detail))
        return True

    async def give_back(self, key: str, *, after: float, detail: str, counts: bool) -> None:  # nobody waits here
        await trio.lowlevel.checkpoint()
        task = self.tasks[key]
        self._keep(attrs.evolve(task, state="waiting", detail=detail, attempts=task.attempts - (not counts)))

    async def cancel(self, key: str) -> bool:
        await trio.lowlevel.checkpoint()
        task = self.tasks.get(key)
        if task is None or task.state != "waiting":
            return False
        self._keep(attrs.evolve(task, state="ended", ended=1.0, outcome="cancelled"))
        return True

    async def find(self, key: str) -> QueuedTask | None:
        await trio.lowlevel.checkpoint()
        return self.tasks.get(key)

    async def list(self, *, limit: int, ended: bool) -> Sequence[QueuedTask]:
        await trio.lowlevel.checkpoint()
        return [task for task in self.tasks.values() if (task.ended is not None) == ended][:limit]

    def _keep(self, task: QueuedTask) -> QueuedTask:
        self.tasks[task.spec.key] = task
        return task


@attrs.define(eq=False, repr=False)
class QueuedStore(MemoryStore):
    """Sessions and tasks in memory."""

    tasks: MemoryQueue = attrs.field(factory=MemoryQueue, init=False)
