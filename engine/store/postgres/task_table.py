"""`TaskTable`: the statements about the queue of tasks, in a transaction that others have begun. Each method blocks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

import attrs
from psycopg.rows import TupleRow

from engine.core.ids import SessionId
from engine.store.leases import Lease
from engine.store.postgres.connections import Connection
from engine.store.work_queue import CANCELLED, QueuedTask, TaskSpec, TaskState

# A lease of a task stands among those of sessions, whose ids have no space.
_PREFIX: Final = "task "
_COLUMNS: Final = (
    "tasks.key, tasks.session_id, tasks.text, tasks.cwd, tasks.model, tasks.agent,"
    " extract(epoch FROM tasks.enqueued)::float8, tasks.attempts, held.host,"
    " extract(epoch FROM tasks.ended)::float8, tasks.outcome, tasks.detail"
)
# The lease that a worker has; one that has expired counts for nothing.
_HELD: Final = (
    "LEFT JOIN leases AS held ON held.tenant = %(tenant)s AND held.session_id = 'task ' || tasks.key"
    " AND held.expires >= clock_timestamp()"
)
# Oldest first, one session at a time; one that is being taken at the same moment is skipped. Engines of this machine
# that are dead have no lease any more, whatever it says.
_NEXT: Final = f"""
SELECT tasks.key FROM tasks
WHERE tasks.tenant = %(tenant)s AND tasks.ended IS NULL AND tasks.not_before <= clock_timestamp()
    AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.tenant = %(tenant)s
        AND leases.session_id IN ('{_PREFIX}' || tasks.key, tasks.session_id)
        AND leases.expires >= clock_timestamp() AND leases.owner <> ALL(%(dead)s))
    AND NOT EXISTS (SELECT 1 FROM tasks AS older WHERE older.tenant = %(tenant)s
        AND older.session_id = tasks.session_id AND older.ended IS NULL AND older.number < tasks.number)
ORDER BY tasks.number LIMIT 1
"""  # noqa: S608  # a text of ours


def lease_id(key: str) -> SessionId:
    """Return the id of the lease of a task."""
    return SessionId(f"{_PREFIX}{key}")


@attrs.frozen
class TaskTable:
    """The tasks of a tenant."""

    _connection: Connection
    _tenant: str

    def add(self, spec: TaskSpec) -> None:
        """Add a task, unless there is one with that key."""
        self._connection.execute(
            "INSERT INTO tasks (tenant, key, session_id, text, cwd, model, agent) VALUES (%s, %s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (tenant, key) DO NOTHING",
            (self._tenant, spec.key, spec.session_id, spec.text, spec.cwd, spec.model, spec.agent),
        )

    def find(self, key: str) -> QueuedTask | None:
        """Return a task."""
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM tasks {_HELD} WHERE tasks.tenant = %(tenant)s AND tasks.key = %(key)s",  # noqa: S608  # texts of ours
            {"tenant": self._tenant, "key": key},
        ).fetchone()
        return None if row is None else _task(row)

    def list(self, *, limit: int, ended: bool) -> Sequence[QueuedTask]:
        """Return the tasks that have not ended, the oldest first; or those that have, the newest first."""
        which = "NOT NULL ORDER BY tasks.ended DESC, tasks.number DESC" if ended else "NULL ORDER BY tasks.number"
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM tasks {_HELD} WHERE tasks.tenant = %(tenant)s AND tasks.ended IS {which}"  # noqa: S608  # texts of ours
            " LIMIT %(limit)s",
            {"tenant": self._tenant, "limit": limit},
        ).fetchall()
        return [_task(row) for row in rows]

    def has_next(self, dead: Collection[str]) -> bool:
        """Return whether a worker could take a task; *dead* are the owners whose leases are worth nothing."""
        return self._connection.execute(_NEXT, {"tenant": self._tenant, "dead": list(dead)}).fetchone() is not None

    def next_key(self, dead: Collection[str]) -> str | None:
        """Return the key of the task to take, and lock it until the transaction ends. See `has_next`."""
        statement = f"{_NEXT} FOR UPDATE OF tasks SKIP LOCKED"
        row = self._connection.execute(statement, {"tenant": self._tenant, "dead": list(dead)}).fetchone()
        return None if row is None else str(row[0])

    def note_attempt(self, key: str) -> None:
        """Count that a worker has taken a task."""
        self._connection.execute(
            "UPDATE tasks SET attempts = attempts + 1 WHERE tenant = %s AND key = %s", (self._tenant, key)
        )

    def end(self, key: str, outcome: str, detail: str) -> bool:
        """Record how a task ended; return whether it had not."""
        changed = self._connection.execute(
            "UPDATE tasks SET ended = clock_timestamp(), outcome = %s, detail = %s"
            " WHERE tenant = %s AND key = %s AND ended IS NULL",
            (outcome, detail, self._tenant, key),
        )
        return changed.rowcount == 1

    def give_back(self, key: str, *, after: float, detail: str, counts: bool) -> None:
        """Let a task wait for so many seconds."""
        self._connection.execute(
            "UPDATE tasks SET not_before = clock_timestamp() + make_interval(secs => %s), detail = %s,"
            " attempts = greatest(0, attempts - %s) WHERE tenant = %s AND key = %s AND ended IS NULL",
            (after, detail, 0 if counts else 1, self._tenant, key),
        )

    def cancel(self, key: str) -> bool:
        """End a task that no engine has; return whether it did."""
        changed = self._connection.execute(
            "UPDATE tasks SET ended = clock_timestamp(), outcome = %s WHERE tenant = %s AND key = %s AND ended IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.tenant = tasks.tenant"
            " AND leases.session_id = %s AND leases.expires >= clock_timestamp())",
            (CANCELLED, self._tenant, key, lease_id(key)),
        )
        return changed.rowcount == 1

    def leases_of_machine(self, machine: str) -> Sequence[Lease]:
        """Return one lease of each engine of a machine: with them, whether it lives can be seen."""
        rows = self._connection.execute(
            "SELECT DISTINCT ON (owner) owner, machine, host, pid, started FROM leases"
            " WHERE tenant = %s AND machine = %s",
            (self._tenant, machine),
        ).fetchall()
        return [
            Lease(owner, machine_id, host, pid, started, math.inf) for owner, machine_id, host, pid, started in rows
        ]


def _task(row: TupleRow) -> QueuedTask:
    key, session_id, text, cwd, model, agent, enqueued, attempts, host, ended, outcome, detail = row
    state: TaskState = "ended" if ended is not None else "waiting" if host is None else "running"
    return QueuedTask(
        spec=TaskSpec(key=key, session_id=session_id, text=text, cwd=cwd, model=model, agent=agent),
        state=state,
        enqueued=enqueued,
        attempts=attempts,
        host=(host or "") if state == "running" else "",
        ended=ended,
        outcome=outcome,
        detail=detail,
    )
