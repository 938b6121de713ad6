"""Where the tasks of `engine batch` come from: lines of our own format, rows of SWE-bench, folders of Harbor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO, Final, cast

from engine.batch.harbor_tasks import CONFIG_NAME, read_harbor_tasks
from engine.batch.swebench_rows import swebench_converter
from engine.batch.task_fields import TaskSource
from engine.batch.task_file import TaskList, read_tasks
from engine.core.errors import ConfigError

STDIN: Final = "-"


def read_formatted_tasks(
    name: str, source: TaskSource, *, task_format: str | None, repositories: Path | None
) -> TaskList:
    """Return the tasks of a file or a folder. It blocks. Raises `ConfigError` if there are none, or they can't be read.

    Args:
        name: the file or folder; -: standard input.
        source: what fields are read by.
        task_format: its format; None: Harbor's for a folder, ours for a file.
        repositories: the folder with the clones that rows of SWE-bench name; None: that of the file.
    """
    is_folder = name != STDIN and Path(name).is_dir()
    if is_folder and task_format not in {None, "harbor"}:
        raise ConfigError(f"{name} is a directory, and --format {task_format} reads a file\nNext: leave out --format")
    try:
        if is_folder:
            tasks = read_harbor_tasks(Path(name), source)
        else:
            tasks = _read_lines(name, source, task_format, repositories or source.folder)
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror or error}\nNext: name a file of tasks") from error
    if not tasks.tasks and not tasks.bad:
        missing = f"no directory in it has a {CONFIG_NAME}" if is_folder else "there is no line in it"
        raise ConfigError(f"{name} holds no tasks: {missing}\nNext: engine help batch")
    return tasks


def _read_lines(name: str, source: TaskSource, task_format: str | None, repositories: Path) -> TaskList:
    if task_format == "harbor":
        raise ConfigError(f"{name} is no directory of Harbor tasks\nNext: leave out --format")
    if name == STDIN:
        return _convert(cast("BinaryIO", sys.stdin.buffer), source, task_format, repositories)
    with Path(name).open("rb") as file:
        return _convert(file, source, task_format, repositories)


def _convert(file: BinaryIO, source: TaskSource, task_format: str | None, repositories: Path) -> TaskList:
    if task_format == "swebench":
        return read_tasks(file, source, swebench_converter(repositories))
    return read_tasks(file, source)
