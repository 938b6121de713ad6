"""Rounds: from its start on, a call shows that it is alive, and is given up when its time is over; the stream may go on."""

from __future__ import annotations

import attrs
import trio
from trio.testing import MockClock

import engine
from engine.core.events import CallHeartbeat, CallSettled, Notice, PartEnded
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
