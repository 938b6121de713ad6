"""A batch whose runner is killed again and again ends as one that nothing has disturbed (AT6)."""

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Start, engine, fork_path, host, started_engine

pytestmark = [pytest.mark.os, pytest.mark.slow]

__all__ = ["engine", "fork_path", "host", "started_engine"]

_SECONDS = 120


def write_tasks(folder: Path, count: int, faulty: frozenset[int]) -> None:
    """Each task writes its number to a file, once, if nothing is done twice; the setup of some fails the first time."""
    lines: list[str] = []
    for number in range(count):
        fails_once = f"mkdir {folder}/failed-{number} && exit 1; true"
        task = {
            "id": f"t{number}",
            "prompt": f"bash echo {number} >> {folder}/effects",
            "setup": fails_once if number in faulty else "true",
            "check": "true",
        }
        lines.append(json.dumps(task))
    (folder / "tasks.jsonl").write_text("\n".join(lines))
    (folder / "effects").touch()


def rows(folder: Path) -> list[dict[str, Any]]:
    ledger = folder / "tasks.results" / "results.jsonl"
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def size(folder: Path) -> int:
    """What grows while a batch is at work."""
    ledger = folder / "tasks.results" / "results.jsonl"
    return (ledger.stat().st_size if ledger.exists() else 0) + (folder / "effects").stat().st_size


def test_killed_runner_loses_and_repeats_nothing(engine: Start, tmp_path: Path, *, is_full: bool) -> None:
    count, kills = (200, 5) if is_full else (20, 3)
    chance = random.Random(20)
    faulty = frozenset(chance.sample(range(count), count // 5))
    write_tasks(tmp_path, count, faulty)
    arguments = ("batch", "tasks.jsonl", "--trust-tasks", "--yes", "--jobs", "4", "--retry-delay", "0.05")
    for _ in range(kills):
        before = size(tmp_path)
        runner = engine(*arguments)
        deadline = time.monotonic() + _SECONDS
        while size(tmp_path) == before:
            assert time.monotonic() < deadline, runner.output
            assert runner.process.poll() is None, runner.output
            time.sleep(0.005)
        # At any instant of the work that follows.
        time.sleep(chance.uniform(0, 0.2))
        runner.process.kill()
        runner.process.wait()
    code = 3
    while code == 3:
        code = engine(*arguments).wait(_SECONDS)
    assert code == 0

    done = [row for row in rows(tmp_path) if row["status"] != "infra"]
    assert Counter(row["id"] for row in done) == Counter(f"t{number}" for number in range(count))
    assert {(row["status"], row["output"]) for row in done} == {("passed", "All done.")}
    faults = [row for row in rows(tmp_path) if row["status"] == "infra"]
    assert {row["error"]["class"] for row in faults} <= {"setup"}
    # A fault whose runner was killed before its row was written has none; no other task has one.
    assert {row["id"] for row in faults} <= {f"t{number}" for number in faulty}
    effects = Counter((tmp_path / "effects").read_text().split())
    assert max(effects.values()) == 1
    # A call that was killed is not repeated either; the model is told.
    assert len(effects) >= count - kills * 4
    summary = json.loads((tmp_path / "tasks.results" / "summary.json").read_text())
    assert summary["counts"] == {"passed": count}
