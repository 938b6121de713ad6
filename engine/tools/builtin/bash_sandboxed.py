"""`bash` with boxes: what runs without a question is confined by the kernel, or every command is.

A command that only reads, by the table of programs, runs without a question in a reader box: if the table was wrong, the
command fails, and nothing else happens. With bubblewrap, a sandbox in which only the project can be changed makes other
commands free of questions where the rules say so. To run without a box needs a permission of its own, `unsandboxed`: a
rule that allows a command does not allow it outside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import attrs

from engine.config.sandbox_config import BackendSetting, Sandbox
from engine.core.lazy import regex
from engine.core.permission_types import RequiredRight
from engine.core.schema import doc
from engine.core.threads import to_thread
from engine.permission.verdict_adjustments import UNSANDBOXED
from engine.tools.builtin.bash import Bash, CommandScans, bash_description, run_command
from engine.tools.call_values import Need, ToolOutput
from engine.tools.shell_environment import argv
from engine.tools.tool import Tool, assessed_by, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description

if TYPE_CHECKING:
    from engine.permission.programs.program_registry import ProgramRegistry
    from engine.process.start import Launch
    from engine.sandbox.reader import Backend
    from engine.sandbox.sandbox import SandboxLauncher

_Confined = Literal["reader", "sandbox", "no"]

# Messages of programs that a box hinders.
_NO_WRITING: Final = regex(r"read-only file system|EROFS", re.IGNORECASE)
_NO_NETWORK: Final = regex(
    r"network is unreachable|ENETUNREACH|name resolution|could not resolve|EAI_AGAIN|ENOTFOUND"
    r"|name or service not known|nodename nor servname|no such host|dns error",
    re.IGNORECASE,
)
_REFUSED: Final = regex(r"permission denied|operation not permitted|EACCES|EPERM", re.IGNORECASE)
_WAY_OUT: Final = "with outside_sandbox=true the user is asked to let it run outside]"


@attrs.frozen(eq=False, repr=False)
class SandboxedBash(Bash):
    """Arguments of `bash` with boxes."""

    outside_sandbox: Annotated[bool, doc("run it outside of the sandbox, about which the user is asked")] = False


def sandboxed_bash_tool(sandbox: Sandbox, programs: ProgramRegistry | None = None) -> Tool:
    """Make the tool; *programs* is the user's knowledge of programs, by default the built-in one."""
    work = _SandboxedCommands(sandbox, programs)

    async def bash(args: SandboxedBash, ctx: ToolContext) -> ToolOutput:
        """Run a command line, confined or not. Always a checkpoint; see `bash.bash`."""
        return await work.run(args, ctx)

    lines = [bash_description(), description("bash_confined")]
    if sandbox.backend == "bwrap":
        network = "there is a network" if sandbox.network else "there is no network (not even the user's own servers)"
        lines = [bash_description(), description("bash_boxed", network=network)]
    made = tool(name="bash", description="\n".join(lines), safe=False, chain=True, need=work.need, permission="bash")(
        bash
    )
    return assessed_by(made, work.scans.assess)


