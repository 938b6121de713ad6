"""The test kit on a machine where an engine has crashed: what it left does not change the runs of a scenario."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from engine.process.procfs import ENVIRONMENT_MARKER

pytestmark = pytest.mark.os

OWNED = "from engine.process.crash_cleanup import owned; print(owned('left'))"
PLAYS = """
from engine.testing import Scenario, call, done
from engine.testing.harness import play
scenario = Scenario(script=[[*call("look", {}, id="1"), *done("calls")]])
first, second = (play(scenario).points.names for _ in range(2))
print(first == second, len(first), len(second))
"""


def python(code: str) -> str:
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return program.stdout.strip()


@pytest.fixture
def leftover() -> Iterator[None]:
    """A process that a crashed engine has left: its marker names an owner that is gone."""
    process = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, ENVIRONMENT_MARKER: python(OWNED)}, start_new_session=True
    )
    yield
    process.kill()
    process.wait()


@pytest.mark.usefixtures("leftover")
def test_first_run_is_like_the_second_after_a_crash() -> None:
    assert python(PLAYS).startswith("True")
