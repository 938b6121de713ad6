"""`engine batch --shard` and `engine batch merge`, as jobs of a cluster run them."""

import os
from pathlib import Path

import pytest

from tests.cli.batch.test_batch_command import by_id, write_tasks
from tests.cli.conftest import Quick

pytestmark = pytest.mark.os


def test_shards_are_run_and_merged(quick: Quick, tmp_path: Path) -> None:
    names = write_tasks(tmp_path, *({"id": name, "prompt": "hello"} for name in "abc"))
    run = ("batch", names, "--scripted", "Hello.", "--min-free", "0")
    assert quick(*run, "--shard", "1/2").code == os.EX_OK
    early = quick("batch", "merge", "tasks.results")
    assert (early.code, b"2" in early.stderr) == (3, True)
    assert quick(*run, "--shard", "2/2").code == os.EX_OK
    assert quick("batch", "merge", "tasks.results", "--results-dir", "merged").code == os.EX_OK
    merged = by_id(tmp_path, "merged")
    assert {name: row["shard"] for name, row in merged.items()} == {"a": "1/2", "b": "2/2", "c": "1/2"}


def test_shards_of_other_configurations_are_not_mixed(quick: Quick, tmp_path: Path) -> None:
    names = write_tasks(tmp_path, {"id": "a", "prompt": "hello"}, {"id": "b", "prompt": "hello"})
    run = ("batch", names, "--scripted", "Hello.", "--min-free", "0")
    assert quick(*run, "--shard", "1/2").code == os.EX_OK
    assert quick(*run, "--shard", "2/2", "--effort", "high").code == os.EX_OK
    refused = quick("batch", "merge", "tasks.results")
    assert (refused.code, b"--allow-changed" in refused.stderr) == (2, True)
    assert quick("batch", "merge", "tasks.results", "--allow-changed").code == os.EX_OK
    assert sorted(by_id(tmp_path)) == ["a", "b"]
