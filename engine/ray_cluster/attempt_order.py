"""What an attempt needs in a worker, and what comes back, as texts: Ray, and a line of JSON, carry both."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.batch.attempt_row import AttemptRow, decode_row, encode_row
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_task import BatchTask
from engine.batch.merge_ledgers import FILE_FOLDERS
from engine.core.value_base import Value

# In the folder of the results: what workers write there.
FOLDERS: Final = FILE_FOLDERS
# What comes back of an attempt, its row included. What does not fit stays behind, and the row says so.
MAX_RETURN_BYTES: Final = 1_048_576
# Base64 makes four bytes of three.
_MAX_FILE_BYTES: Final = MAX_RETURN_BYTES * 3 // 4 - 131_072


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttemptOrder(Value):
    """An attempt, and the command that it belongs to.

    Attributes:
        attempt: what to run.
        arguments: the command line: the worker's engine is made by the same flags.
        cwd: where the command was given.
        host: the machine where it was given.
        store: the URL of a database; empty: the sessions are kept on the machine of the worker.
        own_store: where they are kept if that is the machine of the command.
    """

    attempt: Attempt
    arguments: tuple[str, ...]
    cwd: str
    host: str
    store: str
    own_store: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttemptReturn(Value):
    """How an attempt ended.

    Attributes:
        row: its row.
        machine: the id of the machine where its folder is.
        files: what it has written, by path relative to the folder of the results.
    """

    row: AttemptRow
    machine: str = ""
    files: Mapping[str, bytes] = attrs.field(factory=dict[str, bytes])


def encode_order(order: AttemptOrder) -> str:
    """Return an order as text. Both ends are of one version: that was compared before."""
    return base64.b64encode(pickle.dumps(order)).decode()


def decode_order(text: str) -> AttemptOrder:
    """Return the order of a text, in a worker."""
    order: object = pickle.loads(base64.b64decode(text))  # noqa: S301  # Ray itself trusts who may submit tasks
    assert isinstance(order, AttemptOrder)
    return order


def encode_return(ended: AttemptReturn) -> str:
    """Return the end of an attempt as text, with as many of its files as fit, the smallest first."""
    files: dict[str, str] = {}
    left, missing = _MAX_FILE_BYTES, list[str]()
    for name, data in sorted(ended.files.items(), key=lambda item: len(item[1])):
        left -= len(data)
        if left < 0:
            missing.append(name)
        else:
            files[name] = base64.b64encode(data).decode()
    row = ended.row
    if missing:
        note = f"left on {row.host}, too large to be sent: {', '.join(sorted(missing))}"
        row = attrs.evolve(
            row,
            patch="" if row.patch in missing else row.patch,
            output_file="" if row.output_file in missing else row.output_file,
            notes=(*row.notes, note),
        )
    return json.dumps({"row": encode_row(row), "machine": ended.machine, "files": files})


def decode_return(text: str) -> AttemptReturn:
    """Return the end of an attempt. Nothing of a worker is run here. Raises `DamagedRow`, `ValueError`, `KeyError`."""
    fields = cast("dict[str, object]", json.loads(text))
    files = cast("dict[str, str]", fields["files"])
    return AttemptReturn(
        row=decode_row(cast("str", fields["row"])),
        machine=cast("str", fields["machine"]),
        files={name: base64.b64decode(data) for name, data in files.items()},
    )


def encode_tasks(batch_id: str, tasks: tuple[BatchTask, ...]) -> str:
    """Return tasks as text, whose folders are to be removed on a machine."""
    return base64.b64encode(pickle.dumps((batch_id, tasks))).decode()


def decode_tasks(text: str) -> tuple[str, tuple[BatchTask, ...]]:
    """Return the id of the batch and its tasks, in a worker."""
    return cast("tuple[str, tuple[BatchTask, ...]]", pickle.loads(base64.b64decode(text)))  # noqa: S301  # as above
