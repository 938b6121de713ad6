"""The slash commands that are the same for every client, over the few requests in which clients differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from engine.cli.chat.command_result import CommandResult, printed
from engine.cli.chat.command_texts import cost_lines, help_rows, key_rows
from engine.cli.chat.display.clipboard import code_blocks
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.chat.machine.slash_commands import COMMANDS, HANDLED_BY_THE_CHAT, SlashCommand, is_command_line
from engine.cli.chat.program_commands import ProgramCommands
from engine.cli.chat.rewind_commands import RewindCommands
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line, one_line
from engine.config.chat_config import CHOICES
from engine.config.chat_keys import bind_keys
from engine.config.config import Config
from engine.core.context_report import ContextReport
from engine.core.errors import ConfigError
from engine.core.events import Durable
from engine.core.messages import AssistantMessage, Transcript
from engine.core.threads import to_thread
from engine.export.format_cost import format_cost
from engine.journal.state import SessionState
from engine.permission.rules.profiles import PROFILES
from engine.prompt.command_text import Command, split_words
from engine.prompt.commands import Commands

if TYPE_CHECKING:
    from engine.control.protocol.server_methods import GrantRow
    from engine.permission.grants.grants import Grant

# Without an argument, these do nothing but list what may follow them.
_LISTING: Final = frozenset({"agent", "effort", "model", "profile", "resume", "theme"})
_MAX_SUMMARY: Final = 80
NO_COMMANDS: Final = Commands()
_OWN: Final = "a command of your own"
_WORDS: Final = {"undo": ("force",), "redo": ("force",), "copy": ("code", "diff")}

CommandHandler: TypeAlias = Callable[[str], Awaitable[CommandResult]]


class StateCommands(ABC):
    """Runs commands; a subclass knows how to change its session, and adds commands of its own.

    Attributes:
        is_linear: the chat is in lines: keys are not seen, and a table is read aloud.
    """

    def __init__(self, config: Config, rewinds: RewindCommands, programs: ProgramCommands, own: Commands) -> None:
        """Make it; *own* are those that the user has defined."""
        self.is_linear = False
        # A name that is taken would be ambiguous, and what is no command line would be sent as a message.
        taken = {command.name for command in COMMANDS}
        self._own = {
            command.name: command
            for command in own.available
            if command.name not in taken and is_command_line(f"/{command.name}")
        }
        self._config = config
        self._rewinds = rewinds
        self._programs = programs
        self._keys = bind_keys(config.keys)
        self._handlers: Mapping[str, CommandHandler] = {
            "help": self._help,
            "keys": self._list_keys,
            "status": self._status,
            "cost": self._cost,
            "copy": self._copy,
            "theme": self._theme,
            "model": self._model,
            "profile": self._profile,
            "rename": self._rename,
            "compact": self._compact,
            "context": self._context,
            "diff": rewinds.diff,
            "undo": rewinds.undo,
            "redo": rewinds.redo,
            "rewind": rewinds.rewind,
            "config": programs.config,
            "doctor": programs.doctor,
            "bug": programs.bug,
            "init": programs.init,
            "review": programs.review,
            **self.own_handlers(),
        }

    # -- how clients differ: each is a checkpoint, and raises `EngineError` ----------------------

    @abstractmethod
    def own_handlers(self) -> Mapping[str, CommandHandler]:
        """Return the commands that only this client has, or has in another way. Not a checkpoint."""

    @abstractmethod
    async def models(self) -> Sequence[str]:
        """Return the models that can be used; none if that is not known."""

    @abstractmethod
    async def use_model(self, name: str) -> None:
        """Use another model from now on."""

    @abstractmethod
    async def use_profile(self, name: str) -> None:
        """Use another permission profile from now on."""

    @abstractmethod
    async def set_title(self, title: str) -> None:
        """Give the session a title."""

    @abstractmethod
    async def compact(self, instructions: str) -> None:
        """Summarise the conversation."""

    @abstractmethod
    async def report(self) -> ContextReport:
        """Return what fills the window."""

    @abstractmethod
    async def events(self) -> Sequence[Durable]:
        """Return all that has happened."""

    @property
    @abstractmethod
    def state(self) -> SessionState:
        """The session's state. Not a checkpoint."""

    # -- the commands ----------------------------------------------------------------------------

    @property
    def available(self) -> tuple[SlashCommand, ...]:
        """The commands that can be run here, and those that the user has defined."""
        own = [SlashCommand(each.name, one_line(each.description, _MAX_SUMMARY) or _OWN) for each in self._own.values()]
        return (*(each for each in COMMANDS if each.name in self._handlers or each.name in HANDLED_BY_THE_CHAT), *own)

    async def run(self, name: str, argument: str) -> CommandResult:
        """Run a command. Always a checkpoint. Raises `EngineError`."""
        await trio.lowlevel.checkpoint()
        if name in self._own:
            return self._run_own(self._own[name], argument)
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

    def _run_own(self, command: Command, argument: str) -> CommandResult:
        """Return the prompt that a command of the user's own stands for."""
        agent, model = (escape_on_one_line(each) for each in (command.agent, command.model))
        lines = [f"It asks for the agent {agent}. Next: /agent {agent}"] * (agent not in {"", self.state.agent})
        lines += [f"It asks for the model {model}. Next: /model {model}"] * (model not in {"", self.state.model})
        return CommandResult(prompt=command.render(split_words(argument)), lines=tuple(lines))

    async def _help(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(table=help_rows(self.available, self._keys, is_linear=self.is_linear))

    async def _list_keys(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(table=key_rows(self._keys))

    async def _theme(self, argument: str) -> CommandResult:
        names = CHOICES["theme"]
        if not argument:
            return choose("theme", names)
        if argument not in names:
            raise ConfigError(f"unknown theme {escape_on_one_line(argument)}\nNext: /theme {'|'.join(names)}")
        keep = f"To keep it: engine config set chat.theme {argument}"
        return CommandResult(theme=argument, lines=(f"The theme is {argument}. {keep}",))

    async def _model(self, argument: str) -> CommandResult:
        if argument:
            await self.use_model(argument)
            return CommandResult()
        names = await self.models()
        if not names:
            raise ConfigError("the model's name is missing. Next: /model NAME")
        return choose("model", names, self.state.model)

    async def _profile(self, argument: str) -> CommandResult:
        if not argument:
            return choose("profile", tuple(PROFILES), self.state.profile or self._config.profile or "")
        await self.use_profile(argument)
        return CommandResult()

    async def _rename(self, argument: str) -> CommandResult:
        if not argument:
            raise ConfigError("the title is missing. Next: /rename TITLE")
        await self.set_title(argument)
        return printed("Renamed.")

    async def _compact(self, argument: str) -> CommandResult:
        await self.compact(argument)
        return CommandResult()

    async def _context(self, argument: str) -> CommandResult:
        del argument
        report = await self.report()
        return printed(escape_control_chars(report.as_text(is_linear=self.is_linear)))

    async def _copy(self, argument: str) -> CommandResult:
        words = argument.split()
        if words[:1] == ["diff"]:
            diff = await self._rewinds.diff_text()
            return CommandResult(copied=diff) if diff else printed("No file was changed.")
        return copy_answer(self.state.transcript, words)

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
        return CommandResult(table=tuple((name, escape_on_one_line(value)) for name, value in rows))

    async def _cost(self, argument: str) -> CommandResult:
        del argument
        return CommandResult(lines=tuple(await to_thread(cost_lines, await self.events())))


def grant_line(grant: Grant | GrantRow) -> str:
    """Return what was allowed for longer than a call, as a line."""
    return escape_control_chars(f"  {grant.id}  {grant.permission} {grant.pattern}  ({grant.scope})")


def choose(command: str, names: Sequence[str], current: str = "") -> CommandResult:
    """Return a list of names for a command to choose from."""
    items = tuple(PickerItem(name, name) for name in names)
    return CommandResult(picker=PickerRequest(command, command.capitalize(), items, current=current))


def copy_answer(transcript: Transcript, words: Sequence[str]) -> CommandResult:
    """Return the answer, or the code block of the last one, that *words* name."""
    answers = [m.text for m in transcript if isinstance(m, AssistantMessage) and m.text]
    if not answers:
        return printed("There is no answer to copy.")
    is_code = words[:1] == ["code"]
    number = _number(words[1:] if is_code else words)
    if is_code:
        blocks = code_blocks(answers[-1])
        if not 0 < number <= len(blocks):
            return printed(f"The last answer has {len(blocks)} code {'block' if len(blocks) == 1 else 'blocks'}.")
        return CommandResult(copied=blocks[number - 1])
    if not 0 < number <= len(answers):
        return printed(f"There are {len(answers)} answers to copy: /copy 1 is the last one.")
    return CommandResult(copied=answers[-number])


def _number(words: Sequence[str]) -> int:
    """Return the number that a command was given; 1 without one, 0 if it is none."""
    return (int(words[0]) if words[0].isascii() and words[0].isdigit() else 0) if words else 1
