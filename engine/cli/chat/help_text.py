"""What /help prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.cli.chat.machine.slash_commands import SlashCommand
from engine.config.chat_keys import ACTIONS, KeyBindings

# The terminal itself turns these into a signal and into the end of the input.
_KEYS_OF_LINES: Final = (
    ("Tab, then Enter", "complete the path or command at the end of the line"),
    ("Ctrl+C", "cancel the turn; else clear the draft; twice: quit"),
    ("Ctrl+D", "quit"),
)


def help_rows(commands: Iterable[SlashCommand], keys: KeyBindings, *, is_linear: bool) -> tuple[tuple[str, str], ...]:
    """Return the commands and the most important keys, each with what it does."""
    rows = [(f"/{command.name} {command.usage}".rstrip(), command.summary) for command in commands]
    rows += [("@path", "add a file to the message"), ("!command", "run a command of your own")]
    if is_linear:
        return (*rows, *_KEYS_OF_LINES)
    return (*rows, *((", ".join(keys.keys_of(each.name)), each.summary) for each in ACTIONS if not each.is_edit))


def key_rows(keys: KeyBindings) -> tuple[tuple[str, str], ...]:
    """Return all actions, each with its keys and summary."""
    return tuple((each.name, f"{', '.join(keys.keys_of(each.name)) or '-'}: {each.summary}") for each in ACTIONS)
