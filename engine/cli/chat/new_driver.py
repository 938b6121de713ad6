"""Makes the driver of a chat: on the screen, or in lines."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs

from engine.cli.chat.chat_client import ChatClient
from engine.cli.chat.chat_drafts import ChatDrafts
from engine.cli.chat.chat_driver import ChatDriver, ChatParts
from engine.cli.chat.display.styles import Painter
from engine.cli.chat.display.terminal_mode import RawTerminal
from engine.cli.chat.display.transcript_view import AGAIN, TranscriptView
from engine.cli.chat.line_driver import LineDriver
from engine.cli.chat.line_input import LineInput
from engine.cli.chat.machine.chat_machine import ChatMachine
from engine.cli.chat.machine.question_queue import QuestionQueue
from engine.cli.chat.machine.status_facts import StatusFacts, StatusSetup
from engine.cli.chat.notifier import Notifier
from engine.cli.chat.screen_driver import ScreenDriver
from engine.cli.chat.state_commands import StateCommands
from engine.cli.chat.status_sources import StatusSources
from engine.cli.chat.user_shell import UserShell
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.colours import ColourChoice
from engine.cli.terminal.output import Output
from engine.cli.terminal.standard_streams import standard_output
from engine.cli.terminal.terminal_text import WORDS, symbols_for
from engine.cli.text.styled_text import Style
from engine.cli.text.themes import THEMES
from engine.config.chat_keys import bind_keys
from engine.config.config import Config

_VARIABLE: Final = "ENGINE_ACCESSIBLE"
_ACCESSIBLE: Final = "Accessible mode: nothing is redrawn. Type a line and press Enter."
_HERE: Final = "on this machine, not at the server"


@attrs.frozen(kw_only=True)
class ChatSource:
    """What a chat is about.

    Attributes:
        client: the session.
        commands: its slash commands.
        drafts: where its draft is saved.
        leave_at_once: ends the process without saving.
        heading: the first line.
        notes: what else the user reads at the beginning.
        folder: returns the folder of this machine that the user works in.
        is_remote: the session is at a server: leaving ends nothing there, and the user's own commands run here.
        profile: the permission profile of a session that has none of its own.
        config: the user's configuration.
        effort: the effort that is asked of the model.
        cost_limit: the most dollars that a turn may cost.
    """

    client: ChatClient
    commands: StateCommands
    drafts: ChatDrafts
    leave_at_once: Callable[[int], Awaitable[object]]
    heading: str
    folder: Callable[[], str]
    notes: Sequence[str] = ()
    is_remote: bool = False
    profile: str = ""
    config: Config = attrs.field(factory=Config)
    effort: str = ""
    cost_limit: float | None = None


def is_accessible(configured: bool) -> bool:  # noqa: FBT001  # the value of chat.accessible
    """Return whether the user wants chats in lines: the environment decides, or else the configuration."""
    variable = os.environ.get(_VARIABLE, "")
    return variable != "0" if variable else configured


def new_driver(terminal: RawTerminal | None, source: ChatSource, colour: ColourChoice) -> ChatDriver:
    """Return a driver for a chat on *terminal*; None: in lines."""
    is_accessible = terminal is None
    output = Output.to(standard_output(), "never" if is_accessible else colour)
    symbols = WORDS if is_accessible else symbols_for(output.encoding)
    # The keys of a server are not here.
    env: Mapping[str, str] = {} if source.is_remote else os.environ
    around = Surroundings(env=env, config=source.config, command="chat", again=AGAIN)
    chat = source.config.chat
    painter = Painter(output.palette.is_on, THEMES[chat.theme])
    view = TranscriptView(painter, symbols, output.width, is_accessible, around)
    source.commands.is_linear = is_accessible
    machine = ChatMachine(
        view,
        StatusFacts(
            StatusSetup(
                default_profile=source.profile,
                fields=chat.status,
                cost_limit=source.cost_limit,
                warn_cost=chat.warn_cost,
                sends_after_cancel=chat.after_cancel == "send",
            ),
            model=source.client.state.model,
            effort=source.effort,
        ),
        QuestionQueue(symbols, is_accessible, around),
        lambda: f"input_{secrets.token_hex(8)}",
        is_accessible=is_accessible,
        commands=source.commands.available,
        keys=bind_keys(source.config.keys),
        ends_jobs=not source.is_remote,
    )
    parts = ChatParts(
        machine=machine,
        client=source.client,
        output=output,
        commands=source.commands,
        drafts=source.drafts,
        shell=UserShell(source.folder, source.client.state.session_id, _HERE if source.is_remote else ""),
        leave_at_once=source.leave_at_once,
        sources=StatusSources(machine.facts, source.config, lambda: source.client.state.session_id, source.folder),
        notifier=Notifier(chat.notify, chat.notify_command),
    )
    if terminal is not None and source.config.chat.editor == "vi":
        machine.composer.use_vi()
    if terminal is not None:
        terminal.has_extended_keys = source.config.chat.keys == "extended"
    driver = LineDriver(parts, LineInput(0)) if terminal is None else ScreenDriver(parts, terminal)
    heading = (view.painter.text(line, Style.DIM) for line in (source.heading, *source.notes))
    driver.print_lines([*([_ACCESSIBLE] if is_accessible else []), *heading])
    return driver
