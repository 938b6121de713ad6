"""Turns whose engine has a pace: what they show while they wait, how they end, and that retries agree with it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine import open_engine
from engine.core.errors import ConfigError, Overloaded, RateLimited
from engine.core.events import LoopContinued, Notice, RetryScheduled
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.settings import RetryPolicy, Settings, Timeouts
from engine.options import ContextOptions, Ports
from engine.pace import LocalPace
from engine.session.turn import Turn
from engine.testing.script import Answer, Fail, Pause, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.world import Seen, World, world

ANSWER: Answer = [Pause(10.0), *text("Hello."), *done()]
INFO = ModelInfo(name="h/m", host="h", account="a")
# So that two requests may be under way.
ALL_BUT_TWO = 0.9


@attrs.define(eq=False)
class Host:
    """A host that notes when each request arrives, and how many are there."""

    answer: Callable[[int], Answer] = lambda _: ANSWER
    times: list[float] = attrs.field(factory=list[float])

    def __call__(self, request: ModelRequest) -> Answer:
        self.times.append(trio.current_time())
        return self.answer(len(self.times))


async def prompt_all(w: World, count: int, settings: Settings | None = None) -> list[str]:
    """Prompt so many sessions at once; return how each turn has ended."""
    ends: list[str] = []

    async def prompt_one() -> None:
        session = await w.engine.create_session(cwd="/opt", settings=settings)
        ends.append((await session.run("go")).stop_reason)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(prompt_one)
    return ends


async def test_waiting_turn_says_so_and_is_not_silent(autojump_clock: MockClock) -> None:
    """Its host can't be blamed: the time limits for the host begin when the request is sent."""
    host, pace = Host(), LocalPace(reserve=ALL_BUT_TWO)
    settings = Settings(timeouts=Timeouts(headers=11.0, idle=11.0, total=11.0), retry=RetryPolicy(attempts=0))
    async with world(host, info=INFO, repeat=True, pace=pace) as w, trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(prompt_all, w, 4, settings)
        await wait_all_tasks_blocked()
        played = await w.play(settings=settings)
    assert played.stop_reason == "completed"
    (notice,) = played.all(Notice)
    assert (notice.level, notice.code) == ("info", "waiting_for_pace")
    assert notice.text.startswith("waiting for a permit for h: ")
    assert [round(at - start) for at in host.times] == [0, 0, 10, 10, 20]


async def test_cancelled_wait_leaves_nothing(autojump_clock: MockClock) -> None:
    host, pace = Host(), LocalPace(reserve=ALL_BUT_TWO)

    async def cancel(turn: Turn, event: Seen) -> None:
        if isinstance(event, Notice):
            turn.cancel()

    async with world(host, info=INFO, repeat=True, pace=pace) as w, trio.open_nursery() as nursery:
        nursery.start_soon(prompt_all, w, 2)
        await wait_all_tasks_blocked()
        played = await w.play(react=cancel)
        (lane,) = pace.status()
        assert (lane.in_flight, lane.waiting) == (2, 0)
    assert played.stop_reason == "aborted"
    assert len(host.times) == 2
    assert pace._lanes[next(iter(pace._lanes))].in_flight == 0


async def test_one_refusal_pauses_all_sessions(autojump_clock: MockClock) -> None:
    """The one that was refused waits once: by its retry, which then gets a permit at once."""

    def answer(number: int) -> Answer:
        return [Pause(1.0), Fail(RateLimited("slow down", retry_after=30.0))] if number == 1 else ANSWER

    host, pace = Host(answer), LocalPace()
    async with world(host, info=INFO, repeat=True, pace=pace) as w, trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(w.play)
        await trio.sleep(2)
        assert await prompt_all(w, 3) == ["completed"] * 3
    assert [round(at - start) for at in host.times] == [0, 31, 31, 31, 31]


async def test_overloaded_host_is_asked_for_no_less(autojump_clock: MockClock) -> None:
    host, pace = Host(lambda number: [Fail(Overloaded("busy", retryable=True))] if number < 4 else ANSWER), LocalPace()
    async with world(host, info=INFO, repeat=True, pace=pace) as w:
        assert (await w.play()).stop_reason == "completed"
        assert pace.status()[0].limit == 20


async def test_long_wait_ends_turns_as_the_host_would(autojump_clock: MockClock) -> None:
    """Only the first request is sent; for the others the answer is known."""
    host, pace = Host(lambda _: [Fail(RateLimited("tomorrow", retry_after=2_000.0))]), LocalPace()
    async with world(host, info=INFO, repeat=True, pace=pace) as w:
        played = [await w.play(), await w.play()]
    assert [each.stop_reason for each in played] == ["rate_limited"] * 2
    assert len(host.times) == 1
    assert played[1].result.failure is not None
    assert (played[1].result.failure.code, played[1].result.failure.host) == ("rate_limited", "h")
    assert not played[1].all(RetryScheduled)


async def test_long_wait_falls_back_to_another_model(autojump_clock: MockClock) -> None:
    host, pace = Host(lambda _: [Fail(RateLimited("tomorrow", retry_after=2_000.0))]), LocalPace()
    other = ScriptedProvider([ANSWER], info=ModelInfo(name="g/m", host="g"), repeat=True)
    async with world(host, info=INFO, repeat=True, pace=pace, models=[other]) as w:
        played = [await w.play(), await w.play()]
    assert [each.stop_reason for each in played] == ["completed"] * 2
    assert [len(each.all(LoopContinued)) for each in played] == [1, 1]
    assert (len(host.times), len(other.requests)) == (1, 2)


async def test_titles_take_permits_too(autojump_clock: MockClock) -> None:
    pace = LocalPace()
    model = ScriptedProvider([ANSWER], info=INFO)
    small = ScriptedProvider([ANSWER], info=ModelInfo(name="h/small", host="h"))
    async with open_engine(model=model, context=ContextOptions(titles=small), ports=Ports(pace=pace)) as eng:
        session = await eng.create_session(cwd="/opt")
        await session.run("go")
        await wait_all_tasks_blocked()
        assert {lane.key.model: lane.in_flight for lane in pace.status()} == {"h/m": 0, "h/small": 1}
        await trio.sleep(15)
        assert session.state.title == "Hello"
        assert not any(lane.in_flight for lane in pace.status())


@pytest.mark.parametrize("pace", [LocalPace, 3], ids=repr)
def test_pace_must_be_one(pace: object) -> None:
    with pytest.raises(ConfigError, match="pace must be"):
        Ports(pace=pace)  # type: ignore[arg-type]  # that is the mistake
