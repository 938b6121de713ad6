"""T1: a turn goes on, or ends, by what happened in its last step."""

from __future__ import annotations

from typing import get_args

import pytest
from trio.testing import MockClock

from engine.core.errors import SessionBusy
from engine.core.events import StepEnded, TurnEnded, TurnStarted
from engine.core.llm_types import ProviderItem
from engine.core.messages import FinishReason, ResultsMessage, Usage
from engine.core.settings import Limits, Settings
from engine.testing.script import call, done, reasoning, text
from tests.support.bench import Bench
from tests.support.world import said, world


async def test_t1_stop_with_settled_call_continues(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*text("Looking."), *call("read", {"name": "a"}, id="1"), *done("stop")]
    async with world(first, [*text("Done."), *done()], tools=bench.tools()) as w:
        played = await w.play()
    assert len(w.requests) == 2
    last = w.requests[1].transcript[-1]
    assert isinstance(last, ResultsMessage)
    assert [r.settlement.text for r in last.results] == ["did a"]
    assert (played.stop_reason, played.result.text, played.result.steps) == ("completed", "Done.", 2)
    assert played.reasons == ["next_step"]


async def test_t1_calls_finish_without_calls_is_asked_once_more(autojump_clock: MockClock) -> None:
    async with world([*text("I would call."), *done("calls")], repeat=True) as w:
        played = await w.play()
    assert (len(w.requests), played.stop_reason, played.result.text) == (2, "incomplete", "I would call.")


async def test_t1_provider_executed_items_make_no_further_request(autojump_clock: MockClock) -> None:
    hosted = ProviderItem("s1", "web_search", '{"query": "trio"}')
    async with world([hosted, *text("Found it."), *done("stop")]) as w:
        played = await w.play()
    assert (len(w.requests), played.stop_reason, played.result.text) == (1, "completed", "Found it.")


@pytest.mark.parametrize(
    "said_before", [(), text("Half an answer, no"), reasoning("Hm.")], ids=["nothing", "text", "thought"]
)
async def test_t1_stream_without_finish_is_incomplete(
    autojump_clock: MockClock, said_before: tuple[object, ...]
) -> None:
    async with world(list(said_before)) as w:  # type: ignore[arg-type]  # stream events, all of them
        played = await w.play()
        assert (len(w.requests), played.stop_reason) == (1, "incomplete")
        assert played.one(StepEnded).finish is None
        await w.goes_on()


@pytest.mark.parametrize("finish", get_args(FinishReason))
async def test_t1_finish_without_calls_ends_the_turn(autojump_clock: MockClock, finish: FinishReason) -> None:
    async with world([*text("x"), *done(finish)], repeat=True) as w:
        played = await w.play()
        assert len(w.requests) <= 25
        assert played.order(TurnStarted, TurnEnded) == ["TurnStarted", "TurnEnded"]
        await w.goes_on()


async def test_t1_step_limit_is_exact(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()

    def again(request: object) -> list[object]:
        number = len(w.requests)
        return [*call("read", {"name": f"n{number}"}, id="1"), *done("calls")]

    settings = Settings(limits=Limits(steps=3))
    async with world(again, tools=bench.tools(), settings=settings, repeat=True) as w:  # type: ignore[arg-type]
        played = await w.play()
        assert len(w.requests) == 3
        assert len({r.tools for r in w.requests}) == 1, "else the last request could not be read from a cache"
        assert [r.tool_choice for r in w.requests] == ["auto", "auto", "none"]
        assert "last step" in said(w.requests[2].transcript[-1])
        assert (played.stop_reason, played.result.steps) == ("step_limit", 3)
        assert bench.log == ["+n1", "-n1", "+n2", "-n2"], "a call of the last step is not executed"
        assert played.statuses == ["completed", "completed", "not_executed"]


async def test_t1_step_limit_restarts_with_each_prompt(autojump_clock: MockClock) -> None:
    bench = Bench()
    answer = [*call("read", {"name": "a"}, id="1"), *done("calls")]
    settings = Settings(limits=Limits(steps=2))
    last = [*text("Enough."), *done()]
    async with world(answer, last, answer, last, tools=bench.tools(), settings=settings) as w:
        first, second = await w.play(), await w.play()
    assert (first.stop_reason, second.stop_reason) == ("step_limit", "step_limit")
    assert (first.result.steps, second.result.steps, len(w.requests)) == (2, 2, 4)


async def test_t1_second_prompt_is_refused(
    autojump_clock: MockClock,
) -> None:
    """The design overrides T1's joining: two prompts at once on one session are a `SessionBusy`."""
    async with world([*text("One."), *done()]) as w:
        async with w.session.prompt("first") as turn:
            with pytest.raises(SessionBusy, match=r"wait for its end, steer it, or use session\.inputs\.queue"):
                await w.session.run("second")
            result = await turn.wait()
        assert (result.stop_reason, result.text, len(w.requests)) == ("completed", "One.", 1)
        await w.goes_on()


async def test_t1_usage_and_cost_add_up(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*call("read", {"name": "a"}, id="1"), *done("calls", usage=Usage(input=100, output=10))]
    second = [*text("Done."), *done(usage=Usage(input=200, output=20, cache_read=50))]
    async with world(first, second, tools=bench.tools()) as w:
        played = await w.play()
    assert played.result.usage == Usage(input=300, output=30, cache_read=50)
    assert w.session.state.usage == played.result.usage
