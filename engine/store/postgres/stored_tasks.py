"""`PostgresWorkQueue`: the queue of tasks of a store, whose leases are renewed with those of its sessions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

import attrs

from engine.core.errors import InputConflict, StoreError
from engine.core.ids import SessionId
from engine.store.leases import Owner
from engine.store.postgres.table_writer import PostgresTableWriter
from engine.store.postgres.task_table import TaskTable, lease_id
from engine.store.work_queue import FAILED, QueuedTask, TaskSpec
from engine.store.write_commands import WriteCommand, WriteTransaction, take_lease

T = TypeVar("T")


class TaskReader(Protocol):
    """Runs a function that reads in a thread."""

    def __call__(self, work: Callable[[TaskTable], T]) -> Awaitable[T]:
        """Return what *work* returns. A checkpoint. Raises `StoreError`."""
        ...


@attrs.define(eq=False, repr=False)
class _TaskCommand(WriteCommand):
    """A command about tasks."""

    def run(self, at: WriteTransaction) -> None:
        tables = at.tables
        assert isinstance(tables, PostgresTableWriter)  # only this database has a queue
        self.change(tables.tasks, at)

    @abstractmethod
    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:
        """Change them."""


@attrs.define(eq=False, repr=False)
class _Add(_TaskCommand):
    spec: TaskSpec
    task: QueuedTask | None = attrs.field(default=None, init=False)

    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:  # of all commands
        tasks.add(self.spec)
        self.task = tasks.find(self.spec.key)


@attrs.define(eq=False, repr=False)
class _Take(_TaskCommand):
    most_attempts: int
    task: QueuedTask | None = attrs.field(default=None, init=False)

    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:
        self.task = None
        dead = dead_owners(tasks, at.owner)
        while (key := tasks.next_key(dead)) is not None:
            task = tasks.find(key)
            assert task is not None  # its row is locked
            if task.attempts < self.most_attempts:
                self._take(task, tasks, at)
                return
            tasks.end(
                key, FAILED, f"{task.attempts} workers have taken it, and none has ended it. {task.detail}".strip()
            )

    def _take(self, task: QueuedTask, tasks: TaskTable, at: WriteTransaction) -> None:
        lease = lease_id(task.spec.key)
        held = at.tables.leases_of([lease], at.owner).get(lease)
        # Another worker may have taken it since the statement began, and has committed.
        if take_lease(at.tables, at.owner, lease, held) is None:
            tasks.note_attempt(task.spec.key)
            self.task = attrs.evolve(task, state="running", attempts=task.attempts + 1, host=at.owner.host)


@attrs.define(eq=False, repr=False)
class _Undo(_TaskCommand):
    """Gives back what a command took whose caller was cancelled."""

    take: _Take

    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:
        task = self.take.task
        if task is not None and _is_ours(task.spec.key, at):
            tasks.give_back(task.spec.key, after=0, detail=task.detail, counts=False)
            at.tables.release_lease(at.owner, lease_id(task.spec.key))


@attrs.define(eq=False, repr=False)
class _End(_TaskCommand):
    key: str
    outcome: str
    detail: str
    has_ended: bool = attrs.field(default=False, init=False)

    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:
        self.has_ended = _is_ours(self.key, at) and tasks.end(self.key, self.outcome, self.detail)
        at.tables.release_lease(at.owner, lease_id(self.key))


@attrs.define(eq=False, repr=False)
class _GiveBack(_TaskCommand):
    key: str
    after: float
    detail: str
    counts: bool

    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:
        if _is_ours(self.key, at):
            tasks.give_back(self.key, after=self.after, detail=self.detail, counts=self.counts)
            at.tables.release_lease(at.owner, lease_id(self.key))


@attrs.define(eq=False, repr=False)
class _Cancel(_TaskCommand):
    key: str
    has_ended: bool = attrs.field(default=False, init=False)

    def change(self, tasks: TaskTable, at: WriteTransaction) -> None:  # of all commands
        self.has_ended = tasks.cancel(self.key)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PostgresWorkQueue:
    """See `WorkQueue`."""

    # The store, as its leases name it; how it runs commands, renews and releases leases, and reads.
    _owner: Owner = attrs.field(alias="owner")
    _run: Callable[[Sequence[WriteCommand]], Awaitable[None]] = attrs.field(alias="run")
    _enqueue: Callable[[WriteCommand], int] = attrs.field(alias="enqueue")
    _keep: Callable[[SessionId], None] = attrs.field(alias="keep")
    _drop: Callable[[SessionId], None] = attrs.field(alias="drop")
    _read: TaskReader = attrs.field(alias="read")

    async def add(self, spec: TaskSpec) -> QueuedTask:
        """See `WorkQueue`. A checkpoint."""
        order = _Add(spec)
        await self._run([order])
        assert order.task is not None  # it was added, or was there
        if order.task.spec != spec:
            raise InputConflict(f"the key {spec.key!r} was used before for another task")
        return order.task

    async def take(self, *, most_attempts: int) -> QueuedTask | None:
        """See `WorkQueue`. A checkpoint."""
        # First without a transaction that writes: most looks find nothing.
        if not await self._read(lambda tasks: tasks.has_next(dead_owners(tasks, self._owner))):
            return None
        order = _Take(most_attempts)
        try:
            await self._run([order])
        except BaseException:  # re-raised: it may be taken, or will be in a moment
            with suppress(StoreError):
                self._enqueue(_Undo(order))
            raise
        if order.task is not None:
            self._keep(lease_id(order.task.spec.key))
        return order.task

    async def end(self, key: str, outcome: str, detail: str) -> bool:
        """See `WorkQueue`. A checkpoint."""
        order = _End(key, outcome, detail)
        try:
            await self._run([order])
        finally:
            # Also if it did not end: then another worker finds that its turn is over, and ends it.
            self._drop(lease_id(key))
        return order.has_ended

    async def give_back(self, key: str, *, after: float, detail: str, counts: bool) -> None:
        """See `WorkQueue`. A checkpoint."""
        try:
            await self._run([_GiveBack(key, after, detail, counts)])
        finally:
            # In any case: without a lease, others can take it.
            self._drop(lease_id(key))

    async def cancel(self, key: str) -> bool:
        """See `WorkQueue`. A checkpoint."""
        order = _Cancel(key)
        await self._run([order])
        return order.has_ended

    async def find(self, key: str) -> QueuedTask | None:
        """See `WorkQueue`. A checkpoint."""
        return await self._read(lambda tasks: tasks.find(key))

    async def list(self, *, limit: int, ended: bool) -> Sequence[QueuedTask]:
        """See `WorkQueue`. A checkpoint."""
        return await self._read(lambda tasks: tasks.list(limit=limit, ended=ended))


def dead_owners(tasks: TaskTable, owner: Owner) -> Collection[str]:
    """Return the engines of this machine that are dead, while their leases have not expired. It blocks."""
    if not owner.machine:
        return ()
    return [lease.owner for lease in tasks.leases_of_machine(owner.machine) if not owner.is_live(lease)]


def _is_ours(key: str, at: WriteTransaction) -> bool:
    """Return whether this store has the lease of a task, and lock it."""
    lease = lease_id(key)
    return at.owner.holds(at.tables.leases_of([lease], at.owner).get(lease))
