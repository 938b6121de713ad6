"""Admission (C1, C2): first in, first out; safe calls together, at most so many; an unsafe call alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.nursery.scheduling import Slot, SlotState, admissible

_STATES: dict[str, SlotState] = {"?": "receiving", "q": "queued", "a": "admitted", "s": "settled"}


def slots(text: str) -> list[Slot]:
    """Read calls such as "aR qR qB ?R": a state (? receiving, q, a, s), then R for safe or B for unsafe."""
    return [Slot(_STATES[word[0]], word[1] == "R") for word in text.split()]


@pytest.mark.parametrize(
    ("calls", "may_start"),
    [
        ("", []),
        ("qR", [0]),
        ("qB", [0]),
        ("?R", []),
        ("sR sB", []),
        # Safe calls together, up to an unsafe one.
        ("qR qR qB qR", [0, 1]),
        ("aR qR qB qR", [1]),
        ("aR aR qB qR", []),
        ("sR aR qB qR", []),
        # The unsafe one alone.
        ("sR sR qB qR", [2]),
        ("sR sR aB qR", []),
        ("sR sR sB qR", [3]),
        ("qB qB", [0]),
        ("aB qB", []),
        ("sB qB", [1]),
        # No overtaking: of one that is received, of one that waits.
        ("?R qR", []),
        ("qR ?R qR", [0]),
        ("aR ?B qR", []),
        ("aR qB qR", []),
        # Not more than so many at once (here: three).
        ("qR qR qR qR qR", [0, 1, 2]),
        ("aR aR qR qR qR", [2]),
        ("aR aR aR qR", []),
        ("sR aR aR qR", [3]),
    ],
)
def test_which_calls_may_start(calls: str, may_start: list[int]) -> None:
    assert admissible(slots(calls), parallel=3) == may_start


def test_calls_run_one_by_one_if_configured() -> None:
    assert admissible(slots("qR qR"), parallel=1) == [0]
    assert admissible(slots("aR qR"), parallel=1) == []
    assert admissible(slots("sR qR"), parallel=1) == [1]


# -- schedules ------------------------------------------------------------------------------------


@attrs.frozen
class Call:
    """A call with what decides when it runs."""

    safe: bool
    takes: int
    arrives: int = 0


@attrs.frozen
class Ran:
    """When a call ran."""

    start: int
    end: int


def simulated(calls: Sequence[Call], parallel: int, *, one_by_one: bool = False) -> list[Ran]:
    """Run calls by asking `admissible` at every arrival and at every end, as the step does.

    With *one_by_one*, it is asked after each of several that arrive at the same time, too.
    """
    states: list[SlotState] = ["receiving"] * len(calls)
    started: dict[int, int] = {}

    def start(now: int) -> None:
        for index in admissible((Slot(s, c.safe) for s, c in zip(states, calls, strict=True)), parallel):
            states[index] = "admitted"
            started[index] = now

    for now in itertools.count():
        for index, call in enumerate(calls):
            if states[index] == "admitted" and started[index] + call.takes == now:
                states[index] = "settled"
                if one_by_one:
                    start(now)
        for index, call in enumerate(calls):
            if states[index] == "receiving" and call.arrives <= now:
                states[index] = "queued"
                if one_by_one:
                    start(now)
        start(now)
        if all(state == "settled" for state in states):
            break
    return [Ran(started[index], started[index] + call.takes) for index, call in enumerate(calls)]


def expected(calls: Sequence[Call], parallel: int) -> list[Ran]:
    """The same, call by call, from the words of the rule."""
    ran: list[Ran] = []
    for call in calls:
        earliest = max([call.arrives, *(other.start for other in ran)])
        if not call.safe:
            earliest = max([earliest, *(other.end for other in ran)])
        unsafe_ends = [other.end for other, before in zip(ran, calls, strict=False) if not before.safe]
        earliest = max([earliest, *unsafe_ends])
        while sum(other.start <= earliest < other.end for other in ran) >= parallel:
            earliest += 1
        ran.append(Ran(earliest, earliest + call.takes))
    return ran


def test_the_timeline_of_safe_safe_unsafe_safe() -> None:
    calls = [Call(safe, takes) for safe, takes in ((True, 2), (True, 3), (False, 1), (True, 1))]
    assert simulated(calls, parallel=10) == [Ran(0, 2), Ran(0, 3), Ran(3, 4), Ran(4, 5)]


def test_never_more_than_ten_at_once() -> None:
    ran = simulated([Call(safe=True, takes=1 + number % 4) for number in range(25)], parallel=10)
    at_once = [sum(call.start <= now < call.end for call in ran) for now in range(max(call.end for call in ran))]
    assert max(at_once) == 10


def test_call_starts_before_the_next_is_received() -> None:
    assert simulated([Call(True, 1), Call(True, 1, arrives=5)], parallel=10) == [Ran(0, 1), Ran(5, 6)]


def _in_order(calls: list[Call]) -> list[Call]:
    """Calls arrive in call order: a later one not before an earlier one."""
    arrivals = itertools.accumulate((call.arrives for call in calls), max)
    return [attrs.evolve(call, arrives=at) for call, at in zip(calls, arrivals, strict=True)]


CALLS = st.lists(st.builds(Call, st.booleans(), st.integers(1, 6), st.integers(0, 12)), max_size=12).map(_in_order)
PARALLEL = st.integers(1, 4)


@given(calls=CALLS, parallel=PARALLEL)
def test_every_schedule_follows_the_rule(calls: list[Call], parallel: int) -> None:
    assert simulated(calls, parallel) == expected(calls, parallel)


@given(calls=CALLS, parallel=PARALLEL)
def test_batch_and_stream_schedule_alike(calls: list[Call], parallel: int) -> None:
    """A batch is decided at once, a stream call by call: the schedule is the same to the tick."""
    assert simulated(calls, parallel, one_by_one=True) == simulated(calls, parallel)
    batch = [attrs.evolve(call, arrives=0) for call in calls]
    assert simulated(batch, parallel, one_by_one=True) == simulated(batch, parallel)


@given(calls=CALLS, parallel=PARALLEL)
def test_invariants_of_every_schedule(calls: list[Call], parallel: int) -> None:
    ran = simulated(calls, parallel)
    starts = [call.start for call in ran]
    assert starts == sorted(starts)
    for index, (call, own) in enumerate(zip(calls, ran, strict=True)):
        beside = [
            other for other, run in enumerate(ran) if other != index and run.start < own.end and own.start < run.end
        ]
        assert call.safe or not beside
        assert all(calls[other].safe for other in beside)
    for now in {call.start for call in ran}:
        assert sum(call.start <= now < call.end for call in ran) <= max(parallel, 1)


@given(text=st.lists(st.sampled_from(["?R", "?B", "qR", "qB", "aR", "sR", "sB"]), max_size=10).map(" ".join))
def test_starting_what_may_start_leaves_nothing_to_start(text: str) -> None:
    calls = slots(text)
    for index in admissible(calls, parallel=3):
        calls[index] = attrs.evolve(calls[index], state="admitted")
    assert admissible(calls, parallel=3) == []
