"""`engine batch` as a user runs it: a process, a model's host, real folders."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Quick

pytestmark = pytest.mark.os

Json = dict[str, Any]


def write_tasks(folder: Path, *tasks: object, name: str = "tasks.jsonl") -> str:
    lines = [task if isinstance(task, str) else json.dumps(task) for task in tasks]
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def rows(folder: Path, results: str = "tasks.results") -> Sequence[Json]:
    return [json.loads(line) for line in (folder / results / "results.jsonl").read_text("utf-8").splitlines()]


def by_id(folder: Path, results: str = "tasks.results") -> Mapping[str, Json]:
    """The newest row of each task."""
    return {row["id"]: row for row in rows(folder, results)}


def repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e@e", *words], cwd=folder, check=True, capture_output=True
        )
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def test_the_line_of_the_help_works_offline(quick: Quick, tmp_path: Path) -> None:
    arguments = ("batch", "--task", "say hello", "--task", "say goodbye", "--scripted", "Hello.")
    for before in (b"2 tasks\n", b"2 of them done before"):
        ended = quick(*arguments, ANTHROPIC_API_KEY="", ANTHROPIC_BASE_URL="http://127.0.0.1:1")
        assert (ended.code, b"finished       2" in ended.stdout, before in ended.stderr) == (0, True, True)
    assert [row["output"] for row in rows(tmp_path, "batch.results")] == ["Hello.", "Hello."]


def test_bad_lines_are_named_and_others_run(quick: Quick, tmp_path: Path) -> None:
    lines = [
        "\ufeff" + '{"id": "a", "prompt": "hello"}\r',
        '{"id": "b", "prompt": "hello", "modle": "x"}',
        "{nonsense",
        '{"id": "a", "prompt": "hello"}',
        '{"id": "c", "prompt": "nul \\u0000"}',
        '{"id": "d", "prompt": "hello", "cwd": "nowhere"}',
        '{"id": "e", "prompt": "hello", "model": "nohost/none"}',
        '{"id": "f", "prompt": "hello", "check": "true"}',
        '{"id": "g", "prompt": "%s"}' % ("x" * 10_000_000),
        "",
        '{"id": "h", "prompt": "hello", "profile": "full"}',
        '{"prompt": "hello"}',
    ]
    ended = quick("batch", write_tasks(tmp_path, *lines))
    assert ended.code == 2
    said = ended.stderr.decode()
    words = {2: "did you mean 'model'", 3: "no JSON", 4: "that of line 1", 5: "NUL", 6: "not a directory", 7: "nohost"}
    words |= {8: "--trust-tasks", 9: "bytes", 11: "allows more"}
    for number, word in words.items():
        line = next(line for line in said.splitlines() if line.startswith(f"line {number}:"))
        assert word in line
    statuses = {row["id"]: row["status"] for row in rows(tmp_path)}
    assert statuses["a"] == "finished"
    assert sorted(statuses.values()).count("finished") == 2
    assert sorted(statuses.values()).count("bad_task") == 8
    assert [statuses[name] for name in "bcdefh"] == ["bad_task"] * 6
    # The same lines are not written again.
    before = len(rows(tmp_path))
    assert quick("batch", "tasks.jsonl").code == 2
    assert len(rows(tmp_path)) == before


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_tasks_is_refused(quick: Quick, tmp_path: Path, content: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(content)
    assert quick("batch", "tasks.jsonl").code == 2
    assert quick("batch", "missing.jsonl").code == 2
    assert quick("batch").code == 2


@needs_git
def test_checks_decide_and_patches_apply(quick: Quick, tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    task = {"prompt": "rewrite", "repo": "repo", "profile": "full", "setup": {"command": "echo $WORD > made.txt"}}
    task["env"] = {"WORD": "made"}
    tasks = [
        {"id": "good", "check": 'grep -q TWO a.txt && test -z "$ANTHROPIC_API_KEY"', **task},
        {"id": "bad", "check": "echo why; exit 1", **task},
        {"id": "slow", "check": {"command": "sleep 100", "timeout": 0.2}, **task},
        {"id": "broken", **task, "setup": "echo oh no; exit 3", "attempts": 1},
    ]
    ended = quick("batch", write_tasks(tmp_path, *tasks), "--trust-tasks", "--jobs", "2", "--yes")
    assert ended.code == 3
    found = by_id(tmp_path)
    assert {name: (row["status"], row["check"]) for name, row in found.items()} == {
        "good": ("passed", "passed"),
        "bad": ("failed", "failed"),
        "slow": ("failed", "timeout"),
        "broken": ("infra", ""),
    }
    assert found["broken"]["error"] == {"class": "setup", "message": "exit code 3: oh no"}
    assert (tmp_path / "tasks.results/logs/bad.1.check.log").read_text() == "why\n"
    patch = tmp_path / "tasks.results" / found["good"]["patch"]
    # To be read by people, too.
    assert "+++ b/a.txt\n@@ -1 +1,2 @@\n one\n+TWO\n" in patch.read_text()
    subprocess.run(["git", "apply", patch], cwd=repo, check=True)
    assert (repo / "a.txt").read_text() == "one\nTWO\n"
    # What setup has made was there before the turn.
    assert not (repo / "made.txt").exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=repo, capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 2  # of the one without a result
    assert found["good"]["base_commit"][:7] in listed


def test_denied_calls_are_counted(quick: Quick, tmp_path: Path) -> None:
    ended = quick("batch", write_tasks(tmp_path, {"id": "a", "prompt": "bash touch new"}))
    assert (ended.code, rows(tmp_path)[0]["denied"]) == (0, 1)
    assert b"1 call denied" in ended.stdout


def test_work_in_place_changes_the_folder(quick: Quick, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("one\n")
    tasks = [
        {"id": "in place", "prompt": "rewrite", "cwd": "one", "in_place": True},
        {"id": "copy", "prompt": "rewrite", "cwd": "two"},
    ]
    assert (
        quick(
            "batch", write_tasks(tmp_path, *tasks), "--yes", "--keep", "all", XDG_CACHE_HOME=str(tmp_path / "cache")
        ).code
        == 0
    )
    assert [(tmp_path / name / "a.txt").read_text() for name in ("one", "two")] == ["one\nTWO\n", "one\n"]
    kept = list((tmp_path / "cache/engine/batch").glob("*/copy/a.txt"))
    assert [path.read_text() for path in kept] == ["one\nTWO\n"]


def test_timeouts_and_limits_are_results(quick: Quick, tmp_path: Path) -> None:
    tasks = [
        {"id": "slow", "prompt": "slow", "timeout": 0.3},
        {"id": "limited", "prompt": "bash true", "limits": {"steps": 1}},
    ]
    assert quick("batch", write_tasks(tmp_path, *tasks), "--yes").code == 1
    ends = {name: (row["status"], row["stop_reason"]) for name, row in by_id(tmp_path).items()}
    assert ends == {"slow": ("timeout", "aborted"), "limited": ("stopped", "step_limit")}
    # They are done; --retry runs them again.
    assert b"2 of them done" in quick("batch", "tasks.jsonl", "--yes").stderr
    assert (
        quick("batch", "tasks.jsonl", "--yes", "--retry", "stopped", "--timeout", "60").code == 2
    )  # another configuration
    assert quick("batch", "tasks.jsonl", "--yes", "--retry", "stopped").code == 1
    assert [row["attempt"] for row in rows(tmp_path) if row["id"] == "limited"] == [1, 2]


def test_faults_are_retried_and_listed(quick: Quick, tmp_path: Path) -> None:
    task = {"id": "a", "prompt": "hello", "setup": f"test -e {tmp_path}/ready", "attempts": 2}
    arguments = ("batch", write_tasks(tmp_path, task), "--trust-tasks", "--retry-delay", "0.01", "--max-steps", "5")
    ended = quick(*arguments)
    assert (ended.code, b"infra a: setup: exit code 1" in ended.stdout) == (3, True)
    assert [(row["status"], row["error"]["class"]) for row in rows(tmp_path)] == [("infra", "setup")] * 2
    (tmp_path / "ready").touch()
    assert quick(*arguments).code == 0
    last = rows(tmp_path)[-1]
    assert (last["status"], last["attempt"], len(last["retries"])) == ("finished", 3, 2)
    summary = json.loads((tmp_path / "tasks.results/summary.json").read_text())
    assert (summary["retried"], summary["without_retried"]["counts"]) == (["a"], {})


@pytest.mark.parametrize(
    ("prompt", "kind", "attempts"), [("refused", "provider_auth", 1), ("limited 4000", "provider_rate", 2)]
)
def test_a_host_that_fails_is_no_result(quick: Quick, tmp_path: Path, prompt: str, kind: str, attempts: int) -> None:
    write_tasks(tmp_path, {"id": "a", "prompt": prompt, "attempts": 2})
    ended = quick("batch", "tasks.jsonl", "--retry-delay", "0.01")
    assert (ended.code, [row["error"]["class"] for row in rows(tmp_path)]) == (3, [kind] * attempts)


def test_changes_are_not_mixed_with_results(quick: Quick, tmp_path: Path) -> None:
    write_tasks(tmp_path, {"id": "a", "prompt": "hello"})
    assert quick("batch", "tasks.jsonl").code == 0
    write_tasks(tmp_path, {"id": "a", "prompt": "bash true"})
    ended = quick("batch", "tasks.jsonl", "--yes")
    assert (ended.code, b"have changed" in ended.stderr) == (2, True)
    assert quick("batch", "tasks.jsonl", "--yes", "--allow-changed", "--fresh").code == 0
    assert [row["output"] for row in rows(tmp_path)] == ["Hello, wörld.\nTwo lines.", "All done."]


def test_too_little_space_starts_nothing(quick: Quick, tmp_path: Path) -> None:
    write_tasks(tmp_path, {"id": "a", "prompt": "hello"})
    ended = quick("batch", "tasks.jsonl", "--min-free", "99%", "--results-dir", "r", "--name", "nightly")
    assert (ended.code, b"not run" in ended.stdout, b"GiB" in ended.stdout) == (3, True, True)
    assert rows(tmp_path, "r") == []
    assert quick("batch", "tasks.jsonl", "--results-dir", "r", "--min-free", "0").code == 2  # of another name
    assert quick("batch", "tasks.jsonl", "--results-dir", "r", "--name", "nightly", "--min-free", "0").code == 0
    listed = quick("sessions", "list", "--all").stdout
    assert b"batch=nightly task=a attempt=1" in listed
