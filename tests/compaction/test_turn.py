"""Compaction in the turn: foreseen, asked for, put in place, gone on with (T7, T8, T11, T12)."""

from __future__ import annotations

from trio.testing import MockClock

from engine.events import CompactionEnded, CompactionStarted, HistoryReplaced
from engine.messages import Usage, UserMessage
from tests.support.histories import INFO, saying, summary, words
from tests.support.world import said, world

DONE = saying("Done.")


async def test_t7_an_overflow_is_foreseen_summarised_and_the_turn_goes_on(autojump_clock: MockClock) -> None:
    long = words(6_000)
    async with world(
        saying(f"One. {long}"),
        saying(f"Two. {long}"),
        saying(f"Three. {long}"),
        saying(summary(done="- one and two")),
        DONE,
        info=INFO,
    ) as w:
        await w.play("first: always use tabs")
        await w.play("second")
        await w.play("third")
        played = await w.play("fourth")
        assert (played.stop_reason, played.result.text, played.reasons) == ("completed", "Done.", ["compacted"])
        started, ended = played.one(CompactionStarted), played.one(CompactionEnded)
        assert (started.trigger, started.messages) == ("full", 7)
        assert (ended.outcome, ended.model) == ("compacted", "scripted/model")
        assert ended.after < ended.before
        sent = w.requests[-1].transcript
        assert [m.origin for m in sent if isinstance(m, UserMessage)] == ["user", "summary", "user"]
        assert said(sent[0]) == "first: always use tabs"
        assert "- one and two" in said(sent[1])
        assert said(sent[-1]) == "fourth"
        assert [e.kind for e in played.all(HistoryReplaced)] == ["compact"]
        await w.goes_on()


async def test_the_usage_of_a_summary_counts_for_the_turn_and_the_session(autojump_clock: MockClock) -> None:
    used = Usage(input=700, output=70)
    long = words(9_000)
    async with world(
        saying(long), saying(long), saying(summary(), used), saying("Done.", Usage(input=5, output=5)), info=INFO
    ) as w:
        await w.play("first")
        await w.play("second")
        played = await w.play("third")
        assert played.result.usage == used + Usage(input=5, output=5)
        assert w.session.state.usage == used + Usage(input=5, output=5)
        assert played.one(CompactionEnded).usage == used
