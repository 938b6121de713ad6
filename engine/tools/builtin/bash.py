"""`bash`: a command line, and the whole tree of its processes.

The working directory stays what it is: a `cd` holds for its own call. Rules name files as
they are seen from the working directory, so if the model could move it, what was allowed
for one folder would be allowed for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final
from weakref import WeakKeyDictionary

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.threads import to_thread
from engine.process.process import FinishedProcess, run_tree
from engine.process.redact import Mask, secrets_in
from engine.tools.background_jobs import MAX_RUNNING
from engine.tools.builtin.bash_output import Shown, describe_job
from engine.tools.call_values import GRACE, Need, ToolOutput
from engine.tools.output.live_output import LiveOutput
from engine.tools.output.spill_writer import CapturedOutput, SpillWriter
from engine.tools.output.truncate import LIMITS, OutputLimits
from engine.tools.shell_environment import argv, ending_of, environment, marker, survivors_of
from engine.tools.tool import Tool, assessed_by, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

if TYPE_CHECKING:
    from engine.permission.programs.program_registry import ProgramRegistry
    from engine.tools.builtin.bash_permissions import CommandScan

DEFAULT_TIMEOUT: Final = 120.0
MAX_TIMEOUT: Final = 600.0
# Leaves room for the notes at the end of a result.
SHOWN: Final = LIMITS.less(OutputLimits(lines=10, size=1_000))

# The rest of the grace is for telling how it ended, on a machine that is busy.
_PROCESS_GRACE: Final = 0.8 * GRACE


@attrs.frozen
class Bash:
    """Arguments of `bash`."""

    command: Annotated[str, doc("the command line")] = attrs.field(validator=attrs.validators.min_len(1))
    timeout: Annotated[
        float, doc(f"seconds it may take, at most {MAX_TIMEOUT:g}; a background job takes as long as it needs")
    ] = attrs.field(default=DEFAULT_TIMEOUT, validator=[attrs.validators.gt(0), attrs.validators.le(MAX_TIMEOUT)])
    background: Annotated[bool, doc("start it as a background job and return at once")] = False
    name: Annotated[str | None, doc("the background job's name; by default job1, job2, and so on")] = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.matches_re(r"[A-Za-z0-9][\w.-]{0,31}"))
    )


async def bash(args: Bash, ctx: ToolContext) -> ToolOutput:
    """Run a command line to its end, or start it as a job. Always a checkpoint.

    If cancelled, all its processes are ended first; a job that has been reported goes on.
    """
    return await run_command(args, argv(args.command), ctx)


async def run_command(args: Bash, command: Sequence[str], ctx: ToolContext, *, keepers: int = 0) -> ToolOutput:
    """Run a command to its end, or start it as a job. Always a checkpoint; see `bash`.

    Args:
        args: what the model asked for.
        command: what runs the command line.
        ctx: the call.
        keepers: processes of *command* itself that stay as long as any other does; they do not count as left behind.
    """
    if args.background:
        return await _start_job(args, command, ctx)
    if args.name is not None:
        raise ToolError("Only a background job has a name. Add background=true, or leave the name out.")
    live = LiveOutput(lambda text: ctx.progress(output=text))
    with SpillWriter(ctx.spills, limits=SHOWN) as kept:
        finished = await _run(args, command, ctx, kept, live)
        captured = await kept.finish()
    left_behind = max(0, finished.left_behind - keepers)
    return report(attrs.evolve(finished, left_behind=left_behind), captured, args.timeout)


async def _run(
    args: Bash, command: Sequence[str], ctx: ToolContext, kept: SpillWriter, live: LiveOutput
) -> FinishedProcess:
    def take(chunk: bytes) -> None:
        kept.feed(chunk)
        live.feed(chunk)

    env = environment()
    mask = Mask(take, secrets_in(env))

    def tell_survivors(finished: FinishedProcess) -> None:
        mask.finish()
        # A cancelled call returns nothing: the model reads its progress instead.
        live.flush()
        if not finished.ended:
            ctx.progress(output=survivors_of(finished))

    result: FinishedProcess | OSError | ValueError
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            result = await run_tree(
                command,
                cwd=ctx.cwd,
                marker=marker(ctx.session_id, ctx.call_id),
                env=env,
                on_output=mask.feed,
                room=kept.room,
                on_finish=tell_survivors,
                timeout=args.timeout,
                grace=_PROCESS_GRACE,
            )
        except (OSError, ValueError) as error:
            result = error
        nursery.cancel_scope.cancel(reason="the command has ended")
    if not isinstance(result, FinishedProcess):
        raise _not_started(result) from result
    return result


async def _start_job(args: Bash, command: Sequence[str], ctx: ToolContext) -> ToolOutput:
    try:
        job = await ctx.jobs.start(
            args.name,
            args.command,
            argv=command,
            cwd=ctx.cwd,
            marker=marker(ctx.session_id, ctx.call_id),
            spills=ctx.spills,
        )
    except (OSError, ValueError) as error:
        raise _not_started(error) from error
    output = describe_job(job, 0)
    hint = "\n[bash_output shows what it writes next, bash_stop ends it]" if job.is_running else ""
    return ToolOutput(
        text=f"The background job {job.name} was started.\n{output.text}{hint}",
        failed=job.finished is not None and job.finished.exit_code != 0,
        modify=Shown(job.name, job.marker, output.shown_to),
        metadata=metadata(f"{job.name}: {job.state}", job=job.name),
        is_cut=True,
    )


def _not_started(error: OSError | ValueError) -> ToolError:
    """Return the error for the model: there is no bash or no such folder, the command is too long or has a zero byte."""
    return ToolError(f"The command could not be started: {error}.")


@attrs.define(eq=False)
class CommandScans:
    """Scans each call's command once, in a thread: for whether it may run with other calls, and for the rights it needs.

    A scan is kept as long as the arguments of its call.
    """

    programs: ProgramRegistry | None = None
    _scans: WeakKeyDictionary[Bash, CommandScan] = attrs.field(
        factory=WeakKeyDictionary["Bash", "CommandScan"], init=False
    )

    async def assess(self, args: Bash, cwd: str) -> bool:
        """Tell whether it may run with other calls that only read. A checkpoint; if cancelled, nothing is left."""
        reads_only, scan = await to_thread(_assess, args.command, cwd, self.programs)
        self._scans[args] = scan
        return reads_only and not args.background

    async def need(self, args: Bash, ctx: ToolContext) -> Need:
        """Return the rights that it needs. A checkpoint; if cancelled, nothing is left."""
        return await ctx.to_thread(_need_of, args.command, ctx.cwd, self.programs, self._scans.get(args))


# Both import in the thread: a parser costs time, and a session may never run a command.


def _assess(command: str, cwd: str, programs: ProgramRegistry | None) -> tuple[bool, CommandScan]:
    from engine.tools.builtin.bash_permissions import reads_only_anywhere, scan_command

    scan = scan_command(command, cwd, programs=programs)
    return reads_only_anywhere(scan, programs), scan


def _need_of(command: str, cwd: str, programs: ProgramRegistry | None, earlier: CommandScan | None) -> Need:
    from engine.tools.builtin.bash_permissions import need_of

    return need_of(command, cwd, programs=programs, earlier=earlier)


def bash_description() -> str:
    """Return what the model reads of the tool."""
    return description(
        "bash",
        default_timeout=DEFAULT_TIMEOUT,
        max_timeout=MAX_TIMEOUT,
        max_jobs=MAX_RUNNING,
        max_lines=SHOWN.lines,
        max_bytes=SHOWN.size,
    )


def bash_tool(programs: ProgramRegistry | None = None) -> Tool:
    """Make the tool; *programs* is what is known of them, by default what everybody's do."""
    scans = CommandScans(programs)
    made = tool(
        name="bash", description=bash_description(), safe=False, chain=True, need=scans.need, permission="bash"
    )(bash)
    return assessed_by(made, scans.assess)


BASH = bash_tool()


def report(finished: FinishedProcess, captured: CapturedOutput, timeout: float) -> ToolOutput:
    """Return what the model reads of a command that has ended: its output, then how it went."""
    ending = ending_of(finished, timeout)
    notes = [f"[{ending}, {finished.duration:.1f} s]"]
    if finished.left_behind:
        what = counted(finished.left_behind, "process", "processes")
        notes.append(f"[{what} that it left running had to be ended. What shall go on needs background=true]")
    if not finished.ended:
        notes.append(survivors_of(finished))
    elif not finished.output_complete:
        notes.append("[the end of the output may be missing]")
    output = captured.text
    body = output if not output or output.endswith("\n") else f"{output}\n"
    return ToolOutput(
        text=(body or "(no output)\n") + "\n".join(notes),
        failed=finished.exit_code != 0 or finished.timed_out,
        metadata=metadata(
            ending, exit_code=finished.exit_code, duration=round(finished.duration, 3), timed_out=finished.timed_out
        ),
        is_cut=captured.is_cut,
    )
