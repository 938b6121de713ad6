"""What the rows of a ledger come to: the newest row of each task, and sums. It is derived from the rows, and from nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from engine.batch.attempt_row import AttemptRow, retry_reason
from engine.batch.batch_status import DONE_STATUSES, STATUSES, BatchStatus
from engine.core.messages import Usage

# A message in the summary; the row has all of it.
_MESSAGE_CHARS: Final = 300


@attrs.define(eq=False, repr=False)
class TaskRecord:
    """What the ledger has about a task.

    Attributes:
        attempt: the number of its newest attempt.
        status: how that ended.
        session: its session.
        usage: what the rows of that session have of its tokens.
        cost: the same of its cost.
        retries: why attempts were repeated.
        was_retried: an attempt before the newest was a fault of the infrastructure, or a session was continued.
        error_class: of the newest row; empty: it has a result.
        message: what went wrong, shortened.
    """

    attempt: int = 0
    status: BatchStatus = "cancelled"
    task_hash: str = ""
    config_hash: str = ""
    session: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    retries: tuple[str, ...] = ()
    was_retried: bool = False
    error_class: str = ""
    message: str = ""

    def feed(self, row: AttemptRow) -> None:
        """Take in a row, which is newer than all before it."""
        if self.attempt and row.task_hash != self.task_hash:
            # Another task of the same name: what came before says nothing about it.
            self.retries, self.was_retried = (), False
        elif self.status == "infra" and self.attempt:
            self.was_retried = True
        is_same = bool(row.session) and row.session == self.session
        self.usage = self.usage + row.usage if is_same else row.usage
        self.cost = self.cost + row.cost if is_same else row.cost
        self.was_retried = self.was_retried or row.continued
        self.attempt, self.status, self.session = row.attempt, row.status, row.session
        self.task_hash, self.config_hash = row.task_hash, row.config_hash
        self.error_class = row.error.kind if row.error else ""
        self.message = row.error.message[:_MESSAGE_CHARS] if row.error else ""
        self.retries = (*self.retries, retry_reason(row)) if row.status in {"infra", "cancelled"} else ()

    def is_like(self, status: BatchStatus, message: str) -> bool:
        """Tell whether the newest row has this status and message."""
        return self.status == status and self.message == message[:_MESSAGE_CHARS]


@attrs.define(eq=False, repr=False)
class BatchTally:
    """Folds rows.

    Attributes:
        records: by task.
        usage: the tokens of all attempts.
        cost: what they cost, as far as that is known.
        has_whole_cost: whether it is known of all.
        denied: how many calls were denied.
        rows: how many rows there are.
    """

    records: dict[str, TaskRecord] = attrs.field(factory=dict[str, TaskRecord], init=False)
    usage: Usage = attrs.field(factory=Usage, init=False)
    cost: float = attrs.field(default=0.0, init=False)
    has_whole_cost: bool = attrs.field(default=True, init=False)
    denied: int = attrs.field(default=0, init=False)
    rows: int = attrs.field(default=0, init=False)
    _counts: Counter[BatchStatus] = attrs.field(factory=Counter[BatchStatus], init=False)

    def feed(self, row: AttemptRow) -> None:
        """Take in a row, which is newer than all before it."""
        self.rows += 1
        if row.usage.total:
            self.usage += row.usage
        self.cost += row.cost
        self.has_whole_cost = self.has_whole_cost and row.cost_known
        self.denied += row.denied
        record = self.records.get(row.id)
        if record is None:
            record = self.records[row.id] = TaskRecord()
        else:
            self._counts[record.status] -= 1
        record.feed(row)
        self._counts[row.status] += 1

    @property
    def counts(self) -> Mapping[BatchStatus, int]:
        """How many tasks ended in each way, by their newest row."""
        return {status: self._counts[status] for status in STATUSES if self._counts[status]}

    @property
    def counts_without_retried(self) -> Mapping[BatchStatus, int]:
        """The same without the tasks that were retried: retries of one kind of task bend the statistics."""
        counts = Counter(record.status for record in self.records.values() if not record.was_retried)
        return {status: counts[status] for status in STATUSES if counts[status]}

    def is_done(self, task_id: str) -> bool:
        """Tell whether a task has a result."""
        record = self.records.get(task_id)
        return record is not None and record.status in DONE_STATUSES
