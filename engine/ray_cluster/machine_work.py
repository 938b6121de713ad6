"""What a machine of the cluster does besides attempts: functions of a text, which Ray calls in a worker there."""

from __future__ import annotations

import trio

from engine.batch.work_folder import WorkFolders
from engine.process import crash_cleanup
from engine.ray_cluster.attempt_order import decode_tasks
from engine.ray_cluster.worker_places import work_root


def end_leftovers(_work: str) -> None:
    """End what killed workers have left running on this machine. It blocks for a second at most."""
    owners = crash_cleanup.find_dead_owners()
    if owners:
        trio.run(crash_cleanup.end_leftovers, owners)


def remove_folders(work: str) -> None:
    """Remove the folders of tasks on this machine. It blocks."""
    batch_id, tasks = decode_tasks(work)
    trio.run(WorkFolders(work_root(batch_id)).remove, tasks)
