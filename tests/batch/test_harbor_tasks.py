"""Folders of Harbor tasks: what is read of them, and that their tests and solutions are not."""

import json
from pathlib import Path

import pytest

from engine.batch.harbor_tasks import read_harbor_tasks
from engine.batch.task_fields import TaskSource

CONFIG = """
schema_version = "1.1"

[task]
name = "org/hello"

[agent]
timeout_sec = 90

[verifier]
timeout_sec = 120.0
env = { KEY = "secret" }

[environment]
docker_image = "alpine:3.22"
cpus = 2
env = { TOKEN = "secret" }
"""


def make(folder: Path, config: str = CONFIG, instruction: str = "Write hello.txt.\r\n") -> Path:
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(config)
    (folder / "instruction.md").write_text(instruction)
    return folder


def read(folder: Path) -> tuple[list[str], list[tuple[int, str]]]:
    found = read_harbor_tasks(folder, TaskSource(folder=folder))
    return [task.id for task in found.tasks], [(bad.line, bad.message) for bad in found.bad]


def test_folder_is_a_task(tmp_path: Path) -> None:
    folder = make(tmp_path / "hello")
    for name in ("environment", "tests", "solution"):
        (folder / name).mkdir()
    (task,) = read_harbor_tasks(folder, TaskSource(folder=tmp_path)).tasks
    assert (task.id, task.prompt.strip(), task.timeout) == ("hello", "Write hello.txt.", 90.0)
    assert task.cwd == str(folder / "environment")
    assert task.check is None
    assert json.loads(task.metadata) == {
        "task": "org/hello",
        "environment": {"docker_image": "alpine:3.22", "cpus": 2},
        "verifier_timeout": 120.0,
    }


def test_tasks_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        make(tmp_path / "tasks" / name)
    (tmp_path / "tasks" / "README.md").write_text("no task")
    (tmp_path / "tasks" / "shared").mkdir()
    assert read(tmp_path / "tasks") == (["a", "b", "c"], [])


def test_task_without_environment_has_no_folder(tmp_path: Path) -> None:
    (task,) = read_harbor_tasks(make(tmp_path / "a", ""), TaskSource(folder=tmp_path)).tasks
    assert (task.cwd, task.timeout) == ("", None)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[agent", "a: task.toml: Expected ']'"),
        ("agent = 3", "a: task.toml: agent must be a table"),
        ("[agent]\ntimeout_sec = -1", "a: task.toml: agent.timeout_sec must be a number above 0"),
        ("[verifier]\ntimeout_sec = nan", "a: task.toml: verifier.timeout_sec must be a number above 0"),
        ("[[steps]]\nname = 'x'", "a: it has several steps, which only Harbor runs"),
    ],
)
def test_bad_folder_is_named_and_others_are_read(tmp_path: Path, config: str, message: str) -> None:
    make(tmp_path / "tasks" / "a", config)
    make(tmp_path / "tasks" / "b")
    good, ((line, reason),) = read(tmp_path / "tasks")
    assert (good, line) == (["b"], 1)
    assert reason.startswith(message)


def test_missing_instruction_is_named(tmp_path: Path) -> None:
    (make(tmp_path / "tasks" / "a") / "instruction.md").unlink()
    _, ((_, reason),) = read(tmp_path / "tasks")
    assert reason.startswith("a: prompt_file: ")
    assert reason.endswith("instruction.md: No such file or directory")
