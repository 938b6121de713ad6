"""The simulated fleet: what it must say where the answer is known, and the same for the same seed."""

from __future__ import annotations

import attrs
import pytest

from benchmarks.fleet_capacity import bounds
from benchmarks.fleet_model import Costs, Fleet, simulate

COSTS = Costs(
    step=0.002,
    commit=0.001,
    event=0.00003,
    database_commit=0.001,
    database_event=0.00002,
    database_draft=0.00006,
    sync=0.001,
    events=10.0,
    event_bytes=500.0,
    wal_bytes=600.0,
)


def test_one_engine_is_bound_by_its_core() -> None:
    outcome = simulate(COSTS, Fleet(engines=1, turns=50, engine_cores=8, database_cores=8))
    # What is left for commits, which are few.
    assert 0.75 / (COSTS.step + 10 * COSTS.event) < outcome.steps < 1 / (COSTS.step + 10 * COSTS.event)


def test_engines_share_the_cores_of_a_machine() -> None:
    steps = [simulate(COSTS, Fleet(engines=count, turns=8, engine_cores=2)).steps for count in (1, 2, 4, 8)]
    assert 1.3 * steps[0] < steps[1] < 2 * steps[0]
    assert steps[3] == pytest.approx(steps[2], rel=0.15)


def test_host_that_limits_requests_is_the_bound() -> None:
    fleet = Fleet(engines=20, turns=20, answer_seconds=4, engine_cores=64, database_cores=16)
    free = simulate(COSTS, fleet, warm_up=20, seconds=30)
    assert free.steps == pytest.approx(100, rel=0.1)
    limited = simulate(COSTS, attrs.evolve(fleet, requests_minute=1_200), warm_up=60, seconds=30)
    assert limited.steps == pytest.approx(20, rel=0.1)
    assert limited.step_seconds == pytest.approx(400 / 20, rel=0.15)


def test_disk_serves_many_with_one_sync() -> None:
    slow = attrs.evolve(COSTS, sync=0.1)
    fleet = Fleet(engines=200, turns=1, answer_seconds=2, engine_cores=64, database_cores=64)
    outcome = simulate(slow, fleet, warm_up=10)
    assert outcome.commits > 5 / slow.sync
    assert outcome.steps == pytest.approx(100, rel=0.15)


def test_drafts_stay_under_the_rate_of_each_engine() -> None:
    outcome = simulate(COSTS, Fleet(engines=3, turns=40, answer_seconds=8, engine_cores=8, database_cores=8))
    assert outcome.drafts <= 3 * 50 * 1.05


def test_seed_decides() -> None:
    fleet = Fleet(engines=5, turns=5, answer_seconds=1)
    assert simulate(COSTS, fleet, seed=7) == simulate(COSTS, fleet, seed=7)
    assert simulate(COSTS, fleet, seed=7) != simulate(COSTS, fleet, seed=8)


def test_tightest_bound_comes_first() -> None:
    found = bounds(COSTS, 25, 1_000.0)
    assert [each.turns for each in found] == sorted(each.turns for each in found)
    alone = {each.what: each.turns for each in bounds(COSTS, 1, 1_000.0)}
    many = {each.what: each.turns for each in found}
    for what in ("connections", "commits, as measured here", "cores of the database"):
        assert alone[what] < many[what] / 3
