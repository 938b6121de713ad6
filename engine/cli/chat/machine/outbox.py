"""The user's messages on their way: each is at any time in exactly one place.

A message is on its way to the session (`sending`), waits there (`waiting`), could not be sent (`unsent`), or has been
delivered, removed or taken back into the composer, and then it is not here any more. Messages that wait can be put into one
prompt; each is in that prompt from then on, unless it is delivered before the session removes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, TypeAlias

import attrs

from engine.core.events import InputAdmitted, InputEdited, InputPromoted, InputRemoved
from engine.core.ids import InputId
from engine.journal.state import PendingInput

MessageState: TypeAlias = Literal["sending", "waiting", "unsent"]


@attrs.frozen
class PromptPart:
    """A part of a prompt.

    Attributes:
        text: the part.
        waiting: the message that it is, while that still waits in the session; None: it is only here.
    """

    text: str
    waiting: OutgoingMessage | None = None


@attrs.frozen
class OutgoingMessage:
    """A message of the user that the model has not read.

    Attributes:
        mode: a prompt, before the next request of the turn, or after the turn.
        is_returning: it is being taken back into the composer.
        is_own: it was sent from here.
        parts: what it was made of.
    """

    input_id: InputId
    text: str
    mode: Literal["prompt", "steer", "queue"]
    state: MessageState
    is_returning: bool = False
    is_own: bool = True
    parts: tuple[PromptPart, ...] = ()

    @property
    def own_text(self) -> str:
        """The text, as far as it is only here."""
        return join_parts(part for part in self.parts if part.waiting is None) if self.parts else self.text

    def when(self, *, is_idle: bool) -> str:
        """Return when the model reads it; *is_idle*: no turn runs."""
        if self.state != "waiting":
            return "not sent" if self.state == "unsent" else "sending"
        if is_idle:
            return "waits (Enter: send)"
        return "before the next step" if self.mode == "steer" else "after this turn"


@attrs.define(eq=False)
class Outbox:
    """The messages, in the order in which they were sent."""

    _messages: dict[InputId, OutgoingMessage] = attrs.field(factory=dict[InputId, OutgoingMessage], init=False)

    @property
    def messages(self) -> tuple[OutgoingMessage, ...]:
        """All of them."""
        return tuple(self._messages.values())

    @property
    def can_merge(self) -> bool:
        """Whether there are messages that a prompt could take along."""
        return any(message.state != "sending" for message in self._messages.values())

    def add(self, message: OutgoingMessage) -> None:
        """Add a message that is being sent."""
        self._messages[message.input_id] = message

    def merge(self, input_id: InputId, text: str) -> OutgoingMessage:
        """Put all messages that do not move, and *text*, into one prompt with that id."""
        resting = [message for message in self._messages.values() if message.state != "sending"]
        for message in resting:
            del self._messages[message.input_id]
        parts = [PromptPart(each.text, each if each.state == "waiting" else None) for each in resting]
        if text.strip():
            parts.append(PromptPart(text))
        prompt = OutgoingMessage(input_id, join_parts(parts), "prompt", "sending", parts=tuple(parts))
        self._messages[input_id] = prompt
        return prompt

    def fail(self, input_id: InputId, removed: Iterable[InputId] = ()) -> OutgoingMessage | None:
        """Note that a message could not be sent; return it, as far as it is only here. None: there is no such message.

        *removed*: parts of it that the session has removed, even if it has not said so yet.
        """
        for part_id in removed:
            self._take_part(part_id, is_delivered=False)
        message = self._messages.get(input_id)
        if message is None or message.state != "sending":
            return None
        del self._messages[input_id]
        # What the session has not removed still waits there.
        for part in message.parts:
            if part.waiting is not None:
                self._messages[part.waiting.input_id] = part.waiting
        text = message.own_text
        if not text:
            return None
        self._messages[input_id] = unsent = attrs.evolve(message, text=text, state="unsent", parts=())
        return unsent

    def discard(self, input_id: InputId) -> None:
        """Remove a message: it went to another place."""
        self._messages.pop(input_id, None)

    def last_waiting(self) -> OutgoingMessage | None:
        """Return the message that was sent last, if it can be taken back."""
        movable = [message for message in self._messages.values() if message.state != "sending" and message.is_own]
        return movable[-1] if movable else None

    def end_returns(self, inbox: Collection[InputId]) -> list[OutgoingMessage]:
        """End all returns: remove and return the messages that are not in the session's *inbox* any more."""
        returning = [each for each in self._messages.values() if each.is_returning]
        for message in returning:
            self._messages[message.input_id] = attrs.evolve(message, is_returning=False)
        gone = [each for each in returning if each.input_id not in inbox]
        for message in gone:
            del self._messages[message.input_id]
        return gone

    def begin_return(self, input_id: InputId) -> None:
        """Note that a waiting message is being taken back."""
        self._messages[input_id] = attrs.evolve(self._messages[input_id], is_returning=True)

    def feed(self, event: InputAdmitted | InputEdited | InputPromoted | InputRemoved) -> OutgoingMessage | None:
        """Follow the session; return a message that was delivered, or that comes back into the composer."""
        match event:
            case InputAdmitted():
                self._admit(event)
            case InputEdited():
                if (edited := self._messages.get(event.input_id)) is not None:
                    self._messages[event.input_id] = attrs.evolve(edited, text=event.message.text)
            case InputPromoted():
                return self._messages.pop(event.input_id, None) or self._take_part(event.input_id, is_delivered=True)
            case InputRemoved():
                gone = self._messages.pop(event.input_id, None)
                self._take_part(event.input_id, is_delivered=False)
                return gone if gone is not None and gone.is_returning else None
        return None

    def replace(self, inbox: Iterable[PendingInput]) -> None:
        """Take the session's inbox as it is now; what is on its way or could not be sent stays."""
        waiting = {
            item.input_id: OutgoingMessage(item.input_id, self._text_of(item), item.mode, "waiting")
            for item in inbox
            if item.message.origin != "engine" and not self._is_part(item.input_id)
        }
        moving = {
            key: message for key, message in self._messages.items() if message.state != "waiting" and key not in waiting
        }
        self._messages = {**waiting, **moving}

    def _admit(self, event: InputAdmitted) -> None:
        if event.message.origin == "engine":
            return
        own = self._messages.get(event.input_id)
        # Files that the text names were added to it: the user knows what was typed.
        text = event.message.text if own is None else own.text
        self._messages[event.input_id] = OutgoingMessage(
            event.input_id, text, event.mode, "waiting", is_own=own is not None
        )

    def _take_part(self, input_id: InputId, *, is_delivered: bool) -> OutgoingMessage | None:
        """A part of a prompt that is on its way has left the session; return it, if it was delivered by itself."""
        for key, message in self._messages.items():
            found = next((p.waiting for p in message.parts if p.waiting and p.waiting.input_id == input_id), None)
            if found is None:
                continue
            parts = [
                attrs.evolve(part, waiting=None) if part.waiting is found else part
                for part in message.parts
                if part.waiting is not found or not is_delivered
            ]
            if parts:
                self._messages[key] = attrs.evolve(message, text=join_parts(parts), parts=tuple(parts))
            else:
                del self._messages[key]
            return found if is_delivered else None
        return None

    def _is_part(self, input_id: InputId) -> bool:
        return any(
            part.waiting is not None and part.waiting.input_id == input_id
            for message in self._messages.values()
            for part in message.parts
        )

    def _text_of(self, item: PendingInput) -> str:
        own = self._messages.get(item.input_id)
        return item.message.text if own is None else own.text


def join_parts(parts: Iterable[PromptPart]) -> str:
    """Return the text of a prompt."""
    return "\n\n".join(part.text for part in parts)
