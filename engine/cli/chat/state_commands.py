"""The slash commands that need nothing but a session's state: they are the same for every client."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import trio

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.chat.display.clipboard import MAX_COPIED_BYTES, code_blocks, copy_sequence
from engine.cli.chat.help_text import help_lines, key_lines
from engine.cli.chat.machine.picker import PickerItem
from engine.cli.chat.machine.slash_commands import COMMANDS, HANDLED_BY_THE_CHAT, SlashCommand
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.config.chat_keys import bind_keys
from engine.config.config import Config
from engine.core.messages import AssistantMessage
from engine.export.format_cost import format_cost
from engine.journal.state import SessionState

# Without an argument, these do nothing but list what may follow them.
_LISTING: Final = frozenset({"agent", "effort", "model", "profile", "resume", "theme"})
_WORDS: Final = {"undo": ("force",), "redo": ("force",), "copy": ("code", "diff")}

CommandHandler: TypeAlias = Callable[[str], Awaitable[CommandResult]]


class StateCommands(ABC):
    """Runs commands; a subclass adds those that change a session."""

    def __init__(self, config: Config) -> None:
        """Make it."""
        self._keys = bind_keys(config.keys)
        self._handlers: Mapping[str, CommandHandler] = {
            "help": self._help,
            "keys": self._list_keys,
            "status": self._status,
            "cost": self._cost,
            "copy": self._copy,
            "quit": self._quit,
            **self.changes(),
        }

    @abstractmethod
    def changes(self) -> Mapping[str, CommandHandler]:
        """Return what changes the session."""

    @property
    @abstractmethod
    def state(self) -> SessionState:
        """The session's state."""

    @property
    def available(self) -> tuple[SlashCommand, ...]:
        """The commands that can be run here."""
        return tuple(each for each in COMMANDS if each.name in self._handlers or each.name in HANDLED_BY_THE_CHAT)

    async def run(self, name: str, argument: str) -> CommandResult:
        """Run a command. Always a checkpoint. Raises `EngineError`."""
        await trio.lowlevel.checkpoint()
        return await self._handlers[name](argument)

    async def arguments(self, name: str) -> Sequence[PickerItem]:
        """Return what may follow a command. Always a checkpoint. Raises `EngineError`."""
        await trio.lowlevel.checkpoint()
        if name in _WORDS:
            return [PickerItem(word, word) for word in _WORDS[name]]
        if name not in _LISTING or name not in self._handlers:
            return ()
        picker = (await self._handlers[name]("")).picker
        return () if picker is None else picker.items

    async def _help(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(lines=help_lines(self.available, self._keys))

    async def _list_keys(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(lines=key_lines(self._keys))

    async def _quit(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(leaves=True)

    async def _copy(self, argument: str) -> CommandResult:
        answers = [m.text for m in self.state.transcript if isinstance(m, AssistantMessage) and m.text]
        if not answers:
            return printed("There is no answer to copy.")
        text, words = answers[-1], argument.split()
        if words[:1] == ["code"]:
            blocks = code_blocks(text)
            number = int(words[1]) if len(words) > 1 and words[1].isdigit() else 1
            if not 0 < number <= len(blocks):
                return printed(f"The last answer has {len(blocks)} code blocks.")
            text = blocks[number - 1]
        if len(text.encode(errors="replace")) > MAX_COPIED_BYTES:
            return printed("That is too long for the terminal's clipboard.")
        return CommandResult(lines=("Sent to the terminal's clipboard.",), raw=copy_sequence(text, os.environ))

    async def _status(self, argument: str) -> CommandResult:
        del argument
        state = self.state
        rows = [
            ("session", state.session_id),
            ("title", state.title or "(none)"),
            ("folder", state.context.cwd),
            ("agent", state.agent or "(default)"),
            ("model", state.model),
            ("turns", str(state.turns)),
            ("tokens", f"{state.usage.total:,}"),
            ("cost", format_cost(state.cost)),
        ]
        return CommandResult(lines=tuple(f"  {name:<8} {escape_on_one_line(value)}" for name, value in rows))

    async def _cost(self, argument: str) -> CommandResult:
        del argument
        usage = self.state.usage
        rows = [
            ("input", f"{usage.input:,}"),
            ("from the cache", f"{usage.cache_read:,}"),
            ("into the cache", f"{usage.cache_write:,}"),
            ("output", f"{usage.output:,}"),
            ("cost", format_cost(self.state.cost)),
        ]
        return CommandResult(lines=tuple(f"  {name:<14} {value:>12}" for name, value in rows))


def file_lines(what: str, files: Sequence[str]) -> list[str]:
    """Return a line for each file."""
    return [f"{what}: {escape_on_one_line(file)}" for file in files]
