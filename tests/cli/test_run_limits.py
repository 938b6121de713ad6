"""Flags of `engine run` that limit a task, and those that reach the model."""

import json
from pathlib import Path

import pytest

from engine.cli.run import parse
from tests.cli.conftest import Quick


@pytest.mark.os
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--max-tokens", "100"), "token_budget"),
        (("--max-cost", "0.0001"), "cost_limit"),
        (("--max-steps", "1"), "step_limit"),
    ],
)
def test_a_limit_stops_the_task(quick: Quick, flags: tuple[str, str], reason: str) -> None:
    ended = quick("run", "--yes", "--output", "json", "bash true", *flags)
    assert (ended.code, json.loads(ended.stdout)["stop_reason"]) == (4, reason)


@pytest.mark.os
def test_no_input_denies(quick: Quick) -> None:
    ended = quick("run", "--no-input", "--output", "json", "bash touch new")
    assert (ended.code, json.loads(ended.stdout)["denied"][0]["tool"]) == (3, "bash")


@pytest.mark.os
def test_files_stay_without_snapshots(quick: Quick, tmp_path: Path) -> None:
    for flags, stays in (((), False), (("--no-snapshots",), True)):
        assert quick("run", "--yes", *flags, "write").code == 0
        assert quick("sessions", "undo", "last").code == 0
        assert (tmp_path / "a.txt").exists() == stays


def test_model_options_are_read() -> None:
    """As `engine run` reads them; what each host gets of them is tested with its wire format."""
    options = parse(
        ["hello", "--stdin", "skip", "--effort", "high", "--temperature", "0.5", "--max-output", "99", "--cache", "1h"]
    ).model.options
    assert (options.effort, options.temperature, options.output_cap, options.cache) == ("high", 0.5, 99, "1h")
