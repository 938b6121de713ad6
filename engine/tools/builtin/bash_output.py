"""`bash_output`: a background job's output and state."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import attrs
import trio

from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import DEFAULT_JOB_LINES, RECENT_BYTES, Need, ToolOutput
from engine.tools.output.truncate import LIMITS
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description

# As long as a command in the foreground may take.
MAX_WAIT: Final = 600.0
MAX_LIMIT: Final = LIMITS.lines - 10


@attrs.frozen(eq=False, repr=False)
class BashOutput(Value):
    """Arguments of `bash_output`."""

    name: Annotated[str | None, doc("the job; without it, all jobs are listed")] = None
    wait: Annotated[float, doc(f"seconds to wait at most, up to {MAX_WAIT:g}")] = attrs.field(
        default=0.0, validator=[attrs.validators.ge(0), attrs.validators.le(MAX_WAIT)]
    )
    until: Annotated[Literal["output", "end"], doc("what to wait for: new output, or the job's end")] = "output"
    since: Annotated[int | None, doc("show the output from this byte on, instead of what is new")] = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )
    limit: Annotated[int, doc("how many lines to show at most")] = attrs.field(
        default=DEFAULT_JOB_LINES, validator=[attrs.validators.ge(1), attrs.validators.le(MAX_LIMIT)]
    )


async def bash_output(args: BashOutput, ctx: ToolContext) -> ToolOutput:
    """Show a job's new output. Always a checkpoint; if cancelled, the job goes on, and nothing counts as shown."""
    from engine.tools.builtin.job_report import describe_job, find, job_result, list_jobs, shown_to

    if args.name is None:
        await trio.lowlevel.checkpoint()
        return list_jobs(ctx)
    job = find(ctx, args.name)
    seen = shown_to(ctx.shared, job)
    if args.until == "end":
        await job.wait_for_end(args.wait)
    else:
        await job.wait_for_output(seen if args.since is None else args.since, args.wait)
    output = describe_job(job, seen, since=args.since, limit=args.limit)
    return job_result(job, output)


def _need(args: BashOutput) -> Need:
    return Need(permission="bash_output", patterns=() if args.name is None else (args.name,), is_own=True)


BASH_OUTPUT = tool(
    name="bash_output",
    description=description(
        "bash_output", max_wait=MAX_WAIT, default_limit=DEFAULT_JOB_LINES, recent_kib=RECENT_BYTES / 1024
    ),
    read_only=True,
    need=_need,
    permission="bash_output",
)(bash_output)
