"""The results of a batch as predictions for SWE-bench's evaluation: one line of JSON for each task with a result.

The file is derived from the ledger. It is only appended to; when it is opened, a line without an end is removed, and what
the ledger has and the file lacks is added. A fault of the infrastructure is no result: it leaves no line, rather than an
empty patch that an evaluation would count as the agent's failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import attrs

from engine.batch.attempt_row import AttemptRow, DamagedRow, decode_row
from engine.batch.batch_status import DONE_STATUSES


@attrs.define(eq=False)
class PredictionsFile:
    """The file, open for appending. Its methods block, and raise `OSError`."""

    _file: BinaryIO
    _results: Path
    # The tasks that it has a line of.
    _ids: set[str]

    @classmethod
    def open(cls, path: Path, results: Path) -> PredictionsFile:
        """Open the file, or make it; *results* is the folder of the ledger."""
        file = path.open("a+b")
        try:
            return cls(file, results, _existing_ids(file))
        except BaseException:  # re-raised: the descriptor must not stay open
            file.close()
            raise

    def add_missing(self, ledger: Path) -> None:
        """Add the newest result of each task that the file has no line of, such as those from before a crash."""
        if not ledger.exists():
            return
        with ledger.open("rb") as file:
            newest = {row.id: row for row in _rows(file) if row.status in DONE_STATUSES and row.id not in self._ids}
        for row in newest.values():
            self.add(row)

    def add(self, row: AttemptRow) -> None:
        """Add the result of an attempt; without one, nothing. For readers, a task's second line replaces its first.

        If it can't be written, the file is as before.
        """
        if row.status not in DONE_STATUSES:
            return
        patch = self._results.joinpath(row.patch).read_text("utf-8", "replace") if row.patch else ""
        line = {"instance_id": row.id, "model_name_or_path": row.model or "unknown", "model_patch": patch}
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(f"{json.dumps(line)}\n".encode())
            self._file.flush()
        except OSError:
            with suppress(OSError):
                self._file.truncate(end)
            raise
        self._ids.add(row.id)

    def close(self) -> None:
        """Close it."""
        self._file.close()


def _rows(file: BinaryIO) -> Iterable[AttemptRow]:
    for line in file:
        with suppress(DamagedRow):  # the ledger reports it
            yield decode_row(line)


def _existing_ids(file: BinaryIO) -> set[str]:
    """Return the tasks that the file has lines of, after removing a last line without an end."""
    file.seek(0)
    ids: set[str] = set()
    end = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        end += len(line)
        if (task_id := _id_of(line)) is not None:
            ids.add(task_id)
    file.truncate(end)
    return ids


def _id_of(line: bytes) -> str | None:
    """Return the task of a line; None: another program's line, which stays."""
    try:
        value: object = json.loads(line)
    except ValueError:
        return None
    task_id = cast("dict[str, object]", value).get("instance_id") if isinstance(value, dict) else None
    return task_id if isinstance(task_id, str) else None
