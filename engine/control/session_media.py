"""Images and files of a session by reference: in place of their content, clients get an address to fetch it from.

A message with a screenshot would otherwise be megabytes in every snapshot.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final, TypeVar

import attrs

from engine.core.events import CallSettled, Durable, InputAdmitted
from engine.core.messages import (
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ResultsMessage,
    Settlement,
    UserMessage,
    UserPart,
)
from engine.journal.state import SessionState

# No base64 begins so.
REFERENCE: Final = "href:"
# What a browser may show. Other content, SVG and HTML above all, could run scripts.
_SHOWN: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})

P = TypeVar("P", ImagePart, FilePart)


@attrs.frozen
class Media:
    """An image or a file.

    Attributes:
        media_type: what to serve it as; one that a browser might run is not named.
        data: its content.
    """

    media_type: str
    data: bytes = attrs.field(repr=False)

    @property
    def is_shown(self) -> bool:
        """Whether a browser may show it."""
        return self.media_type in _SHOWN


def with_references(message: Message, session_id: str) -> Message:
    """Return *message* with an address in place of the content of each image and file: `href:v1/sessions/…`."""
    if isinstance(message, UserMessage):
        return input_with_references(message, session_id)
    if isinstance(message, ResultsMessage) and any(_has_media(each.settlement) for each in message.results):
        results = [attrs.evolve(each, settlement=_settlement(each.settlement, session_id)) for each in message.results]
        return attrs.evolve(message, results=tuple(results))
    return message


def input_with_references(message: UserMessage, session_id: str) -> UserMessage:
    """Return a user's message with addresses: see `with_references`."""
    if not any(isinstance(part, (ImagePart, FilePart)) for part in message.parts):
        return message
    return attrs.evolve(message, parts=tuple([_without_media(part, session_id) for part in message.parts]))


def state_with_references(state: SessionState) -> SessionState:
    """Return *state* with addresses in the input that waits, and in the results of the open step."""
    inbox = tuple(
        [attrs.evolve(each, message=input_with_references(each.message, state.session_id)) for each in state.inbox]
    )
    changed = state if inbox == state.inbox else attrs.evolve(state, inbox=inbox)
    step = None if state.turn is None else state.turn.step
    if state.turn is None or step is None:
        return changed
    if not any(call.settlement is not None and _has_media(call.settlement) for call in step.calls):
        return changed
    calls = [
        call
        if call.settlement is None
        else attrs.evolve(call, settlement=_settlement(call.settlement, state.session_id))
        for call in step.calls
    ]
    turn = attrs.evolve(state.turn, step=attrs.evolve(step, calls=tuple(calls)))
    return attrs.evolve(changed, turn=turn)


def find_media(events: Sequence[Durable], media_id: str) -> Media | None:
    """Return the image or file of a session with that id; None: there is none. It takes as long as there are media."""
    for part in _media_in(events):
        if _id_of(part) == media_id:
            try:
                data = base64.b64decode(part.data, validate=True)
            except binascii.Error:
                return None
            return Media(part.media_type if part.media_type in _SHOWN else "application/octet-stream", data)
    return None


def _without_media(part: UserPart, session_id: str) -> UserPart:
    if isinstance(part, ImagePart):
        return _reference(part, session_id)
    return _reference(part, session_id) if isinstance(part, FilePart) else part


def _has_media(settlement: Settlement) -> bool:
    return bool(settlement.images or settlement.files)


def _settlement(settlement: Settlement, session_id: str) -> Settlement:
    return attrs.evolve(
        settlement,
        images=tuple([_reference(part, session_id) for part in settlement.images]),
        files=tuple([_reference(part, session_id) for part in settlement.files]),
    )


def _id_of(part: MediaPart) -> str:
    return sha256(part.data.encode()).hexdigest()[:32]


def _reference(part: P, session_id: str) -> P:
    return attrs.evolve(part, data=f"{REFERENCE}v1/sessions/{session_id}/media/{_id_of(part)}")


def _media_in(events: Sequence[Durable]) -> Iterator[MediaPart]:
    # Of the record, since a summary may have replaced the messages.
    for event in events:
        if isinstance(event, InputAdmitted):
            yield from (part for part in event.message.parts if isinstance(part, (ImagePart, FilePart)))
        elif isinstance(event, CallSettled):
            yield from event.settlement.images
            yield from event.settlement.files
