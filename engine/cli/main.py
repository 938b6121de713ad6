"""The command line: `engine COMMAND …`.

Each command is a module of its own, imported when it is called, so that `engine --version` costs no more than starting
Python. What the commands are, with all their flags, is in `engine.cli.command_table`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from importlib import import_module

from engine.cli.command_table.command_list import COMMANDS
from engine.cli.completion.print_script import SHELLS, print_script
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.starting_frame import erase_starting_frame, show_starting_frame
from engine.core.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.cli.command_table.command_spec import CommandSpec

_HELP = ("--help", "-h")
# Until its first request `engine run` makes about that many objects that stay. Python would look for garbage among them
# some three hundred times, for a tenth of the time that it takes.
_OBJECTS_TO_START = 200_000
# What commands of other agents are called here.
_ELSEWHERE = {
    "exec": ("run",),
    "login": ("auth", "add", "HOST"),
    "logout": ("auth", "remove", "HOST"),
    "resume": ("chat", "--resume"),
    "update": ("doctor", "--online"),
    "upgrade": ("doctor", "--online"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that *argv* names, by default the process's own arguments; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    first, *rest = arguments or [""]
    if first == "help":
        first, rest = (rest[0], [*rest[1:], "--help"]) if rest else ("--help", [])
    if not first and _has_terminal():
        first = "chat"
    if first not in COMMANDS:
        return _run_without_command(first, rest)
    if sys.platform == "win32":  # before a command imports what only POSIX has
        print_error(
            "engine: Windows is not supported; it works in WSL\nNext: use wsl --install, then install engine there"
        )
        return 2
    if first == "completion" and len(rest) == 1 and rest[0] in SHELLS:
        return print_script(rest[0])
    return _run_collecting_little(first, rest, ends=argv is None)


def _run_collecting_little(name: str, arguments: list[str], *, ends: bool) -> int:
    """Run a command with few collections of garbage; none at the end of a process that *ends* with the command."""
    thresholds = gc.get_threshold()
    if name == "run":
        gc.set_threshold(_OBJECTS_TO_START, *thresholds[1:])
    if ends:
        # Python would look for garbage among all objects once more, which takes longer than to end a turn.
        atexit.register(gc.freeze)
        return _run_guarded(name, arguments)
    try:
        return _run_guarded(name, arguments)
    finally:
        gc.set_threshold(*thresholds)


def _run_guarded(name: str, arguments: list[str]) -> int:
    if name == "chat":
        show_starting_frame(arguments)
    try:
        os.getcwd()  # noqa: PTH109  # pathlib would have to be imported
    except OSError:
        print_error(f"engine {name}: the current directory is gone\nNext: change to another directory")
        return 2
    try:
        return _run(name, arguments)
    except KeyboardInterrupt:  # before the command catches signals, or after
        return 130
    except Exception as error:  # noqa: BLE001  # a fault of the engine: a shell must not take it for a failed task
        from engine.cli.terminal.exit_codes import report_crash

        return report_crash(name, error)
    finally:
        erase_starting_frame()


def _run_without_command(first: str, rest: list[str]) -> int:
    # By hand: importing argparse would take longer than printing the version.
    if first in {"--version", "-V"}:
        return _print_version(rest)
    if first in _HELP:
        return print_text(usage())
    # To standard error: a script that forgot the command must not take the usage for output.
    print_error(_unknown_command([first, *rest]) if first else usage().rstrip())
    return 2


def _has_terminal() -> bool:
    """Return whether a person can chat here."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


def usage() -> str:
    """Return the help of the program as a whole."""
    width = max(map(len, COMMANDS))
    lines = "".join(f"  {name:<{width}}  {summary}\n" for name, (_, _, summary) in COMMANDS.items())
    return (
        f"engine {__version__}: a coding agent that can be cancelled at any instant.\n\n"
        "usage: engine COMMAND [ARGUMENTS]\n"
        "       engine help [COMMAND]\n"
        "       engine --version [--json]\n\n"
        f"commands:\n{lines}\n"
        "More about a command: engine help COMMAND\n"
    )


def _print_version(flags: list[str]) -> int:
    if not flags:
        return print_text(f"engine {__version__}\n")
    if flags != ["--json"]:
        print_error("engine --version takes no other flag than --json\nNext: engine --help")
        return 2
    # Imported here: these need more than printing a line does.
    from engine.cli.version_record import version_record

    return print_text(version_record())


def _unknown_command(words: list[str]) -> str:
    """Return the message for words of which the first is no command."""
    import shlex

    from engine.cli.flags.arg_types import similar_name

    is_known = words[0].startswith("-") or words[0] in _ELSEWHERE
    similar = "" if is_known else similar_name(words[0], COMMANDS)
    meant = [similar, *words[1:]] if similar and " " not in words[0] else _meant_command(words)
    command = shlex.join(meant) if meant and "".join(words).isprintable() else "--help"
    return f"engine: unknown command {words[0]!r}{similar and f': did you mean {similar}?'}\nNext: engine {command}"


def _meant_command(words: list[str]) -> list[str]:
    """Return the command that users of other agents mean: a flag of the chat, a prompt to print, or a task."""
    from engine.cli.command_table.find_command import load_spec

    first, *rest = words
    if first in {"-p", "--print"}:
        return ["run", *rest]
    if first in _ELSEWHERE:
        return [*_ELSEWHERE[first], *(rest if first in {"exec", "resume"} else ())]
    if first.startswith("-"):
        flag = first.partition("=")[0]
        return ["chat", *words] if any(flag in each.names for each in load_spec("chat").flags) else []
    is_sentence = " " in " ".join(words) and not any(word.startswith("-") for word in rest)
    return ["run", " ".join(words)] if is_sentence else []


def _run(name: str, arguments: list[str]) -> int:
    """Run a command; its module, and those of its flags, are imported only now."""
    from engine.cli.command_table.find_command import find_subcommand, load_spec
    from engine.core.errors import ConfigError

    spec = load_spec(name)
    try:
        spec, arguments = find_subcommand(spec, arguments)
    except ConfigError as error:
        print_error(f"engine {name}: {error}")
        return 2
    if not spec.run or not {*_HELP}.isdisjoint(arguments):
        code = _help(spec, arguments)
        if code is not None:
            return code
    module, _, function = spec.run.partition(":")
    command: Callable[[list[str]], int] = getattr(import_module(module), function)
    return command(arguments)


def _help(spec: CommandSpec, arguments: list[str]) -> int | None:
    """Print the help without importing the command; None if the arguments do not ask for it."""
    from engine.cli.command_table.command_parser import SpecParser
    from engine.cli.terminal.exit_codes import run_command
    from engine.core.errors import ConfigError

    def run() -> int:
        SpecParser(spec).parse(arguments)
        raise ConfigError(f"the subcommand is missing\nNext: engine {spec.name} --help")

    if not spec.run:
        return run_command(spec.name, run)
    try:
        SpecParser(spec).parse(arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0
    except ConfigError:  # the command reports it in its own way
        return None
    return None
