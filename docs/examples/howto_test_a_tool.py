"""How to test a tool for cancellation: at every point in virtual time, at many instants in real time."""

import itertools
from collections.abc import Awaitable, Callable
from typing import Annotated

import attrs
import trio

import engine
from engine.options import PermissionOptions
from engine.permission import AllowAll
from engine.testing import (
    PromiseBroken,
    ScriptedProvider,
    call,
    cancel_everywhere,
    check_transcript,
    done,
    tool_scenario,
)
from engine.tools import Tool, run_tree

# -- the tool: what takes time is an argument of the function that makes it ------------------------


@attrs.frozen
class Build:
    """Build the package."""

    target: Annotated[str, engine.doc("wheel or sdist")]


def make_build(compiler: Callable[[str, str], Awaitable[None]], locked: set[str]) -> Tool:
    @engine.tool
    async def build(args: Build, ctx: engine.ToolContext) -> str:
        locked.add(args.target)
        try:
            await compiler(args.target, ctx.call_id)
        finally:
            locked.discard(args.target)
        return f"built the {args.target}"

    return build


async def compile_in_a_process(target: str, marker: str) -> None:
    await run_tree(["sleep", "0.05"], cwd=".", marker=marker, on_output=lambda _: None)


# -- at every point, in virtual time ----------------------------------------------------------------


async def pretend_to_compile(target: str, marker: str) -> None:
    await trio.sleep(0.3)


def test_cancel_at_any_instant() -> None:
    locked: set[str] = set()
    cancel_everywhere(tool_scenario(make_build(pretend_to_compile, locked), {"target": "wheel"}), every=7)
    assert not locked


# -- at many instants, in real time, with the real thing -----------------------------------------------


async def cancelled_after(seconds: float, tool: Tool) -> str:
    model = ScriptedProvider([[*call("build", {"target": "wheel"}, id="1"), *done("calls")]])
    async with engine.open_engine(model=model, tools=[tool], permissions=PermissionOptions(approver=AllowAll())) as eng:
        session = await eng.create_session()
        with trio.move_on_after(seconds):
            await session.run("Build it.")
        assert session.state.last_result is not None
        assert check_transcript(session.state.transcript) == []
        return session.state.last_result.stop_reason


def test_no_lock_is_left_after_a_cancel() -> None:
    locked: set[str] = set()
    tool = make_build(compile_in_a_process, locked)
    for milliseconds in itertools.count(0, 10):
        reason = trio.run(cancelled_after, milliseconds / 1000, tool)
        assert not locked
        if reason != "aborted":
            break  # from here on the turn ends before the cancel


# -- what a broken one looks like -----------------------------------------------------------------------


@engine.tool
async def forgetful(args: Build, ctx: engine.ToolContext) -> str:
    # A system task belongs to no nursery of ours: a cancel of the turn does not reach it.
    trio.lowlevel.spawn_system_task(trio.sleep, 60)
    return "building in the background"


def test_forgetful() -> None:
    message = ""
    try:
        cancel_everywhere(tool_scenario(forgetful, {"target": "wheel"}))
    except PromiseBroken as broken:
        message = str(broken)
    assert "tasks are left after the block" in message


if __name__ == "__main__":
    test_cancel_at_any_instant()
    test_no_lock_is_left_after_a_cancel()
    test_forgetful()
