"""Reads the tasks of a JSONL file. A line that is no task is named, and the others are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO, Final, cast

import attrs

from engine.batch.batch_task import BadLine, BatchTask, short_hash
from engine.batch.task_fields import BadTask, TaskSource, parse_task
from engine.core.value_base import Value

MAX_LINE_BYTES: Final = 8_388_608
_BOM: Final = b"\xef\xbb\xbf"

Fields = Mapping[str, object]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskList(Value):
    """The tasks of a batch, in the order of their file, and the lines that are none."""

    tasks: tuple[BatchTask, ...]
    bad: tuple[BadLine, ...]


def read_tasks(
    file: BinaryIO, source: TaskSource, convert: Callable[[Fields], Fields] = lambda fields: fields
) -> TaskList:
    """Read all lines of a file. It blocks. Raises `OSError`.

    Args:
        file: opened for reading bytes.
        source: what fields are read by.
        convert: makes our fields of those of another format; raises `BadTask`.
    """
    tasks: dict[str, BatchTask] = {}
    bad: list[BadLine] = []
    for number, line in _lines(file):
        name = short_hash(line.decode(errors="replace"))
        try:
            fields = _fields(line)
            # As rows of SWE-bench call it: a task that could be none before keeps its name when it is one.
            if isinstance(own_id := fields.get("id", fields.get("instance_id")), str):
                name = own_id
            task = parse_task(convert(fields), source, line=number, id_text=line.decode(errors="replace"))
            name = task.id
            if task.id in tasks:
                raise BadTask(f"the id {task.id!r} is that of line {tasks[task.id].line}")
        except BadTask as error:
            bad.append(BadLine(line=number, id=name[:200], message=str(error)))
        else:
            tasks[task.id] = task
    return TaskList(tasks=tuple(tasks.values()), bad=tuple(bad))


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not empty, without its end, with its number. Of one that is too long, only the beginning."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        rest = line
        while rest and not rest.endswith(b"\n") and len(rest) > MAX_LINE_BYTES:
            rest = file.readline(MAX_LINE_BYTES + 1)
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def _fields(line: bytes) -> Fields:
    """Return the members of a line's object. Raises `BadTask`."""
    if len(line) > MAX_LINE_BYTES:
        raise BadTask(f"it has more than {MAX_LINE_BYTES:,} bytes: put the prompt into a file, as prompt_file")
    try:
        document: object = json.loads(line)
    except UnicodeDecodeError as error:
        raise BadTask("it is no UTF-8") from error
    except json.JSONDecodeError as error:
        raise BadTask(f"it is no JSON: {error.msg} at character {error.pos + 1}") from error
    except (ValueError, RecursionError) as error:
        raise BadTask("it is no JSON that can be read: too deep, or a number with too many digits") from error
    if not isinstance(document, dict):
        raise BadTask("it is no JSON object")
    return cast("Fields", document)
