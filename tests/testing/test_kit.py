"""The test kit, as somebody who embeds the engine uses it, and that it finds what it should."""

from typing import Annotated

import attrs
import pytest
import trio

import engine
from engine.core.errors import Overloaded
from engine.core.events import CallSettled
from engine.testing import (
    Fail,
    HttpFailure,
    PromiseBroken,
    Scenario,
    ScriptedProvider,
    call,
    cancel_everywhere,
    done,
    play,
    text,
    tool_scenario,
)


@attrs.frozen
class Fetch:
    """Fetch a page."""

    url: Annotated[str, engine.doc("where it is")]


@engine.tool(read_only=True)
async def fetch(args: Fetch, ctx: engine.ToolContext) -> str:
    ctx.progress("connecting")
    await trio.sleep(0.2)
    return f"the page at {args.url}"


def test_an_embedders_own_tool_in_three_lines(is_full: bool) -> None:
    every = 1 if is_full else 8
    report = cancel_everywhere(tool_scenario(fetch, {"url": "a"}), every=every)
    assert report.runs >= 5 * (report.points // every)


def test_stubborn_tool_is_found() -> None:
    @engine.tool(read_only=True)
    async def stubborn(args: Fetch, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
        return "late"

    with pytest.raises(PromiseBroken, match="did not stop within its grace"):
        cancel_everywhere(tool_scenario(stubborn, {"url": "a"}), ways=("user",))


def test_tool_is_held_to_its_declared_grace(is_full: bool) -> None:
    @engine.tool(read_only=True, grace=1.0)
    async def slow_to_stop(args: Fetch, ctx: engine.ToolContext) -> str:
        try:
            await trio.sleep(0.5)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.8):
                await trio.sleep(0.8)
        return "done"

    cancel_everywhere(tool_scenario(slow_to_stop, {"url": "a"}), ways=("user", "host"), every=1 if is_full else 4)


def test_a_broken_promise_names_the_point() -> None:
    async def leak() -> None:
        await trio.sleep(1_000)

    @engine.tool(read_only=True)
    async def leaky(args: Fetch, ctx: engine.ToolContext) -> str:
        trio.lowlevel.spawn_system_task(leak, name="leaked by the tool")
        await trio.sleep(0.1)
        return "done"

    with pytest.raises(PromiseBroken, match=r"(?s)without a cancel.*leaked by the tool"):
        cancel_everywhere(tool_scenario(leaky, {"url": "a"}))


def test_run_can_be_inspected() -> None:
    run = play(Scenario(script=[[*text("hello"), *call("look", {"key": "a"}, id="1"), *done("calls")]]))
    assert run.problems == []
    assert run.result is not None
    assert run.result.stop_reason == "completed"
    assert [e.settlement.text for e in run.seen if isinstance(e, CallSettled)] == ["did a"]


async def test_script_fails_like_a_real_host(autojump_clock: trio.testing.MockClock) -> None:
    provider = ScriptedProvider(
        [
            [Fail(Overloaded("busy", retryable=True))],
            [HttpFailure(529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')],
            [*text("at last"), *done()],
        ]
    )
    async with engine.open_engine(model=provider) as eng:
        session = await eng.create_session()
        result = await session.run("go")
    assert (result.stop_reason, result.text) == ("completed", "at last")
    assert len(provider.requests) == 3


async def test_exhausted_script_is_explained(autojump_clock: trio.testing.MockClock) -> None:
    async with engine.open_engine(model=ScriptedProvider([])) as eng:
        session = await eng.create_session()
        result = await session.run("go")
    assert result.stop_reason == "provider_error"
    assert "the script has 0 answers; this is request 1" in result.detail
