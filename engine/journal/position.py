"""Where a cursor is, as a value and as text that a client keeps."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.core.ids import PartId, SessionId
from engine.core.value_base import Value
from engine.journal.json_text import to_json_text

# A header or a query of a URL has room for so much.
MAX_CHARS: Final = 4_096
# Where JSON numbers are exact in every language.
_MAX_NUMBER: Final = 2**53
_FORMAT: Final = "1"
_CHECKSUM_BYTES: Final = 4


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Position(Value):
    """Where a cursor is: enough to continue from there later, in another cursor.

    Attributes:
        epoch: the life of the store in which it holds.
        seq: the last event of the session itself.
        offsets: how much of each open part was seen.
        children: the last event of each descendant, of those after `seq`.
        endings: the sessions with an open turn whose `TurnEnding` was seen.
        session_id: the session; empty: not known.
    """

    epoch: str
    seq: int
    offsets: tuple[tuple[PartId, int], ...] = ()
    children: tuple[tuple[SessionId, int], ...] = ()
    endings: tuple[SessionId, ...] = ()
    session_id: SessionId = SessionId("")


# No session has it, so that a cursor from there begins with a `Resync`.
_NOWHERE: Final = Position(epoch="", seq=-1)


def encode_position(position: Position) -> str:
    """Return *position* as at most 4,096 characters, all letters, digits, "-" and "_": for URLs and headers.

    Their content may change with each version: keep them, and read nothing into them. A position with too many open
    parts and descendants for that length becomes one from which a cursor begins with a `Resync`.
    """
    fields = [
        position.session_id,
        position.epoch,
        position.seq,
        dict(position.offsets),
        dict(position.children),
        position.endings,
    ]
    body = to_json_text(fields).encode()
    text = _FORMAT + base64.urlsafe_b64encode(_checksum(body) + body).decode().rstrip("=")
    return text if len(text) <= MAX_CHARS else encode_position(_NOWHERE)


def decode_position(text: str) -> Position:
    """Return the position that *text* holds.

    Never raises: from a text that is damaged, cut off or no position at all, a cursor begins with a `Resync`, as from one
    that is too old.
    """
    if not text.startswith(_FORMAT) or len(text) > MAX_CHARS:
        return _NOWHERE
    try:
        data = base64.b64decode(text[1:] + "=" * (-len(text[1:]) % 4), altchars=b"-_", validate=True)
        checksum, body = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
        if checksum != _checksum(body):
            return _NOWHERE
        session_id, epoch, seq, offsets, children, endings = json.loads(body)
        return Position(
            session_id=SessionId(_string(session_id)),
            epoch=_string(epoch),
            seq=_number(seq),
            offsets=tuple((PartId(key), number) for key, number in _numbers(offsets)),
            children=tuple((SessionId(key), number) for key, number in _numbers(children)),
            endings=tuple(SessionId(_string(key)) for key in endings),
        )
    except (binascii.Error, ValueError, TypeError, RecursionError):
        return _NOWHERE


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "big")


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no string: {value!r}")
    return value


def _number(value: object) -> int:
    if type(value) is not int or not -1 <= value <= _MAX_NUMBER:
        raise TypeError(f"no number of an event or a character: {value!r}")
    return value


def _numbers(value: object) -> list[tuple[str, int]]:
    if not isinstance(value, dict):
        raise TypeError(f"no object: {value!r}")
    return [(key, _number(number)) for key, number in cast("Mapping[str, object]", value).items()]
