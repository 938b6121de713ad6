"""The queue of tasks that workers take: prompts that wait for any engine of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import attrs

from engine.core.ids import SessionId
from engine.core.value_base import Value

# "waiting": for a worker; "running": a worker has it; "ended".
TaskState = Literal["waiting", "running", "ended"]
# How a task ends apart from the stop reasons of turns: it was cancelled while it waited, or could not be run.
CANCELLED, FAILED = "cancelled", "failed"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskSpec(Value):
    """What is to be done.

    Attributes:
        key: names the task; the same key again is the same task.
        session_id: the session that gets the prompt.
        text: the prompt.
        cwd: where a new session works; None: the session exists.
        model: that of a new session; empty: the worker's.
        agent: that of a new session; empty: the worker's.
    """

    key: str
    session_id: SessionId
    text: str
    cwd: str | None
    model: str = ""
    agent: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class QueuedTask(Value):
    """A task in the queue.

    Attributes:
        enqueued: when, in seconds since the epoch, like all times.
        attempts: how often a worker has taken it, without those that gave it back.
        host: the machine of the worker that has it; empty: none.
        ended: when it ended; None: it has not.
        outcome: the stop reason of its turn, or `cancelled`, or `failed`; empty: it has not ended.
        detail: the same in words; of one that waits, why its last attempt came to nothing.
    """

    spec: TaskSpec
    state: TaskState
    enqueued: float
    attempts: int = 0
    host: str = ""
    ended: float | None = None
    outcome: str = ""
    detail: str = ""


class WorkQueue(Protocol):
    """The tasks of one tenant, the oldest first; at most one of a session is taken at a time."""

    async def add(self, spec: TaskSpec) -> QueuedTask:
        """Add a task, and return it; the one that there is, if its key was used before. A checkpoint.

        If cancelled, it may be there. Raises `InputConflict` if the key was used for another task; `StoreError`.
        """
        ...

    async def take(self, *, most_attempts: int) -> QueuedTask | None:
        """Take the oldest task that waits, whose session no engine has open. A checkpoint; if cancelled, none is taken.

        Its lease is renewed until it is ended or given back. One that has been taken *most_attempts* times is ended
        instead. Raises `StoreError`.
        """
        ...

    async def end(self, key: str, outcome: str, detail: str) -> bool:
        """Record how a task ended; False: its lease was lost. A checkpoint. Raises `StoreError`."""
        ...

    async def give_back(self, key: str, *, after: float, detail: str, counts: bool) -> None:
        """Let another worker take a task *after* so many seconds; it *counts* as an attempt or not. A checkpoint.

        Does nothing if its lease was lost. Raises `StoreError`.
        """
        ...

    async def cancel(self, key: str) -> bool:
        """End a task that no worker has; return whether it did. A checkpoint. Raises `StoreError`."""
        ...

    async def find(self, key: str) -> QueuedTask | None:
        """Return a task. A checkpoint. Raises `StoreError`."""
        ...

    async def list(self, *, limit: int, ended: bool) -> Sequence[QueuedTask]:
        """Return the tasks that have not ended, the oldest first; or those that have, the newest first. A checkpoint.

        Raises `StoreError`.
        """
        ...


@runtime_checkable
class HasTasks(Protocol):
    """A store with a queue of tasks."""

    @property
    def tasks(self) -> WorkQueue:
        """The queue."""
        ...
