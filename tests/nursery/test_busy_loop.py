"""A late event loop is not charged to tools: those that clean up in time are known to have ended."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.events import CallSettled
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing import FakeTools, ScriptedProvider, call, done, text
from engine.testing.cancellation.trio_internals import seed_scheduler


async def delay(clock: trio.testing.MockClock) -> None:
    """Let each pass of the scheduler take a second, as a thousand other sessions would."""
    while True:
        clock.jump(1.0)
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("manner", ["plain", "cleans_up", "nursery", "finishes"])
@pytest.mark.parametrize("way", ["host", "user", "left"])
def test_late_loop_is_not_charged_to_tools(manner: str, way: str) -> None:
    for seed in range(50):
        # Which task of a pass runs first decides for which call the lateness is noticed.
        seed_scheduler(seed)
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(end_on_a_busy_loop, manner, way, clock, clock=clock)


async def end_on_a_busy_loop(manner: str, way: str, clock: trio.testing.MockClock) -> None:
    calls = [call("look", {"key": str(n), "seconds": 0.05, "manner": manner}, id=f"c{n}") for n in range(3)]
    model = ScriptedProvider([[*(item for items in calls for item in items), *done("calls")]])
    tools = FakeTools()
    permissions = PermissionOptions(approver=AllowAll())
    async with engine.open_engine(model=model, tools=tools.tools(), permissions=permissions) as eng:
        session = await eng.create_session()
        async with trio.open_nursery() as busy:
            with trio.CancelScope() as scope:
                async with session.prompt("go") as turn:
                    while len(tools.trails) < len(calls):
                        await trio.lowlevel.checkpoint()
                    busy.start_soon(delay, clock)
                    if way == "host":
                        scope.cancel()
                    elif way == "user":
                        turn.cancel()
                        await turn.wait()
            busy.cancel_scope.cancel()
        settlements = [event.settlement for event in session.events() if isinstance(event, CallSettled)]
    assert len(settlements) == len(calls)
    assert not any(settlement.outcome_unknown for settlement in settlements)
    assert not any(trail.running for trail in tools.trails)


@attrs.frozen
class Nothing:
    """Take no arguments."""


async def test_late_loop_is_not_charged_to_timed_out_tools(autojump_clock: trio.testing.MockClock) -> None:
    """At its timeout a tool has its grace, too: it cleans up if it is let run."""
    cleaned: list[str] = []

    @engine.tool(timeout=0.5)
    async def tidy(args: Nothing, ctx: engine.ToolContext) -> str:
        """Work for ever, and clean up."""
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                for _ in range(3):
                    await trio.sleep(0.05)
            cleaned.append(ctx.call_id)

    started = trio.Event()
    model = ScriptedProvider([[*call("tidy", {}, id="c"), *done("calls")], [*text("Fine."), *done()]])
    permissions = PermissionOptions(approver=AllowAll())
    async with engine.open_engine(model=model, tools=[tidy], permissions=permissions) as eng:
        session = await eng.create_session()
        async with trio.open_nursery() as busy:
            async with session.prompt("go") as turn:
                await started.wait()
                busy.start_soon(delay, autojump_clock)
                await turn.wait()
            busy.cancel_scope.cancel()
        (settlement,) = [event.settlement for event in session.events() if isinstance(event, CallSettled)]
    assert len(cleaned) == 1
    assert (settlement.reason, settlement.outcome_unknown) == ("timeout", False)


async def test_stubborn_tool_is_given_up_on_a_busy_loop(autojump_clock: trio.testing.MockClock) -> None:
    """A loop that is always late does not make a timeout void."""

    @engine.tool(timeout=0.5)
    async def hang(args: Nothing, ctx: engine.ToolContext) -> str:
        """Never stop."""
        started.set()
        with trio.CancelScope(shield=True):
            await let_go.wait()
        return "late"

    started, let_go = trio.Event(), trio.Event()
    model = ScriptedProvider([[*call("hang", {}, id="c"), *done("calls")], [*text("Fine."), *done()]])
    permissions = PermissionOptions(approver=AllowAll())
    async with engine.open_engine(model=model, tools=[hang], permissions=permissions) as eng:
        session = await eng.create_session()
        async with trio.open_nursery() as busy:
            async with session.prompt("go") as turn:
                await started.wait()
                busy.start_soon(delay, autojump_clock)
                async for event in turn:
                    if isinstance(event, CallSettled):
                        assert event.settlement.outcome_unknown
                        let_go.set()
            busy.cancel_scope.cancel()
        assert turn.result.stop_reason == "completed"
