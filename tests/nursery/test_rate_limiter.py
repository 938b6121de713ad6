"""How many requests go to a host at once, and who goes first."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from engine.core.errors import Overloaded
from engine.core.events import Notice
from engine.core.llm_types import ModelInfo, ModelOptions, ModelRequest
from engine.core.messages import Transcript
from engine.core.settings import RetryPolicy, Settings, Timeouts
from engine.nursery.rate_limiter import LONG_PREFIX, STAGGER, WARM, Traffic
from engine.testing.script import Answer, Fail, Pause, done, text
from tests.support.world import World, world

LONG = "x" * LONG_PREFIX
ANSWER: Answer = [Pause(1.0), *text("Hello.", pieces=2), Pause(1.0), *done()]


@attrs.define(eq=False)
class Arrivals:
    """When each request arrived at the host."""

    answer: Answer = ANSWER
    times: list[float] = attrs.field(factory=list[float])

    def __call__(self, request: ModelRequest) -> Answer:
        self.times.append(trio.current_time())
        return self.answer


async def prompt_all(w: World, count: int, settings: Settings | None = None) -> list[str]:
    """Prompt so many sessions at once; return the notices that they had of waiting."""
    told: list[str] = []

    async def prompt_one() -> None:
        session = await w.engine.create_session(cwd="/opt", settings=settings)
        async with session.prompt("go") as turn:
            told.extend([event.code async for event in turn if isinstance(event, Notice)])
        assert turn.result.stop_reason == "completed", turn.result

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(prompt_one)
    return told


@pytest.mark.parametrize(
    ("parallel", "times", "waits"),
    [(None, [0, 0, 0, 0, 0], 0), (2, [0, 0, 2, 2, 4], 3), (1, [0, 2, 4, 6, 8], 4)],
)
async def test_host_concurrency_is_limited_across_sessions(
    autojump_clock: MockClock, parallel: int | None, times: list[float], waits: int
) -> None:
    arrivals = Arrivals()
    info = ModelInfo(name="h/m", host="h", parallel=parallel)
    async with world(arrivals, info=info, repeat=True) as w:
        start = trio.current_time()
        told = await prompt_all(w, 5)
    assert [round(time - start) for time in arrivals.times] == times
    assert told == ["waiting_for_host"] * waits


async def test_waiting_for_a_slot_is_no_silence(autojump_clock: MockClock) -> None:
    settings = Settings(timeouts=Timeouts(headers=1.5, idle=1.5, total=2.5))
    async with world(Arrivals(), info=ModelInfo(name="h/m", parallel=1), repeat=True) as w:
        await prompt_all(w, 4, settings)


async def test_followers_wait_for_the_cached_prefix(
    autojump_clock: MockClock,
) -> None:
    arrivals = Arrivals()
    async with world(arrivals, repeat=True) as w:
        start = trio.current_time()
        told = await prompt_all(w, 4, Settings(system=LONG))
        assert [round(time - start, 1) for time in arrivals.times] == [0, 1, 1, 1]
        assert told == ["waiting_for_cache"] * 3
        assert await prompt_all(w, 3, Settings(system=LONG)) == [], "it is warm now"
        await trio.sleep(WARM + 10)
        assert await prompt_all(w, 3, Settings(system=LONG)) == ["waiting_for_cache"] * 2, "and cold again"


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(system=LONG, options=ModelOptions(cache="off"))], ids=["short", "off"]
)
async def test_without_a_cache_no_request_waits(autojump_clock: MockClock, settings: Settings) -> None:
    arrivals = Arrivals()
    async with world(arrivals, repeat=True) as w:
        assert await prompt_all(w, 3, settings) == []
    assert len(set(arrivals.times)) == 1


async def test_different_prefixes_do_not_wait(autojump_clock: MockClock) -> None:
    arrivals = Arrivals()
    async with world(arrivals, repeat=True) as w, trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(prompt_all, w, 1, Settings(system=LONG + name))
    assert len(set(arrivals.times)) == 1


async def test_when_the_first_fails_the_next_one_leads(autojump_clock: MockClock) -> None:
    arrivals = Arrivals()
    failing: Callable[[ModelRequest], Answer] = Arrivals([Pause(1.0), Fail(Overloaded("busy", retryable=True))])
    settings = Settings(system=LONG, retry=RetryPolicy(attempts=1, base=100.0, longest=100.0))
    async with world(failing, arrivals, repeat=True) as w:
        start = trio.current_time()
        await prompt_all(w, 3, settings)
    assert [round(time - start, 1) for time in arrivals.times] == [1, 2, 101]


async def test_cancelled_leader_hands_over(
    autojump_clock: MockClock,
) -> None:
    traffic = Traffic()
    info = ModelInfo(name="h/m", host="h", parallel=1)
    request = ModelRequest(model="h/m", system=LONG, transcript=Transcript())
    order: list[str] = []

    async def go(name: str, seconds: float) -> None:
        async with traffic.passage(info, request, lambda *_: None):
            order.append(name)
            await trio.sleep(seconds)

    async with trio.open_nursery() as nursery:
        with trio.move_on_after(1.0):
            nursery.start_soon(go, "leader", 3.0)
            await trio.testing.wait_all_tasks_blocked()
            await go("cancelled while waiting", 1.0)
        nursery.start_soon(go, "next", 1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert order == ["leader"]
    assert order == ["leader", "next"]
    places = traffic.places(info)
    assert places is not None
    assert places.borrowed_tokens == 0


async def test_hanging_leader_blocks_no_follower(autojump_clock: MockClock) -> None:
    arrivals = Arrivals([Pause(60.0), *ANSWER])
    async with world(arrivals, repeat=True) as w:
        start = trio.current_time()
        await prompt_all(w, 2, Settings(system=LONG))
    assert [round(time - start) for time in arrivals.times] == [0, STAGGER]
