"""A late event loop is not charged to tools: those that clean up in time are known to have ended."""

from __future__ import annotations

import pytest
import trio
import trio.testing

import engine
from engine.core.events import CallSettled
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing import FakeTools, ScriptedProvider, call, done


async def delay(clock: trio.testing.MockClock) -> None:
    """Let each pass of the scheduler take a second, as a thousand other sessions would."""
    while True:
        clock.jump(1.0)
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("manner", ["plain", "cleans_up", "nursery", "finishes"])
@pytest.mark.parametrize("way", ["host", "user", "left"])
async def test_late_loop_is_not_charged_to_tools(manner: str, way: str, autojump_clock: trio.testing.MockClock) -> None:
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
                    busy.start_soon(delay, autojump_clock)
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
