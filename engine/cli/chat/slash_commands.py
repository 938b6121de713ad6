"""The commands that begin with a slash."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

import attrs

# `/etc/hosts is wrong` is a message: a command's name is followed by a blank or the end.
_COMMAND: Final = re.compile(r"/[a-z][a-z-]*(\s.*)?", re.DOTALL)


@attrs.frozen
class SlashCommand:
    """A command.

    Attributes:
        name: without the slash.
        summary: what it does.
        usage: its arguments.
        needs_idle: it can't run during a turn.
    """

    name: str
    summary: str
    usage: str = ""
    needs_idle: bool = False


COMMANDS: Final = (
    SlashCommand("help", "list the commands and keys"),
    SlashCommand("quit", "leave the chat"),
)


def is_command_line(text: str) -> bool:
    """Return whether *text* is a command and no message."""
    return _COMMAND.fullmatch(text.strip()) is not None


def find_command(name: str) -> SlashCommand | str:
    """Return the command of that name, or why there is none."""
    found = next((command for command in COMMANDS if command.name == name), None)
    if found is not None:
        return found
    close = get_close_matches(name, [command.name for command in COMMANDS], n=1, cutoff=0.5)
    return (
        f"Unknown command /{name}: did you mean /{close[0]}?" if close else f"Unknown command /{name}. /help lists them"
    )
