"""kill -9: whenever it strikes, nothing that was promised is lost, nothing runs twice, and the session goes on."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest

from tests.conftest import REPOSITORY, CountRuns, Soak, runs_in_full

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    pytest.mark.soak,
    # Fifteen seconds on an idle machine.
    pytest.mark.timeout(3 * 300),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes that are left in /proc"),
]

# So many tests of each manner in `make full`, and in `make test`; so many kills in each.
PARTS, SAMPLED, KILLS = 11, 1, 10
ALONE = 13
# In so many rounds, the most, an engine is gone before it can be killed.
SPARE = 4
# Seconds of text that a kill may cost, and how much later than that a busy machine may be.
PROMISED, BUSY = 0.1, 0.4
PATIENCE, ATTEMPTS = 280, 3


@attrs.frozen(kw_only=True)
class Killed:
    """What a program has found.

    Attributes:
        kills: how many engines were killed.
        again: how many more, while they opened what another kill had left.
        parked: how many turns only waited.
        phases: where turns were, by the record.
        reached: how far, as a share of the events of a whole turn.
        losses: how many seconds of text each kill has cost.
    """

    kills: int
    again: int
    parked: int
    phases: Mapping[str, int]
    reached: Sequence[float]
    losses: Sequence[float]


def kill(folder: Path, seed: int, manner: str, kills: int = KILLS) -> Killed:
    """Kill so many in a program of its own, and look after what is left."""
    first = seed * SPARE * kills
    program = subprocess.run(
        [sys.executable, "-m", "tests.os.killing", str(folder), str(first), str(kills), manner],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    found = Killed(**json.loads(program.stdout))
    assert found.kills == kills
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the tests that go on in parts theirs."""
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", range(PARTS if runs_in_full(metafunc.config) else SAMPLED))


AGAIN = "kills of an engine that opened what a kill had left"


def test_whenever_it_is_killed(tmp_path: Path, part: int, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        found = kill(tmp_path / str(seed), PARTS * seed + part, "random")
        count_runs(found.kills, "kills of an engine at any moment")
        count_runs(found.again, AGAIN)
        # They came in all parts of the turn, and not only where it begins.
        assert min(found.reached) < 0.3, found
        assert max(found.reached) > 0.7, found
        assert len(found.phases) >= 3, found


def test_kill_in_any_function(tmp_path: Path, part: int, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        found = kill(tmp_path / str(seed), PARTS * seed + part, "points")
        count_runs(found.kills, "kills of an engine inside its functions")
        count_runs(found.again, AGAIN)


@pytest.mark.parametrize(("manner", "after"), [("effects", "a side effect"), ("ends", "a turn's end was told")])
def test_killed_right_after(tmp_path: Path, manner: str, after: str, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        found = kill(tmp_path / str(seed), seed, manner, ALONE)
        count_runs(found.kills, f"kills of an engine right after {after}")
        count_runs(found.again, AGAIN)


def test_killed_while_it_waits(tmp_path: Path, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        found = kill(tmp_path / str(seed), seed, "parked", ALONE)
        assert found.parked >= 2, found.phases
        count_runs(found.kills, "kills of an engine whose turn waits, or goes on")
        count_runs(found.again, AGAIN)


def test_kill_costs_a_tenth_of_a_second(tmp_path: Path, soak: Soak) -> None:
    for seed in soak.seeds(at_least=1):
        usual = worst = 0.0
        for attempt in range(ATTEMPTS):  # what else the machine does can only add to the losses
            losses = kill(tmp_path / f"{seed}.{attempt}", seed, "text", ALONE).losses
            assert len(losses) > ALONE / 2
            usual, worst = statistics.median(losses), max(losses)
            if usual <= PROMISED and worst <= PROMISED + BUSY:
                break
        assert usual <= PROMISED
        assert worst <= PROMISED + BUSY
