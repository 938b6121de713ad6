"""Fixed limits for each minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.pace.minute_window import MINUTE, MinuteWindow

WISHES = st.lists(st.tuples(st.floats(0.0, 40.0), st.integers(1, 60)), max_size=60)


@given(st.integers(1, 50), WISHES)
def test_no_minute_has_more(limit: int, wishes: list[tuple[float, int]]) -> None:
    window, now = MinuteWindow(limit), 0.0
    taken: list[tuple[float, int]] = []
    for seconds, amount in wishes:
        now += seconds
        if delay := window.delay(amount, now):
            now += delay
        assert window.delay(amount, now) <= 1e-9, "a delay is as long as it says"
        now += 1e-9
        window.take(amount, now)
        taken.append((now, amount))
        minute = [size for at, size in taken if now - MINUTE < at - 1e-6]
        assert sum(minute) <= limit or len(minute) == 1


def test_delays_are_no_longer_than_needed() -> None:
    window = MinuteWindow(2)
    for now in (0.0, 10.0):
        assert window.delay(1, now) == 0
        window.take(1, now)
    assert window.delay(1, 20.0) == pytest.approx(40.0)
    assert window.delay(2, 20.0) == pytest.approx(50.0)
    assert window.delay(1, 60.0) == 0


def test_less_than_one_a_minute() -> None:
    window = MinuteWindow(0.5)
    assert window.delay(1, 0.0) == 0
    window.take(1, 0.0)
    assert window.delay(1, 0.0) == pytest.approx(120.0)


def test_what_is_too_large_goes_alone() -> None:
    window = MinuteWindow(100)
    window.take(10, 0.0)
    assert window.delay(1_000, 1.0) == pytest.approx(59.0)
    window.take(1_000, 60.0)
    assert window.delay(1, 61.0) == pytest.approx(59.0)
