"""A pace that several processes share: blocks of permits, leased from an office."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from trio.testing import MockClock

from engine.core.errors import StoreError
from engine.pace import LaneGrant, LaneReport, LeasedPace, PaceKey, PermitOutcome, SharedLimits
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.cancellation.stateful import TrioMachine, cancel_points

KEY = PaceKey(host="h", model="h/m", account="a")
ANSWERED = PermitOutcome(kind="answered")


@attrs.define(eq=False)
class Office:
    """An office in memory, on trio's clock, whose answers take a moment."""

    limits: SharedLimits = attrs.field(factory=SharedLimits)
    seconds: float = 0.01
    is_away: bool = False
    is_closed: bool = False
    asked: list[tuple[str, float]] = attrs.field(factory=list[tuple[str, float]])

    async def exchange(self, owner: str, reports: Sequence[LaneReport]) -> Sequence[LaneGrant]:
        self.asked.append((owner, trio.current_time()))
        await trio.sleep(self.seconds)
        if self.is_away:
            raise StoreError("the database can't be reached")
        grants = self.limits.exchange(owner, reports, trio.current_time())
        await trio.sleep(self.seconds)
        return grants

    async def aclose(self) -> None:
        self.is_closed = True
        await trio.lowlevel.checkpoint()


async def request(
    pace: LeasedPace,
    seconds: float = 1.0,
    outcome: PermitOutcome = ANSWERED,
    *,
    sent: list[float] | None = None,
    notices: list[str] | None = None,
) -> None:
    notify = (lambda _: None) if notices is None else notices.append
    permit = await pace.acquire(KEY, tokens=lambda: 0, longest=1_000.0, notify=notify)
    try:
        if sent is not None:
            sent.append(trio.current_time())
        await trio.sleep(seconds)
    except BaseException:
        permit.release(PermitOutcome(kind="cancelled"))
        raise
    permit.release(outcome)


def in_flight(*paces: LeasedPace) -> int:
    # (Not by `status`, which needs Trio's clock.)
    return sum(lane.in_flight for pace in paces for lane in pace._by_key.values())


@asynccontextmanager
async def served(*paces: LeasedPace) -> AsyncGenerator[trio.Nursery]:
    """Serve the paces, and close them after the block."""
    async with trio.open_nursery() as nursery:
        for pace in paces:
            nursery.start_soon(pace.serve)  # noqa: ASYNC113  # requests wait for it
        async with trio.open_nursery() as block:
            yield block
        for pace in paces:
            await pace.aclose()
        nursery.cancel_scope.cancel()


async def test_two_share_the_permits_fairly(autojump_clock: MockClock) -> None:
    office = Office()
    greedy, late = LeasedPace(office), LeasedPace(office)
    async with served(greedy, late) as nursery:
        for _ in range(200):
            nursery.start_soon(request, greedy, 3.0)
        await trio.sleep(5)
        assert in_flight(greedy) == greedy.status()[0].permits >= 20
        for _ in range(200):
            nursery.start_soon(request, late, 3.0)
        for _ in range(40):
            await trio.sleep(0.25)
            assert (
                in_flight(greedy, late)
                <= office.limits.exchange("nobody", [LaneReport(key=KEY, held=0, need=0)], 0.0)[0].limit
            )
        assert abs(in_flight(greedy) - in_flight(late)) <= 4
        nursery.cancel_scope.cancel()


async def test_refusal_reaches_all_within_a_second(autojump_clock: MockClock) -> None:
    office = Office()
    paces = [LeasedPace(office) for _ in range(3)]
    sent: list[float] = []
    async with served(*paces) as nursery:

        async def steady(pace: LeasedPace) -> None:
            while True:
                await request(pace, 0.1, sent=sent)

        for pace in paces:
            nursery.start_soon(steady, pace)
        await trio.sleep(3.33)
        refused_at = trio.current_time()
        await request(paces[0], 0.0, PermitOutcome(kind="rate_limited", wait=20.0))
        await trio.sleep(25)
        nursery.cancel_scope.cancel()
    late = [at - refused_at for at in sent if 0 < at - refused_at < 20.0]
    assert max(late) <= 1.0 + 0.1
    assert [at for at in sent if at > refused_at + 20.0], "and then they go on"


