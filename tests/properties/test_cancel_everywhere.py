"""Every scenario of the catalogue, cancelled at each of its points: promises 1 to 9 of the design."""

import pytest

from engine.testing.cancel import cancel_everywhere
from engine.testing.cancel_points import WAYS, Way
from tests.conftest import CountRuns, Soak
from tests.properties.catalogue import CATALOGUE

# The two pure ways at every point; the mixed ones, of which there are five, at every tenth.
PURE: tuple[Way, ...] = ("user", "host")
MIXED: tuple[Way, ...] = tuple(way for way in WAYS if way not in PURE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_scenario_may_be_cancelled_at_every_point(name: str, count_runs: CountRuns) -> None:
    scenario = CATALOGUE[name]()
    runs = cancel_everywhere(scenario, ways=PURE).runs
    runs += cancel_everywhere(scenario, ways=MIXED, every=10).runs
    count_runs(runs)


@pytest.mark.soak
@pytest.mark.parametrize("name", CATALOGUE)
def test_soak_a_scenario_under_other_schedules(name: str, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        report = cancel_everywhere(CATALOGUE[name](), seed=seed + 1, every=1 if soak.seconds else 20)
        count_runs(report.runs)
