"""What happens in a batch, as plain values: for the display, and for programs that follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_status import BatchStatus, Phase
from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchStarted(Value):
    """The runner has read its ledger, and begins.

    Attributes:
        name: the batch.
        tasks: how many there are.
        done: how many of them were done before.
        jobs: how many run at once.
    """

    name: str
    tasks: int
    done: int
    jobs: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskQueued(Value):
    """A task waits for its turn.

    Attributes:
        delay: seconds that it waits for at least, after a fault of the infrastructure.
    """

    id: str
    attempt: int
    delay: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskStarted(Value):
    """An attempt begins."""

    id: str
    attempt: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskPhase(Value):
    """An attempt enters a phase.

    Attributes:
        session: its session; empty: it has none yet.
    """

    id: str
    attempt: int
    phase: Phase
    session: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskStep(Value):
    """A step of an attempt's turn is over.

    Attributes:
        steps: how many there were in this attempt.
        tokens: what this attempt has used so far.
        cost: what it has cost so far, as far as that is known.
        model: that answered.
    """

    id: str
    attempt: int
    steps: int
    tokens: int
    cost: float
    model: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskEnded(Value):
    """An attempt is over, and its row is in the ledger.

    Attributes:
        retry_in: seconds until the next attempt; None: there is none in this run.
    """

    row: AttemptRow
    retry_in: float | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchTotals(Value):
    """How the batch stands.

    Attributes:
        tasks: how many there are.
        counts: how many tasks ended in each way, by their newest row; those of earlier runs count.
        running: how many run.
        waiting: how many wait.
        cost: what this run's attempts have cost, as far as that is known.
        tokens: what they have used.
        seconds: since this run began.
        blocked: why nothing new may start; empty: it may.
    """

    tasks: int
    counts: Mapping[BatchStatus, int]
    running: int
    waiting: int
    cost: float
    tokens: int
    seconds: float
    blocked: str = ""


BatchEvent = BatchStarted | TaskQueued | TaskStarted | TaskPhase | TaskStep | TaskEnded | BatchTotals
Report = Callable[[BatchEvent], None]
