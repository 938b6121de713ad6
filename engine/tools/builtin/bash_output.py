"""`bash_output`: what a background job has written, and how it is.

What was shown of a job is kept in the shared context, as the number of the first byte that
was not: a call that is cancelled has shown nothing, and the next one shows it again.
"""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.events import SharedContext
from engine.core.schema import doc
from engine.tools.background_jobs import RECENT_BYTES, Job
from engine.tools.call_values import Need, ToolOutput
from engine.tools.output.live_output import without_half
from engine.tools.output.spill import PREFIX
from engine.tools.output.truncate import LIMITS, first_part, last_part
from engine.tools.shell_environment import survivors_of
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

MAX_WAIT: Final = 600.0
DEFAULT_LIMIT: Final = 300
MAX_LIMIT: Final = LIMITS.lines - 10

_SHOWN_BYTES: Final = LIMITS.size - 1_000
_KEY: Final = "job:"


@attrs.frozen
class BashOutput:
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
        default=DEFAULT_LIMIT, validator=[attrs.validators.ge(1), attrs.validators.le(MAX_LIMIT)]
    )


async def bash_output(args: BashOutput, ctx: ToolContext) -> ToolOutput:
    """Show what is new of a job. Always a checkpoint; if cancelled, the job goes on, and nothing counts as shown."""
    if args.name is None:
        await trio.lowlevel.checkpoint()
        return _list(ctx)
    job = find(ctx, args.name)
    seen = shown_to(ctx.shared, job)
    if args.until == "end":
        await job.wait_for_end(args.wait)
    else:
        await job.wait_for_output(seen if args.since is None else args.since, args.wait)
    output = describe_job(job, seen, since=args.since, limit=args.limit)
    return ToolOutput(
        text=output.text,
        modify=Shown(job.name, job.marker, output.shown_to),
        metadata=metadata(f"{job.name}: {job.state}", job=job.name, running=job.is_running),
        is_cut=True,
    )


def _list(ctx: ToolContext) -> ToolOutput:
    jobs = ctx.jobs.all()
    lines = [
        f"{job.name}: {job.state}, {job.output.total - shown_to(ctx.shared, job):,} bytes not shown yet: {_brief(job)}"
        for job in jobs
    ]
    text = "\n".join(lines) or "There are no background jobs. Start one with bash and background=true."
    return ToolOutput(text=text, metadata=metadata(counted(len(jobs), "job")))


def _brief(job: Job) -> str:
    command = " ".join(job.command.split())
    return command if len(command) <= 100 else f"{command[:100]}…"


def _need(args: BashOutput) -> Need:
    return Need(permission="bash_output", patterns=() if args.name is None else (args.name,), is_own=True)


BASH_OUTPUT = tool(
    name="bash_output",
    description=description(
        "bash_output", max_wait=MAX_WAIT, default_limit=DEFAULT_LIMIT, recent_kib=RECENT_BYTES / 1024
    ),
    read_only=True,
    need=_need,
    permission="bash_output",
)(bash_output)


# ---- for the other tools of jobs -------------------------------------------------------------------------------------


@attrs.frozen
class JobOutput:
    """What is shown of a job, and up to which byte of its output."""

    text: str
    shown_to: int


def find(ctx: ToolContext, name: str) -> Job:
    """Return the session's job of that name. Raises `ToolError`."""
    try:
        return ctx.jobs.get(name)
    except ToolError as error:
        if not ctx.shared.get(_KEY + name):
            raise
        raise ToolError(f"{error} {name} ended long ago, or with the engine that ran it; its output is gone.") from None


def describe_job(job: Job, seen: int, *, since: int | None = None, limit: int = DEFAULT_LIMIT) -> JobOutput:
    """Return the newest output after byte *seen*, or the first from *since* on, and how the job is."""
    position = seen if since is None else min(since, job.output.total)
    begin = max(position, job.output.first)
    new = job.output.since(begin)
    if job.is_running:
        new = without_half(new)
    new_end = begin + len(new)
    if since is None:
        part = last_part(new, limit, _SHOWN_BYTES)
        start, end = new_end - len(part), new_end
    else:
        part = first_part(new, limit, _SHOWN_BYTES)
        start, end = begin, begin + len(part)
    output = part.decode(errors="replace").removesuffix("\n")
    texts = (
        _not_shown(job, position, start),
        output if part else "(no new output)",
        f"[{new_end - end:,} bytes more; since={end} shows them]" if end < new_end else "",
        *_notes(job),
    )
    return JobOutput("\n".join(filter(None, texts)), end)


def shown_to(shared: SharedContext, job: Job) -> int:
    """Return the number of the first byte of the job's output that was not shown."""
    marker, number = json.loads(shared.get(_KEY + job.name, '["", 0]'))
    return number if marker == job.marker else 0


@attrs.frozen
class Shown:
    """A modifier of the shared context: the output of a job was shown up to that byte."""

    name: str
    marker: str
    number: int

    def __call__(self, shared: SharedContext) -> SharedContext:
        """Return the context that knows it."""
        marker, number = json.loads(shared.get(_KEY + self.name, '["", 0]'))
        newest = max(number, self.number) if marker == self.marker else self.number
        return shared.with_value(_KEY + self.name, json.dumps([self.marker, newest]))


def _not_shown(job: Job, position: int, start: int) -> str:
    """Say what before byte *start* is not shown, and how to see it."""
    if start <= position:
        return ""
    what = f"{start - position:,} bytes before this are not shown"
    if position >= job.output.first:
        return f"[{what}; since={position} shows them]"
    if start > job.output.first:
        return f"[{what}; since={job.output.first} shows the newest of them]"
    return f"[{what}]"


def _notes(job: Job) -> list[str]:
    """Say how the job is."""
    notes = [f"[{job.name}: {job.state}]"]
    if job.finished is not None and not job.is_running:
        if job.finished.left_behind:
            what = counted(job.finished.left_behind, "process", "processes")
            notes.append(f"[{what} that it left running had to be ended]")
        if not job.finished.ended:
            notes.append(survivors_of(job.finished))
    if job.trouble:
        notes.append(f"[something went wrong in the engine: {job.trouble}]")
    if job.captured is not None and job.captured.spill_id:
        notes.append(f'[all of its output: read with path="{PREFIX}{job.captured.spill_id}"]')
    return notes
