"""Full runs of the garbage collector wait for the end of turns."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
import trio
from trio.testing import MockClock

from engine.control.service.full_collections import collect_between_turns


@pytest.fixture
def full_runs() -> Generator[list[float]]:
    """When the collector ran in full."""
    runs: list[float] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            runs.append(trio.current_time())

    gc.callbacks.append(note)
    yield runs
    gc.callbacks.remove(note)


def make_objects() -> list[list[int]]:
    """Make so many that the collector would run in full, and leave them in use."""
    young, middle, old = gc.get_threshold()
    return [[number] for number in range(max(young, 1) * (middle + 1) * (min(old, 10) + 3))]


async def test_full_runs_wait_for_the_end_of_turns(autojump_clock: MockClock, full_runs: list[float]) -> None:
    del autojump_clock
    before, is_working = gc.get_threshold(), True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_between_turns, lambda: is_working)
        await trio.testing.wait_all_tasks_blocked()
        del full_runs[:]  # that of the start
        kept = make_objects()
        await trio.sleep(60)
        assert not full_runs
        is_working = False
        await trio.sleep(60)
        assert len(full_runs) == 1
        is_working = True
        kept += make_objects()
        await trio.sleep(700)
        # Turns that never end do not put it off for ever.
        assert len(full_runs) == 2
        nursery.cancel_scope.cancel()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
