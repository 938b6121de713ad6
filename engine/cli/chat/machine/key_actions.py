"""What keys and commands do in the composer, apart from editing its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from engine.cli.chat.editor.key_decoder import Key
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_contents import ChatContents
from engine.cli.chat.machine.completion import common_prefix, completion_at
from engine.cli.chat.machine.dialogs import COMMANDS, HISTORY, Dialogs
from engine.cli.chat.machine.message_sender import MessageSender
from engine.cli.chat.machine.pasted_path import pasted_image
from engine.cli.chat.machine.picker import PickerItem, PickerRequest
from engine.cli.chat.machine.shell_run import shell_command
from engine.cli.chat.machine.slash_commands import find_command, is_command_line, is_no_message, matching_commands

# Ctrl-C at an empty prompt: a second one within this time leaves.
LEAVE_SECONDS: Final = 2.0
# Esc at an empty prompt: a second one within this time rewinds.
ESCAPE_SECONDS: Final = 0.6
# What Shift+Tab goes through; never the one that allows everything.
_PROFILES: Final = ("ask", "auto-edit", "read-only")


@attrs.define(eq=False)
class KeyActions:
    """The actions by the names of their keys.

    Attributes:
        leave_before: until when a second Ctrl-C leaves.
    """

    _chat: ChatContents
    _sender: MessageSender
    _dialogs: Dialogs
    _rewind_before: float = attrs.field(default=float("-inf"), init=False)
    _first_key: str = attrs.field(default="", init=False)
    # Ctrl-C has moved the draft into the history: the next Up brings it back.
    _is_put_away: bool = attrs.field(default=False, init=False)
    leave_before: float = attrs.field(default=float("-inf"), init=False)
    _commands: dict[str, Callable[[str], Iterator[do.Effect]]] = attrs.field(init=False)
    _handlers: dict[str, Callable[[float], Iterator[do.Effect]]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._handlers = {
            "send": self.enter,
            "send_later": self._queue,
            "cancel": self._escape,
            "interrupt": self._interrupt,
            "quit": self._quit,
            "complete": self.complete,
            "up": self._up,
            "suspend": self._suspend,
            "redraw": self._redraw,
            "external_editor": self._edit,
            "search_history": self._search,
            "next_profile": self._next_profile,
            "jobs": self._jobs,
            "call_details": self._call_details,
            "paste_image": self._paste_image,
        }

        # The slash commands that the chat itself runs.
        self._commands = {
            "editor": lambda _: self._edit(0.0),
            "cancel": self._cancel_turn,
            "later": self._later,
            "attach": self._attach,
            "add": self._add_output,
            "queue": self._sender.manage,
            "call": lambda _: self._call_details(0.0),
            "answer": self._answer,
            "quit": lambda _: self._dialogs.leave(),
        }

    def press(self, key: Key, now: float) -> Iterator[do.Effect]:
        """Do what *key* means: alone, or after the key that has begun a pair."""
        bindings = self._chat.keys
        keys = f"{self._first_key} {key.name}".strip()
        self._first_key = ""
        if keys == key.name and key.name in bindings.prefixes:
            self._first_key = key.name
            self._chat.notice = f"{key.name} …"
            return
        action = bindings.actions.get(keys, "")
        handler = self._handlers.get(action)
        if handler is not None:
            yield from handler(now)
        else:
            self._chat.composer.perform(action)

    # -- messages and commands -------------------------------------------------------------------

    def enter(self, now: float) -> Iterator[do.Effect]:
        """Send the draft, or run it as a command."""
        del now
        chat = self._chat
        buffer = chat.composer.buffer
        if buffer.text[: buffer.cursor].endswith("\\"):
            buffer.delete_back()
            buffer.insert("\n")
        elif is_command_line(chat.composer.text):
            yield from self._command(chat.composer.text)
        elif chat.composer.text.startswith("!"):
            yield from self._shell(shell_command(chat.composer.text))
        elif not chat.composer.is_empty:
            self._is_put_away = False
            chat.notice = self._sender.warning(chat.composer.text)
            if not chat.notice:
                yield self._sender.send(chat.composer.take())
        elif chat.turn_id is not None:
            yield do.SkipWait(chat.turn_id)
        elif chat.outbox.can_merge:
            yield self._sender.send("")

    def _queue(self, now: float) -> Iterator[do.Effect]:
        composer = self._chat.composer
        if self._chat.turn_id is None or composer.is_empty or is_no_message(composer.text):
            yield from self.enter(now)
        else:
            yield self._sender.queue(composer.take())

    def _up(self, now: float) -> Iterator[do.Effect]:
        del now
        waiting = self._chat.outbox.last_waiting()
        is_put_away, self._is_put_away = self._is_put_away, False
        if self._chat.composer.buffer.text == "" and waiting is not None and not is_put_away:
            yield from self._sender.take_back(waiting)
        else:
            self._chat.composer.perform("up")

    def _shell(self, command: str) -> Iterator[do.Effect]:
        """Run a command of the user's own; it is never sent to the model by itself."""
        chat = self._chat
        if not command:
            chat.notice = "Write a command after the !"
        elif chat.has_running_shell:
            chat.notice = "A command is running. Esc stops it"
        else:
            chat.composer.take()
            yield do.RunShell(command)

    def _add_output(self, argument: str) -> Iterator[do.Effect]:
        """Put the output of the user's last command into the draft."""
        del argument
        chat = self._chat
        if chat.shell is None or not chat.shell.status:
            chat.notice = (
                "A command is running. Esc stops it" if chat.shell else "No command was run: !COMMAND runs one"
            )
        else:
            chat.composer.paste(chat.shell.as_text())
            if chat.is_accessible:
                chat.notice = "The draft ends with the output. An empty line sends it"
        yield from ()

    def _command(self, line: str) -> Iterator[do.Effect]:
        chat = self._chat
        name, _, argument = line.strip()[1:].partition(" ")
        found = find_command(name, chat.commands)
        if isinstance(found, str):
            # It stays in the composer, and is never sent to the model.
            chat.notice = found
            return
        if found.needs_idle and chat.turn_id is not None:
            chat.notice = f"/{found.name} works after this turn"
            return
        chat.composer.take()
        handler = self._commands.get(found.name)
        yield from (
            iter([do.RunCommand(found.name, argument.strip())]) if handler is None else handler(argument.strip())
        )

    def _later(self, argument: str) -> Iterator[do.Effect]:
        self._chat.composer.replace(argument)
        yield from self._queue(0.0)

    def _answer(self, argument: str) -> Iterator[do.Effect]:
        yield from self._dialogs.answer(self._chat.questions.answer_in_words(argument))

    def _cancel_turn(self, argument: str) -> Iterator[do.Effect]:
        del argument
        if self._chat.turn_id is not None:
            yield from self._cancel()
        else:
            self._chat.notice = "No turn is running"

    def _attach(self, argument: str) -> Iterator[do.Effect]:
        yield do.AttachFile(argument) if argument else do.AttachClipboard()

    # -- the turn and the chat -------------------------------------------------------------------

    def _escape(self, now: float) -> Iterator[do.Effect]:
        """Handle Esc: it leaves a question or vi's insert mode, ends a command, cancels the turn; twice, it rewinds."""
        chat, before = self._chat, self._rewind_before
        self._rewind_before = float("-inf")
        if chat.questions.has_focus:
            chat.questions.leave()
        elif chat.composer.vi_escape():
            return
        elif chat.has_running_shell:
            yield do.StopShell()
        elif chat.turn_id is not None:
            yield from self._cancel()
        elif not chat.composer.buffer.text:
            if now < before:
                yield from self._run_available("rewind")
            else:
                self._rewind_before = now + ESCAPE_SECONDS

    def _interrupt(self, now: float) -> Iterator[do.Effect]:
        """Handle Ctrl-C."""
        chat = self._chat
        if chat.has_running_shell:
            yield do.StopShell()
        elif chat.turn_id is not None:
            if chat.phase == "cancelling":
                yield do.Leave(at_once=True)
            else:
                yield from self._cancel()
        elif chat.composer.buffer.text:
            chat.composer.take()
            self._is_put_away = True
            chat.notice = "The draft is cleared" if chat.is_accessible else "Up brings the draft back"
        elif now < self.leave_before:
            yield from self._dialogs.leave()
        else:
            self.leave_before = now + LEAVE_SECONDS
            chat.notice = "Ctrl+C again to quit"

    def _quit(self, now: float) -> Iterator[do.Effect]:
        """Leave; with a draft, delete a character, as Ctrl-D does in a shell."""
        del now
        if self._chat.composer.buffer.text:
            self._chat.composer.perform("delete_forward")
        else:
            yield from self._dialogs.leave()

    def _cancel(self) -> Iterator[do.Effect]:
        assert self._chat.turn_id is not None
        if self._chat.phase != "cancelling":
            self._chat.phase = "cancelling"
            self._sender.note_cancel(self._chat.turn_id)
            yield do.CancelTurn(self._chat.turn_id)

    def _next_profile(self, now: float) -> Iterator[do.Effect]:
        del now
        current = self._chat.facts.profile
        index = _PROFILES.index(current) + 1 if current in _PROFILES else 0
        yield do.RunCommand("profile", _PROFILES[index % len(_PROFILES)])

    def _call_details(self, now: float) -> Iterator[do.Effect]:
        del now
        lines = self._chat.last_call.lines()
        if lines:
            yield do.Print(lines)
        else:
            self._chat.notice = "There was no tool call"

    def _jobs(self, now: float) -> Iterator[do.Effect]:
        del now
        yield from self._run_available("jobs")

    def _run_available(self, name: str) -> Iterator[do.Effect]:
        """Run a command; not every client has all of them."""
        if any(command.name == name for command in self._chat.commands):
            yield do.RunCommand(name, "")
        else:
            self._chat.notice = f"/{name} does not work here"

    # -- help with writing -----------------------------------------------------------------------

    @property
    def can_complete(self) -> bool:
        """Whether there may be something to complete before the cursor."""
        buffer = self._chat.composer.buffer
        commands = matching_commands(self._chat.composer.text, self._chat.commands)
        return bool(commands) or completion_at(buffer.text, buffer.cursor) is not None

    def complete(self, now: float) -> Iterator[do.Effect]:
        """Complete what is before the cursor, or move to the question."""
        chat = self._chat
        buffer = chat.composer.buffer
        commands = matching_commands(chat.composer.text, chat.commands)
        request = completion_at(buffer.text, buffer.cursor)
        if len(commands) == 1:
            chat.composer.replace(f"/{commands[0].name} ")
        elif commands:
            start = f"/{common_prefix([command.name for command in commands])}"
            if start != chat.composer.text:
                chat.composer.replace(start)
            else:
                items = tuple(PickerItem(each.name, f"/{each.name}  {each.summary}") for each in commands)
                yield from self._dialogs.open_picker(PickerRequest(COMMANDS, "Command", items))
        elif request is not None:
            yield do.Complete(request)
        else:
            chat.questions.toggle_focus(now)

    def _search(self, now: float) -> Iterator[do.Effect]:
        """Search the history."""
        del now
        entries = list(dict.fromkeys(reversed(self._chat.composer.history.everywhere)))
        if entries:
            items = tuple(PickerItem(entry, entry) for entry in entries)
            yield from self._dialogs.open_picker(PickerRequest(HISTORY, "History", items))
        else:
            self._chat.notice = "The history is empty"

    def _paste_image(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.AttachClipboard()

    def paste(self, text: str) -> Iterator[do.Effect]:
        """Insert pasted text; the path of an image becomes an attachment."""
        path = pasted_image(text)
        if not text:
            # What many terminals send if the clipboard holds an image.
            yield do.AttachClipboard()
        elif path:
            yield do.AttachFile(path, pasted=text)
        else:
            if text.startswith("!") and self._chat.composer.buffer.cursor == 0:
                # What runs is typed: a page that was copied may begin like that, or Markdown.
                self._chat.composer.insert(" ")
                self._chat.notice = "A pasted ! runs nothing. Remove the blank before it to run it"
            self._chat.composer.paste(text)

    def _edit(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.EditExternally()

    # -- the screen ------------------------------------------------------------------------------

    def _suspend(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.Suspend()

    def _redraw(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.Redraw()
