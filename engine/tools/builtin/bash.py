"""`bash`: run a command line, with its whole process tree.

The working directory stays the same: a `cd` affects its own call only. Rules name files relative to the working directory, so
if the model could change it, permissions for one folder would apply to another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final
from weakref import WeakKeyDictionary

import attrs

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.tools.call_values import MAX_JOBS, Need, ToolOutput
from engine.tools.output.truncate import SHOWN_OF_COMMAND
from engine.tools.tool import Tool, assessed_by, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description

if TYPE_CHECKING:
    from engine.permission.programs.program_registry import ProgramRegistry
    from engine.process.start import Launch
    from engine.tools.builtin.bash_permissions import CommandScan

# Two minutes are enough for most builds; what takes longer belongs into the background.
DEFAULT_TIMEOUT: Final = 120.0
MAX_TIMEOUT: Final = 600.0


@attrs.frozen(eq=False, repr=False)
class Bash(Value):
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
    from engine.process.start import Launch
    from engine.tools.shell_environment import argv

    return await run_command(args, Launch(argv=argv(args.command)), ctx)


async def run_command(args: Bash, launch: Launch, ctx: ToolContext) -> ToolOutput:
    """Do the work of `bash`, with *launch* as how to start what runs the command line."""
    from engine.tools.builtin.bash_run import run_to_end, start_job

    if args.background:
        return await start_job(args.name, args.command, launch, ctx)
    if args.name is not None:
        raise ToolError("Only a background job has a name. Add background=true, or leave the name out.")
    return await run_to_end(launch, ctx, timeout=args.timeout)


@attrs.define(eq=False, repr=False)
class CommandScans:
    """Scans each call's command once, in a thread: whether it may run in parallel, and which rights it needs.

    A scan is kept as long as the arguments of its call.

    Attributes:
        programs: the user's knowledge of programs; None: the built-in one.
        has_box: returns whether a command that only reads can be confined. A checkpoint or not.
    """

    programs: ProgramRegistry | None = None
    has_box: Callable[[], Awaitable[bool]] | None = None
    # By the arguments object of a call, so that a scan is dropped with its call.
    _scans: WeakKeyDictionary[Bash, CommandScan] = attrs.field(
        factory=WeakKeyDictionary["Bash", "CommandScan"], init=False
    )
    _paths: WeakKeyDictionary[Bash, tuple[str, ...]] = attrs.field(
        factory=WeakKeyDictionary["Bash", "tuple[str, ...]"], init=False
    )

    async def assess(self, args: Bash, cwd: str) -> bool:
        """Return whether it may run in parallel with reading calls. A checkpoint; leaves nothing if cancelled."""
        reads_only, scan = await to_thread(_assess, args.command, cwd, self.programs)
        # `need` scans again only if the folders have changed in between.
        self._scans[args] = scan
        return reads_only and not args.background

    async def need(self, args: Bash, ctx: ToolContext) -> Need:
        """Return the rights that it needs. A checkpoint; leaves nothing if cancelled."""
        has_box = self.has_box is not None and await self.has_box()
        need, self._scans[args], self._paths[args] = await ctx.to_thread(
            _need_of, args.command, ctx.cwd, self.programs, self._scans.get(args), has_box
        )
        return need

    def only_reads(self, args: Bash) -> bool:
        """Return whether a command whose rights are known only reads."""
        from engine.permission.shell.scan import reads_only

        scan = self._scans.get(args)
        return scan is not None and reads_only(scan.result)

    def read_paths(self, args: Bash) -> tuple[str, ...]:
        """Return the real paths that a command reads, as far as they are known. Its rights are known, too."""
        return self._paths.get(args, ())


# Both are imported in the thread: importing the parser takes time, and a session may never run a command.


def _assess(command: str, cwd: str, programs: ProgramRegistry | None) -> tuple[bool, CommandScan]:
    from engine.tools.builtin.bash_permissions import reads_only_anywhere, scan_command

    scan = scan_command(command, cwd, programs=programs)
    return reads_only_anywhere(scan, programs), scan


def _need_of(
    command: str,
    cwd: str,
    programs: ProgramRegistry | None,
    earlier: CommandScan | None,
    has_box: bool,  # noqa: FBT001  # for a thread
) -> tuple[Need, CommandScan, tuple[str, ...]]:
    from engine.tools.builtin.bash_permissions import need_of, rescan

    scan = rescan(earlier, command, cwd, programs=programs)
    need = need_of(command, cwd, programs=programs, earlier=scan, has_box=has_box)
    return need, scan, tuple(right.pattern for right in need.rights if right.permission in {"read", "outside"})


def bash_description() -> str:
    """Return the tool's description for the model."""
    return description(
        "bash",
        default_timeout=DEFAULT_TIMEOUT,
        max_timeout=MAX_TIMEOUT,
        max_jobs=MAX_JOBS,
        max_lines=SHOWN_OF_COMMAND.lines,
        max_bytes=SHOWN_OF_COMMAND.size,
    )


def bash_tool(programs: ProgramRegistry | None = None) -> Tool:
    """Make the tool; *programs* is the user's knowledge of programs, by default the built-in one."""
    scans = CommandScans(programs)
    made = tool(
        name="bash", description=bash_description(), safe=False, chain=True, need=scans.need, permission="bash"
    )(bash)
    return assessed_by(made, scans.assess)


BASH = bash_tool()
