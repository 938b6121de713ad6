"""`Deferred`: one slot, the first settlement wins, waiting changes nothing."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, assert_checkpoints, wait_all_tasks_blocked

from engine.core.deferred import Deferred


def test_deferred_begins_without_a_value() -> None:
    deferred = Deferred[int]()
    assert not deferred.is_settled
    with pytest.raises(RuntimeError, match="not settled yet"):
        _ = deferred.value


@given(values=st.lists(st.none() | st.integers(), min_size=1))
def test_first_settlement_wins_and_others_are_counted(values: list[int | None]) -> None:
    deferred = Deferred[int | None]()
    assert [deferred.settle(value) for value in values] == [True] + [False] * (len(values) - 1)
    assert deferred.is_settled
    assert deferred.value == values[0]
    assert deferred.dropped == len(values) - 1


async def test_all_who_wait_are_woken_with_the_value(autojump_clock: MockClock) -> None:
    deferred = Deferred[str]()
    found: list[str] = []

    async def wait() -> None:
        found.append(await deferred.wait())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert found == []
        deferred.settle("first")
        deferred.settle("second")
    assert found == ["first"] * 3


async def test_waiting_for_what_is_settled_is_a_checkpoint() -> None:
    deferred = Deferred[int]()
    deferred.settle(1)
    with assert_checkpoints():
        assert await deferred.wait() == 1


async def test_cancelled_wait_changes_nothing(autojump_clock: MockClock) -> None:
    deferred = Deferred[int]()
    with trio.move_on_after(1) as scope:
        await deferred.wait()
    assert scope.cancelled_caught
    assert not deferred.is_settled
    assert deferred.settle(1)
    assert (await deferred.wait(), deferred.dropped) == (1, 0)


async def test_rule_01_settled_deferred_in_cancelled_scope() -> None:
    """`wait()` raises in a cancelled scope though the value is there: so decide by `is_settled`."""
    deferred = Deferred[int]()
    deferred.settle(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await deferred.wait()
    assert scope.cancelled_caught
    assert deferred.is_settled
    assert deferred.value == 1


async def test_value_set_at_the_cancel_is_available(autojump_clock: MockClock) -> None:
    deferred = Deferred[int]()
    scope = trio.CancelScope()

    async def wait() -> None:
        with scope:
            await deferred.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        scope.cancel()
        deferred.settle(1)
    assert (deferred.is_settled, deferred.value) == (True, 1)
