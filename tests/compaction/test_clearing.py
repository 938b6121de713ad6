"""Without a summary: what can be cleared is cleared before a turn ends for want of room."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio
from trio.testing import MockClock

import engine
from engine.compaction.compaction_policy import Keeper
from engine.core.errors import AuthFailed
from engine.core.events import HistoryReplaced
from engine.core.hooks import Compacting, CompactionDecision, Hooks
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.testing.script import Answer, Fail, call, done
from tests.support.histories import saying, words
from tests.support.world import world

INFO = ModelInfo(name="scripted/model", context=64_000, output=4_000)


@attrs.frozen
class Size:
    """How much to read."""

    tokens: int = 100


@engine.tool(read_only=True)
async def fetch(args: Size, ctx: engine.ToolContext) -> str:
    """Return a long text."""
    await trio.lowlevel.checkpoint()
    return words(args.tokens, "thing")


def script(*sizes: int) -> list[Answer]:
    return [[*call("fetch", {"tokens": size + n}, id=f"c{n}"), *done("calls")] for n, size in enumerate(sizes)]


def answering(*sizes: int) -> Callable[[ModelRequest], Answer]:
    left = [*script(*sizes), saying("Done.")]

    def answer(request: ModelRequest) -> Answer:
        if request.system.startswith("You keep the record"):
            return [Fail(AuthFailed("no key"))]
        return left.pop(0)

    return answer


async def test_clearing_precedes_blocking(autojump_clock: MockClock) -> None:
    async with world(answering(*[14_000] * 9), repeat=True, info=INFO, tools=[fetch]) as w:
        played = await w.play("fetch all")
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        assert {e.kind for e in played.all(HistoryReplaced)} == {"collapse"}
        assert w.session.context.report().tokens < INFO.context


async def test_clearing_follows_a_hooks_refusal(autojump_clock: MockClock) -> None:
    async def refuse(compacting: Compacting) -> CompactionDecision:
        await trio.lowlevel.checkpoint()
        return CompactionDecision(verdict="block")

    hooks = Hooks(before_compaction=(refuse,))
    async with world(answering(*[14_000] * 9), repeat=True, info=INFO, tools=[fetch], hooks=hooks) as w:
        assert (await w.play("fetch all")).stop_reason == "completed"


async def test_one_result_larger_than_the_window_is_cleared(autojump_clock: MockClock) -> None:
    async with world(answering(150_000), repeat=True, info=INFO, tools=[fetch]) as w:
        assert (await w.play("fetch it")).stop_reason == "completed"


async def test_clearing_does_not_shrink_the_window(autojump_clock: MockClock) -> None:
    async with world(answering(*[14_000] * 9), repeat=True, info=INFO, tools=[fetch]) as w:
        await w.play("fetch all")
        assert w.session.context.report().context == INFO.context, "no request was refused"


async def test_nothing_is_cleared_before_blocking_if_off(autojump_clock: MockClock) -> None:
    keeper = Keeper(clears=False)
    async with world(answering(*[14_000] * 9), repeat=True, info=INFO, tools=[fetch], keeper=keeper) as w:
        assert (await w.play("fetch all")).stop_reason == "blocking_limit"
