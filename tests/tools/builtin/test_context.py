"""`context`: the model learns what fills its window."""

from __future__ import annotations

import json

from trio.testing import MockClock

from engine.core.events import PermissionAsked
from engine.core.settings import Settings
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.context import CONTEXT
from tests.support.world import said, world

DONE: Answer = [*text("Done."), *done()]
LOOK: Answer = [*call("context", {}, id="1"), *done("calls")]


async def test_model_and_user_see_the_same_window(autojump_clock: MockClock) -> None:
    async with world(LOOK, DONE, tools=[CONTEXT], settings=Settings(system="Be kind. " * 100)) as w:
        played = await w.play("how full is it?")
        assert played.stop_reason == "completed"
        told = said(w.requests[-1].transcript[-1])
        assert told.startswith("scripted/model: about ")
        for kind in ("system", "tools", "the user's words"):
            assert f"\n{kind} " in told
        assert (
            told.splitlines()[0].partition(" of ")[2]
            == w.session.context.report().as_text().splitlines()[0].partition(" of ")[2]
        )


async def test_context_needs_no_permission_and_has_a_summary(autojump_clock: MockClock) -> None:
    async with world(LOOK, DONE, tools=[CONTEXT]) as w:
        played = await w.play("how full is it?")
        (settlement,) = played.settlements
        facts = json.loads(settlement.metadata)
        assert facts["summary"] == f"{facts['tokens']:,} of {facts['usable']:,} tokens"
        assert played.all(PermissionAsked) == []
