"""What the model reads of a background job: what is new of its output, and how it is.

What was shown of a job is kept in the shared context, as the number of the first byte that
was not: a call that is cancelled has shown nothing, and the next one shows it again.
"""

from __future__ import annotations

import json
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.core.events import SharedContext
from engine.tools.background_jobs import Job
from engine.tools.call_values import DEFAULT_JOB_LINES, ToolOutput
from engine.tools.output.live_output import without_half
from engine.tools.output.spill import PREFIX
from engine.tools.output.truncate import LIMITS, first_part, last_part
from engine.tools.shell_environment import survivors_of
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, metadata

_SHOWN_BYTES: Final = LIMITS.size - 1_000
_KEY: Final = "job:"


def job_result(job: Job, output: JobOutput) -> ToolOutput:
    """Return a result that shows that output, and remembers that it was shown."""
    return ToolOutput(
        text=output.text,
        modify=Shown(job.name, job.marker, output.shown_to),
        metadata=metadata(f"{job.name}: {job.state}", job=job.name, running=job.is_running),
        is_cut=True,
    )


def list_jobs(ctx: ToolContext) -> ToolOutput:
    """Return a line for each job of the session."""
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


def describe_job(job: Job, seen: int, *, since: int | None = None, limit: int = DEFAULT_JOB_LINES) -> JobOutput:
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
    """Return a note on the output before byte *start* that is not shown, and how to see it."""
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
