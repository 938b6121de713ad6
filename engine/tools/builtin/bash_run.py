"""What `bash` does: run a command with the whole tree of its processes, or start it as a background job."""

from __future__ import annotations

import os
from typing import Final

import attrs
import trio

from engine.core.errors import ToolError
from engine.process.redact import Mask, secrets_in
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.start import Launch
from engine.tools.builtin.job_report import Shown, describe_job
from engine.tools.call_values import GRACE, ToolOutput
from engine.tools.output.live_output import LiveOutput
from engine.tools.output.spill_writer import CapturedOutput, SpillWriter
from engine.tools.output.truncate import SHOWN_OF_COMMAND
from engine.tools.shell_environment import ending_of, environment, marker, survivors_of
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, metadata

# The rest of the grace is for telling how it ended, on a machine that is busy.
_PROCESS_GRACE: Final = 0.8 * GRACE


async def run_to_end(launch: Launch, ctx: ToolContext, *, timeout: float) -> ToolOutput:
    """Run a command to its end. Always a checkpoint; if cancelled, all its processes are ended first.

    Args:
        launch: how to start what runs the command line.
        ctx: the call.
        timeout: seconds it may take.
    """
    live = LiveOutput(lambda text: ctx.progress(output=text))
    with SpillWriter(ctx.spills, limits=SHOWN_OF_COMMAND) as kept:
        finished = await _run(launch, ctx, kept, live, timeout)
        captured = await kept.finish()
    # The sandbox's own processes end with the command.
    left_behind = max(0, finished.left_behind - launch.keepers)
    return report(attrs.evolve(finished, left_behind=left_behind), captured, timeout)


async def _run(
    launch: Launch, ctx: ToolContext, kept: SpillWriter, live: LiveOutput, timeout: float
) -> FinishedProcess:
    def take(chunk: bytes) -> None:
        kept.feed(chunk)
        # Two copies: one for the result, truncated at its end, one for people who watch.
        live.feed(chunk)

    env = environment(ctx.secrets)
    # Of the engine's own environment: a command may find a secret that it did not get.
    mask = Mask(take, secrets_in(os.environ, ctx.secrets))

    def tell_survivors(finished: FinishedProcess) -> None:
        mask.finish()
        # A cancelled call returns nothing: the model reads its progress instead.
        live.flush()
        # Processes that survived SIGKILL: stuck in the kernel, or another user's.
        if not finished.ended:
            ctx.progress(output=survivors_of(finished))

    result: FinishedProcess | OSError | ValueError
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            result = await run_tree(
                launch.argv,
                cwd=ctx.cwd,
                marker=marker(ctx.session_id, ctx.call_id),
                env={**env, **launch.environment},
                confine=launch.confine,
                limits=launch.limits,
                on_output=mask.feed,
                room=kept.room,
                on_finish=tell_survivors,
                timeout=timeout,
                grace=_PROCESS_GRACE,
            )
        except (OSError, ValueError) as error:
            # Not raised here: it would become an exception group.
            result = error
        nursery.cancel_scope.cancel(reason="the command has ended")
    if not isinstance(result, FinishedProcess):
        raise _not_started(result) from result
    return result


async def start_job(name: str | None, command_line: str, launch: Launch, ctx: ToolContext) -> ToolOutput:
    """Start a command as a background job. Always a checkpoint; if cancelled, a job that has been reported goes on."""
    try:
        job = await ctx.jobs.start(
            name,
            command_line,
            launch=launch,
            cwd=ctx.cwd,
            marker=marker(ctx.session_id, ctx.call_id),
            spills=ctx.spills,
            secrets=ctx.secrets,
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
    # The notes begin on a line of their own.
    body = output if not output or output.endswith("\n") else f"{output}\n"
    return ToolOutput(
        text=(body or "(no output)\n") + "\n".join(notes),
        failed=finished.exit_code != 0 or finished.timed_out,
        metadata=metadata(
            ending, exit_code=finished.exit_code, duration=round(finished.duration, 3), timed_out=finished.timed_out
        ),
        is_cut=captured.is_cut,
        # A test that fails in the same way is no progress because it took 0.1 s longer.
        produced=f"{body.replace(captured.spill_id, '') if captured.spill_id else body}[{ending}]",
    )
