"""`bash_stop`: end a background job with its process tree."""

from __future__ import annotations

from typing import Annotated

import attrs
import trio

from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description


@attrs.frozen(eq=False, repr=False)
class BashStop(Value):
    """Arguments of `bash_stop`."""

    name: Annotated[str, doc("the job")]


async def bash_stop(args: BashStop, ctx: ToolContext) -> ToolOutput:
    """End a job. Always a checkpoint; if cancelled, the job still ends."""
    from engine.tools.builtin.job_report import describe_job, find, job_result, shown_to

    job = find(ctx, args.name)
    had_ended = not job.is_running
    job.stop()
    await job.over.wait()
    await trio.lowlevel.checkpoint()
    output = describe_job(job, shown_to(ctx.shared, job))
    result = job_result(job, output)
    return attrs.evolve(result, text=f"{job.name} had ended before.\n{output.text}") if had_ended else result


def _need(args: BashStop) -> Need:
    return Need(
        permission="bash_stop", patterns=(args.name,), detail=f"stop the background job {args.name}", is_own=True
    )


BASH_STOP = tool(name="bash_stop", description=description("bash_stop"), need=_need, permission="bash_stop")(bash_stop)
