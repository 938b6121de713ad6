"""A limit of money and tokens for many turns together."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from engine.core.errors import ConfigError
from engine.core.llm_types import ModelInfo
from engine.core.messages import Usage
from engine.core.settings import Limits, Settings
from engine.options import Ports, SpendingLimit
from engine.testing.script import Answer, Pause, done, text
from tests.support.world import World, world

# A dollar for each answer, and nothing for prompts.
INFO = ModelInfo(name="h/m", host="h", price_output=1_000.0)
ANSWER: Answer = [Pause(1.0), *text("Hello."), *done(usage=Usage(output=1_000))]
SHORT = Settings(output_cap=1_000)


async def prompt_all(w: World, count: int) -> list[str]:
    """Prompt so many sessions at once; return how each turn has ended."""
    ends: list[str] = []

    async def prompt_one() -> None:
        session = await w.engine.create_session(cwd="/opt")
        ends.append((await session.run("go")).stop_reason)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(prompt_one)
    return sorted(ends)


async def test_all_sessions_have_one_limit(autojump_clock: MockClock) -> None:
    spending = SpendingLimit(cost=3.5)
    async with world(ANSWER, info=INFO, repeat=True, settings=SHORT, spending=spending) as w:
        # Near the limit they go one after another: the fourth answer exceeds it, and nothing follows.
        ends = await prompt_all(w, 10)
        assert spending.reached.startswith("4.0000 of 3.5000 were spent")
        assert await prompt_all(w, 2) == ["cost_limit"] * 2
    assert ends == ["completed"] * 3 + ["cost_limit"] * 7
    assert spending.total_cost == 4.0
    assert len(w.requests) == 4


async def test_own_limit_of_a_turn_ends_only_it(autojump_clock: MockClock) -> None:
    spending = SpendingLimit(cost=100.0)
    async with world(ANSWER, info=INFO, repeat=True, settings=SHORT, spending=spending) as w:
        played = await w.play(settings=Settings(output_cap=1_000, limits=Limits(cost=0.5)))
        assert played.stop_reason == "cost_limit"
        assert spending.reached == ""
        await w.goes_on()


async def test_engines_share_a_limit(autojump_clock: MockClock) -> None:
    spending = SpendingLimit(tokens=1_500)
    async with (
        world(ANSWER, info=INFO, repeat=True, spending=spending) as one,
        world(ANSWER, info=INFO, repeat=True, spending=spending) as other,
    ):
        assert (await one.play()).stop_reason == "completed"
        assert (await other.play()).stop_reason == "token_budget"
        assert (await one.play()).stop_reason == "token_budget"
    assert "tokens were used" in spending.reached


def test_earlier_spending_counts() -> None:
    assert SpendingLimit(cost=5.0, spent=4.9).reached == ""
    assert SpendingLimit(cost=5.0, spent=5.0).reached == "5.0000 of 5.0000 were spent"
    spending = SpendingLimit(tokens=10, used=Usage(input=4))
    spending.add(Usage(output=6), 0.0)
    assert (spending.reached, spending.total_usage) == ("10 of 10 tokens were used", Usage(input=4, output=6))


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigError):
        SpendingLimit(cost=-1.0)
    with pytest.raises(ConfigError, match="spending must be"):
        Ports(spending=3.0)  # type: ignore[arg-type]  # that is the mistake
