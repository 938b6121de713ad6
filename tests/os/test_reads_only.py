"""What is said to only read does: a folder is asked whether it was written to."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import engine
from engine.core.events import CallStarted
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.builtin.bash_permissions import only_reads
from tests.permission.shell.test_reads_only import ALLOWED, SAFE

pytestmark = [pytest.mark.os, pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")]

Snapshot = dict[str, tuple[int, int, int]]


def _snapshot(folder: Path) -> Snapshot:
    """What is in a folder, and when it was written.

    `git diff` alone may replace the index by one that knows which files have not changed. It does so all at once,
    and not at all if another git is at it.
    """
    found: Snapshot = {}
    for path in [folder, *folder.rglob("*")]:
        if path.name not in {".git", "index"}:
            state = path.lstat()
            found[str(path)] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository, with files for the names that the examples use."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "x.py").write_text("def a():\n    pass\n")
    for name in ("a", "b", "c d", "e f", "a b"):
        (folder / name).write_text("a 1\nb 2\n")
    (folder / "a.txt").write_text("def\n")
    (folder / "a.json").write_text('{"a": {"c": 1}}')
    if shutil.which("git"):
        for arguments in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
        ):
            subprocess.run(["git", *arguments], cwd=folder, check=True, env=_environment(folder))
        # As if nothing were known of the files: git would like to note that they are unchanged.
        for path in folder.glob("*"):
            os.utime(path, (1, 1))
    return folder


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8"}


@pytest.mark.parametrize("command", [*SAFE, *ALLOWED])
def test_read_only_command_writes_nothing(command: str, project: Path) -> None:
    before = _snapshot(project.parent)
    subprocess.run(
        ["bash", "-c", command],
        cwd=project,
        env=_environment(project),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    assert _snapshot(project.parent) == before


@pytest.mark.parametrize(("command", "together"), [("sleep 0.3; cat a", True), ("sleep 0.3; cat a; true > b", False)])
async def test_read_only_commands_run_concurrently(command: str, together: bool, project: Path) -> None:
    answer = [event for n in "12" for event in call("bash", {"command": f"{command}  # {n}"}, id=n)]
    model = ScriptedProvider([[*answer, *done("calls")], [*text("bye"), *done()]])
    order: list[str] = []
    async with engine.open_engine(model=model, tools=[BASH], permissions=PermissionOptions(approver=AllowAll())) as eng:
        session = await eng.create_session(cwd=project)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    order.append("started")
                elif isinstance(event, engine.CallSettled):
                    order.append(event.settlement.status)
    assert order == (["started"] * 2 + ["completed"] * 2 if together else ["started", "completed"] * 2)


def test_commands_that_write_or_execute(shared_dir: Path) -> None:
    """A corpus of scripts, each with what the kernel saw of it."""
    corpus = shared_dir / "shell" / "corpus_sample.jsonl"
    if not corpus.is_file():
        pytest.skip("no corpus of shell scripts in the shared folder")
    scripts = [json.loads(line) for line in corpus.read_text().splitlines()]
    safe = [script for script in scripts if only_reads(script["script"])]
    assert len(safe) >= 3
    for script in safe:
        assert script["benign"], script
        assert not script["writes"], script
        assert not script.get("prog_writes"), script
