"""Runs slash commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import trio

from engine.cli.chat.slash_commands import COMMANDS

_KEYS = (
    ("Enter", "send; while the agent works, the message is read before its next step"),
    ("Alt+Enter", "send after this turn"),
    ("Ctrl+J", "new line; so is \\ and Enter"),
    ("Esc", "cancel the turn"),
    ("Ctrl+C", "cancel the turn; clear the draft; twice: quit"),
    ("Ctrl+D", "quit, if the draft is empty"),
    ("Ctrl+Z", "suspend"),
    ("Ctrl+G", "write the draft in $EDITOR"),
    ("Up, Down", "move; then the history; on an empty draft, take back the last message"),
    ("Tab", "answer a question"),
)


@final
class CommandRunner:
    """Runs the commands of one chat.

    Attributes:
        is_leaving: the user wants to leave.
    """

    def __init__(self) -> None:
        """Make it."""
        self.is_leaving = False

    async def run(self, name: str, argument: str) -> Sequence[str]:
        """Run a command; return the lines to print. A checkpoint. Raises `EngineError`."""
        del argument
        await trio.lowlevel.checkpoint()
        match name:
            case "quit":
                self.is_leaving = True
                return ()
            case _:
                return _help_lines()


def _help_lines() -> list[str]:
    commands = [(f"/{command.name} {command.usage}".rstrip(), command.summary) for command in COMMANDS]
    width = max(len(name) for name, _ in (*commands, *_KEYS))
    return [f"  {name:<{width}}  {text}" for name, text in (*commands, *_KEYS)]
