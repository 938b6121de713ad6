"""What a chat holds: the parts of the machine share it, and `layout` draws it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

import attrs

from engine.cli.chat.display.styles import wrap_note
from engine.cli.chat.display.transcript_view import TranscriptView
from engine.cli.chat.editor.composer import Composer
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.last_call import LastCall
from engine.cli.chat.machine.outbox import Outbox
from engine.cli.chat.machine.picker import Picker
from engine.cli.chat.machine.question_queue import QuestionQueue
from engine.cli.chat.machine.shell_run import ShellRun
from engine.cli.chat.machine.slash_commands import COMMANDS, SlashCommand
from engine.cli.chat.machine.status_facts import StatusFacts
from engine.cli.chat.machine.sub_agent_rows import SubAgentRows
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line
from engine.config.chat_keys import KeyBindings, bind_keys
from engine.core.ids import InputId, TurnId

_DRAFT_READY: Final = "An empty line sends the draft, what you type is added to it, and Ctrl+C clears it."


def _new_rows(chat: ChatContents) -> SubAgentRows:
    return SubAgentRows(chat.view.symbols)


@attrs.define(eq=False)
class ChatContents:
    """The state of the chat.

    Attributes:
        view: what is shown of the session.
        facts: what the status line tells of it.
        questions: the open questions.
        composer: the draft.
        outbox: the messages that the model has not read.
        notice: a short remark in the status line.
        is_accessible: nothing is redrawn: what changes is printed as lines.
        commands: those that can be typed.
        keys: what the keys do.
        ends_jobs: background commands end when the chat is left.
        last_call: the last tool call.
        sub_agents: the sub-agents that work.
        shell: the command of the user's that runs, or has run last.
        picker: a list that is open.
        turn_id: the turn that runs.
        phase: whether the turn runs, has a cause to end, or is parked: no engine runs it.
    """

    view: TranscriptView
    facts: StatusFacts
    questions: QuestionQueue
    composer: Composer = attrs.field(factory=Composer, kw_only=True)
    outbox: Outbox = attrs.field(factory=Outbox, init=False)
    notice: str = attrs.field(default="", init=False)
    is_accessible: bool = attrs.field(default=False, kw_only=True)
    commands: tuple[SlashCommand, ...] = attrs.field(default=COMMANDS, kw_only=True)
    keys: KeyBindings = attrs.field(factory=lambda: bind_keys({}), kw_only=True)
    ends_jobs: bool = attrs.field(default=False, kw_only=True)
    last_call: LastCall = attrs.field(factory=LastCall, init=False)
    sub_agents: SubAgentRows = attrs.field(default=attrs.Factory(_new_rows, takes_self=True), init=False)
    shell: ShellRun | None = attrs.field(default=None, init=False)
    picker: Picker | None = attrs.field(default=None, init=False)
    turn_id: TurnId | None = attrs.field(default=None, init=False)
    phase: Literal["running", "cancelling", "parked"] = attrs.field(default="running", init=False)

    def draft(self, sending: Collection[InputId] = ()) -> str:
        """Return what the user has written and the session does not have; *sending*: messages that have not reached it."""
        unsent = [
            message.own_text
            for message in self.outbox.messages
            if message.state == "unsent" or message.is_returning or message.input_id in sending
        ]
        return "\n\n".join([*unsent, *([] if self.composer.is_empty else [self.composer.text])])

    @property
    def has_running_shell(self) -> bool:
        """Whether a command of the user's runs."""
        return self.shell is not None and not self.shell.status

    def note(self, text: str) -> do.Effect:
        """Return a remark to print; of several lines, one below the other."""
        first, *rest = text.split("\n")
        lines = [self.noted(first), *(f"  {escape_on_one_line(line)}" for line in rest)]
        return do.Print(tuple(row for line in lines for row in wrap_note(line, self.view.width)))

    def noted(self, text: str) -> str:
        """Return a remark as a line."""
        return f"{self.view.symbols.note} {escape_on_one_line(text)}"


def draft_lines(draft: str) -> tuple[str, ...]:
    """Return a draft as lines to be read where it is not seen; none if there is none."""
    return (*f"Draft: {escape_control_chars(draft)}".split("\n"), _DRAFT_READY) if draft else ()
