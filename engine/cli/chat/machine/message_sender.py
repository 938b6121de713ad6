"""Sends what the user has written, queues it, and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import attrs

from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_contents import ChatContents
from engine.cli.chat.machine.outbox import OutgoingMessage
from engine.cli.chat.machine.status_facts import prompt_cost
from engine.cli.questions.permission_answers import Reply, is_feedback, parse_answer
from engine.cli.questions.permission_view import PermissionView
from engine.cli.terminal.terminal_text import one_line
from engine.core.events import PermissionAsked, TurnEnded
from engine.core.ids import InputId, TurnId


@attrs.define(eq=False)
class MessageSender:
    """Moves messages between the composer, the outbox and the session."""

    _chat: ChatContents
    _new_input_id: Callable[[], str]
    _warned_of: str = attrs.field(default="", init=False)
    # Cancelled here, and not by another client of the session.
    _cancelled: TurnId | None = attrs.field(default=None, init=False)

    def warning(self, text: str) -> str:
        """Return why a prompt is not sent before it is confirmed, the first time it is asked about; else nothing."""
        facts = self._chat.facts
        confirmed, self._warned_of = self._warned_of, ""
        if confirmed != text and self._is_answer(text):
            self._warned_of = text
            return "A question waits: Tab, then the key, answers it. Enter again sends this as a message"
        most = facts.setup.warn_cost
        if self._chat.turn_id is not None or most is None or confirmed == text:
            return ""
        cost = prompt_cost(facts, text)
        if cost <= most:
            return ""
        self._warned_of = text
        return f"This would cost at least ${cost:.2f} (chat.warn_cost is ${most:g}). Enter again sends it"

    def _is_answer(self, text: str) -> bool:
        """Return whether *text* would answer the question that is shown, where keys are seen."""
        request = self._chat.questions.current
        if self._chat.is_accessible or not isinstance(request, PermissionAsked):
            return False
        outcome = parse_answer(text, PermissionView.of(request))
        return isinstance(outcome, Reply) and not is_feedback(outcome)

    def send(self, text: str) -> do.Effect:
        """Send *text*: to the running turn, or as a prompt together with all that waits."""
        chat, input_id = self._chat, InputId(self._new_input_id())
        if chat.turn_id is not None and chat.phase != "cancelling":
            chat.outbox.add(OutgoingMessage(input_id, text, "steer", "sending"))
            return do.SendSteer(input_id, chat.turn_id, text)
        if chat.turn_id is not None:
            # The turn is ending: what is sent now waits for the next one.
            return self.queue(text, input_id)
        return do.SendPrompt(input_id, chat.outbox.merge(input_id, text).parts)

    def queue(self, text: str, input_id: InputId | None = None) -> do.Effect:
        """Queue *text* for after the turn."""
        input_id = input_id or InputId(self._new_input_id())
        self._chat.outbox.add(OutgoingMessage(input_id, text, "queue", "sending"))
        return do.SendQueued(input_id, text)

    def note_cancel(self, turn_id: TurnId) -> None:
        """Note that the user cancels a turn."""
        self._cancelled = turn_id

    def sends_after(self, event: TurnEnded) -> bool:
        """Return whether what waits is sent now that a turn has ended: as the user wishes, if it was cancelled here."""
        setup, outbox = self._chat.facts.setup, self._chat.outbox
        return setup.sends_after_cancel and event.turn_id == self._cancelled and outbox.can_merge

    def fail(self, effect: do.Send, failure: do.EffectFailure) -> list[do.Effect]:
        """Handle that a message could not be sent."""
        chat = self._chat
        message = chat.outbox.fail(effect.input_id, failure.removed)
        if message is None:
            return []
        if chat.composer.is_empty:
            # Where it came from: Enter sends it again.
            chat.outbox.discard(effect.input_id)
            chat.composer.replace(message.text)
        if failure.is_turn_over:
            return [chat.note("The turn has ended. Enter sends this as a new message.")]
        return [chat.note(f"Not sent: {failure.message}")]

    def manage(self, argument: str) -> Iterator[do.Effect]:
        """List the messages that wait; or edit, move or remove the one with a number."""
        waiting = [message for message in self._chat.outbox.messages if message.state != "sending"]
        word, _, number = argument.partition(" ")
        if not word:
            is_idle = self._chat.turn_id is None
            lines = (
                f"  {at}  {each.when(is_idle=is_idle)}: {one_line(each.text, 200)}"
                for at, each in enumerate(waiting, 1)
            )
            yield do.Print(tuple(lines) or ("No messages wait.",))
            return
        at = int(number) if number.isascii() and number.isdigit() else 0
        actions: dict[str, Callable[[OutgoingMessage], Iterator[do.Effect]]] = {
            "edit": self.take_back,
            "remove": self._remove,
            "up": partial(self._move_up, waiting),
        }
        if word not in actions or not 0 < at <= len(waiting):
            count = "1 message waits" if len(waiting) == 1 else f"{len(waiting)} messages wait"
            self._chat.notice = f"{count}. Next: /queue, or /queue edit|up|remove NUMBER"
        else:
            yield from actions[word](waiting[at - 1])

    def _remove(self, message: OutgoingMessage) -> Iterator[do.Effect]:
        if message.state == "unsent":
            self._chat.outbox.discard(message.input_id)
        else:
            yield do.TakeBack(message.input_id)

    def _move_up(self, waiting: list[OutgoingMessage], message: OutgoingMessage) -> Iterator[do.Effect]:
        at = waiting.index(message)
        above = waiting[at - 1]
        if at == 0:
            self._chat.notice = "It is the first one"
        elif "unsent" in {message.state, above.state} or message.mode != above.mode:
            self._chat.notice = "Only messages that wait for the same moment change places"
        else:
            yield do.SwapWaiting(above.input_id, message.input_id)

    def take_back(self, message: OutgoingMessage) -> Iterator[do.Effect]:
        """Take a message back into the composer, if the session has it: once that has removed it."""
        chat = self._chat
        if message.state == "unsent":
            chat.outbox.discard(message.input_id)
            chat.composer.replace(message.text)
        elif not message.is_returning:
            chat.outbox.begin_return(message.input_id)
            yield do.TakeBack(message.input_id)

    def put_back(self, message: OutgoingMessage | None) -> None:
        """Put a message that was taken back into the composer, before the draft."""
        composer = self._chat.composer
        if message is None:
            return
        composer.replace(message.text if composer.is_empty else f"{message.text}\n{composer.buffer.text}")
