"""The protocol between the scheduler, which decides what runs when, and what runs one attempt, here or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs
import trio

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_events import Report
from engine.batch.batch_task import BatchTask
from engine.core.messages import Usage
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Attempt(Value):
    """One attempt at a task. Plain data: it can be pickled, and sent to another process.

    Attributes:
        batch: the batch's name.
        batch_id: names this ledger, and no other: part of the ids of sessions and folders.
        task: what to do.
        number: which attempt it is, from 1.
        session: the session of the attempt before it, to be continued; empty: there is none.
        recorded: what the rows before it have of that session's tokens.
        recorded_cost: the same of its cost.
        fresh: continue no session.
        retries: why the attempts before it were repeated.
        results: the folder of the ledger, where patches and logs go.
        config_hash: for the row.
        shard: for the row.
    """

    batch: str
    batch_id: str
    task: BatchTask
    number: int
    session: str = ""
    recorded: Usage = attrs.field(factory=Usage)
    recorded_cost: float = 0.0
    fresh: bool = False
    retries: tuple[str, ...] = ()
    results: str = ""
    config_hash: str = ""
    shard: str = ""

    @property
    def label(self) -> str:
        """What its session is called in lists of sessions."""
        return f"batch={self.batch} task={self.task.id} attempt={self.number}"


class AttemptRunner(Protocol):
    """Runs attempts, several at once."""

    async def run(self, attempt: Attempt, *, report: Report, stop: trio.Event) -> AttemptRow:
        """Run an attempt to its end, and return its row. Always a checkpoint. It raises nothing ordinary.

        The row is not in the ledger yet: whatever a further run would need to continue must stay. Once *stop* is set, the attempt ends within its grace period, and its row says `cancelled`. If this is cancelled
        itself, the attempt is ended and settled, and there is no row: the next runner continues its session.

        Args:
            attempt: what to run.
            report: called with `TaskPhase` and `TaskStep`, of this attempt only. Not a checkpoint.
            stop: set when the batch is to end.
        """
        ...

    async def remove_folders(self, tasks: Sequence[BatchTask]) -> None:
        """Remove what is left of the folders of these tasks, whose rows are in the ledger. Always a checkpoint.

        If cancelled, the rest stays. It raises nothing ordinary.
        """
        ...


class StartGate(Protocol):
    """Decides whether a further attempt may start now: whether there is space on the disk, or money."""

    def blocked(self) -> str:
        """Return why no attempt may start now; empty: it may. Not a checkpoint; called before each start."""
        ...