async def test_statements_are_one_a_second(autojump_clock: MockClock) -> None:
    office = Office()
    pace = LeasedPace(office)
    async with served(pace) as nursery:
        start = trio.current_time()
        for number in range(1_000):
            outcome = PermitOutcome(kind="rate_limited") if number % 7 == 0 else ANSWERED
            nursery.start_soon(request, pace, 0.7, outcome)
        await trio.sleep(30)
        count = len([at for _, at in office.asked if at < start + 30])
        assert 20 <= count <= 32
        nursery.cancel_scope.cancel()
    await trio.lowlevel.checkpoint()


async def test_permits_that_are_being_given_back_are_not_used(autojump_clock: MockClock) -> None:
    """An office that is slow has given them to another process before this one hears of it."""
    office = Office(seconds=0.4)
    one, other = LeasedPace(office), LeasedPace(office)
    async with served(one, other) as nursery:
        for _ in range(20):
            nursery.start_soon(request, one, 0.3)
        await trio.sleep(1.5)
        for _ in range(40):
            nursery.start_soon(request, other, 5.0)
        await trio.sleep(1.1)
        for _ in range(20):
            nursery.start_soon(request, one, 5.0)
        for _ in range(30):
            await trio.sleep(0.1)
            assert in_flight(one, other) <= 20
        assert in_flight(other) >= 10
        nursery.cancel_scope.cancel()


async def test_idle_process_gives_its_permits_back(autojump_clock: MockClock) -> None:
    office = Office()
    pace, other = LeasedPace(office), LeasedPace(office)
    async with served(pace, other) as nursery:
        await request(pace)
        await trio.sleep(15)
        asked = len(office.asked)
        await trio.sleep(100)
        assert len(office.asked) == asked, "who has nothing to send asks for nothing"
        for _ in range(30):
            nursery.start_soon(request, other, 1.0)
        await trio.sleep(0.5)
        assert in_flight(other) == 20
    assert office.is_closed


async def test_killed_process_loses_its_block(autojump_clock: MockClock) -> None:
    office = Office()
    dead, living = LeasedPace(office), LeasedPace(office)
    sent: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dead.serve)
        for _ in range(20):
            nursery.start_soon(request, dead, 100.0)
        await trio.sleep(3.5)
        nursery.cancel_scope.cancel()
    killed_at = trio.current_time()
    async with served(living) as block:
        for _ in range(20):
            block.start_soon(partial(request, living, sent=sent))
    assert 8.0 <= min(sent) - killed_at <= 11.0, "the block ends ten seconds after its last exchange"


async def test_office_that_is_away_stops_new_requests(autojump_clock: MockClock) -> None:
    office = Office()
    pace = LeasedPace(office)
    sent, notices = list[float](), list[str]()
    async with served(pace) as nursery:
        await request(pace, 1.0)
        office.is_away = True
        away_at = trio.current_time()
        await request(pace, 1.0, sent=sent)
        await trio.sleep(12)
        nursery.start_soon(partial(request, pace, 1.0, sent=sent, notices=notices))
        await trio.sleep(30)
        assert len(sent) == 1, "its lease is over"
        office.is_away = False
        back_at = trio.current_time()
    assert sent[0] - away_at <= 0.1, "while the lease lasts, it goes on"
    assert sent[1] - back_at <= 6.0
    assert "the database can't be reached" in notices[0]
    assert len(office.asked) < 30


async def test_rates_are_shared(autojump_clock: MockClock) -> None:
    office = Office()
    batch, other = LeasedPace(office, requests_minute=12), LeasedPace(office)
    sent: list[float] = []
    async with served(batch, other) as nursery:
        start = trio.current_time()
        for pace in (batch, other):
            await request(pace, 0.0)
        await trio.sleep(1.5)
        for pace in (batch, other):
            for _ in range(10):
                nursery.start_soon(partial(request, pace, 0.0, sent=sent))
        await trio.sleep(50)
        assert len([at for at in sent if at < start + 60]) + 2 <= 12
        nursery.cancel_scope.cancel()


def test_cancel_everywhere() -> None:
    @contextmanager
    def case() -> Generator[Callable[[], Awaitable[None]]]:
        pace = LeasedPace(Office(seconds=0.3), reserve=0.8)

        async def requests() -> None:
            async with served(pace) as nursery:
                for number in range(6):
                    outcome = PermitOutcome(kind="rate_limited", wait=1.0) if number == 3 else ANSWERED
                    nursery.start_soon(partial(request, pace, outcome=outcome))

        yield requests
        assert all(lane.in_flight == lane.waiting == 0 for lane in pace._by_key.values())

    cancel_everywhere(case, every=3)


