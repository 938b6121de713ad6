"""Summarising what follows a prompt: what comes before stays as it is."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from engine.core.errors import NothingToUndo
from engine.core.events import TurnStarted
from engine.core.messages import UserMessage
from tests.support.histories import INFO, saying, summary, words
from tests.support.world import World, world

TALK = (saying(f"One. {words(300)}"), saying(f"Two. {words(300)}"), saying(f"Three. {words(300)}"))


def turns(w: World) -> list[str]:
    return [event.turn_id or "" for event in w.session.events() if isinstance(event, TurnStarted)]


def heard(w: World) -> list[tuple[str, str]]:
    return [(m.origin, m.text[:6]) for m in w.session.state.transcript if isinstance(m, UserMessage)]


async def test_messages_before_the_prompt_stay(autojump_clock: MockClock) -> None:
    async with world(*TALK, saying(summary(done="- both")), info=INFO) as w:
        for prompt in ("first", "second", "third"):
            await w.play(prompt)
        before = tuple(w.session.state.transcript)
        result = await w.session.context.compact(since=turns(w)[1])
        assert result.stop_reason == "completed", result
        after = tuple(w.session.state.transcript)
        assert after[:2] == before[:2]
        assert heard(w)[0] == ("user", "first")
        assert "summary" in {origin for origin, _ in heard(w)}
        # The request for the summary has nothing of what stays.
        asked = str(w.requests[-1].transcript[0])
        assert "Two." in asked
        assert "One." not in asked
        await w.goes_on()
        # It is a turn, which undo takes back.
        await w.session.files.undo()
        await w.session.files.undo()
        assert tuple(w.session.state.transcript) == before


async def test_unknown_turn_summarises_nothing(autojump_clock: MockClock) -> None:
    async with world(*TALK, info=INFO) as w:
        await w.play("first")
        before = tuple(w.session.state.transcript)
        with pytest.raises(NothingToUndo, match="may have been undone or summarised"):
            await w.session.context.compact(since="turn_x")
        assert tuple(w.session.state.transcript) == before
