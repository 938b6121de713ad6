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
        case "list" | "search":
            from engine.cli.sessions import listing

            return {"list": listing.list_main, "search": listing.search_main}[name]
        case "show":
            from engine.cli.sessions.showing import main as show

            return show
        case "rename" | "fork" | "delete" | "prune":
            from engine.cli.sessions import keeping

            mains = {"rename": keeping.rename_main, "fork": keeping.fork_main}
            return {**mains, "delete": keeping.delete_main, "prune": keeping.prune_main}[name]
        case "export" | "import" | "share":
            from engine.cli.sessions import moving

            return {"export": moving.export_main, "import": moving.import_main, "share": moving.share_main}[name]
        case "repair":
            from engine.cli.sessions.repairing import main as repair

            return repair
        case _:
            return None


def _usage() -> str:
    width = max(map(len, SUBCOMMANDS))
    lines = "".join(f"  {name:<{width}}  {what}\n" for name, what in SUBCOMMANDS.items())
    return (
        "usage: engine sessions [SUBCOMMAND] [ARGUMENTS]\n\n"
        f"What was said is kept, and this is what can be done with it.\n\nsubcommands:\n{lines}\n"
        "A session is named by its id, by the beginning or the end of that, or by `last`: the newest of this folder.\n"
        "`engine sessions SUBCOMMAND --help` says more about one; `engine run --resume ID` goes on with a session.\n"
    )
