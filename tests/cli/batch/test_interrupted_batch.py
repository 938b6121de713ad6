"""Ctrl-C at a batch: what ran is recorded, nothing is left, and the same command continues."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Quick, Start
from tests.cli.processes import await_sleepers, token

pytestmark = pytest.mark.os


def rows(folder: Path) -> list[tuple[str, str]]:
    text = (folder / "tasks.results" / "results.jsonl").read_text("utf-8")
    return [(row["id"], row["status"]) for row in map(json.loads, text.splitlines())]


def test_ctrl_c_records_what_ran(engine: Start, quick: Quick, tmp_path: Path) -> None:
    sleepers = [token(), token()]
    tasks = [{"id": "done", "prompt": "hello"}, *({"id": of, "prompt": f"tree {of}"} for of in sleepers)]
    tasks.append({"id": "waits", "prompt": "hello"})
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    cache = str(tmp_path / "cache")
    runner = engine("batch", "tasks.jsonl", "--yes", "--jobs", "2", XDG_CACHE_HOME=cache)
    for of in sleepers:
        await_sleepers(of, 3)
    runner.send(signal.SIGINT)
    assert runner.wait() == 130
    assert "Ctrl-C once more" in runner.output
    for of in sleepers:
        await_sleepers(of, 0)
    assert sorted(rows(tmp_path)) == sorted([("done", "finished"), *((of, "cancelled") for of in sleepers)])
    # A call that was cancelled is over: the same command goes on after it.
    assert quick("batch", "tasks.jsonl", "--yes", "--jobs", "2", XDG_CACHE_HOME=cache).code == 0
    assert sorted(rows(tmp_path)[3:]) == sorted([("waits", "finished"), *((of, "finished") for of in sleepers)])


def test_a_second_ctrl_c_exits_at_once(engine: Start, tmp_path: Path) -> None:
    of = token()
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"prompt": f"tree {of}"}))
    runner = engine("batch", "tasks.jsonl", "--yes")
    await_sleepers(of, 3)
    runner.send(signal.SIGINT)
    runner.send(signal.SIGINT)
    assert runner.wait() == 130
    await_sleepers(of, 0)
    ledger = (tmp_path / "tasks.results" / "results.jsonl").read_bytes()
    assert ledger == b"" or ledger.endswith(b"}\n")


def test_a_second_runner_is_refused(engine: Start, quick: Quick, tmp_path: Path) -> None:
    of = token()
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"prompt": f"tree {of}"}))
    engine("batch", "tasks.jsonl", "--yes")
    await_sleepers(of, 3)
    ended = quick("batch", "tasks.jsonl", "--yes")
    assert (ended.code, b"another runner" in ended.stderr, b"Next:" in ended.stderr) == (2, True, True)
