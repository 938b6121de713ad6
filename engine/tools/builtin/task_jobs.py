"""`task_output` and `task_stop`: show the progress of a background sub-agent, and stop it."""

from __future__ import annotations

from typing import Annotated, Final

import attrs
import trio

from engine.agents.background import AgentJob
from engine.agents.reports import render_result
from engine.core.schema import doc
from engine.tools.builtin.task import Agent, Agents, task_tool
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

MAX_WAIT: Final = 600.0


@attrs.frozen
class TaskOutput:
    """Arguments of `task_output`."""

    task_id: Annotated[str | None, doc("which sub-agent; without it, all of them are listed")] = None
    wait: Annotated[float, doc(f"seconds to wait for its end at most, up to {MAX_WAIT:g}")] = attrs.field(
        default=0.0, validator=[attrs.validators.ge(0), attrs.validators.le(MAX_WAIT)]
    )


@attrs.frozen
class TaskStop:
    """Arguments of `task_stop`."""

    task_id: Annotated[str, doc("which sub-agent")]


async def task_output(args: TaskOutput, ctx: ToolContext) -> ToolOutput:
    """Show a sub-agent's progress. Always a checkpoint; if cancelled, it goes on."""
    if args.task_id is None:
        await trio.lowlevel.checkpoint()
        jobs = ctx.agents.all()
        lines = [f"{job.session_id} ({job.agent}): {job.status_text}" for job in jobs]
        text = "\n".join(lines) or "No sub-agent works in the background."
        return ToolOutput(text=text, metadata=metadata(counted(len(jobs), "sub-agent")))
    job = ctx.agents.get(args.task_id)
    with trio.move_on_after(args.wait):
        await job.finished.wait()
    await trio.lowlevel.checkpoint()
    return _output(job)


async def task_stop(args: TaskStop, ctx: ToolContext) -> ToolOutput:
    """Stop a sub-agent. Always a checkpoint; if cancelled, it still ends."""
    job = ctx.agents.get(args.task_id)
    job.stop()
    await job.finished.wait()
    await trio.lowlevel.checkpoint()
    return _output(job)


def _output(job: AgentJob) -> ToolOutput:
    if job.result is not None:
        text = render_result(job.agent, job.result)
    elif job.is_running:
        text = f"{job.agent}: {job.status_text}."
        if job.last_text:
            text = f"{job.agent}: {job.status_text}. Its last message:\n{job.last_text}"
    else:
        text = f"{job.agent} did not start: {job.error}."
    return ToolOutput(
        text=text,
        metadata=metadata(f"{job.agent}: {job.status_text}", task_id=job.session_id, running=job.is_running),
        changed=(),
    )


def _need_of_output(args: TaskOutput) -> Need:
    return Need(permission="task_output", patterns=() if args.task_id is None else (args.task_id,), is_own=True)


def _need_of_stop(args: TaskStop) -> Need:
    return Need(
        permission="task_stop", patterns=(args.task_id,), detail=f"stop the sub-agent {args.task_id}", is_own=True
    )


TASK_OUTPUT: Final = tool(
    name="task_output",
    description=description("task_output", max_wait=MAX_WAIT),
    read_only=True,
    need=_need_of_output,
    permission="task_output",
)(task_output)
TASK_STOP: Final = tool(
    name="task_stop", description=description("task_stop"), need=_need_of_stop, permission="task_stop"
)(task_stop)


def task_tools(agents: Agents | tuple[Agent, ...]) -> tuple[Tool, ...]:
    """Return a `task` that may run sub-agents in the background, and the two tools for these."""
    return task_tool(agents, background=True), TASK_OUTPUT, TASK_STOP
