"""Rounds: from its start on, a call shows that it is alive, and is given up when its time is over; the stream may go on."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.events import CallHeartbeat, CallSettled, Notice, PartEnded
from engine.core.hooks import Hooks, ToolDecision, ToolUse
from engine.core.messages import TextPart
from engine.testing.script import Pause, call, done, text
from tests.support.world import world


@attrs.frozen
class Nothing:
    """No arguments."""


@engine.tool(read_only=True)
async def quiet(args: Nothing, ctx: engine.ToolContext) -> str:
    """Take a while."""
    await trio.sleep(1.1)
    return "done"


@engine.tool(read_only=True, timeout=0.5)
async def stubborn(args: Nothing, ctx: engine.ToolContext) -> str:
    """Shield itself against its timeout."""
    with trio.CancelScope(shield=True):
        await trio.sleep(8)
    return "done"


@pytest.mark.parametrize("seconds", [0.4, 5.0], ids=["in time", "timed out"])
async def test_slow_hook_behind_a_call_destroys_no_result(autojump_clock: MockClock, seconds: float) -> None:
    """The timeout is the tool's: once its body is over, what takes long is the hook."""

    @engine.tool(read_only=True, timeout=0.5)
    async def look(args: Nothing, ctx: engine.ToolContext) -> str:
        await trio.sleep(seconds)
        return "seen"

    async def slow(used: ToolUse) -> ToolDecision:
        await trio.sleep(3)
        return ToolDecision()

    script = [*call("look", {}, id="1"), *done("calls")]
    async with world(script, [*text("Done."), *done()], tools=[look], hooks=Hooks(after_tool=(slow,))) as w:
        played = await w.play()
    (settled,) = played.settlements
    assert (settled.status, settled.outcome_unknown) == ("completed" if seconds < 0.5 else "aborted", False)
    assert played.all(Notice) == []


async def test_heartbeats_come_while_the_stream_goes_on(autojump_clock: MockClock) -> None:
    script = [*call("quiet", {}, id="1"), Pause(30), *text("Slow."), *done("calls")]
    async with world(script, [*text("Done."), *done()], tools=[quiet]) as w:
        played = await w.play()
    beats = [event.time for event in played.all(CallHeartbeat)]
    assert [round(beat - beats[0], 2) for beat in beats] == [0.0, 0.25, 0.5, 0.75]
    assert played.order(CallHeartbeat, CallSettled, PartEnded)[-3:] == ["CallSettled", "PartEnded", "PartEnded"]


async def test_shielded_call_times_out_while_the_stream_goes_on(autojump_clock: MockClock) -> None:
    script = [*call("stubborn", {}, id="1"), Pause(30), *text("Slow."), *done("calls")]
    async with world(script, [*text("Done."), *done()], tools=[stubborn]) as w:
        played = await w.play()
    (settled,) = played.all(CallSettled)
    assert (settled.settlement.reason, settled.settlement.outcome_unknown) == ("timeout", True)
    slow = next(e for e in played.all(PartEnded) if isinstance(e.part, TextPart) and e.part.text == "Slow.")
    assert 28 < slow.time - settled.time < 30
    assert [notice.code for notice in played.all(Notice)] == ["overstaying"]
