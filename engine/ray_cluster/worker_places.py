"""Where a worker works: its folder for the tasks' folders, its store, and the results if it can see them."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import cast

import platformdirs

from engine.batch.batch_identity import IDENTITY_NAME
from engine.core.errors import StoreError
from engine.ray_cluster.attempt_order import AttemptOrder


def work_root(batch_id: str) -> Path:
    """Return the folder in which the tasks of a batch have theirs, on this machine."""
    return platformdirs.user_cache_path("engine", appauthor=False) / "batch" / batch_id


def sees_results(order: AttemptOrder) -> bool:
    """Tell whether the folder of the results is here: a shared file system, or the same machine. It blocks."""
    try:
        document: object = json.loads((Path(order.attempt.results) / IDENTITY_NAME).read_bytes())
    except (OSError, ValueError):
        return False
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    return fields.get("id") == order.attempt.batch_id


def choose_store(order: AttemptOrder) -> str:
    """Return where the sessions of an attempt are kept. It blocks. Raises `StoreError`, `OSError`.

    Without a database, that is a file in a folder of this machine: home folders of clusters are often on a network, and
    SQLite's file is not for that. Workers of one machine share it.
    """
    if order.store:
        return order.store
    if order.host == socket.gethostname() and sees_results(order):
        return order.own_store
    folder = Path(tempfile.gettempdir()) / f"engine-batch-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise StoreError(f"{folder} is not this user's alone")
    return str(folder / f"{order.attempt.batch_id}.db")
