"""The user's messages on their way: each is at any time in exactly one place.

A message is on its way to the session (`sending`), waits there (`waiting`), could not be sent (`unsent`), or has been
delivered, removed or taken back into the composer, and then it is not here any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import attrs

from engine.core.events import InputAdmitted, InputEdited, InputPromoted, InputRemoved
from engine.core.ids import InputId
from engine.journal.state import PendingInput

MessageState: TypeAlias = Literal["sending", "waiting", "unsent"]


@attrs.frozen
class OutgoingMessage:
    """A message of the user that the model has not read.

    Attributes:
        mode: before the next request of the turn, or after the turn.
        is_returning: it is being taken back into the composer.
        is_own: it was sent from here.
    """

    input_id: InputId
    text: str
    mode: Literal["prompt", "steer", "queue"]
    state: MessageState
    is_returning: bool = False
    is_own: bool = True


@attrs.define(eq=False)
class Outbox:
    """The messages, in the order in which they were sent."""

    _messages: dict[InputId, OutgoingMessage] = attrs.field(factory=dict[InputId, OutgoingMessage], init=False)
    # Waiting input that was put into a prompt, until the session has removed it.
    _merged: dict[InputId, InputId] = attrs.field(factory=dict[InputId, InputId], init=False)

    @property
    def messages(self) -> tuple[OutgoingMessage, ...]:
        """All of them."""
        return tuple(self._messages.values())

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._messages

    def add(self, message: OutgoingMessage) -> None:
        """Add a message that is being sent."""
        self._messages[message.input_id] = message

    def merge(self, input_id: InputId, text: str) -> tuple[OutgoingMessage, tuple[InputId, ...]]:
        """Put all messages that do not move, and *text*, into one prompt with that id; return it, and what it replaces."""
        parts = [message for message in self._messages.values() if message.state != "sending"]
        for part in parts:
            del self._messages[part.input_id]
            if part.state == "waiting":
                self._merged[part.input_id] = input_id
        texts = [*(part.text for part in parts), *([text] if text.strip() else [])]
        prompt = OutgoingMessage(input_id, "\n\n".join(texts), "prompt", "sending")
        self._messages[input_id] = prompt
        return prompt, tuple(part.input_id for part in parts if part.state == "waiting")

    def fail(self, input_id: InputId) -> OutgoingMessage | None:
        """Note that a message could not be sent; None: it is not on its way."""
        message = self._messages.get(input_id)
        if message is None or message.state != "sending":
            return None
        self._messages[input_id] = unsent = attrs.evolve(message, state="unsent")
        return unsent

    def discard(self, input_id: InputId) -> None:
        """Remove a message: it went to another place."""
        self._messages.pop(input_id, None)

    def last_waiting(self) -> OutgoingMessage | None:
        """Return the message that was sent last, if it can be taken back."""
        movable = [message for message in self._messages.values() if message.state != "sending" and message.is_own]
        return movable[-1] if movable else None

    def begin_return(self, input_id: InputId) -> None:
        """Note that a waiting message is being taken back."""
        self._messages[input_id] = attrs.evolve(self._messages[input_id], is_returning=True)

    def feed(self, event: InputAdmitted | InputEdited | InputPromoted | InputRemoved) -> OutgoingMessage | None:
        """Follow the session; return a message that comes back into the composer."""
        match event:
            case InputAdmitted():
                if event.message.origin != "engine":
                    own = self._messages.get(event.input_id)
                    # Files that the text names were added to it: the user knows what was typed.
                    text = event.message.text if own is None else own.text
                    self._messages[event.input_id] = OutgoingMessage(
                        event.input_id, text, event.mode, "waiting", is_own=own is not None
                    )
            case InputEdited():
                if (edited := self._messages.get(event.input_id)) is not None:
                    self._messages[event.input_id] = attrs.evolve(edited, text=event.message.text)
            case InputPromoted() | InputRemoved():
                self._merged.pop(event.input_id, None)
                gone = self._messages.pop(event.input_id, None)
                if isinstance(event, InputRemoved) and gone is not None and gone.is_returning:
                    return gone
        return None

    def replace(self, inbox: Iterable[PendingInput], delivered: Sequence[InputId] = ()) -> None:
        """Take the session's inbox as it is now; what is on its way or could not be sent stays."""
        waiting = {
            item.input_id: OutgoingMessage(item.input_id, item.message.text, item.mode, "waiting")
            for item in inbox
            if item.message.origin != "engine" and item.input_id not in self._merged
        }
        moving = {
            key: message
            for key, message in self._messages.items()
            if message.state != "waiting" and key not in waiting and key not in delivered
        }
        self._messages = {**waiting, **moving}
