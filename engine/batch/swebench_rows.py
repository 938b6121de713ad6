"""Rows of SWE-bench data sets as tasks: an issue, a repository, and the commit at which it is to be resolved.

What would give the solution away stays out of the task: the row's own patch and tests are not even in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from engine.batch.task_fields import BadTask

# A row is an issue, not an order.
PROMPT: Final = (
    "Resolve the following issue of the repository in the current folder. "
    "Change its code, and leave its existing tests as they are.\n\n"
)

# What helps to find one's way in results.
_KEPT: Final = ("repo", "base_commit", "version", "image_name")


def swebench_converter(repositories: Path) -> Callable[[Mapping[str, object]], Mapping[str, object]]:
    """Return the function that makes a task's fields of a row's. It looks at folders, and blocks; it raises `BadTask`.

    Args:
        repositories: the folder with a clone of each repository.
    """
    return partial(_task_fields, repositories=repositories)


def _task_fields(row: Mapping[str, object], *, repositories: Path) -> Mapping[str, object]:
    task_id, repository, commit, issue = (
        _text(row, name) for name in ("instance_id", "repo", "base_commit", "problem_statement")
    )
    places = _places(repository, repositories)
    clone = next((place for place in places if place.is_dir()), None)
    if clone is None:
        names = " or ".join(str(place) for place in places)
        raise BadTask(f"{task_id}: there is no clone of {repository}: no folder {names}")
    return {
        "id": task_id,
        "prompt": PROMPT + issue,
        "repo": str(clone.resolve()),
        "ref": commit,
        "metadata": {name: row[name] for name in _KEPT if row.get(name)},
    }


def _text(row: Mapping[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadTask(f"it is no row of SWE-bench: {name} is {'missing' if name not in row else 'no text'}")
    return value


def _places(repository: str, repositories: Path) -> Sequence[Path]:
    """Return where a clone may be: `OWNER/NAME`, `OWNER__NAME` as in the ids of rows, or `NAME`."""
    parts = repository.split("/")
    if not all(part.strip(". ") for part in parts):  # it leads nowhere but below the folder
        raise BadTask(f"repo must be OWNER/NAME, not {repository[:80]!r}")
    return [repositories / name for name in dict.fromkeys(("/".join(parts), "__".join(parts), parts[-1]))]
