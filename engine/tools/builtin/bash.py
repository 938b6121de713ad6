"""`bash`: a command line, and the whole tree of processes that comes of it."""

from __future__ import annotations

from signal import Signals
from typing import Annotated, Final

import attrs
import trio

from engine.errors import ToolError
from engine.tools.builtin.output import HeadAndTail, LiveOutput
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.context import ToolContext
from engine.tools.process import Finished, run_tree
from engine.tools.schema import doc
from engine.tools.spec import GRACE, Need, ToolOutput, tool

DEFAULT_TIMEOUT: Final = 120.0
MAX_TIMEOUT: Final = 600.0
HEAD_BYTES: Final = 10_240
TAIL_BYTES: Final = 40_960

# The rest of the grace is for telling how it ended, on a machine that is busy.
_PROCESS_GRACE: Final = 0.8 * GRACE


@attrs.frozen
class Bash:
    """Arguments of `bash`."""

    command: Annotated[str, doc("the command line")] = attrs.field(validator=attrs.validators.min_len(1))
    timeout: Annotated[float, doc(f"seconds it may take, at most {MAX_TIMEOUT:g}")] = attrs.field(
        default=DEFAULT_TIMEOUT, validator=[attrs.validators.gt(0), attrs.validators.le(MAX_TIMEOUT)]
    )


async def bash(args: Bash, ctx: ToolContext) -> ToolOutput:
    """Run a command line to its end. Always a checkpoint; if cancelled, all its processes are ended first."""
    kept = HeadAndTail(HEAD_BYTES, TAIL_BYTES)
    live = LiveOutput(lambda text: ctx.progress(output=text))

    def take(chunk: bytes) -> None:
        kept.feed(chunk)
        live.feed(chunk)

    def tell_survivors(finished: Finished) -> None:
        # A cancelled call returns nothing; what it has shown is what is told of it.
        live.flush()
        if not finished.ended:
            ctx.progress(output=_survivors(finished))

    result: Finished | OSError | ValueError
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            result = await run_tree(
                ["bash", "-c", args.command],
                cwd=ctx.cwd,
                marker=ctx.call_id,
                on_output=take,
                on_finish=tell_survivors,
                timeout=args.timeout,
                grace=_PROCESS_GRACE,
            )
        except (OSError, ValueError) as error:  # no bash, no such folder, too long, a zero byte
            result = error
        nursery.cancel_scope.cancel(reason="the command has ended")
    if not isinstance(result, Finished):
        raise ToolError(f"The command could not be started: {result}.") from result
    return report(result, kept.text, args.timeout)


def _need(args: Bash) -> Need:
    return Need(permission="bash", patterns=(args.command,), offers=(args.command,), detail=args.command)


BASH = tool(
    name="bash",
    description=description(
        "bash", default_timeout=DEFAULT_TIMEOUT, max_timeout=MAX_TIMEOUT, kept_kib=(HEAD_BYTES + TAIL_BYTES) / 1024
    ),
    chain=True,
    need=_need,
)(bash)


def report(finished: Finished, output: str, timeout: float) -> ToolOutput:
    """Return what the model reads of a command that has ended: its output, then how it went."""
    ending = _ending(finished, timeout)
    notes = [f"[{ending}, {finished.duration:.1f} s]"]
    if finished.left_behind:
        what = counted(finished.left_behind, "process", "processes")
        notes.append(f"[{what} that it left running had to be ended: nothing outlives the call]")
    if not finished.ended:
        notes.append(_survivors(finished))
    elif not finished.output_complete:
        notes.append("[the end of the output may be missing]")
    body = output if not output or output.endswith("\n") else f"{output}\n"
    return ToolOutput(
        text=(body or "(no output)\n") + "\n".join(notes),
        failed=finished.exit_code != 0 or finished.timed_out,
        metadata=metadata(
            ending, exit_code=finished.exit_code, duration=round(finished.duration, 3), timed_out=finished.timed_out
        ),
    )


def _ending(finished: Finished, timeout: float) -> str:
    if finished.timed_out:
        return f"ended at its timeout of {timeout:g} s"
    if finished.signal is not None:
        return f"killed by {_signal_name(finished.signal)}"
    return f"exit code {finished.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _survivors(finished: Finished) -> str:
    pids = ", ".join(str(stray.pid) for stray in finished.survivors) or "unknown"
    return f"[some of its processes could not be ended and may still run; pids: {pids}]"
