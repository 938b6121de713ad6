"""The limit that finds out how many requests a host takes at once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.pace.adaptive_limit import CEILING_SECONDS, CUT_SPACING, FLOOR, START, AdaptiveLimit

STEPS = st.lists(st.tuples(st.floats(0.0, 30.0), st.booleans(), st.integers(1, 60)), max_size=80)


def test_clean_round_grows_by_a_twentieth() -> None:
    limit = AdaptiveLimit()
    limit.note_answers(19, 0.0)
    assert limit.permits() == START == 20
    limit.note_answers(1, 0.0)
    assert (limit.permits(), limit.clean) == (21, 0)


def test_limit_grows_from_the_floor() -> None:
    """A twentieth of ten is less than one request, so it must not be rounded away."""
    limit = AdaptiveLimit(limit=FLOOR)
    for _ in range(3):
        limit.note_answers(20, 0.0)
    assert limit.permits() == 11


@given(STEPS)
def test_cuts_are_apart_and_above_the_floor(steps: list[tuple[float, bool, int]]) -> None:
    limit, now = AdaptiveLimit(), 0.0
    cuts: list[float] = []
    for seconds, is_refused, count in steps:
        now += seconds
        before = limit.limit
        if is_refused:
            is_cut = limit.note_rate_limit(now, in_flight=count)
            assert limit.limit == (max(FLOOR, before * 0.8) if is_cut else before)
            if is_cut:
                cuts.append(now)
        else:
            limit.note_answers(count, now)
            assert before <= limit.limit <= before * 1.05
        assert limit.limit >= FLOOR
    assert all(later - earlier >= CUT_SPACING for earlier, later in pairwise(cuts))


def test_refusal_begins_the_round_anew() -> None:
    limit = AdaptiveLimit()
    limit.note_rate_limit(0.0, 20)
    limit.note_answers(15, 1.0)
    assert not limit.note_rate_limit(2.0, 20), "too soon for another cut"
    limit.note_answers(15, 3.0)
    assert limit.permits() == 16, "that was no clean round"


def test_reserve_is_kept_below_what_was_refused() -> None:
    limit = AdaptiveLimit(limit=100.0)
    assert limit.permits(reserve=0.2) == 80
    limit.note_rate_limit(0.0, in_flight=80)
    for _ in range(50):
        limit.note_answers(200, 100.0, reserve=0.2)
    assert limit.permits(reserve=0.2) == 64, "a fifth of the 80 at which the host refused one is left"
    limit.note_answers(200, CEILING_SECONDS, reserve=0.2)
    assert limit.permits(reserve=0.2) == 67, "after a while, it tries for more"


def test_somebody_without_a_reserve_may_try_more() -> None:
    limit = AdaptiveLimit(limit=100.0)
    limit.note_rate_limit(0.0, in_flight=80)
    for _ in range(5):
        limit.note_answers(200, 20.0)
    assert limit.permits() > 80
