"""`engine` with one tool more: it starts a process and then can't be stopped, whatever is cancelled."""

import subprocess
import sys

import attrs
import trio

import engine.cli.run
from engine.cli import main
from engine.process.kill_tree import marked
from engine.tools.shell_environment import marker
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext


@attrs.frozen
class Stubborn:
    """Never stop."""

    sleep: str


def environment(ctx: ToolContext) -> dict[str, str]:
    return marked({"PATH": "/usr/bin:/bin"}, marker(ctx.session_id, ctx.call_id))


@tool
async def stubborn(args: Stubborn, ctx: ToolContext) -> str:
    with subprocess.Popen(["sleep", args.sleep], env=environment(ctx)):  # noqa: ASYNC220
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()
    return ""


if __name__ == "__main__":
    setattr(engine.cli.run, "default_tools", lambda *_: (stubborn,))  # noqa: B010 -- what is imported there is not exported
    sys.exit(main())
