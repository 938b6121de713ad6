"""What /help prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.cli.chat.machine.slash_commands import SlashCommand

_KEYS: Final = (
    ("Enter", "send; while the agent works, the message is read before its next step"),
    ("Alt+Enter", "send after this turn"),
    ("Ctrl+J", "new line; so is \\ before Enter"),
    ("Esc", "cancel the turn"),
    ("Ctrl+C", "cancel the turn; else clear the draft; twice: quit"),
    ("Ctrl+D", "quit, if the draft is empty"),
    ("Ctrl+Z", "suspend; fg continues"),
    ("Ctrl+G", "write the draft in $EDITOR"),
    ("Ctrl+R", "search the history"),
    ("Shift+Tab", "next permission profile: ask, auto-edit, read-only"),
    ("Up, Down", "move; then the history; on an empty draft, take back the last message"),
    ("Tab", "complete a command; or answer a question"),
    ("@path", "add a file to the message"),
)


def help_lines(commands: Iterable[SlashCommand]) -> tuple[str, ...]:
    """Return the commands and keys, one on each line."""
    rows = [(f"/{command.name} {command.usage}".rstrip(), command.summary) for command in commands]
    width = max(len(name) for name, _ in (*rows, *_KEYS))
    return tuple(f"  {name:<{width}}  {text}" for name, text in (*rows, *_KEYS))