@attrs.define(eq=False, repr=False)
class _SandboxedCommands:
    """The work of the tool. What makes boxes is imported at the first command: a session may never run one."""

    _sandbox: Sandbox
    _programs: ProgramRegistry | None
    scans: CommandScans = attrs.field(init=False)
    _launcher: SandboxLauncher | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.scans = CommandScans(self._programs, self._has_box)

    @property
    def _is_always_boxed(self) -> bool:
        return self._sandbox.backend == "bwrap"

    async def need(self, args: SandboxedBash, ctx: ToolContext) -> Need:
        """Return the rights that it needs. A checkpoint; leaves nothing if cancelled."""
        needed = await self.scans.need(args, ctx)
        if self._is_always_boxed:
            facts = {
                "sandboxed": not args.outside_sandbox,
                "network": self._sandbox.network or args.outside_sandbox,
            }
            needed = attrs.evolve(needed, metadata=json.dumps({**json.loads(needed.metadata), **facts}))
        if not args.outside_sandbox:
            # The rules may answer for sandboxed commands what the defaults would ask. Not for a job: what it makes while
            # others work in the project can't be distinguished from what they make.
            is_sandboxed = self._is_always_boxed or await self._has_sandbox()
            return attrs.evolve(needed, sandboxed=is_sandboxed and not args.background)
        # In addition to the command's own rights, and only once: a command outside may do anything.
        way_out = RequiredRight(permission=UNSANDBOXED, pattern=args.command)
        return attrs.evolve(
            needed, permission=UNSANDBOXED, patterns=(args.command,), rights=(way_out, *needed.rights), offers=()
        )

    async def run(self, args: SandboxedBash, ctx: ToolContext) -> ToolOutput:
        """Run a command line. Always a checkpoint; see `bash.bash`."""
        confined, launch = await self._launch(args, ctx)
        if confined == "sandbox" and ctx.confinement == "sandboxed":
            output = await _run_unasked(args, launch, ctx)
        else:
            output = await run_command(args, launch, ctx)
        note = self._note(output, confined) if output.failed else ""
        return attrs.evolve(output, text=f"{output.text}\n{note}") if note else output

    async def _launch(self, args: SandboxedBash, ctx: ToolContext) -> tuple[_Confined, Launch]:
        # Imported here: starting processes is for when one starts.
        from engine.process.start import Launch

        command = argv(args.command)
        if args.outside_sandbox:
            return "no", Launch(argv=command)
        if ctx.confinement == "reading" and self.scans.only_reads(args):
            backend = await self._backend(self._sandbox.backend)
            # Without one it was on the list of commands that need no box.
            if backend is not None:
                from engine.sandbox.reader import launch_reader

                # The thread is abandoned if cancelled: it only reads, or makes the folder for temporary files.
                return "reader", await to_thread(
                    lambda: launch_reader(
                        backend,
                        command,
                        cwd=ctx.cwd,
                        home=str(Path.home()),
                        hidden=self._sandbox.hidden,
                        extra=self.scans.read_paths(args),
                    )
                )
        if self._is_always_boxed or ctx.confinement == "sandboxed":
            return "sandbox", await self._launch_in_sandbox(command, ctx)
        return "no", Launch(argv=command)

    async def _launch_in_sandbox(self, command: Sequence[str], ctx: ToolContext) -> Launch:
        from engine.sandbox.sandbox import SandboxLauncher

        self._launcher = self._launcher or SandboxLauncher(self._sandbox)
        return await self._launcher.launch(command, cwd=ctx.cwd)

    async def _backend(self, wanted: BackendSetting) -> Backend | None:
        from engine.sandbox.backends import choose_backend

        return (await choose_backend(wanted)).backend

    async def _has_box(self) -> bool:
        return await self._backend(self._sandbox.backend) is not None

    async def _has_sandbox(self) -> bool:
        """Return whether commands can run without a question in a sandbox that lets them change the project."""
        return self._sandbox.backend == "auto" and await self._backend("bwrap") is not None

    def _note(self, output: ToolOutput, confined: _Confined) -> str:
        """Return a note if a box may be why a command failed; empty if it looks like something else."""
        no_writing, no_network = _NO_WRITING.search(output.text), _NO_NETWORK.search(output.text)
        if confined == "reader" and (no_writing or no_network or _REFUSED.search(output.text)):
            return (
                "[it ran without a question, so it was confined: it could change nothing, use no network, and read little "
                f"outside of the project; {_WAY_OUT}"
            )
        if confined == "sandbox" and no_writing:
            why = "outside of the project and the temporary folders nothing can be written"
        elif confined == "sandbox" and not self._sandbox.network and no_network:
            why = "there is no network"
        else:
            return ""
        return f"[it ran in a sandbox, where {why}; {_WAY_OUT}"


async def _run_unasked(args: SandboxedBash, launch: Launch, ctx: ToolContext) -> ToolOutput:
    """Run a command that needed no permission. Always a checkpoint.

    What it makes that other programs run by themselves later needs the question that `edit` would have asked. If it is
    not allowed, or this is cancelled, such a file gets another name.
    """
    from engine.sandbox.new_files import NewFileWatch

    watch = await to_thread(lambda: NewFileWatch.begin(ctx.cwd))
    await to_thread(watch.require_protection)

    async def may_keep(made: Sequence[str]) -> bool:
        detail = f"the command has made what other programs run or obey by themselves later: {watch.describe(made)}"
        need = Need(permission="edit", patterns=watch.names(made), detail=detail, paths=tuple(made))
        answer, _ = await ctx.ask(need)
        return answer in {"once", "always"}

    output = await watch.run(lambda: run_command(args, launch, ctx), may_keep)
    if not watch.renamed:
        return output
    note = (
        "[it made files that other programs run or obey by themselves later; that was not allowed, and now they are "
        f"{watch.describe(watch.renamed)}]"
    )
    return attrs.evolve(output, text=f"{output.text}\n{note}")
