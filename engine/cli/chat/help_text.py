"""What /help prints."""

from __future__ import annotations

from collections.abc import Iterable

from engine.cli.chat.machine.slash_commands import SlashCommand
from engine.config.chat_keys import ACTIONS, KeyBindings


def help_lines(commands: Iterable[SlashCommand], keys: KeyBindings) -> tuple[str, ...]:
    """Return the commands and the most important keys, one on each line."""
    rows = [(f"/{command.name} {command.usage}".rstrip(), command.summary) for command in commands]
    rows += [(", ".join(keys.keys_of(each.name)), each.summary) for each in ACTIONS if not each.is_edit]
    rows += [("@path", "add a file to the message"), ("!command", "run a command of your own")]
    return _columns(rows)


def key_lines(keys: KeyBindings) -> tuple[str, ...]:
    """Return all actions with their keys and summaries, one on each line."""
    return _columns([(each.name, f"{', '.join(keys.keys_of(each.name)) or '-'}: {each.summary}") for each in ACTIONS])


def _columns(rows: list[tuple[str, str]]) -> tuple[str, ...]:
    width = max(len(name) for name, _ in rows)
    return tuple(f"  {name:<{width}}  {text}" for name, text in rows)
