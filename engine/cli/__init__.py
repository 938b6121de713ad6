"""The command line: `engine COMMAND …`.

Only the standard library's quickest parts are imported here; each command is a
module of its own, imported when it is asked for. So `engine --version` costs
what starting Python costs.
"""

from __future__ import annotations

import sys

from engine.core.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USAGE = f"""\
engine {__version__}: a coding agent that may be cancelled at any instant.

usage: engine COMMAND [ARGUMENTS]
       engine --version | --help

commands:
  run          give the agent a task, and watch it work
  sessions     list, search, show, export, fork and delete what was said
  stats        what was spent, by day, model, folder and session
  models       list the models that can be used here, and what the others lack
  tools        list what the model may call, and what is declared of it
  agents       list who works here: what you talk to, and what that sends for
  permissions  which rules hold here; explain, revoke, lint, trust
  demo         see it work: offline, without a key, in a scratch folder

`engine COMMAND --help` says more about a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that *argv* names, by default the process's own arguments; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    first = arguments[0] if arguments else ""
    if first in {"--version", "-V"}:
        return say(f"engine {__version__}\n")
    if first in {"--help", "-h", "help"}:
        return say(USAGE)
    if not first:
        _say_wrong(USAGE)
        return 2
    try:
        command = _command(first)
        if command is None:
            _say_wrong(f"engine: there is no command {first!r}; `engine --help` lists them\n")
            return 2
        return command(arguments[1:])
    except KeyboardInterrupt:  # before the command has taken it into its own hands, or after
        return 130


def _command(name: str) -> Callable[[list[str]], int] | None:
    match name:
        case "run":
            from engine.cli.run import main as run

            return run
        case "sessions":
            from engine.cli.sessions import main as sessions

            return sessions
        case "stats":
            from engine.cli.sessions.stats import main as stats

            return stats
        case "models":
            from engine.cli.models import main as models

            return models
        case "tools":
            from engine.cli.tools import main as tools

            return tools
        case "agents":
            from engine.cli.agents import main as agents

            return agents
        case "permissions":
            from engine.cli.permissions import main as permissions

            return permissions
        case "demo":
            from engine.cli.demo import main as demo

            return demo
        case _:
            return None


def say(text: str) -> int:
    """Write to standard output, and return the exit code; a reader who has left is no error worth a traceback."""
    if sys.stdout is None:  # it is where it was closed
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        import os

        # So that the interpreter has nothing to flush when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        _say_wrong(f"engine: can't write: {error.strerror}\n")
        return 1
    return 0


def _say_wrong(text: str) -> None:
    if sys.stderr is not None:  # it is where it was closed
        sys.stderr.write(text)
