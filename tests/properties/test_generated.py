"""Generated scenarios under random schedules: every promise, without and with a cancel; every script terminates."""

import random

import hypothesis
from hypothesis import strategies as st

from engine.testing.points import WAYS, Injection
from engine.testing.strategies import scenarios
from engine.testing.world import Scenario, play
from tests.conftest import CountRuns

CANCELS = 40


@hypothesis.settings(max_examples=150)
@hypothesis.given(scenario=scenarios(), seed=st.integers(0, 2**16))
def test_a_generated_scenario_keeps_every_promise_wherever_it_is_cancelled(
    count_runs: CountRuns, scenario: Scenario, seed: int
) -> None:
    base = play(scenario, seed=seed)
    assert base.problems == []
    chance = random.Random(seed)
    for _ in range(CANCELS):
        injection = Injection(
            way=chance.choice(WAYS), point=chance.randrange(len(base.points.names)), second=chance.randint(1, 20)
        )
        run = play(scenario, injection=injection, seed=seed)
        count_runs(1)
        assert run.problems == [], injection
        assert run.points.names[: injection.point] == base.points.names[: injection.point], injection
