"""Every scenario of the catalogue, cancelled at each of its points: promises 1 to 9 of the design.

`make full` takes both plain ways at every point and the mixed ones at every tenth, under two schedules. `make test`
takes one plain way at every point, scenario by scenario in turn, and samples of the rest.
"""

import pytest

from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.turn_points import WAYS, Way
from tests.conftest import CountRuns, Soak
from tests.properties.catalogue import CATALOGUE

PURE: tuple[Way, ...] = ("user", "host")
MIXED: tuple[Way, ...] = tuple(way for way in WAYS if way not in PURE)
NAMES = tuple(CATALOGUE)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NAMES)
def test_cancel_everywhere(name: str, is_full: bool, count_runs: CountRuns) -> None:
    scenario = CATALOGUE[name]()
    whole, sampled = PURE if NAMES.index(name) % 2 else reversed(PURE)
    runs = cancel_everywhere(scenario, ways=(whole,)).runs
    runs += cancel_everywhere(scenario, ways=(sampled,), every=1 if is_full else 16).runs
    runs += cancel_everywhere(scenario, ways=MIXED, every=10 if is_full else 60).runs
    count_runs(runs)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_cancel_under_other_schedules(name: str, soak: Soak, is_full: bool, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        every = 1 if soak.seconds else 20 if is_full else 60
        report = cancel_everywhere(CATALOGUE[name](), seed=seed + 1, every=every)
        count_runs(report.runs)
