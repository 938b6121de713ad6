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


def help_lines(commands: Iterable[SlashCommand], keys: KeyBindings, *, is_linear: bool) -> tuple[str, ...]:
    """Return the commands and the most important keys, one on each line."""
    rows = [(f"/{command.name} {command.usage}".rstrip(), command.summary) for command in commands]
    rows += [("@path", "add a file to the message"), ("!command", "run a command of your own")]
    if is_linear:
        return tuple(f"{name}: {text}" for name, text in (*rows, *_KEYS_OF_LINES))
    rows += [(", ".join(keys.keys_of(each.name)), each.summary) for each in ACTIONS if not each.is_edit]
    return _columns(rows)


def key_lines(keys: KeyBindings) -> tuple[str, ...]:
    """Return all actions with their keys and summaries, one on each line."""
    return _columns([(each.name, f"{', '.join(keys.keys_of(each.name)) or '-'}: {each.summary}") for each in ACTIONS])


def _columns(rows: list[tuple[str, str]]) -> tuple[str, ...]:
    width = max(len(name) for name, _ in rows)
    return tuple(f"  {name:<{width}}  {text}" for name, text in rows)
