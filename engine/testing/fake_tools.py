"""Fake tools: their arguments say what they do, how long it takes, and how badly they behave.

Each call leaves a `Trail`, so a test can compare the record with what really happened:
whether the body ran, saw the cancel, and returned.
"""

from __future__ import annotations

import time
from typing import Literal, get_args

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.events import SharedContext
from engine.core.ids import CallId
from engine.tools.call_values import ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext

Behaviour = Literal[
    "plain",
    "error",
    "tool_error",
    "group",
    "failed",
    "modify",
    "progress",
    "cleans_up",
    "finishes",
    "stubborn",
    "nursery",
    "no_checkpoint",
    "thread",
]
# "thread" takes real time: not for a mock clock.
BEHAVIOURS: tuple[Behaviour, ...] = tuple(behaviour for behaviour in get_args(Behaviour) if behaviour != "thread")
CLEAN_UP = 0.1
STUBBORN = 1.0


@attrs.frozen(kw_only=True)
class Work:
    """Pretend to work: `key` names the side effect, `seconds` is the duration."""

    key: str = ""
    seconds: float = 0.0
    manner: str = "plain"


@attrs.define(eq=False)
class Trail:
    """What really happened in one call."""

    call_id: CallId
    key: str
    manner: str
    cancelled: bool = False
    returned: bool = False
    raised: bool = False
    running: bool = True
    ended_at: float = 0.0


@attrs.define(eq=False)
class FakeTools:
    """Three tools that leave trails: `look` (read-only, safe), `work` (runs alone), `sub` (runs a sub-agent)."""

    trails: list[Trail] = attrs.field(factory=list[Trail], init=False)

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools."""

        @tool(read_only=True)
        async def look(args: Work, ctx: ToolContext) -> str | ToolOutput:
            """Pretend to read."""
            return await self._act(args, ctx)

        @tool(chain=True)
        async def work(args: Work, ctx: ToolContext) -> str | ToolOutput:
            """Pretend to change something."""
            return await self._act(args, ctx)

        @tool(name="sub", read_only=True)
        async def sub(args: Work, ctx: ToolContext) -> str | ToolOutput:
            """Delegate a task to a sub-agent."""
            return await self._delegate(args, ctx)

        return look, work, sub

    async def _act(self, args: Work, ctx: ToolContext) -> str | ToolOutput:
        trail = Trail(ctx.call_id, args.key, args.manner)
        self.trails.append(trail)
        try:
            result = await _behave(args, ctx)
        except trio.Cancelled:
            trail.cancelled = True
            raise
        except BaseException:  # re-raised: the trail only records it
            trail.raised = True
            raise
        else:
            trail.returned = True
            return result
        finally:
            trail.running = False
            trail.ended_at = trio.current_time()

    async def _delegate(self, args: Work, ctx: ToolContext) -> str:
        trail = Trail(ctx.call_id, args.key, "sub")
        self.trails.append(trail)
        try:
            result = await ctx.run_agent(args.key)
        except trio.Cancelled:
            trail.cancelled = True
            raise
        finally:
            trail.running = False
            trail.ended_at = trio.current_time()
        trail.returned = True
        return f"{result.stop_reason}: {result.text}"


async def _behave(args: Work, ctx: ToolContext) -> str | ToolOutput:
    match args.manner:
        case "no_checkpoint":
            return "at once"
        case "stubborn":
            with trio.CancelScope(shield=True):
                await trio.sleep(STUBBORN + args.seconds)
            return "after all"
        case "finishes":
            # It can't be stopped half way, but ends within its grace period.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLEAN_UP):
                await trio.sleep(CLEAN_UP / 2)
            return "finished its work"
        case "cleans_up":
            try:
                await trio.sleep(args.seconds)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + CLEAN_UP):
                    await trio.sleep(CLEAN_UP)
            return "done and cleaned up"
        case "nursery":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, args.seconds)
                nursery.start_soon(trio.sleep, args.seconds / 2)
            return "both done"
        case "thread":
            # Real time: a mock clock would count the thread as idle and jump.
            await ctx.to_thread(time.sleep, args.seconds)
            return "the thread came back"
        case "progress":
            ctx.progress("half way", output="first half\n")
            await trio.sleep(args.seconds)
            return "first half\nsecond half"
        case _:
            await trio.sleep(args.seconds)
            return _end(args)


def _end(args: Work) -> str | ToolOutput:
    match args.manner:
        case "error":
            raise ValueError("it broke")
        case "tool_error":
            raise ToolError("no such thing")
        case "group":
            raise BaseExceptionGroup("several", [ValueError("one"), RuntimeError("two")])
        case "failed":
            return ToolOutput(text="exit code 1", failed=True)
        case "modify":
            return ToolOutput(text="changed", modify=_Append(args.key))
        case _:
            return f"did {args.key}"


@attrs.frozen
class _Append:
    """Append a key to the shared context's list of keys."""

    key: str

    def __call__(self, shared: SharedContext) -> SharedContext:
        return shared.with_value("keys", f"{shared.get('keys')}{self.key},")
