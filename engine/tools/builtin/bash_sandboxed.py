"""`bash` in a sandbox: its commands can change the project only, unless they ask to run outside.

That needs a permission of its own, `unsandboxed`: a rule that allows a command does not allow it outside. Formatters,
hooks, searches and media processing are not the model's commands, and run outside anyway.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Final

import attrs

from engine.config.sandbox_config import Sandbox
from engine.core.permission_types import RequiredRight
from engine.core.schema import doc
from engine.sandbox.sandbox import KEEPERS, SandboxLauncher
from engine.tools.builtin.bash import Bash, CommandScans, bash_description, run_command
from engine.tools.call_values import Need, ToolOutput
from engine.tools.shell_environment import argv
from engine.tools.tool import Tool, assessed_by, tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description

if TYPE_CHECKING:
    from engine.permission.programs.program_registry import ProgramRegistry

OUTSIDE: Final = "unsandboxed"

# Messages of programs that the sandbox hinders.
_NO_WRITING: Final = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_NO_NETWORK: Final = re.compile(
    r"network is unreachable|ENETUNREACH|name resolution|could not resolve|EAI_AGAIN|ENOTFOUND"
    r"|name or service not known|nodename nor servname|no such host|dns error",
    re.IGNORECASE,
)


@attrs.frozen
class SandboxedBash(Bash):
    """Arguments of `bash` with a sandbox."""

    outside_sandbox: Annotated[bool, doc("run it outside of the sandbox, about which the user is asked")] = False


def sandboxed_bash_tool(sandbox: Sandbox, programs: ProgramRegistry | None = None) -> Tool:
    """Make the tool; *programs* is the user's knowledge of programs, by default the built-in one."""
    jail = SandboxLauncher(sandbox)
    scans = CommandScans(programs)

    async def need(args: SandboxedBash, ctx: ToolContext) -> Need:
        needed = await scans.need(args, ctx)
        facts = {"sandboxed": not args.outside_sandbox, "network": sandbox.network or args.outside_sandbox}
        needed = attrs.evolve(needed, metadata=json.dumps({**json.loads(needed.metadata), **facts}))
        # The rules may answer for sandboxed commands what the defaults would ask.
        if not args.outside_sandbox:
            return attrs.evolve(needed, sandboxed=True)
        # In addition to the command's own rights, and only once: a command outside may do anything.
        way_out = RequiredRight(permission=OUTSIDE, pattern=args.command)
        return attrs.evolve(
            needed, permission=OUTSIDE, patterns=(args.command,), rights=(way_out, *needed.rights), offers=()
        )

    async def bash(args: SandboxedBash, ctx: ToolContext) -> ToolOutput:
        """Run a command line, in the sandbox or outside. Always a checkpoint; see `bash.bash`."""
        if args.outside_sandbox:
            return await run_command(args, argv(args.command), ctx)
        command = await jail.argv(argv(args.command), cwd=ctx.cwd)
        output = await run_command(args, command, ctx, keepers=KEEPERS)
        note = _note(output, sandbox) if output.failed else ""
        return attrs.evolve(output, text=f"{output.text}\n{note}") if note else output

    network = "there is a network" if sandbox.network else "there is no network (not even the user's own servers)"
    text = f"{bash_description()}\n{description('bash_boxed', network=network)}"
    made = tool(name="bash", description=text, safe=False, chain=True, need=need, permission="bash")(bash)
    return assessed_by(made, scans.assess)


def _note(output: ToolOutput, sandbox: Sandbox) -> str:
    """Return a note if the sandbox may be why a command failed; empty if it looks like something else."""
    if _NO_WRITING.search(output.text):
        why = "outside of the project and the temporary folders nothing can be written"
    elif not sandbox.network and _NO_NETWORK.search(output.text):
        why = "there is no network"
    else:
        return ""
    return f"[it ran in a sandbox, where {why}; with outside_sandbox=true the user is asked to let it run outside]"
