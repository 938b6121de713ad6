"""`engine sessions …`: what people do with what was said.

Each group of subcommands is a module of its own, imported when one of it is asked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from engine.cli import say
from engine.cli.output import complain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What there is, in the order in which it is told.
SUBCOMMANDS: Final[Mapping[str, str]] = {
    "list": "the sessions of this folder, the newest first (the default)",
    "search": "those in which something was said, or that are called so",
    "show": "all that was said in one",
    "diff": "what a turn did to files",
    "undo": "take back the newest turn, its messages and its changes of files",
    "redo": "let the turn that was undone last count again",
    "restore": "put chosen files back as they were before a turn",
    "context": "what fills the model's window in one",
    "compact": "summarise what is old in one, so that its next request is smaller",
    "uncompact": "take the newest summary back",
    "rename": "give one a title",
    "fork": "begin a new one with the history of another",
    "export": "write one as JSON, Markdown or a web page",
    "import": "take one in that was exported, or any conversation in Markdown",
    "share": "write one as a single web page that needs nothing else",
    "delete": "remove some for good",
    "prune": "remove those in which nothing has happened for long",
    "repair": "put what can be read of a damaged store into a new one",
}
USAGE_ERROR: Final = 2


def main(arguments: list[str]) -> int:
    """Run the subcommand that *arguments* name; return the exit code."""
    first = arguments[0] if arguments else ""
    if first in {"-h", "--help", "help"}:
        return say(_usage())
    if not first or first.startswith("-"):
        first, arguments = "list", ["list", *arguments]
    command = _subcommand(first)
    if command is None:
        close = get_close_matches(first, SUBCOMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else "`engine sessions --help` lists them"
        complain(f"engine sessions: there is no subcommand {first!r}; {hint}")
        return USAGE_ERROR
    return command(arguments[1:])


def _subcommand(name: str) -> Callable[[list[str]], int] | None:
    # Imported when it is asked for: most need little, and some need much.
    match name:
        case "list":
            from engine.cli.sessions.list import list_main as main_of
        case "search":
            from engine.cli.sessions.list import search_main as main_of
        case "show":
            from engine.cli.sessions.show import main as main_of
        case "rename":
            from engine.cli.sessions.manage import rename_main as main_of
        case "fork":
            from engine.cli.sessions.manage import fork_main as main_of
        case "delete":
            from engine.cli.sessions.manage import delete_main as main_of
        case "prune":
            from engine.cli.sessions.manage import prune_main as main_of
        case "export":
            from engine.cli.sessions.transfer import export_main as main_of
        case "import":
            from engine.cli.sessions.transfer import import_main as main_of
        case "share":
            from engine.cli.sessions.transfer import share_main as main_of
        case "repair":
            from engine.cli.sessions.repair import main as main_of
        case _:
            return _of_the_past(name) or _of_the_window(name)
    return main_of


def _of_the_window(name: str) -> Callable[[list[str]], int] | None:
    """Return what looks into a model's window, and makes room in it, if it is that."""
    if name not in {"context", "compact", "uncompact"}:
        return None
    from engine.cli.sessions.context import MAINS

    return MAINS[name]


def _of_the_past(name: str) -> Callable[[list[str]], int] | None:
    """Return what takes turns back, and lets them count again, if it is that."""
    if name not in {"diff", "undo", "redo", "restore"}:
        return None
    from engine.cli.sessions.undo import MAINS

    return MAINS[name]


def _usage() -> str:
    width = max(map(len, SUBCOMMANDS))
    lines = "".join(f"  {name:<{width}}  {what}\n" for name, what in SUBCOMMANDS.items())
    return (
        "usage: engine sessions [SUBCOMMAND] [ARGUMENTS]\n\n"
        f"What was said is kept, and this is what can be done with it.\n\nsubcommands:\n{lines}\n"
        "A session is named by its id, by the beginning or the end of that, or by `last`: the newest of this folder.\n"
        "`engine sessions SUBCOMMAND --help` says more about one; `engine run --resume ID` goes on with a session.\n"
    )
