"""`engine sessions …`: dispatch to the subcommands. Their modules are imported when they are called."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Final

from engine.cli.terminal.exit_codes import USAGE_ERROR
from engine.cli.terminal.standard_streams import print_error, print_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# In the order in which the help lists them: the module, its function, the help text.
_SUBCOMMANDS: Final[Mapping[str, tuple[str, str, str]]] = {
    "list": ("list", "list_main", "list the sessions of this folder, newest first (the default)"),
    "search": ("list", "search_main", "find sessions by title or content"),
    "show": ("show", "main", "print a session's conversation"),
    "diff": ("undo", "diff_main", "show how a turn changed files"),
    "undo": ("undo", "undo_main", "undo the newest turn: its messages and its file changes"),
    "redo": ("undo", "redo_main", "redo the turn that was undone last"),
    "restore": ("undo", "restore_main", "restore files as they were before a turn"),
    "versions": ("undo", "versions_main", "list the contents that a file has had, for `restore --version`"),
    "context": ("context", "context_main", "show what fills the model's context window"),
    "compact": ("context", "compact_main", "summarise old messages, so that the next request is smaller"),
    "uncompact": ("context", "uncompact_main", "undo the newest summary"),
    "rename": ("manage", "rename_main", "change a session's title"),
    "fork": ("manage", "fork_main", "start a new session with another one's history"),
    "export": ("export_import", "export_main", "write a session as JSON, Markdown or HTML"),
    "import": ("export_import", "import_main", "import an exported session, or a conversation in Markdown"),
    "share": ("export_import", "share_main", "write a session as one self-contained web page"),
    "delete": ("manage", "delete_main", "delete sessions permanently"),
    "prune": ("manage", "prune_main", "delete sessions that have not been used for a long time"),
    "repair": ("repair", "main", "copy what is readable in a damaged store to a new one"),
}
SUBCOMMANDS: Final = tuple(_SUBCOMMANDS)


def main(arguments: list[str]) -> int:
    """Run the subcommand that *arguments* name; return the exit code."""
    first = arguments[0] if arguments else ""
    if first in {"-h", "--help", "help"}:
        return print_text(_usage())
    # `engine sessions --all` means `engine sessions list --all`.
    if not first or first.startswith("-"):
        first, arguments = "list", ["list", *arguments]
    if first not in _SUBCOMMANDS:
        close = get_close_matches(first, SUBCOMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else "`engine sessions --help` lists them"
        print_error(f"engine sessions: unknown subcommand {first!r}; {hint}")
        return USAGE_ERROR
    module, function, _ = _SUBCOMMANDS[first]
    run_subcommand: Callable[[list[str]], int] = getattr(import_module(f"engine.cli.sessions.{module}"), function)
    return run_subcommand(arguments[1:])


def _usage() -> str:
    width = max(map(len, SUBCOMMANDS))
    lines = "".join(f"  {name:<{width}}  {text}\n" for name, (_, _, text) in _SUBCOMMANDS.items())
    return (
        "usage: engine sessions [SUBCOMMAND] [ARGUMENTS]\n\n"
        f"Work with stored sessions.\n\nsubcommands:\n{lines}\n"
        "Name a session by its id, by the beginning or the end of the id, or by `last`: the newest of this folder.\n"
        "`engine sessions SUBCOMMAND --help` says more about one; `engine run --resume ID` continues a session.\n"
    )
