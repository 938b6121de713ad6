"""Folders of Harbor tasks as tasks: their instruction, and the time that the agent has.

What is in `environment/` is copied, and the agent works in the copy. Containers, tests and rewards are Harbor's: nothing is
built, pulled or verified here, and neither `tests/` nor `solution/` comes near the work folder.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

from engine.batch.batch_task import BadLine, BatchTask
from engine.batch.task_fields import BadTask, TaskSource, parse_task
from engine.batch.task_file import TaskList

CONFIG_NAME: Final = "task.toml"
INSTRUCTION_NAME: Final = "instruction.md"
_ENVIRONMENT_NAME: Final = "environment"
_MAX_CONFIG_BYTES: Final = 1 << 20


def read_harbor_tasks(folder: Path, source: TaskSource) -> TaskList:
    """Return the tasks in *folder*, in the order of their names, or the one that it is itself. It blocks. Raises `OSError`.

    In place of the number of a line, a task has its place in that order, from 1.
    """
    tasks: list[BatchTask] = []
    bad: list[BadLine] = []
    for number, each in enumerate(_task_folders(folder), 1):
        name = each.resolve().name
        try:
            tasks.append(parse_task(_fields(each, name), source, line=number))
        except BadTask as error:
            bad.append(BadLine(line=number, id=name[:200], message=f"{name}: {error}"))
    return TaskList(tasks=tuple(tasks), bad=tuple(bad))


def _task_folders(folder: Path) -> Iterator[Path]:
    if (folder / CONFIG_NAME).is_file():
        yield folder
        return
    for each in sorted(folder.iterdir()):
        if (each / CONFIG_NAME).is_file():
            yield each


def _fields(folder: Path, name: str) -> Mapping[str, object]:
    """Return the fields of a task. Raises `BadTask`."""
    config = _config(folder / CONFIG_NAME)
    if config.get("steps"):
        raise BadTask("it has several steps, which only Harbor runs")
    fields: dict[str, object] = {
        "id": name,
        "prompt_file": str((folder / INSTRUCTION_NAME).resolve()),
        "timeout": _seconds(config, "agent"),
        "metadata": _metadata(config),
    }
    environment = folder / _ENVIRONMENT_NAME
    return fields | ({"cwd": str(environment.resolve())} if environment.is_dir() else {})


def _config(path: Path) -> Mapping[str, object]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_CONFIG_BYTES + 1)
        if len(data) > _MAX_CONFIG_BYTES:
            raise BadTask(f"{CONFIG_NAME} has more than {_MAX_CONFIG_BYTES:,} bytes")
        return tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise BadTask(f"{CONFIG_NAME} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # a broken character, or no TOML
        raise BadTask(f"{CONFIG_NAME}: {error}") from error


def _metadata(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return what the task says about itself and its container, and how long its tests may take."""
    environment = {
        # Not its variables, which may be secrets.
        name: value
        for name, value in _table(config, "environment").items()
        if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    }
    found: dict[str, object] = {
        "task": _table(config, "task").get("name"),
        "environment": environment,
        "verifier_timeout": _seconds(config, "verifier"),
    }
    return {name: value for name, value in found.items() if value}


def _table(config: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = config.get(name, {})
    if not isinstance(value, dict):
        raise BadTask(f"{CONFIG_NAME}: {name} must be a table")
    return cast("dict[str, object]", value)


def _seconds(config: Mapping[str, object], name: str) -> float | None:
    value = _table(config, name).get("timeout_sec")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise BadTask(f"{CONFIG_NAME}: {name}.timeout_sec must be a number above 0")
    return float(value)
