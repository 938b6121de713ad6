"""An answer has bounds: what a host sends beyond them is not taken, the connection is closed, and the turn ends."""

from __future__ import annotations

import tracemalloc

import pytest
from trio.testing import MockClock

from engine.core.errors import ConfigError
from engine.core.llm_types import StreamEvent, TextChunk, TextStarted, ToolCallChunk, ToolCallStarted
from engine.core.settings import AnswerLimits, Settings
from engine.testing.script import Answer, ScriptItem, call, done, reasoning, text
from tests.support.bench import Bench
from tests.support.world import world

LIMITS = AnswerLimits(chars=1_000, call_chars=300, calls=3)


def endless(start: StreamEvent, more: StreamEvent) -> list[ScriptItem]:
    """More than any limit here allows; the host would go on."""
    return [start, *[more] * 5_000]


CASES: dict[str, tuple[Answer, str]] = {
    "text": (endless(TextStarted("t"), TextChunk("t", "abc")), "the answer has more than 1,000 characters"),
    "one delta": (
        [TextStarted("t"), TextChunk("t", "x" * 5_000), *done()],
        "the answer has more than 1,000 characters",
    ),
    "thinking": ([*reasoning("Hm. " * 2_000, pieces=99), *done()], "the answer has more than 1,000 characters"),
    "arguments": (
        endless(ToolCallStarted("c", "write"), ToolCallChunk("c", "abc")),
        "the arguments of a call have more than 300 characters",
    ),
    "calls": (
        [item for n in range(999) for item in call("write", {"name": str(n)}, id=str(n))],
        "the answer has more than 3 calls",
    ),
}


@pytest.mark.parametrize(("answer", "detail"), CASES.values(), ids=CASES)
async def test_endless_answer_ends_the_turn(autojump_clock: MockClock, answer: Answer, detail: str) -> None:
    bench = Bench()
    settings = Settings(answer=LIMITS)
    async with world(answer, [*text("Done."), *done()], tools=bench.tools(), settings=settings) as w:
        played = await w.play()
        assert (played.stop_reason, played.result.detail, len(w.requests)) == ("output_limit", detail, 1)
        assert len(played.result.text) <= 1_000
        assert len(played.settlements) <= 4
        assert len(bench.began) <= 3, "calls that were complete before the limit may have run"
        await w.goes_on()


async def test_answer_at_its_limits_is_whole(autojump_clock: MockClock) -> None:
    bench = Bench()
    calls = [item for n in range(3) for item in call("read", {"name": str(n)}, id=str(n))]
    async with world(
        [*text("x" * 900, pieces=9), *calls, *done("calls")],
        [*text("Done."), *done()],
        tools=bench.tools(),
        settings=Settings(answer=LIMITS),
    ) as w:
        played = await w.play()
    assert (played.stop_reason, played.statuses) == ("completed", ["completed"] * 3)


async def test_long_answer_costs_twice_its_text(autojump_clock: MockClock) -> None:
    """The pieces, which slow watchers may still read, and the whole."""
    size, pieces = 3_000_000, 750
    async with world([*text("x" * size, pieces=pieces), *done()]) as w:
        tracemalloc.start()
        try:
            async with w.session.prompt("go") as turn:
                async for _ in turn:
                    pass
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert turn.result.text == "x" * size
    assert peak <= 2.2 * size


@pytest.mark.parametrize("name", ["chars", "call_chars", "calls"])
def test_limits_are_positive(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"answer\.{name}"):
        AnswerLimits(**{name: 0})
