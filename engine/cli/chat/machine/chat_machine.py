"""The chat as a pure machine: keys and events go in, lines to print and things to do come out.

It decides who gets a key or a line (a list, a question, or the composer); its parts decide what that does. `layout` draws
the state that it holds; a driver carries out its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

import attrs

from engine.cli.chat.editor.key_decoder import Key, KeyInput, PastedText, TypedText
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_contents import ChatContents, draft_lines
from engine.cli.chat.machine.chat_events import ChatEvent, ChatRemark, ParkedTurn
from engine.cli.chat.machine.completion import CompletionRequest
from engine.cli.chat.machine.dialogs import Dialogs
from engine.cli.chat.machine.key_actions import KeyActions
from engine.cli.chat.machine.message_sender import MessageSender
from engine.cli.chat.machine.picker import Chosen, Closed, Picker, PickerItem, PickerRequest
from engine.cli.chat.machine.session_follower import SessionFollower
from engine.cli.chat.machine.shell_run import ShellRun, heading
from engine.cli.chat.machine.slash_commands import is_known_command, is_no_message
from engine.core import events as ev
from engine.core.ids import InputId

# The draft was finished with these: the key was the last one of it.
_SENDING: Final = (do.SendPrompt, do.SendSteer, do.SendQueued, do.RunCommand)


@attrs.define(eq=False)
class ChatMachine(ChatContents):
    """The state of the chat, and what changes it."""

    _new_input_id: Callable[[], str]
    _dialogs: Dialogs = attrs.field(init=False)
    _sender: MessageSender = attrs.field(init=False)
    _actions: KeyActions = attrs.field(init=False)
    _follower: SessionFollower = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._dialogs = Dialogs(self)
        self._sender = MessageSender(self, self._new_input_id)
        self._actions = KeyActions(self, self._sender, self._dialogs)
        self._follower = SessionFollower(self, self._sender)

    # -- what comes in -----------------------------------------------------------------------------

    def handle_key(self, event: KeyInput, now: float) -> list[do.Effect]:
        """Handle a key, typed text or a paste; *now* is a monotonic time."""
        # The last remark has been read.
        self.notice = ""
        return list(self._input(event, now))

    def handle_line(self, line: str, now: float) -> list[do.Effect]:
        """Handle a whole line, where keys are not seen."""
        self.notice = ""
        if self.picker is not None and not is_known_command(line, self.commands):
            return self._pick(self.picker.choose_line(line))
        # A user who types a command has left the list.
        self.picker: Picker | None = None
        if line.endswith("\t") and (effects := self._complete_line(line.rstrip("\t"), now)) is not None:
            return effects
        if is_no_message(line):
            # The draft stays as it is.
            draft = self.composer.text
            self.composer.replace(line)
            done = list(self._actions.enter(now))
            if self.composer.is_empty or self.composer.text == line:
                self.composer.replace(draft)
            elif draft:
                self.composer.replace(f"{draft}\n{self.composer.text}")
            return done
        outcome = self.questions.choose_line(line, now)
        if outcome is not None:
            return list(self._dialogs.answer(outcome))
        if line.strip():
            draft = self.composer.text
            self.composer.replace(line if self.composer.is_empty else f"{draft}\n{line}")
        return list(self._actions.enter(now))

    def _pick(self, outcome: Chosen | Closed | list[str]) -> list[do.Effect]:
        draft = self.composer.text
        done = list(self._dialogs.pick(outcome))
        return done if self.composer.text == draft else [*done, *self.show_draft()]

    def _complete_line(self, line: str, now: float) -> list[do.Effect] | None:
        """Complete a line that ends with Tab: it is the draft then. Return None if there is nothing to complete."""
        draft = self.composer.text
        if draft and is_no_message(line):
            return [self.note("A draft is kept. Send it with an empty line first, or clear it with Ctrl+C.")]
        # Without a text of its own, it goes on completing the draft.
        self.composer.replace("\n".join(filter(None, (draft, line))))
        if not self._actions.can_complete:
            self.composer.replace(draft)
            return None
        effects = list(self._actions.complete(now))
        return effects or self.show_draft()

    def show_draft(self) -> list[do.Effect]:
        """Print the draft, if it is not seen."""
        lines = draft_lines(self.composer.buffer.text)
        return [do.Print(lines)] if lines and self.is_accessible else []

    def handle_event(self, event: ChatEvent, now: float) -> list[do.Effect]:
        """Handle an event of the session."""
        if isinstance(event, ChatRemark):
            return [self.note(event.text)]
        if isinstance(event, ParkedTurn):
            self._follower.park(is_parked=event.is_parked)
            return [self.note(event.text)] if event.text else []
        lines = self._follower.follow(event)
        has_draft = bool(self.composer.buffer.text)
        shown, typed = self.questions.show_next(now, has_draft=has_draft, has_little_room=self.view.has_little_room)
        self.composer.type(typed)
        effects: list[do.Effect] = [do.Print((*lines, *shown))] if lines or shown else []
        if isinstance(event, ev.TurnEnded) and self._sender.sends_after(event):
            effects.append(self._sender.send(""))
        return effects

    def handle_failure(self, failure: do.EffectFailure) -> list[do.Effect]:
        """Handle that something could not be done."""
        effect = failure.effect
        if isinstance(effect, (do.AnswerTool, do.Recover, do.ReplyPermission)):
            self._dialogs.reopen(effect)
        elif isinstance(effect, (do.SendPrompt, do.SendSteer, do.SendQueued)):
            return self._sender.fail(effect, failure)
        return [self.note(failure.message)]

    def end(self, unsent: Iterable[do.Send], inbox: Collection[InputId]) -> list[do.Effect]:
        """Put what the session does not have back into the draft, as the chat is over.

        Args:
            unsent: what has not been done.
            inbox: the messages that wait in the session.
        """
        effects: list[do.Effect] = []
        for effect in unsent:
            effects += self._sender.fail(effect, do.EffectFailure(effect, "the chat is over. It is in the draft"))
        for message in self.outbox.end_returns(inbox):
            self._sender.put_back(message)
        return effects

    def begin_shell(self, command: str, remark: str, now: float) -> list[do.Effect]:
        """Handle that a command of the user's begins; *now* is in seconds since the epoch."""
        self.shell: ShellRun | None = ShellRun(command, now)
        return [do.Print((heading(command, remark),))]

    def feed_shell(self, data: bytes) -> list[do.Effect]:
        """Handle output of the command."""
        lines = [] if self.shell is None else self.shell.feed(data)
        return [do.Print(tuple(lines))] if lines else []

    def end_shell(self, status: str) -> list[do.Effect]:
        """Handle the end of the command."""
        lines = [] if self.shell is None else self.shell.finish(status)
        return [do.Print((*lines, self.noted(f"{status}. /add puts the output into the draft")))]

    def attach(self, path: str, kind: str, size: str) -> None:
        """Put a file into the draft."""
        label = self.composer.attach(path, kind, size)
        if self.is_accessible:
            self.notice = f"{label} goes with your next message."

    def show_candidates(self, request: CompletionRequest, items: Sequence[PickerItem]) -> list[do.Effect]:
        """Complete the draft with one of *items*."""
        effects = self._dialogs.show_candidates(request, items)
        return effects or self.show_draft()

    def open_picker(self, request: PickerRequest) -> list[do.Effect]:
        """Show a list to choose from."""
        return self._dialogs.open_picker(request)

    def send_text(self, text: str) -> list[do.Effect]:
        """Send a text that was not typed: that of a command of the user's own."""
        return [self._sender.send(text)]

    # -- time ------------------------------------------------------------------------------------

    def tick_after(self, now: float) -> float | None:
        """Return after how many seconds the screen changes by itself; None: it does not."""
        if (self.turn_id is not None and self.phase != "parked") or self.has_running_shell:
            return 1.0
        if self.notice and now < self._actions.leave_before:
            return self._actions.leave_before - now
        return None

    def handle_tick(self, now: float) -> None:
        """Let go of what has an end."""
        if now >= self._actions.leave_before > float("-inf"):
            self._actions.leave_before = float("-inf")
            self.notice: str = ""

    # -- keys ------------------------------------------------------------------------------------

    def _input(self, event: KeyInput, now: float) -> Iterator[do.Effect]:
        if self.picker is not None:
            yield from self._dialogs.pick(self.picker.press(event))
        elif self.questions.is_typing:
            yield from self._dialogs.type_answer(event)
        elif isinstance(event, TypedText):
            outcome = self.questions.press(event.text, now, has_draft=bool(self.composer.buffer.text))
            yield from self._dialogs.answer(outcome)
        else:
            if not (isinstance(event, Key) and event.name == "tab"):
                self.composer.type(self.questions.note_typed(now))
            if isinstance(event, PastedText):
                yield from self._actions.paste(event.text)
            else:
                for effect in self._actions.press(event, now):
                    if isinstance(effect, _SENDING):
                        self.questions.note_sent(now)
                    yield effect
