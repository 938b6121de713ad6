"""`Worker`: takes tasks from the queue of its engine's store, and runs each as a turn.

    take ──► open the session ──► run the turn ──► end the task
               │                    │    drained: the turn is parked or cancelled
               └─ can't be opened ──┴──► give it back: another worker goes on

The lease of a task is a row of the database, renewed with those of the engine's sessions. A worker that dies loses it, and
the next one goes on where the record stops: the prompt is never sent twice, since its key is the id of the session's input.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Final, Literal, final

import attrs
import trio

from engine.core.errors import EngineError, StoreCorrupt, StoreError, StoreMismatch
from engine.core.exception_groups import describe
from engine.core.value_base import Value
from engine.fleet.enqueue_task import queue_of
from engine.fleet.task_run import TaskEnd, TaskRun
from engine.session.engine import Engine, engine_runtime
from engine.store.work_queue import QueuedTask
from engine.store.writer_thread import WriteFailed, WriterUnusable

# Seconds between two looks at a queue in which nothing waits: the first, and the longest.
_FIRST_LOOK, _LAST_LOOK = 0.2, 2.0
# Errors after which a store is of no use any more; others may be over in a moment.
_FATAL: Final = (StoreMismatch, StoreCorrupt, WriteFailed, WriterUnusable)
_log = logging.getLogger("engine.fleet")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkerNews(Value):
    """What a worker has done: taken a task, ended it, or given it back.

    Attributes:
        end: how it ended, or why it was given back; None: it was taken.
    """

    kind: Literal["taken", "ended", "given_back"]
    task: QueuedTask
    end: TaskEnd | None = None


@final
class Worker:
    """Runs tasks in an engine, several at a time, until it is drained.

    Made in the Trio run of its engine, whose permissions decide what the tasks may do.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int = 4,
        attempts: int = 5,
        report: Callable[[WorkerNews], None] = lambda _news: None,
    ) -> None:
        """Make it of an open engine.

        Args:
            engine: whose store has the queue.
            slots: how many tasks run at a time.
            attempts: how often a task is taken before it counts as failed.
            report: called with what the worker does; must not raise.

        Raises `ConfigError` if the store has no queue.
        """
        self._engine = engine
        self._queue = queue_of(engine_runtime(engine).services.store.store)
        self._slots = slots
        self._attempts = attempts
        self._report = report
        self._runs: set[TaskRun] = set()
        self._until: float | None = None
        # Set when there is a reason to look at once: a task has ended, or the worker is drained.
        self._wake = trio.Event()
        self._is_failing = False

    @property
    def running(self) -> int:
        """How many tasks run."""
        return len(self._runs)

    @property
    def is_draining(self) -> bool:
        """Whether it takes no new tasks any more."""
        return self._until is not None

    def drain(self, seconds: float) -> None:
        """Take no new tasks, and give those that run so many seconds; a later call changes that. Not a checkpoint.

        After that, turns that only wait are parked, others cancelled, their tasks given back; then `run` returns.
        """
        self._until = trio.current_time() + seconds
        self._wake.set()

    async def run(self) -> None:
        """Take and run tasks until it is drained. A checkpoint.

        If cancelled, turns are parked or cancelled and their tasks given back, within seconds. Raises `StoreError` once the
        store is of no use any more, `EngineClosed`.
        """
        failure: EngineError | None = None
        async with trio.open_nursery() as nursery:
            try:
                await self._take_tasks(nursery)
            except EngineError as error:
                # Not raised here: it would become an exception group, and end tasks that run.
                failure = error
                self.drain(0)
            await self._wait_for_runs()
            for run in self._runs:
                run.stop()
        if failure is not None:
            raise failure

    async def _take_tasks(self, nursery: trio.Nursery) -> None:
        """Take tasks and start them until the worker is drained. A checkpoint. Raises `StoreError`, `EngineClosed`."""
        delay = _FIRST_LOOK
        while not self.is_draining:
            if len(self._runs) >= self._slots:
                await self._wait(float("inf"))
            elif await self._take(nursery):
                delay = _FIRST_LOOK
            elif not self.is_draining:
                # Not all workers at the same moment.
                has_ended = await self._wait(delay * random.uniform(0.8, 1.0))
                delay = _FIRST_LOOK if has_ended else min(2 * delay, _LAST_LOOK)

    async def _take(self, nursery: trio.Nursery) -> bool:
        """Take a task and start it; return whether there was one. A checkpoint. Raises `StoreError`, `EngineClosed`."""
        engine_runtime(self._engine).services.tasks.check_open()
        try:
            task = await self._queue.take(most_attempts=self._attempts)
        except StoreError as error:
            if isinstance(error, _FATAL):
                raise
            if not self._is_failing:
                _log.warning("no task can be taken for now: %s", describe(error))
            self._is_failing = True
            return False
        self._is_failing = False
        if task is None:
            return False
        # No checkpoint until it is started: a cancel finds it there, and gives it back.
        run = TaskRun(self._engine, self._queue, task)
        self._runs.add(run)
        if self.is_draining:
            run.stop()
        nursery.start_soon(self._work, run, name=f"task {task.spec.key}")
        return True

    async def _work(self, run: TaskRun) -> None:
        """Run a task to its end. A checkpoint."""
        self._report(WorkerNews(kind="taken", task=run.task))
        try:
            end = await run.run()
            self._report(WorkerNews(kind="ended" if end.outcome else "given_back", task=run.task, end=end))
        finally:
            self._runs.discard(run)
            self._wake.set()

    async def _wait_for_runs(self) -> None:
        """Wait until no task runs, or the time for that is up. A checkpoint if some do."""
        while self._runs and self._until is not None and trio.current_time() < self._until:
            await self._wait(self._until - trio.current_time())

    async def _wait(self, seconds: float) -> bool:
        """Wait for so long, or until something happens; return whether it did. A checkpoint."""
        self._wake = trio.Event()
        with trio.move_on_after(seconds):
            await self._wake.wait()
        return self._wake.is_set()
