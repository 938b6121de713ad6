"""C9 (token target), C10 (step limit), and the budgets: steps, tokens, money and seconds, each with its own reason."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from engine.core.events import CallSettled, CallStarted, Notice, StopReason
from engine.core.llm_types import ModelInfo, TextChunk, TextStarted, UsageReported
from engine.core.messages import ResultsMessage, Usage, UserMessage
from engine.core.settings import Limits, RetryPolicy, Settings, Timeouts
from engine.permission.policy import Policy
from engine.testing.fakes import SlowStore
from engine.testing.script import Answer, Break, Pause, call, done, text
from tests.support.bench import Bench
from tests.support.world import World, about, said, world

# Prompts cost nothing, so that no estimate of one ends a turn.
PRICED_ANSWERS = ModelInfo(name="scripted/dear", price_output=4_000_000)
PRICED = ModelInfo(name="scripted/priced", price_input=1_000_000.0, price_output=2_000_000.0)


def spoken(output: int, told: str = "") -> Answer:
    return [*text(told or f"I used {output} tokens."), *done(usage=Usage(input=1, output=output))]


def calling(name: str, *, usage: Usage | None = None, seconds: float = 0.0) -> Answer:
    return [*call("read", {"name": name, "seconds": seconds}, id="1"), *done("calls", usage=usage)]


def nudges(w: World) -> list[str]:
    return [said(m) for m in w.session.state.transcript if isinstance(m, UserMessage) and m.origin == "engine"]


# -- C9 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("used", "continues"), [(899, True), (900, False), (901, False), (1_500, False)])
async def test_c9_continues_below_90_percent(autojump_clock: MockClock, used: int, continues: bool) -> None:
    async with world(spoken(used, "One."), spoken(1_000, "Two."), settings=Settings(token_target=1_000)) as w:
        played = await w.play()
    assert played.reasons == (["budget_continue"] if continues else [])
    assert played.stop_reason == "completed"


async def test_c9_nudge_has_figures_and_forbids_summary(autojump_clock: MockClock) -> None:
    async with world(spoken(450, "One."), spoken(900, "Two."), settings=Settings(token_target=1_000)) as w:
        await w.play()
    (told,) = nudges(w)
    for part in ("450 of 1000 tokens", "45 %", "Don't summarise", "Keep working"):
        assert part in told


async def test_c9_without_a_target_it_never_goes_on(autojump_clock: MockClock) -> None:
    async with world(spoken(1, "One.")) as w:
        played = await w.play()
    assert (played.reasons, played.stop_reason) == ([], "completed")


@pytest.mark.parametrize(
    ("increments", "stop_reason", "continuations"),
    [
        ([499, 499, 499], "diminishing", 3),
        ([499, 501, 499, 9_000], "completed", 4),
        ([500, 500, 500, 9_000], "completed", 4),
        ([600, 499, 499, 499], "diminishing", 4),
        ([0, 0, 0], "diminishing", 3),
        ([499, 499, 501, 499, 499, 499], "diminishing", 6),
    ],
)
async def test_c9_three_small_continuations_are_diminishing(
    autojump_clock: MockClock, increments: list[int], stop_reason: StopReason, continuations: int
) -> None:
    answers = [spoken(100, "Begin."), *[spoken(n, f"Step {i}: {n}.") for i, n in enumerate(increments)]]
    async with world(*answers, settings=Settings(token_target=10_000)) as w:
        played = await w.play()
    assert (played.stop_reason, played.reasons) == (stop_reason, ["budget_continue"] * continuations)
    assert len(w.requests) == len(answers)


async def test_c9_work_between_continuations_counts(autojump_clock: MockClock) -> None:
    bench = Bench()
    small = [spoken(10, "Begin.")]
    for n in range(3):
        small += [calling(f"x{n * 37}y", usage=Usage(output=400)), spoken(101, f"Done {n}.")]
    async with world(*small, spoken(9_000, "End."), tools=bench.tools(), settings=Settings(token_target=10_000)) as w:
        played = await w.play()
    assert played.stop_reason == "completed", "501 tokens each are enough"


async def test_c9_only_output_tokens_of_this_turn_count(autojump_clock: MockClock) -> None:
    huge = [*text("Much read."), *done(usage=Usage(input=50_000, output=950, cache_read=90_000, reasoning=900))]
    async with world(huge, spoken(899, "One."), spoken(200, "Two.")) as w:
        first = await w.play(settings=Settings(token_target=1_000))
        second = await w.play(settings=Settings(token_target=1_000))
    assert (first.reasons, second.reasons) == ([], ["budget_continue"])


async def test_c9_a_finished_answer_keeps_the_last_text(autojump_clock: MockClock) -> None:
    async with world(spoken(100, "One."), spoken(900, "Two."), settings=Settings(token_target=1_000)) as w:
        played = await w.play()
    assert played.result.text == "Two."


# -- C10 -------------------------------------------------------------------------------------------------


async def test_c10_last_calls_run_without_wrap_up(autojump_clock: MockClock) -> None:
    bench = Bench()
    answers = [calling(name) for name in ("first", "other", "third!")]
    settings = Settings(limits=Limits(steps=3), wrap_up=False)
    async with world(*answers, tools=bench.tools(), settings=settings) as w:
        played = await w.play()
        assert len(w.requests) == 3
        assert all(r.tools and r.tool_choice == "auto" for r in w.requests)
        assert (played.stop_reason, played.result.steps) == ("step_limit", 3)
        assert "3 steps" in played.result.detail
        assert bench.log == ["+first", "-first", "+other", "-other", "+third!", "-third!"]
        last = w.session.state.transcript[-1]
        assert isinstance(last, ResultsMessage)
        assert last.results[0].settlement.text == "did third!"
        assert nudges(w) == []


async def test_c10_wrap_up_ends_with_an_answer(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=3))
    async with world(
        calling("first"), calling("other"), spoken(5, "So far."), tools=bench.tools(), settings=settings
    ) as w:
        played = await w.play()
        assert [r.tool_choice for r in w.requests] == ["auto", "auto", "none"]
        assert (played.stop_reason, played.result.text, played.result.steps) == ("step_limit", "So far.", 3)
        (told,) = nudges(w)
        assert "last step" in told


async def test_c10_shorter_turn_ignores_the_limit(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=3), wrap_up=False)
    async with world(calling("a"), spoken(5, "Done."), tools=bench.tools(), settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.steps) == ("completed", 2)


@pytest.mark.parametrize("wrap_up", [True, False])
async def test_c10_the_next_input_begins_at_zero(autojump_clock: MockClock, wrap_up: bool) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=2), wrap_up=wrap_up)
    last = spoken(1, "That's it.") if wrap_up else calling("second one")
    async with world(calling("a"), last, calling("b"), last, tools=bench.tools(), settings=settings) as w:
        first, second = await w.play(), await w.play()
        assert (first.stop_reason, second.stop_reason) == ("step_limit", "step_limit")
        assert second.result.steps == 2
        assert len(w.requests) == 4


async def test_c10_limit_of_one_is_an_answer(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(spoken(1, "No tools."), tools=bench.tools(), settings=Settings(limits=Limits(steps=1))) as w:
        played = await w.play()
    assert (w.requests[0].tool_choice, played.stop_reason, played.result.text) == ("none", "step_limit", "No tools.")


async def test_c10_retries_of_a_request_are_no_steps(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=2), wrap_up=False)
    async with world(
        [Break()], [Break()], calling("a"), spoken(1, "Done."), tools=bench.tools(), settings=settings
    ) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.steps, len(w.requests)) == ("completed", 2, 4)


async def test_c10_retried_last_step_offers_no_tools(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=2))
    async with world(calling("a"), [Break()], spoken(1, "So far."), tools=bench.tools(), settings=settings) as w:
        played = await w.play()
        assert [r.tool_choice for r in w.requests] == ["auto", "none", "none"]
        assert played.stop_reason == "step_limit"
        assert len(nudges(w)) == 1


async def test_c10_steer_at_the_last_step_is_kept(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=1))
    slow = [TextStarted("t"), TextChunk("t", "Not "), Pause(5), TextChunk("t", "more."), *done()]
    async with world(slow, tools=bench.tools(), settings=settings) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.steer("one more thing")
            result = await turn.wait()
        assert (result.stop_reason, result.text, len(w.requests)) == ("step_limit", "Not more.", 1)
        await w.goes_on()
        assert "one more thing" in repr(w.requests[1].transcript)


# -- budgets ---------------------------------------------------------------------------------------------------


async def test_token_budget_settles_everything(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    answers = [calling(name, usage=Usage(output=40_000)) for name in ("first", "other", "third!")]
    settings = Settings(limits=Limits(tokens=100_000))
    async with world(*answers, spoken(1), tools=bench.tools(), settings=settings) as w:
        played = await w.play()
        assert (played.stop_reason, len(w.requests)) == ("token_budget", 3)
        assert played.result.detail == "120000 of 100000 tokens were used"
        assert played.result.usage == Usage(output=120_000)
        assert played.statuses == ["completed"] * 3
        assert bench.log[-1] == "-third!"


async def test_prompt_that_is_too_dear_is_not_sent(autojump_clock: MockClock) -> None:
    async with world(spoken(1), settings=Settings(limits=Limits(cost=1.0)), info=PRICED) as w:
        played = await w.play("a prompt of more than one token, at a dollar each")
        assert (played.stop_reason, len(w.requests), played.result.cost) == ("cost_limit", 0, 0.0)
        assert "0.0000 of 1.0000 were spent, and the next prompt costs about" in played.result.detail
        await w.goes_on()


async def test_cached_prompt_is_estimated_at_its_price(autojump_clock: MockClock) -> None:
    info = ModelInfo(name="scripted/cached", price_input=1_000_000, price_cache_read=1)
    answers = [calling("a", usage=Usage(cache_write=90_000)), spoken(1, "Done.")]
    async with world(*answers, tools=Bench().tools(), settings=Settings(limits=Limits(cost=50_000)), info=info) as w:
        played = await w.play()
    assert (played.stop_reason, len(w.requests)) == ("completed", 2)


async def test_limit_that_is_near_is_told_once(autojump_clock: MockClock) -> None:
    answers = [calling(name, usage=Usage(output=1)) for name in ("first", "other", "third!")]
    settings = Settings(limits=Limits(cost=14.0))
    async with world(*answers, spoken(0), tools=Bench().tools(), settings=settings, info=PRICED_ANSWERS) as w:
        played = await w.play()
    notices = [event.text for event in played.all(Notice) if event.code == "limit_near"]
    assert (played.stop_reason, notices) == ("completed", ["$12.00 of $14.00 spent"])


async def test_budget_of_tokens_counts_cached_ones_too(autojump_clock: MockClock) -> None:
    bench = Bench()
    answer = calling("a", usage=Usage(input=1, output=1, cache_read=900, cache_write=98))
    settings = Settings(limits=Limits(tokens=1_000))
    async with world(answer, spoken(1), tools=bench.tools(), settings=settings) as w:
        played = await w.play()
    assert played.stop_reason == "token_budget"


async def test_cost_limit_has_its_own_reason(autojump_clock: MockClock) -> None:
    bench = Bench()
    answers = [calling(name, usage=Usage(output=1)) for name in ("first", "other", "third!")]
    settings = Settings(limits=Limits(cost=7.0))
    async with world(*answers, tools=bench.tools(), settings=settings, info=PRICED_ANSWERS) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.cost, len(w.requests)) == ("cost_limit", about(8.0), 2)
    assert "8.0000 of 7.0000" in played.result.detail
    assert w.session.state.cost == about(8.0)


@pytest.mark.parametrize("field", ["input", "output", "cache_read", "cache_write"])
async def test_incredible_counts_are_not_charged(autojump_clock: MockClock, field: str) -> None:
    """A count that no request can have; the last one that can be right stands."""
    absurd = UsageReported(Usage(**{field: 10**12}))
    answer = [*calling("a", usage=Usage(input=2, output=1))]
    answer.insert(-1, absurd)
    settings = Settings(limits=Limits(cost=1_000.0, tokens=1_000))
    async with world(answer, [absurd, *spoken(1)], tools=Bench().tools(), settings=settings, info=PRICED) as w:
        played = await w.play()
    assert played.stop_reason == "completed"
    assert played.result.usage == w.session.state.usage == Usage(input=3, output=2)
    assert played.result.cost == w.session.state.cost == about(7.0)


async def test_deadline_settles_everything(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(seconds=10))
    async with world(calling("slow", seconds=60), tools=bench.tools(), settings=settings) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail) == ("deadline", "10 s have passed")
        assert played.statuses == ["cancelled"]
        assert autojump_clock.current_time() == about(10)
        w.will_say(spoken(1, "Fine."))
        assert (await w.play()).stop_reason == "completed", "the next turn has its own seconds"


@pytest.mark.parametrize(
    "answer",
    [
        [Pause(60), *done()],
        [TextStarted("t"), TextChunk("t", "Half"), Pause(60), *done()],
        [Break()],
    ],
    ids=["headers", "stream", "retry"],
)
async def test_deadline_strikes_while_waiting_for_the_model(autojump_clock: MockClock, answer: Answer) -> None:
    settings = Settings(
        limits=Limits(seconds=10), retry=RetryPolicy(base=30.0, longest=60.0), timeouts=Timeouts(headers=100, idle=100)
    )
    async with world(answer, settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, autojump_clock.current_time()) == ("deadline", about(10))


async def test_deadline_strikes_during_a_question(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(seconds=10))
    asking = [*call("write", {"name": "a"}, id="1"), *done("calls")]
    async with world(asking, tools=bench.tools(), settings=settings, approver=Policy()) as w:
        played = await w.play()
    assert (played.stop_reason, played.statuses) == ("deadline", ["not_executed"])
    assert autojump_clock.current_time() == about(10)


async def test_budget_a_retried_answer_is_paid_for(autojump_clock: MockClock) -> None:
    broken: Answer = [UsageReported(Usage(output=600)), TextStarted("t"), TextChunk("t", "Ha"), Break()]
    settings = Settings(limits=Limits(tokens=1_000))
    async with world(broken, broken, broken, settings=settings) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.usage, len(w.requests)) == ("token_budget", Usage(output=1_200), 2)


async def test_budget_an_aborted_answer_is_paid_for(autojump_clock: MockClock) -> None:
    slow = [UsageReported(Usage(input=600, output=3)), TextStarted("t"), TextChunk("t", "Ha"), Pause(60), *done()]
    async with world(slow) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        assert turn.result.usage == w.session.state.usage == Usage(input=600, output=3)


async def test_budget_of_a_prompt_replaces_the_sessions(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=1))
    async with world(calling("a"), calling("b"), spoken(1, "Done."), tools=bench.tools(), settings=settings) as w:
        played = await w.play(settings=Settings())
    assert (played.stop_reason, len(w.requests)) == ("completed", 3)


async def test_first_limit_reached_names_the_reason(autojump_clock: MockClock) -> None:
    bench = Bench()
    answers = [calling(name, usage=Usage(output=3)) for name in ("first", "other", "third!")]
    settings = Settings(limits=Limits(steps=50, tokens=1_000, cost=20.0, seconds=1_000))
    async with world(*answers, tools=bench.tools(), settings=settings, info=PRICED_ANSWERS) as w:
        played = await w.play()
    assert (played.stop_reason, len(w.requests)) == ("cost_limit", 2)


async def test_limit_with_a_slow_store_keeps_the_record(autojump_clock: MockClock) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(tokens=1_000))
    answer = calling("a", usage=Usage(output=2_000))
    async with world(answer, tools=bench.tools(), settings=settings, store=SlowStore(delay=1)) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.durable) == ("token_budget", True)
        started, settled = played.one(CallStarted), played.one(CallSettled)
        assert started.call_id == settled.call_id


@pytest.mark.parametrize(
    "last",
    [
        [*text("cut"), *done("length")],
        [*text("pause"), *done("pause")],
        [*text("Half"), *call("read", {"name": "b"}, id="1"), Pause(1), Break()],
        [*text("Enough."), *done("stop")],
    ],
    ids=["cut", "pause", "break", "stop"],
)
async def test_c10_no_request_follows_the_last_step(autojump_clock: MockClock, last: Answer) -> None:
    bench = Bench()
    settings = Settings(limits=Limits(steps=2), output_cap=64_000, retry=RetryPolicy(attempts=0))
    async with world(calling("a"), last, tools=bench.tools(), settings=settings) as w:
        played = await w.play()
        assert len(w.requests) == 2
        assert played.stop_reason in {"step_limit", "provider_error"}
        assert bench.log == ["+a", "-a"], "no call of the last step runs"
        await w.goes_on()
