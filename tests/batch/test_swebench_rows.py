"""Rows of SWE-bench as tasks: what is asked, of which repository, and that nothing gives the solution away."""

import io
import json
from pathlib import Path

import pytest

from engine.batch.swebench_rows import swebench_converter
from engine.batch.task_fields import TaskSource
from engine.batch.task_file import TaskList, read_tasks

ROW = {
    "instance_id": "pallets__click-2",
    "repo": "pallets/click",
    "base_commit": "4a1b",
    "problem_statement": "It prints twice.",
    "patch": "SOLUTION",
    "test_patch": "HIDDEN TESTS",
    "hints_text": "look there",
    "version": "8.1",
    "FAIL_TO_PASS": "[]",
    "image_name": "swebench/click:2",
}


def read(folder: Path, *rows: object) -> TaskList:
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return read_tasks(io.BytesIO(lines), TaskSource(folder=folder), swebench_converter(folder / "repos"))


@pytest.mark.parametrize("place", ["pallets/click", "pallets__click", "click"])
def test_row_is_a_task_in_its_clone(tmp_path: Path, place: str) -> None:
    clone = tmp_path / "repos" / place
    clone.mkdir(parents=True)
    found = read(tmp_path, ROW)
    (task,) = found.tasks
    assert (task.id, task.repo, task.ref) == ("pallets__click-2", str(clone), "4a1b")
    assert task.prompt.startswith("Resolve the following issue")
    assert task.prompt.endswith("\n\nIt prints twice.")
    assert json.loads(task.metadata) == {
        "repo": "pallets/click",
        "base_commit": "4a1b",
        "version": "8.1",
        "image_name": "swebench/click:2",
    }


def test_solution_stays_out_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "repos" / "click").mkdir(parents=True)
    (task,) = read(tmp_path, ROW).tasks
    assert not [secret for secret in ("SOLUTION", "HIDDEN", "look there") if secret in repr(task)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repo": "pallets/flask"}, "there is no clone of pallets/flask"),
        ({"repo": "../.."}, "repo must be OWNER/NAME"),
        ({"repo": "/etc"}, "repo must be OWNER/NAME"),
        ({"problem_statement": " "}, "it is no row of SWE-bench: problem_statement is no text"),
        ({"base_commit": 7}, "it is no row of SWE-bench: base_commit is no text"),
        ({"problem_statement": "a\0b"}, "holds a NUL character"),
    ],
)
def test_bad_row_is_named_and_others_are_read(tmp_path: Path, change: dict[str, object], message: str) -> None:
    (tmp_path / "repos" / "click").mkdir(parents=True)
    found = read(tmp_path, ROW | change, ROW)
    assert [(line.line, message in line.message) for line in found.bad] == [(1, True)]
    assert [task.line for task in found.tasks] == [2]


def test_other_rows_are_named(tmp_path: Path) -> None:
    (bad,) = read(tmp_path, {"id": "a", "prompt": "b"}).bad
    assert bad.message == "it is no row of SWE-bench: instance_id is missing"
