"""Runs attempts in the workers of a Ray cluster: one task of Ray's for each."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from engine.batch.attempt_row import AttemptError, AttemptRow, DamagedRow
from engine.batch.attempt_runner import Attempt
from engine.batch.attempt_session import session_ids
from engine.batch.batch_events import Report
from engine.batch.batch_status import BatchStatus, InfraClass
from engine.batch.batch_task import BatchTask
from engine.core.threads import to_thread
from engine.ray_cluster.attempt_order import (
    FOLDERS,
    AttemptOrder,
    AttemptReturn,
    decode_return,
    encode_order,
    encode_tasks,
)
from engine.ray_cluster.cluster import RayCluster, WorkLost
from engine.snapshots.snapshot_dir import write_atomically

_GONE: Final = "the cluster can't be reached any more"
_SWEEP: Final = "engine.ray_cluster.machine_work:end_leftovers"
_REMOVE: Final = "engine.ray_cluster.machine_work:remove_folders"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RayCommand:
    """The command whose engine the workers make.

    Attributes:
        arguments: its command line, after `engine batch`.
        store: the URL of a database that the machines share; empty: there is none.
        own_store: where sessions of this machine are kept.
        batch_id: names its ledger.
    """

    arguments: tuple[str, ...]
    store: str
    own_store: str
    batch_id: str


@attrs.define(eq=False, repr=False)
class RayRunner:
    """An `AttemptRunner` over a cluster, and a `StartGate`: nothing starts once the cluster is gone."""

    _cluster: RayCluster
    _command: RayCommand
    # Where the folders of tasks are.
    _machines: dict[str, set[str]] = attrs.field(factory=dict[str, set[str]], init=False)

    def blocked(self) -> str:
        """Return why no attempt may start now. See `StartGate`."""
        return _GONE if self._cluster.is_gone else ""

    async def run(self, attempt: Attempt, *, report: Report, stop: trio.Event) -> AttemptRow:
        """Run an attempt to its end, and return its row. See `AttemptRunner`."""
        del report  # what a worker does is seen in its row
        order = AttemptOrder(
            attempt=attempt,
            arguments=self._command.arguments,
            cwd=str(Path.cwd()),
            host=socket.gethostname(),
            store=self._command.store,
            own_store=self._command.own_store,
        )
        began = time.monotonic()
        try:
            text = await self._cluster.run(encode_order(order), stop=stop)
            if text is None:
                return _row(attempt, "cancelled", "cancelled", "the batch was stopped")
            ended = decode_return(text)
            await to_thread(_write_files, Path(attempt.results), ended)
        except WorkLost as lost:
            return self._lost(attempt, lost, is_stopped=stop.is_set())
        except (DamagedRow, ValueError, KeyError) as error:
            return _row(attempt, "infra", "worker_lost", f"the worker sent no row: {error}")
        except OSError as error:
            return _row(attempt, "infra", "disk", f"{error.filename}: {error.strerror or error}")
        self._machines.setdefault(attempt.task.id, set()).add(ended.machine)
        return _with_wait(ended.row, time.monotonic() - began)

    async def remove_folders(self, tasks: Sequence[BatchTask]) -> None:
        """Remove what is left of the folders of these tasks, on the machines where they are. See `AttemptRunner`."""
        await trio.lowlevel.checkpoint()
        by_machine: dict[str, list[BatchTask]] = {}
        for task in tasks:
            # Of a runner before this one, or of a worker that was lost: it is not known where.
            for machine in self._machines.pop(task.id, {""}):
                by_machine.setdefault(machine, []).append(task)
        for machine, group in by_machine.items():
            self._cluster.run_on_machine(_REMOVE, encode_tasks(self._command.batch_id, tuple(group)), machine=machine)

    def _lost(self, attempt: Attempt, lost: WorkLost, *, is_stopped: bool) -> AttemptRow:
        if lost.kind != "failed":
            # What a killed worker has started goes on; which machine it was is not known.
            self._cluster.run_on_machine(_SWEEP, "")
        if lost.kind == "cancelled" and is_stopped:
            return _row(attempt, "cancelled", "cancelled", "the batch was stopped")
        self._machines.setdefault(attempt.task.id, set()).add("")
        return _row(attempt, "infra", "worker_lost", str(lost))


def _row(attempt: Attempt, status: BatchStatus, kind: InfraClass | Literal["cancelled"], message: str) -> AttemptRow:
    """Return the row of an attempt of which nothing has come back."""
    return AttemptRow(
        id=attempt.task.id,
        attempt=attempt.number,
        status=status,
        # Where the next attempt looks for what this one has saved.
        session=attempt.session or next(session_ids(attempt)),
        error=AttemptError(kind=kind, message=message),
        retries=attempt.retries,
        config_hash=attempt.config_hash,
        task_hash=attempt.task.hash,
        prompt_hash=attempt.task.prompt_hash,
        shard=attempt.shard,
        ended=time.time(),
    )


def _with_wait(row: AttemptRow, seconds: float) -> AttemptRow:
    """Return the row with the time that the attempt has waited for a worker."""
    waited = max(0.0, seconds - sum(row.times.values()))
    return attrs.evolve(row, times={**row.times, "wait": row.times.get("wait", 0.0) + waited})


def _write_files(folder: Path, ended: AttemptReturn) -> None:
    """Write what came back with a row. It blocks. Raises `OSError`, `ValueError`."""
    for name, data in ended.files.items():
        parent, _, file = name.partition("/")
        if parent not in FOLDERS or not file or "/" in file:
            raise ValueError(f"a file called {name!r}")
        path = folder / parent / file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
