"""Generated scenarios under random schedules: every promise, without and with a cancel; every script terminates."""

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from engine.testing.cancellation.injections import Injection
from engine.testing.harness import Scenario, play
from engine.testing.strategies import scenarios
from engine.testing.turn_points import WAYS
from tests.conftest import CountRuns

# Cancels of each scenario: in `make full`, and in `make test`.
CANCELS, SAMPLED = 30, 12
# In parts, so that processes can share the work.
PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@hypothesis.settings(max_examples=40)
@hypothesis.given(scenario=scenarios(), seed=st.integers(0, 2**16))
def test_generated_scenario_cancelled_anywhere(
    part: int, is_full: bool, count_runs: CountRuns, scenario: Scenario, seed: int
) -> None:
    seed = seed * PARTS + part
    base = play(scenario, seed=seed)
    assert base.problems == []
    chance = random.Random(seed)
    for _ in range(CANCELS if is_full else SAMPLED):
        injection = Injection(
            way=chance.choice(WAYS), point=chance.randrange(len(base.points.names)), second=chance.randint(1, 20)
        )
        run = play(scenario, injection=injection, seed=seed)
        count_runs(1)
        assert run.problems == [], injection
        assert run.points.names[: injection.point] == base.points.names[: injection.point], injection
