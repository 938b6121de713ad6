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
from engine.core.messages import FilePart, ImagePart, MediaPart, Message, ResultsMessage, UserMessage, UserPart

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
    if isinstance(message, UserMessage) and _has_media(message.parts):
        return attrs.evolve(message, parts=tuple([_without_media(part, session_id) for part in message.parts]))
    if not isinstance(message, ResultsMessage):
        return message
    results = [
        attrs.evolve(
            each,
            settlement=attrs.evolve(
                each.settlement,
                images=tuple([_reference(part, session_id) for part in each.settlement.images]),
                files=tuple([_reference(part, session_id) for part in each.settlement.files]),
            ),
        )
        if each.settlement.images or each.settlement.files
        else each
        for each in message.results
    ]
    return attrs.evolve(message, results=tuple(results))


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


def _has_media(parts: Sequence[UserPart]) -> bool:
    return any(isinstance(part, (ImagePart, FilePart)) for part in parts)


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
