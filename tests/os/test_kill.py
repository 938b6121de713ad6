"""kill -9: whenever it strikes, nothing that was promised is lost, nothing runs twice, and the session goes on."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, CountRuns, Soak

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes that are left in /proc"),
]

# Programs at once, which wait more than they work; and rounds of each.
PROGRAMS, ROUNDS = 3, 13
PARTS = 3
# Seconds of text that a kill may cost, and how much later than that a busy machine may be.
PROMISED, BUSY = 0.1, 0.4


def kills(folder: Path, seed: int, manner: str, *, programs: int = PROGRAMS) -> tuple[int, list[float]]:
    """Kill, and look after what is left; return how many were killed, and how many seconds of text each cost."""
    first_ones = range(seed * programs * ROUNDS, (seed + 1) * programs * ROUNDS, ROUNDS)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.os.killing", str(folder / str(number)), str(first), str(ROUNDS), manner],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, first in enumerate(first_ones)
    ]
    killed, losses = 0, list[float]()
    try:
        ended = [program.communicate(timeout=110) for program in running]
    finally:
        for program in running:
            program.kill()
    for program, (out, errors) in zip(running, ended, strict=True):
        assert program.returncode == 0, errors
        found = json.loads(out)
        killed += found["kills"]
        losses += found["losses"]
    return killed, losses


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    ("manner", "what"),
    [("random", "kills of an engine at any moment"), ("points", "kills of an engine inside its functions")],
)
def test_whenever_it_is_killed(
    tmp_path: Path, manner: str, what: str, part: int, soak: Soak, count_runs: CountRuns
) -> None:
    for seed in soak.seeds(at_least=1):
        killed, _ = kills(tmp_path / str(seed), PARTS * seed + part, manner)
        assert killed >= 2 * ROUNDS
        count_runs(killed, what)


def test_killed_by_its_own_command(tmp_path: Path, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        killed, _ = kills(tmp_path / str(seed), seed, "effects", programs=1)
        assert killed == ROUNDS
        count_runs(killed, "kills of an engine right after a side effect")


def test_killed_while_it_waits(tmp_path: Path, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        killed, _ = kills(tmp_path / str(seed), seed, "parked", programs=1)
        assert killed > ROUNDS / 2
        count_runs(killed, "kills of an engine whose turn waits, or goes on")


def test_a_kill_takes_a_tenth_of_a_second_of_text(tmp_path: Path, soak: Soak) -> None:
    for seed in soak.seeds(at_least=1):
        _, losses = kills(tmp_path / str(seed), seed, "text", programs=1)
        assert len(losses) > ROUNDS / 2
        assert statistics.median(losses) <= PROMISED
        assert max(losses) <= PROMISED + BUSY
