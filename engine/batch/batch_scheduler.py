"""Runs a batch: reads its ledger, runs what is not done, a few at once, and writes a row for each attempt that ends.

What runs an attempt is an `AttemptRunner`. The rule for a crash at any instant: a row is written only after its attempt is
over and saved, and an attempt without a row is run again by the next runner, which continues its session.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.batch.attempt_row import AttemptError, AttemptRow, decode_digest, infra_class
from engine.batch.attempt_runner import Attempt, AttemptRunner, StartGate
from engine.batch.batch_events import BatchEvent, BatchStarted, BatchTotals, Report, TaskEnded, TaskQueued, TaskStarted
from engine.batch.batch_identity import batch_identity
from engine.batch.batch_status import DONE_STATUSES, LASTING, BatchStatus, Keep
from engine.batch.batch_summary import SUMMARY_NAME, batch_summary, write_summary
from engine.batch.batch_tally import BatchTally, TaskRecord
from engine.batch.batch_task import BatchTask
from engine.batch.result_ledger import LEDGER_NAME, ResultLedger
from engine.batch.task_file import TaskList
from engine.batch.task_queue import QueuedAttempt, TaskQueue
from engine.core.errors import ConfigError
from engine.core.exception_groups import public
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.nursery.budget import SpendingLimit

_STAGGER_SECONDS: Final = 0.05
_MAX_RETRY_DELAY: Final = 60.0
_MAX_NAMED: Final = 5
# With `--keep failed`, the folders of these are removed.
_GOOD: Final[frozenset[BatchStatus]] = frozenset({"passed", "finished"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchOptions(Value):
    """How a batch is run.

    Attributes:
        name: its name, for the labels of sessions.
        results: the folder of its ledger.
        jobs: how many tasks run at once.
        retry: run also tasks that ended like this.
        allow_changed: run also if tasks or the configuration have changed since there are results.
        fresh: start each attempt over instead of continuing its session.
        keep: which work folders stay: of no task, of those without a good end, of all.
        retry_delay: seconds before the first retry; it doubles.
        config_hash: what names the configuration.
        shard: which part of the batch it is, for the rows.
        others: the tasks of the other parts.
        gates: decide whether a further attempt may start: the disk, say.
        spending: the limit of all tasks together, also of earlier runs; None: there is none.
        ledger_name: the ledger's file.
        summary_name: the summary's file.
    """

    name: str
    results: Path
    jobs: int = 4
    retry: frozenset[BatchStatus] = frozenset()
    allow_changed: bool = False
    fresh: bool = False
    keep: Keep = "none"
    retry_delay: float = 5.0
    config_hash: str = ""
    shard: str = ""
    others: frozenset[str] = frozenset()
    gates: Sequence[StartGate] = ()
    spending: SpendingLimit | None = None
    ledger_name: str = LEDGER_NAME
    summary_name: str = SUMMARY_NAME


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchOutcome(Value):
    """How a run of a batch ended.

    Attributes:
        tally: of all rows, those of earlier runs too.
        tasks: how many tasks there are, without the lines that are none.
        bad: how many lines are none.
        left: how many tasks have no result: never started, or without one for now.
        reason: why it ended before all were run; empty: it did not.
        damaged: the numbers of the ledger's lines that are no rows.
    """

    tally: BatchTally
    tasks: int
    bad: int
    left: int
    reason: str = ""
    damaged: tuple[int, ...] = ()


async def run_batch(
    tasks: TaskList,
    runner: AttemptRunner,
    options: BatchOptions,
    *,
    stop: trio.Event,
    report: Report = lambda _event: None,
) -> BatchOutcome:
    """Run the tasks that are not done. Always a checkpoint.

    Once *stop* is set, nothing new starts, and what runs ends within its grace, with rows. If cancelled, what runs is
    settled, and has no row: the next run continues it. The ledger is whole at any time.

    Raises `ConfigError` if another runner is at work, or if something has changed; `StoreError` if the ledger can't be
    written.
    """
    identity = await to_thread(batch_identity, options.results, options.name)
    # Not abandoned, and short: a lock without a holder would keep the next runner out.
    opened = await to_thread(ResultLedger.open, options.results / options.ledger_name, abandon_on_cancel=False)
    with opened as ledger:
        tally = await to_thread(_read, ledger)
        if not options.allow_changed:
            _check_shard(tally, options)
            check_changes(tasks.tasks, tally, options)
        if options.spending is not None:
            options.spending.add(tally.usage, tally.cost)
        batch = _Batch(tasks, runner, options, identity, ledger, tally, report, stop)
        try:
            await batch.run()
        finally:
            summary = batch_summary(options.name, tally, tasks=len(tasks.tasks) + len(tasks.bad))
            write_summary(options.results, summary, options.summary_name)
        left = sum(not tally.is_done(task.id) for task in tasks.tasks)
        return BatchOutcome(
            tally=tally,
            tasks=len(tasks.tasks),
            bad=len(tasks.bad),
            left=left,
            reason="" if stop.is_set() else batch.queue.reason,
            damaged=tuple(ledger.damaged),
        )


def _read(ledger: ResultLedger) -> BatchTally:
    tally = BatchTally()
    for row in ledger.rows(decode_digest):
        tally.feed(row)
    return tally


def check_changes(tasks: Sequence[BatchTask], tally: BatchTally, options: BatchOptions) -> None:
    """Raise `ConfigError` if results would be mixed with those of other tasks, or of another configuration."""
    done = {name: record for name, record in tally.records.items() if record.status in DONE_STATUSES}
    changed = [task.id for task in tasks if task.id in done and done[task.id].task_hash != task.hash]
    advice = "choose another --results-dir, or add --allow-changed"
    if changed:
        raise ConfigError(
            f"{len(changed)} tasks have changed since they were run: {_some(changed)}\nNext: {advice} to run them again"
        )
    others = sum(record.config_hash != options.config_hash for record in done.values())
    is_over = all(task.id in done and done[task.id].status not in options.retry for task in tasks)
    if others and not is_over:
        raise ConfigError(
            f"{others} tasks were run with another configuration: model, agent, permissions or limits\nNext: {advice}"
        )


def _check_shard(tally: BatchTally, options: BatchOptions) -> None:
    """Raise `ConfigError` if tasks of the ledger are another shard's now: they would be run twice."""
    moved = [
        name for name, record in tally.records.items() if record.status in DONE_STATUSES and name in options.others
    ]
    if moved:
        raise ConfigError(
            f"{len(moved)} tasks with results of shard {options.shard} belong to another shard now: {_some(moved)}\n"
            "Next: add new tasks at the end of the file only, or choose another --results-dir"
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


@attrs.define(eq=False, repr=False)
class _Batch:
    """A run of a batch."""

    _tasks: TaskList
    _runner: AttemptRunner
    _options: BatchOptions
    _batch_id: str
    _ledger: ResultLedger
    _tally: BatchTally
    _report: Report
    _stop: trio.Event
    queue: TaskQueue = attrs.field(init=False)
    _began: float = attrs.field(factory=trio.current_time, init=False)
    _cost: float = attrs.field(default=0.0, init=False)
    _tokens: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.queue = TaskQueue(self._blocked)

    async def run(self) -> None:
        """Run what is not done. Always a checkpoint. Raises `StoreError`."""
        failure: BaseException | None = None
        try:
            await self._run_all()
        except BaseExceptionGroup as group:
            failure = public(group)
        if failure is not None:
            raise failure

    async def _run_all(self) -> None:
        waiting = list(self._plan())
        total = len(self._tasks.tasks)
        self._report(
            BatchStarted(name=self._options.name, tasks=total, done=total - len(waiting), jobs=self._options.jobs)
        )
        for item in waiting:
            self._put(item)
        await self._write_bad_lines()
        # A runner that was killed may have left some.
        records = self._tally.records
        over = [task for task in self._tasks.tasks if task.id in records and self._is_removed(records[task.id].status)]
        await self._runner.remove_folders(over)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._ledger.renew)
            nursery.start_soon(self._wait_for_stop)
            async with trio.open_nursery() as workers:
                for number in range(min(self._options.jobs, max(1, len(waiting)))):
                    workers.start_soon(self._work, number, name=f"batch worker {number}")
            nursery.cancel_scope.cancel(reason="the batch is over")
        self._report(self._totals())

    async def _wait_for_stop(self) -> None:
        await self._stop.wait()
        self.queue.close("stopped")

    async def _work(self, number: int) -> None:
        """Run one attempt after the other. Always a checkpoint."""
        # Not all at once: each start makes a folder, a session and a first request.
        with trio.CancelScope() as scope:
            scope.deadline = trio.current_time() + number * _STAGGER_SECONDS
            await self._stop.wait()
        while (item := await self.queue.take()) is not None:
            try:
                await self._run(item)
            finally:
                self.queue.finish(item)

    async def _run(self, item: QueuedAttempt) -> None:
        """Run an attempt, write its row, and queue the next attempt if there is to be one. Always a checkpoint."""
        self._report(TaskStarted(id=item.attempt.task.id, attempt=item.attempt.number))
        row = await self._runner.run(item.attempt, report=self._report, stop=self._stop)
        await self._ledger.append(row)
        self._tally.feed(row)
        # Only now: a runner that continued an attempt without a row would need its folder.
        if self._is_removed(row.status):
            await self._runner.remove_folders([item.attempt.task])
        self._cost += row.cost
        self._tokens += row.usage.total
        delay = self._retry_delay(item, row)
        self._report(TaskEnded(row=row, retry_in=delay))
        if delay is not None:
            record = self._tally.records[row.id]
            self._put(QueuedAttempt(self._attempt(item.attempt.task, record), item.tries + 1), delay)
        self._report(self._totals())

    def _is_removed(self, status: BatchStatus) -> bool:
        """Tell whether the folder of a task that ended like this is removed."""
        if status not in DONE_STATUSES or self._options.keep == "all":
            return False
        return self._options.keep == "none" or status in _GOOD

    def _retry_delay(self, item: QueuedAttempt, row: AttemptRow) -> float | None:
        """Return the seconds until the next attempt; None: there is none. Only faults of the infrastructure are retried."""
        kind = infra_class(row)
        if kind is None or kind in LASTING or item.tries >= item.attempt.task.attempts or self._stop.is_set():
            return None
        # Not all at the same instant: what failed together would be asked again together.
        first = self._options.retry_delay
        delay = min(max(first, _MAX_RETRY_DELAY), math.ldexp(first, item.tries - 1))
        return delay * random.uniform(0.8, 1.2)

    def _plan(self) -> Iterator[QueuedAttempt]:
        """Yield the attempts to run."""
        for task in self._tasks.tasks:
            record = self._tally.records.get(task.id) or TaskRecord()
            is_done = record.status in DONE_STATUSES and record.status not in self._options.retry
            if not (record.attempt and is_done and record.task_hash == task.hash):
                yield QueuedAttempt(self._attempt(task, record))

    def _attempt(self, task: BatchTask, record: TaskRecord) -> Attempt:
        """Return the next attempt at a task."""
        options = self._options
        # A session is continued only by what would have started it in the same way.
        is_same = record.task_hash == task.hash and record.config_hash == options.config_hash
        continues = is_same and not options.fresh and record.status in {"infra", "cancelled"}
        return Attempt(
            batch=options.name,
            batch_id=self._batch_id,
            task=task,
            number=record.attempt + 1,
            session=record.session if continues else "",
            recorded=record.usage,
            recorded_cost=record.cost,
            fresh=options.fresh,
            retries=record.retries if is_same else (),
            results=str(options.results),
            config_hash=options.config_hash,
            shard=options.shard,
        )

    def _put(self, item: QueuedAttempt, delay: float = 0.0) -> None:
        self._report(TaskQueued(id=item.attempt.task.id, attempt=item.attempt.number, delay=delay))
        self.queue.put(item, delay)

    async def _write_bad_lines(self) -> None:
        """Write a row for each line that is no task, unless the newest row of that name says the same."""
        names = {task.id for task in self._tasks.tasks}
        for bad in self._tasks.bad:
            message = f"line {bad.line}: {bad.message}"
            record = self._tally.records.get(bad.id)
            # A line that repeats the id of another task has no row: it would be taken for that task's.
            if bad.id in names or (record is not None and record.is_like("bad_task", message)):
                continue
            names.add(bad.id)
            row = AttemptRow(
                id=bad.id,
                attempt=1 if record is None else record.attempt + 1,
                status="bad_task",
                error=AttemptError(kind="bad_task", message=message),
                config_hash=self._options.config_hash,
                shard=self._options.shard,
                ended=time.time(),
            )
            await self._ledger.append(row)
            self._tally.feed(row)

    def _blocked(self) -> str:
        spending = self._options.spending
        if spending is not None and spending.reached:
            return f"the limit of the batch: {spending.reached}"
        reasons = (gate.blocked() for gate in self._options.gates)
        return next(filter(None, reasons), "")

    def _totals(self) -> BatchEvent:
        return BatchTotals(
            tasks=len(self._tasks.tasks),
            counts=self._tally.counts,
            running=self.queue.running,
            waiting=len(self.queue),
            cost=self._cost,
            tokens=self._tokens,
            seconds=trio.current_time() - self._began,
            blocked=self._blocked(),
        )
