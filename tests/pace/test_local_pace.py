"""The pace in one process: permits are waited for in order, and none is lost by any cancel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.core.errors import ConfigError, RateLimited
from engine.pace import LocalPace, PaceKey, PermitOutcome
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.cancellation.stateful import TrioMachine, cancel_points

KEY = PaceKey(host="h", model="h/m")
ANSWERED = PermitOutcome(kind="answered")
OUTCOMES = st.sampled_from(
    [
        ANSWERED,
        PermitOutcome(kind="failed"),
        PermitOutcome(kind="failed", wait=3.0),
        PermitOutcome(kind="cancelled"),
        PermitOutcome(kind="rate_limited"),
        PermitOutcome(kind="rate_limited", wait=7.0),
    ]
)


async def request(
    pace: LocalPace,
    seconds: float = 1.0,
    outcome: PermitOutcome = ANSWERED,
    *,
    key: PaceKey = KEY,
    sent: list[float] | None = None,
    notices: list[str] | None = None,
    tokens: int = 0,
    longest: float = 1_000.0,
) -> None:
    """Be a request: wait for a permit, be under way, end."""
    notify = (lambda _: None) if notices is None else notices.append
    permit = await pace.acquire(key, tokens=lambda: tokens, longest=longest, notify=notify)
    try:
        if sent is not None:
            sent.append(trio.current_time())
        await trio.sleep(seconds)
    except BaseException:
        permit.release(PermitOutcome(kind="cancelled"))
        raise
    permit.release(outcome)
    permit.release(outcome)  # as often as you like


def in_flight(pace: LocalPace) -> int:
    # (Not by `status`, which needs Trio's clock.)
    return sum(lane.in_flight for lane in pace._lanes.values())


class PaceMachine(TrioMachine):
    """Requests that end in all ways, and are cancelled anywhere."""

    async def set_up(self) -> None:
        self.pace = LocalPace(requests_minute=40)
        self.under_way = 0
        self.paused_until = 0.0
        await trio.lowlevel.checkpoint()

    async def use(self, seconds: float, outcome: PermitOutcome) -> None:
        permit = await self.pace.acquire(KEY, tokens=lambda: 0, longest=10_000.0, notify=lambda _: None)
        now = trio.current_time()
        assert now >= self.paused_until, "the host wants no request yet"
        assert self.under_way < self.pace.status()[0].limit, "more requests than permits"
        self.under_way += 1
        try:
            await trio.sleep(seconds)
        except BaseException:
            self.under_way -= 1
            permit.release(PermitOutcome(kind="cancelled"))
            raise
        self.under_way -= 1
        before = self.pace.status()[0].limit
        permit.release(outcome)
        if outcome.wait:
            self.paused_until = max(self.paused_until, trio.current_time() + outcome.wait)
        if outcome.kind in {"failed", "cancelled"}:
            assert self.pace.status()[0].limit == before, "only a 429 shrinks it"

    @rule(
        count=st.integers(1, 15),
        seconds=st.sampled_from([0.0, 1.0, 20.0]),
        outcome=OUTCOMES,
        cancel=cancel_points(),
    )
    def send_requests(self, count: int, seconds: float, outcome: PermitOutcome, cancel: int | None) -> None:
        for _ in range(count):
            self.start(self.use, seconds, outcome, cancel_after=cancel)

    @invariant()
    def permits_are_those_under_way(self) -> None:
        assert in_flight(self.pace) == self.under_way

    async def tear_down(self) -> None:
        assert in_flight(self.pace) == 0
        assert all(lane.waiting == 0 for lane in self.pace._lanes.values())
        await trio.lowlevel.checkpoint()


TestPace = PaceMachine.TestCase
TestPace.settings = settings(max_examples=25, stateful_step_count=15, deadline=None, database=None, derandomize=True)


def test_cancel_everywhere() -> None:
    """Thirty requests for ten permits, some refused: cancelled at every point, none of the permits is gone."""

    @contextmanager
    def case() -> Generator[Callable[[], Awaitable[None]]]:
        pace = LocalPace(reserve=0.8)

        async def requests() -> None:
            async with trio.open_nursery() as nursery:
                for number in range(9):
                    outcome = PermitOutcome(kind="rate_limited", wait=1.0) if number == 3 else ANSWERED
                    nursery.start_soon(partial(request, pace, outcome=outcome))

        yield requests
        assert in_flight(pace) == 0
        assert all(lane.waiting == 0 for lane in pace._lanes.values())

    cancel_everywhere(case, every=3)


async def test_more_requests_than_permits_wait_in_order(autojump_clock: MockClock) -> None:
    pace, order, notices = LocalPace(), list[int](), list[str]()

    async def one(number: int) -> None:
        permit = await pace.acquire(KEY, tokens=lambda: 0, longest=1.0, notify=notices.append)
        order.append(number)
        await trio.sleep(1)
        permit.release(ANSWERED)

    async with trio.open_nursery() as nursery:
        for number in range(25):
            nursery.start_soon(one, number)
            await wait_all_tasks_blocked()
        (lane,) = pace.status()
        assert (lane.in_flight, lane.waiting) == (20, 5)
    assert order == list(range(25))
    assert notices[0] == "waiting for a permit for h: 20 requests are under way"
    assert len(notices) == 5


async def test_retry_after_holds_for_all(autojump_clock: MockClock) -> None:
    pace, sent, notices = LocalPace(), list[float](), list[str]()
    start = trio.current_time()
    await request(pace, 1.0, PermitOutcome(kind="rate_limited", wait=30.0))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(partial(request, pace, sent=sent, notices=notices))
        nursery.start_soon(partial(request, pace, key=PaceKey(host="h", model="h/other"), sent=sent))
    assert sorted(at - start for at in sent) == [1.0, 31.0, 31.0, 31.0, 31.0, 31.0], "another model has other limits"
    assert notices == ["h accepts no requests for 30 s"] * 5


async def test_longer_waits_than_allowed_are_refused(autojump_clock: MockClock) -> None:
    pace = LocalPace()
    await request(pace, 1.0, PermitOutcome(kind="failed", wait=600.0))
    with pytest.raises(RateLimited) as caught:
        await request(pace, longest=60.0)
    assert caught.value.retry_after == 600.0
    assert caught.value.info.host == "h"
    await request(pace, longest=601.0)
    assert trio.current_time() >= 600.0


async def test_waiting_requests_learn_of_a_long_wait(autojump_clock: MockClock) -> None:
    pace = LocalPace(reserve=0.95)
    refused: list[float] = []

    async def waiting() -> None:
        with pytest.raises(RateLimited):
            await request(pace, longest=60.0)
        refused.append(trio.current_time())

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request, pace, 5.0, PermitOutcome(kind="rate_limited", wait=600.0))
        await wait_all_tasks_blocked()
        # The first in the line is patient.
        nursery.start_soon(request, pace)
        await wait_all_tasks_blocked()
        for _ in range(3):
            nursery.start_soon(waiting)
    assert [at - start for at in refused] == [5.0] * 3


async def test_misread_header_pauses_an_hour(autojump_clock: MockClock) -> None:
    pace = LocalPace()
    await request(pace, 0.0, PermitOutcome(kind="rate_limited", wait=366 * 86_400.0))
    await request(pace, longest=4_000.0)
    assert trio.current_time() <= 3_700.0


async def test_refusal_without_a_time_pauses_once(autojump_clock: MockClock) -> None:
    pace, sent = LocalPace(), list[float]()
    start = trio.current_time()
    await request(pace, 0.0, PermitOutcome(kind="rate_limited"))
    await request(pace, 0.0, PermitOutcome(kind="rate_limited"), sent=sent)
    await request(pace, 0.0, sent=sent, longest=0.0)
    assert [at - start for at in sent] == [2.0, 2.0], "the second refusal is the same episode"
    assert (pace.status()[0].limit, pace.status()[0].rate_limits) == (16.0, 2)


async def test_fixed_rates_hold(autojump_clock: MockClock) -> None:
    pace, sent = LocalPace(requests_minute=20, tokens_minute=1_000, reserve=0.2), list[float]()
    answered = PermitOutcome(kind="answered", tokens=150)
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(9):
            nursery.start_soon(partial(request, pace, 1.0, answered, tokens=100, sent=sent))
    times = sorted(at - start for at in sent)
    assert times == [0.0] * 8 + [60.0], "a fifth is for others"


@pytest.mark.parametrize("values", [{"reserve": 1.0}, {"reserve": -0.1}, {"requests_minute": 0}, {"tokens_minute": -5}])
def test_impossible_limits_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        LocalPace(**values)  # type: ignore[arg-type]  # whole numbers where they belong
