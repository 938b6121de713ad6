"""Counts that contradict what was sent must neither lock a session nor be believed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from trio.testing import MockClock

import engine
from engine.compaction.compaction_policy import Keeper
from engine.compaction.token_counter import TokenCounter
from engine.core.errors import AuthFailed
from engine.core.events import CompactionStarted, HistoryReplaced
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import Transcript, Usage
from engine.core.protocols import ContextView
from engine.testing.script import Answer, Fail
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.histories import answers, saying, says, summary, words
from tests.support.world import said, world

LARGE = ModelInfo(name="scripted/model", context=200_000, output=8_000)
# What a prompt, and an answer, take.
EACH = 3_000

Wrong = Callable[[int, int, int], int]


def tokens_of(request: ModelRequest) -> int:
    return sum(len(said(message)) for message in request.transcript) // 4 + len(request.system) // 4


@attrs.define
class Host:
    """Counts its requests, and reports what *wrong* makes of the true count."""

    wrong: Wrong
    number: int = 0
    total: int = 0
    summaries: int = 0

    def __call__(self, request: ModelRequest) -> Answer:
        if request.system.startswith("You keep the record"):
            self.summaries += 1
            return saying(summary(), Usage(input=1_000, output=300))
        true = tokens_of(request)
        self.number += 1
        self.total += true
        reported = self.wrong(self.number, true, self.total)
        return saying(words(EACH, f"answer{self.number}"), Usage(input=reported, output=EACH))


def once(at: int, factor: float) -> Wrong:
    return lambda number, true, _: round(true * factor) if number == at else true


def running_totals(number: int, true: int, total: int) -> int:
    return total


CASES = {
    "the first, 4 times": once(1, 4.0),
    "the second, 4 times": once(2, 4.0),
    "the seventh, 4 times": once(7, 4.0),
    "the ninth, 3 times": once(9, 3.0),
    "the ninth, 2.4 times": once(9, 2.4),
    "the ninth, 100 times": once(9, 100.0),
    "every third, 4 times": lambda number, true, _: true * 4 if number % 3 == 0 else true,
    "running totals": running_totals,
}


@pytest.mark.parametrize("name", CASES)
async def test_wrong_count_neither_blocks_nor_compacts(autojump_clock: MockClock, name: str) -> None:
    host = Host(CASES[name])
    async with world(host, repeat=True, info=LARGE) as w:
        for number in range(14):
            played = await w.play(words(EACH, f"prompt{number}"))
            assert (played.stop_reason, played.result.detail) == ("completed", "")
        assert host.summaries == 0, "84,000 of 200,000 tokens need no summary"
        assert 80_000 < w.session.context.report().tokens < 105_000


@pytest.mark.parametrize("name", CASES)
async def test_wrong_count_does_not_defeat_compaction(autojump_clock: MockClock, name: str) -> None:
    host = Host(CASES[name])
    async with world(host, repeat=True, info=attrs.evolve(LARGE, context=64_000)) as w:
        for number in range(24):
            played = await w.play(words(EACH, f"prompt{number}"))
            assert played.stop_reason == "completed"
        assert 1 <= host.summaries <= 5


async def _locked(store: Path, factor: float) -> str:
    """Leave a session at a third of the window, with a recorded count that is wrong."""
    host = Host(once(10, factor))
    model = ScriptedProvider([host], repeat=True, info=LARGE)
    async with engine.open_engine(model=model, store=store) as eng:
        session = await eng.create_session(cwd="/opt")
        for number in range(10):
            await session.run(words(EACH, f"prompt{number}"))
        return session.id


@pytest.mark.parametrize("factor", [2.2, 2.9, 4.0])
async def test_locked_session_measures_anew(tmp_path: Path, factor: float) -> None:
    session_id = await _locked(tmp_path / "s.db", factor)
    # A fresh engine has only the record, and nothing to compare its count with.
    broken: Answer = [Fail(AuthFailed("no summary today"))]
    host = Host(once(0, 1))

    def answer(request: ModelRequest) -> Answer:
        return broken if request.system.startswith("You keep the record") else host(request)

    async with engine.open_engine(
        model=ScriptedProvider([answer], repeat=True, info=LARGE), store=tmp_path / "s.db"
    ) as eng:
        session = await eng.open_session(session_id)
        for _ in range(3):
            assert (await session.run("go on")).stop_reason == "completed"
        assert 60_000 < session.context.report().tokens < 80_000


@pytest.mark.parametrize("factor", [2.2, 2.9, 4.0])
async def test_manual_compaction_of_a_locked_session(tmp_path: Path, factor: float) -> None:
    session_id = await _locked(tmp_path / "s.db", factor)
    model = ScriptedProvider([Host(once(0, 1))], repeat=True, info=LARGE)
    async with engine.open_engine(model=model, store=tmp_path / "s.db") as eng:
        session = await eng.open_session(session_id)
        assert (await session.context.compact()).stop_reason == "completed"
        assert session.context.report().tokens < 40_000
        assert (await session.run("go on")).stop_reason == "completed"


def _view(texts: list[str], count: int, info: ModelInfo = LARGE) -> ContextView:
    sent = Transcript([says(text, id=f"u{n}") for n, text in enumerate(texts)])
    return ContextView(transcript=sent.append(answers("ok")), counted=sent, last_usage=Usage(input=count), model=info)


def test_blocked_needs_more_than_one_count() -> None:
    keeper = Keeper()
    assert not keeper.is_blocked(_view([words(70_000)], 205_000))
    assert keeper.is_blocked(_view([words(190_000)], 205_000))


def test_jump_is_believed_if_it_stays() -> None:
    counter = TokenCounter()
    sent = Transcript([says(words(20_000))])
    for number in range(4):
        # From the second request on, the host adds 12,000 tokens of its own.
        exact = 20_000 + 100 * number + (12_000 if number else 0)
        answered = sent.append(answers("ok", id=f"a{number}"))
        shown = ContextView(transcript=answered, counted=sent, last_usage=Usage(input=exact), model=LARGE)
        counter.tokens(shown)
        assert counter.is_exact(shown) is (number != 1)
        sent = answered.append(says(words(100), id=f"u{number}x"))


async def test_blocking_message_agrees_with_itself(autojump_clock: MockClock) -> None:
    async with world(
        saying(words(9_000), Usage(input=9_500, output=9_000)),
        saying(words(9_000), Usage(input=18_700, output=12_500)),
        [Fail(AuthFailed("down"))],
        repeat=True,
        info=attrs.evolve(LARGE, context=30_000, output=2_000),
    ) as w:
        await w.play(words(9_000))
        await w.play("second")
        played = await w.play("third")
        assert played.stop_reason == "blocking_limit"
        figures = [int(found.replace(",", "")) for found in re.findall(r"[\d,]*\d", played.result.detail)]
        assert figures[0] > figures[1], f"it does not fit: {played.result.detail}"
        assert not played.all(HistoryReplaced)
        played.one(CompactionStarted)
