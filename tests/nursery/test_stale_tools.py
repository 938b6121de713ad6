"""T14: a call belongs to the tools of its request. What has changed since is not run, and the model is told to look again."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, EngineClosed
from engine.core.events import CallJudged, CallQueued, CallSettled, CallStarted, PermissionAsked
from engine.core.hooks import Hooks, ToolUse
from engine.permission.policy import Policy
from engine.session.turn import Turn
from engine.testing.script import Answer, Pause, call, done, text
from engine.tools.tool import Tool
from tests.support.world import Seen, world

DONE: Answer = [*text("Done."), *done()]


@attrs.frozen
class Nothing:
    """Do it."""


def tool(name: str, log: list[str], says: str = "did it", *, seconds: float = 0.0, read_only: bool = True) -> Tool:
    @engine.tool(name=name, read_only=read_only)
    async def body(args: Nothing, ctx: engine.ToolContext) -> str:
        await trio.sleep(seconds)
        log.append(says)
        return says

    return body


def asking(*names: str, pause: float = 0.0) -> Answer:
    return [*(e for n, name in enumerate(names) for e in call(name, {}, id=str(n))), Pause(pause), *done("calls")]


async def test_t14_replaced_tools_apply_to_the_next_request(autojump_clock: MockClock) -> None:
    log: list[str] = []
    old, new = tool("work", log, "old", seconds=1), tool("work", log, "new")
    async with world(asking("work"), asking("work"), DONE, tools=[old]) as w:

        async def react(turn: Turn, event: Seen) -> None:
            if isinstance(event, CallStarted) and not log:
                w.session.use_tools([new, tool("more", log)])

        played = await w.play(react=react)
    assert (log, played.statuses) == (["old", "new"], ["completed", "completed"])
    assert [[tool.name for tool in request.tools] for request in w.requests] == [
        ["work"],
        ["more", "work"],
        ["more", "work"],
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda log: [tool("work", log, "new")], "work has changed since you saw it"),
        (lambda log: [tool("other", log)], "There is no tool work any more"),
        (lambda _: [], "There is no tool work any more"),
    ],
    ids=["changed", "removed", "all removed"],
)
async def test_t14_call_to_a_changed_tool_is_stale(
    autojump_clock: MockClock, change: Callable[[list[str]], list[Tool]], told: str
) -> None:
    log: list[str] = []
    answer: Answer = [*text("Let me."), Pause(2), *asking("work")]
    async with world(answer, DONE, tools=[tool("work", log, "old")]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            w.session.use_tools(change(log))
            result = await turn.wait()
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (log, settled.status, result.stop_reason) == ([], "error", "completed")
        assert settled.text == f"Not executed: {told}. Look at the tools again, then go on."
        await w.goes_on()


async def test_t14_same_tool_in_another_set_is_current(autojump_clock: MockClock) -> None:
    log: list[str] = []
    work = tool("work", log)
    async with world([*text("Let me."), Pause(2), *asking("work")], DONE, tools=[work]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            w.session.use_tools([tool("another", log), work])
            await turn.wait()
    assert log == ["did it"]


async def test_t14_tool_may_vanish_while_its_call_waits(
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []

    async def slow(use: ToolUse) -> None:
        await trio.sleep(5)

    async def reply(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await trio.sleep(5)
            await turn.reply(event.request_id, engine.Once())

    for hooks, approver, react in (
        (Hooks(before_tool=(slow,)), None, None),
        (None, Policy(), reply),
    ):
        work = tool("work", log, read_only=False)
        async with world(asking("work"), DONE, tools=[work], hooks=hooks, approver=approver) as w:
            async with trio.open_nursery() as nursery:

                async def change(use: Callable[[list[Tool]], None]) -> None:
                    await trio.sleep(1)
                    use([])

                nursery.start_soon(change, w.session.use_tools)
                played = await w.play(react=react)
        assert (log, played.statuses, played.all(CallStarted)) == ([], ["error"], [])
        assert played.all(CallJudged)[-1].verdict == "allow"


async def test_t14_what_runs_already_runs_to_its_end(autojump_clock: MockClock) -> None:
    log: list[str] = []
    first = tool("work", log, seconds=5, read_only=False)
    async with world(asking("work", "work"), DONE, tools=[first]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            w.session.use_tools([tool("work", log, "new")])
            await turn.wait()
        results = w.requests[1].transcript[-1]
    assert log == ["did it"]
    assert [r.settlement.status for r in results.results] == ["completed", "error"]  # type: ignore[union-attr]


async def test_t14_a_tool_may_replace_the_tools_itself(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(asking("load", "work", pause=1), asking("work"), DONE) as w:

        @engine.tool(read_only=True, safe=False)
        async def load(args: Nothing, ctx: engine.ToolContext) -> str:
            w.session.use_tools([load, tool("work", log, "loaded")])
            return "loaded"

        w.session.use_tools([load, tool("work", log, "old")])
        played = await w.play()
    assert (log, played.statuses) == (["loaded"], ["completed", "error", "completed"])


async def test_called_name_is_resolved_in_its_requests_tools(autojump_clock: MockClock) -> None:
    """A new tool that takes over an old one's alias does not get its calls."""
    log: list[str] = []
    old = attrs.evolve(tool("work", log, "old"), aliases=("do",))
    new = attrs.evolve(tool("other", log, "new"), aliases=("do",))
    async with world([*text("Let me."), Pause(2), *asking("do")], DONE, tools=[old]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            w.session.use_tools([new])
            await turn.wait()
        (queued,) = [e for e in w.session.events() if isinstance(e, CallQueued)]
    assert (log, queued.tool) == ([], "work")


async def test_invalid_tools_are_refused_without_change(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with world(asking("work"), DONE, tools=[tool("work", log)]) as w:
        for wrong in (5, ["work"], [tool("a", log), tool("a", log)]):
            with pytest.raises(ConfigError):
                w.session.use_tools(wrong)  # type: ignore[arg-type]  # the point of it
        await w.play()
    assert log == ["did it"]
    with pytest.raises(EngineClosed):
        w.session.use_tools([])
