"""Too long a request that no host calls so: it takes it all the same, or stops where the window ends (T23)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from trio.testing import MockClock

from engine.compaction.compaction_policy import NoKeeper
from engine.core.llm_types import Finished, ModelInfo, ProviderItem, UsageReported
from engine.core.messages import Message, Usage
from engine.core.protocols import ContextView
from engine.core.settings import Settings
from engine.testing.fakes import ScriptedKeeper
from engine.testing.script import Answer, call, done, text
from tests.support.bench import Bench
from tests.support.histories import words
from tests.support.world import world

INFO = ModelInfo(name="scripted/model", context=1_000)
OVER = Usage(input=901, cache_read=60, cache_write=40, output=5)
TOLD = "the request had 1001 tokens, and the window of scripted/model has 1000: its host took it all the same"
# It nearly fills the window, so a count above the window is credible.
FULL = words(900)
DONE: Answer = [*text("Done."), *done(usage=Usage(input=300, output=5))]
ENDED: Answer = [*text("Half of"), Finished("overflow", "model_context_window_exceeded")]


def answer(usage: Usage) -> Answer:
    return [*text("As you said"), *done(usage=usage)]


def last_only(view: ContextView) -> Sequence[Message]:
    return list(view.transcript)[-1:]


async def test_t23_usage_above_the_window_is_an_overflow(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(forced=[last_only])
    async with world(answer(OVER), DONE, info=INFO, keeper=keeper) as w:
        played = await w.play(FULL)
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        assert played.reasons == ["overflow_prune_retry"]
        assert keeper.requests == ["collapse"]
        assert played.result.usage == OVER + Usage(input=300, output=5), "what was billed is counted"
        await w.goes_on()


async def test_t23_irreducible_overflow_keeps_the_answer(autojump_clock: MockClock) -> None:
    async with world(answer(OVER), DONE, info=INFO, keeper=NoKeeper()) as w:
        played = await w.play(FULL)
        assert (played.stop_reason, played.result.detail) == ("prompt_too_long", TOLD)
        assert (played.result.text, played.reasons, len(w.requests)) == ("As you said", [], 1)
        await w.goes_on()


async def test_t23_host_with_constant_overflow_ends(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(forced=[last_only] * 9)
    async with world(answer(OVER), repeat=True, info=INFO, keeper=keeper) as w:
        played = await w.play(FULL)
        assert played.reasons == ["overflow_prune_retry", "reactive_compact_retry"]
        assert played.stop_reason == "prompt_too_long"
        await w.goes_on()


@pytest.mark.parametrize(
    ("said", "info", "settings"),
    [
        pytest.param(answer(Usage(input=1_000, output=900)), INFO, None, id="just filled"),
        pytest.param(answer(OVER), attrs.evolve(INFO, is_known=False), None, id="a window that was assumed"),
        pytest.param([ProviderItem("0", "web_search", "{}"), *answer(OVER)], INFO, None, id="hosted tools read too"),
        pytest.param(
            [UsageReported(OVER), *answer(Usage(input=900))], INFO, None, id="the last count is the one that counts"
        ),
    ],
)
async def test_t23_what_is_no_overflow(
    autojump_clock: MockClock, said: Answer, info: ModelInfo, settings: Settings | None
) -> None:
    keeper = ScriptedKeeper(forced=[last_only])
    async with world(said, info=info, keeper=keeper, settings=settings) as w:
        played = await w.play(FULL)
    assert (played.stop_reason, played.result.text, keeper.requests) == ("completed", "As you said", [])


async def test_t23_short_request_is_no_overflow(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(forced=[last_only])
    async with world(answer(OVER), info=INFO, keeper=keeper) as w:
        played = await w.play("A third of the window: " + words(300))
    assert (played.stop_reason, played.result.text, keeper.requests) == ("completed", "As you said", [])


async def test_t23_calls_of_overflowing_answer_run_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    asks: Answer = [*call("read", {"name": "a"}, id="1"), *done("calls", usage=OVER)]
    keeper = ScriptedKeeper(forced=[last_only])
    async with world(asks, DONE, info=INFO, tools=bench.tools(), keeper=keeper) as w:
        played = await w.play(FULL)
    assert (played.stop_reason, played.reasons, keeper.requests) == ("completed", ["next_step"], [])
    assert played.statuses == ["completed"]


async def test_t23_answer_at_window_end_frees_space(autojump_clock: MockClock) -> None:
    keeper = ScriptedKeeper(forced=[last_only])
    async with world(ENDED, DONE, keeper=keeper) as w:
        played = await w.play()
    assert (played.stop_reason, played.result.text) == ("completed", "Done.")
    assert played.reasons == ["overflow_prune_retry"]


async def test_t23_answer_at_window_end_is_kept(
    autojump_clock: MockClock,
) -> None:
    async with world(ENDED) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.text) == ("prompt_too_long", "Half of")
        told = "the answer reached the end of the model's window: model_context_window_exceeded"
        assert played.result.detail == told
        await w.goes_on()
