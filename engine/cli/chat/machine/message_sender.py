"""Sends what the user has written, queues it, and takes it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_contents import ChatContents
from engine.cli.chat.machine.outbox import OutgoingMessage
from engine.core.ids import InputId


@attrs.define(eq=False)
class MessageSender:
    """Moves messages between the composer, the outbox and the session."""

    _chat: ChatContents
    _new_input_id: Callable[[], str]

    def send(self, text: str) -> do.Effect:
        """Send *text*: to the running turn, or as a prompt together with all that waits."""
        chat, input_id = self._chat, InputId(self._new_input_id())
        if chat.turn_id is not None and not chat.is_cancelling:
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