class FleetMachine(TrioMachine):
    """Three processes at one office, which are killed and replaced, and an office that is away at times."""

    async def set_up(self) -> None:
        self.office = Office()
        self.under_way = 0
        self.most = 20.0
        self.paces = [LeasedPace(self.office) for _ in range(3)]
        await trio.lowlevel.checkpoint()

    @initialize()
    def serve(self) -> None:
        for pace in self.paces:
            self.start(pace.serve)

    async def use(self, pace: LeasedPace, seconds: float, outcome: PermitOutcome) -> None:
        permit = await pace.acquire(KEY, tokens=lambda: 0, longest=10_000.0, notify=lambda _: None)
        self.under_way += 1
        self.most = max(self.most, *(lane.limit for each in self.paces for lane in each.status()))
        assert self.under_way <= self.most, "more requests than the limit ever was"
        try:
            await trio.sleep(seconds)
        except BaseException:
            permit.release(PermitOutcome(kind="cancelled"))
            raise
        else:
            permit.release(outcome)
        finally:
            self.under_way -= 1

    @rule(
        which=st.integers(0, 2),
        count=st.integers(1, 25),
        seconds=st.sampled_from([0.0, 0.5, 5.0]),
        outcome=st.sampled_from([ANSWERED, PermitOutcome(kind="rate_limited"), PermitOutcome(kind="failed")]),
        cancel=cancel_points(),
    )
    def send_requests(self, which: int, count: int, seconds: float, outcome: PermitOutcome, cancel: int | None) -> None:
        for _ in range(count):
            self.start(self.use, self.paces[which], seconds, outcome, cancel_after=cancel)

    @rule(is_away=st.booleans())
    def lose_the_office(self, is_away: bool) -> None:
        self.office.is_away = is_away

    @invariant()
    def permits_are_those_under_way(self) -> None:
        assert in_flight(*self.paces) == self.under_way

    async def tear_down(self) -> None:
        assert in_flight(*self.paces) == self.under_way == 0
        await trio.lowlevel.checkpoint()


TestFleet = FleetMachine.TestCase
TestFleet.settings = settings(max_examples=20, stateful_step_count=12, deadline=None, database=None, derandomize=True)

REPORTS = st.builds(
    LaneReport,
    key=st.just(KEY),
    held=st.just(0),
    need=st.integers(0, 40),
    answered=st.integers(0, 40),
    is_rate_limited=st.booleans(),
    wait=st.sampled_from([0.0, 0.0, 5.0]),
    reserve=st.sampled_from([0.0, 0.2]),
)


@given(st.lists(st.tuples(st.integers(0, 3), REPORTS, st.floats(0.0, 6.0)), max_size=60))
def test_permits_are_never_more_than_the_limit(steps: list[tuple[int, LaneReport, float]]) -> None:
    """Who holds all that was granted is granted more only where the others leave room."""
    limits, now = SharedLimits(), 0.0
    granted: dict[int, tuple[int, float]] = {}
    for owner, wish, seconds in steps:
        now += seconds
        held = granted[owner][0] if owner in granted and granted[owner][1] > now else 0
        (grant,) = limits.exchange(str(owner), [attrs.evolve(wish, held=held, need=max(held, wish.need))], now)
        others = sum(permits for name, (permits, until) in granted.items() if name != owner and until > now)
        if grant.permits > held:
            assert others + grant.permits <= grant.limit * (1 - wish.reserve) + 1e-6
        granted[owner] = (max(held, grant.permits), now + 10.0)


@pytest.mark.parametrize("reserve", [0.0, 0.2])
def test_everybody_gets_a_share(reserve: float) -> None:
    """Three who could each use everything: after some exchanges none has less than a third, less the reserve."""
    limits, held = SharedLimits(), {"a": 0, "b": 0, "c": 0}
    for now in range(30):
        for name, before in held.items():
            report = LaneReport(key=KEY, held=max(0, before - 3), need=100, reserve=reserve)
            (grant,) = limits.exchange(name, [report], float(now))
            held[name] = max(report.held, grant.permits)
    assert min(held.values()) >= int(20 * (1 - reserve)) // 3 - 1, held
    assert sum(held.values()) <= 20 * (1 - reserve)
