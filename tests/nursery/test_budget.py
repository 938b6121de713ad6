"""Budgets: one hierarchical limit, shared with sub-agents; whose limit is reached, that turn ends (rule 12)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.llm_types import RequestEstimate
from engine.core.messages import Usage
from engine.core.settings import Limits
from engine.nursery.budget import Budget, Exhausted


@attrs.define(eq=False)
class Turn:
    """A turn as its budget knows it."""

    budget: Budget
    ends: list[Exhausted] = attrs.field(factory=list[Exhausted])

    def __attrs_post_init__(self) -> None:
        self.budget.end = self.ends.append


def turn(parent: Turn | None = None, /, **limits: float) -> Turn:
    return Turn(Budget(limits=Limits(**limits), parent=None if parent is None else parent.budget))  # type: ignore[arg-type]  # ints where ints belong


def tokens(count: int) -> Usage:
    return Usage(input=count)


# -- one turn ----------------------------------------------------------------------------------


def test_no_limit_is_never_reached() -> None:
    free = turn()
    assert [free.budget.take_step() for _ in range(100)] == [None] * 100
    assert free.budget.charge(tokens(10**9), 10**6) is None
    assert free.budget.steps_left is None
    assert (free.budget.steps, free.budget.usage, free.budget.cost) == (100, tokens(10**9), 10**6)
    assert free.ends == []


def test_step_limit_is_exact() -> None:
    limited = turn(steps=3)
    assert [limited.budget.steps_left, limited.budget.take_step()] == [3, None]
    assert [limited.budget.take_step() for _ in range(2)] == [None, None]
    assert limited.budget.steps_left == 0
    assert limited.ends == []
    reached = Exhausted("step_limit", "3 steps were used")
    assert limited.budget.take_step() == reached
    assert limited.ends == [reached]
    assert limited.budget.steps == 3, "a step that was refused must not be counted"


@pytest.mark.parametrize(
    ("limits", "charges", "reached"),
    [
        ({"tokens": 10}, [(9, 0.0)], None),
        ({"tokens": 10}, [(9, 0.0), (1, 0.0)], Exhausted("token_budget", "10 of 10 tokens were used")),
        ({"tokens": 10}, [(25, 0.0)], Exhausted("token_budget", "25 of 10 tokens were used")),
        ({"cost": 1.0}, [(1, 0.5)], None),
        ({"cost": 1.0}, [(1, 0.5), (1, 0.5)], Exhausted("cost_limit", "1.0000 of 1.0000 were spent")),
        ({"cost": 0}, [(1, 0.0)], Exhausted("cost_limit", "0.0000 of 0.0000 were spent")),
        ({"tokens": 5, "cost": 1.0}, [(9, 9.0)], Exhausted("token_budget", "9 of 5 tokens were used")),
    ],
)
def test_tokens_and_money(
    limits: dict[str, float], charges: Sequence[tuple[int, float]], reached: Exhausted | None
) -> None:
    limited = turn(**limits)
    answers = [limited.budget.charge(tokens(count), cost) for count, cost in charges]
    assert answers == [None] * (len(charges) - 1) + [reached]
    assert limited.ends == ([] if reached is None else [reached])
    assert limited.budget.exhausted == reached


def test_all_tokens_count() -> None:
    limited = turn(tokens=10)
    assert limited.budget.charge(Usage(input=1, output=2, cache_read=3, cache_write=3, reasoning=2), 0.0) is None
    assert limited.budget.charge(Usage(cache_read=1), 0.0) is not None


def test_the_first_limit_that_is_reached_counts() -> None:
    limited = turn(steps=1, tokens=5)
    limited.budget.take_step()
    first = limited.budget.charge(tokens(5), 0.0)
    assert limited.budget.take_step() == first
    assert limited.budget.charge(tokens(5), 0.0) == first
    assert limited.budget.expire() == first
    assert limited.ends == [first]


def test_time_is_a_limit_too() -> None:
    late = turn(seconds=1.5)
    assert late.budget.expire() == Exhausted("deadline", "1.5 s have passed")
    assert late.budget.exhausted == late.budget.expire()
    assert late.ends == [], "the turn's frame, which watches the clock, ends it itself"


def test_budget_without_a_frame_only_counts() -> None:
    budget = Budget(limits=Limits(steps=1))
    budget.take_step()
    assert budget.take_step() == budget.exhausted == Exhausted("step_limit", "1 steps were used")


# -- a tree of turns ------------------------------------------------------------------------------


def test_child_usage_counts_for_all_ancestors() -> None:
    root = turn()
    child = turn(root)
    grandchild = turn(child)
    other = turn(root)
    for each in (grandchild, child, other):
        each.budget.take_step()
        each.budget.charge(tokens(1), 0.25)
    used = [(each.budget.steps, each.budget.usage.total, each.budget.cost) for each in (root, child, grandchild, other)]
    assert used == [(3, 3, 0.75), (2, 2, 0.5), (1, 1, 0.25), (1, 1, 0.25)]


def test_parent_limit_ends_parent_and_child() -> None:
    root = turn(steps=2)
    child = turn(root, steps=10)
    grandchild = turn(child)
    assert [grandchild.budget.take_step() for _ in range(2)] == [None, None]
    reached = Exhausted("step_limit", "2 steps were used")
    assert grandchild.budget.take_step() == reached
    assert (root.ends, child.ends, grandchild.ends) == ([reached], [], [])
    assert (grandchild.budget.ancestor_exhausted(), child.budget.ancestor_exhausted()) == (reached, reached)
    assert root.budget.ancestor_exhausted() is None
    assert (root.budget.steps, child.budget.steps, grandchild.budget.steps) == (2, 2, 2)


def test_middle_limit_leaves_ancestors_alone() -> None:
    root = turn(tokens=100)
    child = turn(root, tokens=10)
    grandchild = turn(child)
    reached = Exhausted("token_budget", "12 of 10 tokens were used")
    assert grandchild.budget.charge(tokens(12), 0.0) == reached
    assert (root.ends, child.ends, grandchild.ends) == ([], [reached], [])
    assert root.budget.exhausted is None
    again = turn(root)
    assert again.budget.take_step() is None, "another child of the root goes on"


def test_a_childs_own_limit_ends_only_the_child() -> None:
    root = turn()
    child = turn(root, steps=1)
    child.budget.take_step()
    reached = Exhausted("step_limit", "1 steps were used")
    assert child.budget.take_step() == reached
    assert (child.ends, root.ends) == ([reached], [])
    assert child.budget.ancestor_exhausted() is None
    assert root.budget.steps == 1


def test_limits_at_several_levels_fire_once_each() -> None:
    root = turn(tokens=10)
    child = turn(root, cost=1.0)
    answer = child.budget.charge(tokens(10), 1.0)
    assert answer == Exhausted("cost_limit", "1.0000 of 1.0000 were spent"), "the nearest is told"
    assert child.ends == [answer]
    assert root.ends == [Exhausted("token_budget", "10 of 10 tokens were used")]
    child.budget.charge(tokens(10), 1.0)
    assert (len(child.ends), len(root.ends)) == (1, 1)


# -- any tree, any use --------------------------------------------------------------------------------

LIMIT = st.none() | st.integers(1, 12)
TREES = st.lists(st.tuples(st.integers(0, 4), LIMIT, LIMIT), min_size=1, max_size=5)
USES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["step", "charge"]), st.integers(0, 5)), max_size=40)


@given(tree=TREES, uses=USES)
def test_usage_counts_upwards_and_limits_fire_once(
    tree: list[tuple[int, int | None, int | None]], uses: list[tuple[int, str, int]]
) -> None:
    turns: list[Turn] = []
    parents: list[int | None] = []
    for above, steps, most in tree:
        parent = None if not turns else above % len(turns)
        parents.append(parent)
        budget = Budget(
            limits=Limits(steps=steps, tokens=most), parent=None if parent is None else turns[parent].budget
        )
        turns.append(Turn(budget))

    def upwards(number: int | None) -> list[int]:
        return [] if number is None else [number, *upwards(parents[number])]

    counted = [(0, 0)] * len(turns)
    for who, what, count in uses:
        number = who % len(turns)
        chain = upwards(number)
        full = [above for above in chain if (limit := tree[above][1]) is not None and counted[above][0] >= limit]
        if what == "charge":
            turns[number].budget.charge(tokens(count), 0.0)
        else:
            assert (turns[number].budget.take_step() is None) == (not full)
        for above in chain:
            taken, used = counted[above]
            counted[above] = (taken, used + count) if what == "charge" else (taken + (not full), used)
        for index, each in enumerate(turns):
            assert (each.budget.steps, each.budget.usage.total) == counted[index]
            assert len(each.ends) <= 1
            assert each.ends == ([] if each.budget.exhausted is None else [each.budget.exhausted])
            steps, most = each.budget.limits.steps, each.budget.limits.tokens
            assert steps is None or each.budget.steps <= steps
            if most is not None and each.budget.usage.total >= most and what == "charge" and index in chain:
                assert each.budget.exhausted is not None


# -- before a request --------------------------------------------------------------------------


def estimate(prompt: float, answer: float) -> RequestEstimate:
    return RequestEstimate(tokens=0, cost=prompt, answer_tokens=1, answer_cost=answer)


def test_prompt_that_exceeds_a_limit_ends_its_owner() -> None:
    owner = turn(cost=10.0)
    child = turn(owner)
    assert child.budget.check_next(estimate(9.9, 50.0)) is None
    assert child.budget.check_next(estimate(10.0, 0.0)) == owner.budget.exhausted
    assert [one.reason for one in owner.ends] == ["cost_limit"]
    assert child.ends == []


async def test_requests_near_a_limit_go_one_after_the_other(autojump_clock: MockClock) -> None:
    owner = turn(cost=10.0)
    order: list[str] = []

    async def ask(key: int, seconds: float) -> None:
        await owner.budget.open_request(key, estimate(1.0, 9.0))
        order.append(f"+{key}")
        await trio.sleep(seconds)
        owner.budget.note_answer(key, Usage(), 2.0)
        order.append(f"-{key}")
        owner.budget.charge(Usage(), 2.0, key)

    async with trio.open_nursery() as nursery:
        for key in (1, 2, 3):
            nursery.start_soon(ask, key, 1.0)
            await trio.sleep(0.1)
        with trio.move_on_after(0.5):  # a request that is cancelled while it waits leaves no trace
            await ask(4, 1.0)
    # Those that wait go in any order, but never two at a time.
    assert sorted(order[::2]) == ["+1", "+2", "+3"]
    assert [end.replace("-", "+") for end in order[1::2]] == order[::2]
    assert owner.budget.cost == 6.0
    await owner.budget.open_request(5, estimate(1.0, 9.0))  # it has room, and would wait for ever otherwise


async def test_wait_for_room_ends_with_the_limit(autojump_clock: MockClock) -> None:
    owner = turn(cost=10.0)
    await owner.budget.open_request(1, estimate(1.0, 9.0))
    with trio.CancelScope() as scope:
        owner.budget.end = lambda _: scope.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.budget.open_request, 2, estimate(1.0, 9.0))
            await wait_all_tasks_blocked()
            owner.budget.note_answer(1, Usage(), 9.5)
            await trio.sleep_forever()
    assert owner.budget.exhausted is not None
    assert owner.budget.exhausted.reason == "cost_limit"
