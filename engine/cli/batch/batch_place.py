"""Where the attempts of a batch run: in this process, or in the workers of a cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

from engine.batch.attempt_runner import AttemptRunner, StartGate
from engine.batch.batch_scheduler import BatchOptions
from engine.cli.batch.batch_engine import BatchEngine
from engine.cli.terminal.standard_streams import print_note
from engine.core.errors import ConfigError
from engine.tools.tool_text import counted

_WORKER: Final = "engine.cli.batch.ray_worker:run_order"
# For each slot of a cluster one more attempt waits there, so that no slot is ever empty.
_JOBS_PER_SLOT: Final = 2


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchPlace:
    """What runs attempts.

    Attributes:
        jobs: how many tasks run at once, unless a flag says otherwise; None: as usual.
        gates: further ones.
    """

    runner: AttemptRunner
    jobs: int | None = None
    gates: tuple[StartGate, ...] = ()

    def fit(self, options: BatchOptions, jobs: int | None) -> BatchOptions:
        """Return the options for this place; *jobs* is what a flag says."""
        return attrs.evolve(options, jobs=jobs or self.jobs or options.jobs, gates=(*options.gates, *self.gates))


@asynccontextmanager
async def open_place(
    setup: BatchEngine, arguments: Sequence[str], batch_id: str, work: Path
) -> AsyncGenerator[BatchPlace]:
    """Open the place that the flags name. A checkpoint. Raises `ConfigError`, `StoreError`.

    Args:
        setup: what the flags and the configuration say.
        arguments: the command line.
        batch_id: names the ledger.
        work: where the folders of tasks are made, if that is here.
    """
    args = setup.command.args
    if args.on is None:
        async with setup.open_runner(work) as runner:
            yield BatchPlace(runner=runner)
        return
    if setup.spending is not None:
        raise ConfigError(
            "--max-cost and --max-tokens hold in one process, and a cluster has many\n"
            "Next: leave them out, and limit each task: max_cost in the configuration, limits in a task's line"
        )
    # Imported here: most batches run here.
    from engine.ray_cluster.cluster import ClusterOptions, open_cluster
    from engine.ray_cluster.ray_runner import RayCommand, RayRunner

    address = args.on.partition(":")[2]
    is_shared = "://" in setup.place
    command = RayCommand(
        arguments=tuple(arguments),
        store=setup.place if is_shared else "",
        own_store="" if is_shared else setup.place,
        batch_id=batch_id,
    )
    async with open_cluster(
        ClusterOptions(address=address, function=_WORKER, cpus=args.cpus, memory=args.memory)
    ) as cluster:
        print_note(f"the cluster can run {counted(cluster.slots, 'attempt')} at once")
        ray_runner = RayRunner(cluster, command)
        yield BatchPlace(runner=ray_runner, jobs=_JOBS_PER_SLOT * cluster.slots, gates=(ray_runner,))
