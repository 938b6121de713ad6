"""The command line: `engine COMMAND …`.

Each command is a module of its own, imported when it is called, so that
`engine --version` costs no more than starting Python.
"""

from __future__ import annotations

import sys
from importlib import import_module

from engine.cli.terminal.standard_streams import print_error, print_text
from engine.core.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

USAGE = f"""\
engine {__version__}: a coding agent that can be cancelled at any instant.

usage: engine COMMAND [ARGUMENTS]
       engine --version | --help

commands:
  run          give the agent a task and watch it work
  sessions     list, search, show, export, fork and delete sessions
  stats        show tokens and money spent, by day, model, folder and session
  trace        draw what ran when in a session, as one page for a browser
  models       list the models you can use here, and what the others need
  tools        list the tools that the model can call
  agents       list agents and sub-agents
  permissions  show, explain and check the rules; revoke grants; trust a folder
  serve        serve sessions to clients over a WebSocket, HTTP or a Unix socket
  attach       watch a session of a server, and talk to it
  demo         see it work: offline, without a key, in a scratch folder

`engine COMMAND --help` says more about a command.
"""

# Each of these modules has a function `main`. Names, not functions: importing all commands would slow each one down.
_MODULES: Mapping[str, str] = {
    "run": "engine.cli.run",
    "sessions": "engine.cli.sessions.dispatch",
    "stats": "engine.cli.sessions.stats",
    "trace": "engine.cli.sessions.trace",
    "models": "engine.cli.models",
    "tools": "engine.cli.tools",
    "agents": "engine.cli.agents",
    "permissions": "engine.cli.permissions",
    "serve": "engine.cli.serve",
    "attach": "engine.cli.attach",
    "demo": "engine.cli.demo",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that *argv* names, by default the process's own arguments; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    first = arguments[0] if arguments else ""
    # By hand: importing argparse would take longer than printing the version.
    if first in {"--version", "-V"}:
        return print_text(f"engine {__version__}\n")
    if first in {"--help", "-h", "help"}:
        return print_text(USAGE)
    # To standard error: a script that forgot the command must not take the usage for output.
    if not first:
        print_error(USAGE.rstrip())
        return 2
    if first not in _MODULES:
        print_error(f"engine: unknown command {first!r}; `engine --help` lists the commands")
        return 2
    try:
        command: Callable[[list[str]], int] = import_module(_MODULES[first]).main
        return command(arguments[1:])
    except KeyboardInterrupt:  # before the command catches signals, or after
        return 130
