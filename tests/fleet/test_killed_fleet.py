"""Engines on one database that are killed at any moment: nothing is lost, and nothing is run twice."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import CountRuns, Soak
from tests.support.processes import python_process

pytestmark = [pytest.mark.os, pytest.mark.slow, pytest.mark.timeout(900)]

# In `make full`, and in a sample.
KILLS, FEW_KILLS = 100, 8


@pytest.mark.soak
def test_kills_lose_nothing_and_repeat_nothing(
    place: str, tmp_path: Path, soak: Soak, is_full: bool, count_runs: CountRuns
) -> None:
    kills = KILLS if is_full else FEW_KILLS
    for seed in soak.seeds(at_least=1):
        arguments = ("-m", "tests.fleet.killed_fleet", place, str(tmp_path), str(kills), str(seed))
        with python_process(*arguments, stderr=subprocess.PIPE) as program:
            out, errors = program.communicate(timeout=800)
        assert program.returncode == 0, errors
        found = json.loads(out)
        assert found["problems"] == [], errors
        assert found["ended"]["completed"] > kills / 2
        assert found["promised"] > kills
        assert found["resumed"] > kills / 3
        count_runs(kills, "kills of an engine of a fleet")
