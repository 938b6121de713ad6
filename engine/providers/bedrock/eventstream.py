"""Parses AWS event streams (`application/vnd.amazon.eventstream`) at any chunk boundaries.

A message is a prelude (its length, the length of its headers, a CRC of both), the headers, the payload, and a CRC of
everything before. Parsing stops at a wrong CRC, since the start of the next message is then unknown. The prelude's CRC
is checked first, so a corrupted length is never waited for.

`EventStreamParser` parses messages; `EventStreamFraming` turns them into the events that a `StreamDecoder` reads, named
by their type. Names of anything else begin with a colon: an exception (`:throttlingException`), an error, or a colon
alone for a corrupted stream.

botocore's parser takes four times as long (see docs/design/0013-wire-formats.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from zlib import crc32

import attrs

from engine.core.errors import ProviderProtocolError
from engine.providers.wire.sse import ServerSentEvent
from engine.providers.wire.untrusted_json import dumps, loads_object

DAMAGED = ":"

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_AROUND = _PRELUDE.size + _CRC.size
# The limits of AWS's own clients.
_LARGEST_HEADERS = 128 * 1024
_LARGEST_PAYLOAD = 24 * 1024 * 1024

HeaderValue = bool | int | str | bytes


@attrs.frozen
class EventMessage:
    """A message."""

    headers: Mapping[str, HeaderValue]
    payload: bytes

    def text(self, name: str) -> str:
        """Return the string header *name*; empty if there is none."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


@attrs.define(eq=False)
class EventStreamParser:
    """Parses the messages of one stream.

    Pieces of an incomplete message are kept in a list and joined once, so the cost is linear in its length.

    Attributes:
        failure: the error that stopped parsing; None if there was none.
    """

    failure: ProviderProtocolError | None = attrs.field(default=None, init=False)
    _pieces: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _size: int = attrs.field(default=0, init=False)
    _needed: int = attrs.field(default=_PRELUDE.size, init=False)
    # How many bytes must be there before parsing can go on: without it, each small piece would copy the buffer.

    def feed(self, data: bytes) -> list[EventMessage]:
        """Return the messages that *data* completes, up to a corrupted one: see `failure`."""
        if self.failure is not None or not data:
            return []
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        buffer = memoryview(b"".join(self._pieces))
        messages: list[EventMessage] = []
        try:
            used = self._read(buffer, messages)
        except ProviderProtocolError as failure:
            self.failure = failure
            used = len(buffer)
        self._pieces = [bytes(buffer[used:])]
        self._size = len(buffer) - used
        return messages

    def _read(self, buffer: memoryview, messages: list[EventMessage]) -> int:
        """Read all complete messages; return where the incomplete one begins."""
        start = 0
        while len(buffer) - start >= _PRELUDE.size:
            length, headers_length, prelude_crc = _PRELUDE.unpack_from(buffer, start)
            # Over the two lengths only; the CRC itself is the third field.
            if crc32(buffer[start : start + 8]) != prelude_crc:
                raise _damaged("the CRC of a prelude is wrong")
            _check_lengths(length, headers_length)
            end = start + length
            if end > len(buffer):
                self._needed = length
                return start
            (message_crc,) = _CRC.unpack_from(buffer, end - _CRC.size)
            if crc32(buffer[start : end - _CRC.size]) != message_crc:
                raise _damaged("the CRC of a message is wrong")
            middle = start + _PRELUDE.size + headers_length
            headers = _headers(bytes(buffer[start + _PRELUDE.size : middle]))
            messages.append(EventMessage(headers, bytes(buffer[middle : end - _CRC.size])))
            start = end
        self._needed = _PRELUDE.size
        return start


def _check_lengths(length: int, headers_length: int) -> None:
    payload_length = length - headers_length - _AROUND
    if payload_length < 0 or headers_length > _LARGEST_HEADERS or payload_length > _LARGEST_PAYLOAD:
        raise _damaged("a prelude has invalid lengths")


# A stream's messages repeat the same few headers.
@lru_cache(maxsize=64)
def _headers(data: bytes) -> Mapping[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    place = 0
    try:
        while place < len(data):
            name_end = place + 1 + data[place]
            name = data[place + 1 : name_end].decode()
            if not name or name in headers:
                raise _damaged("a header has no name, or a duplicate one")
            headers[name], place = _value(data, name_end)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _damaged("the headers of a message are invalid") from error
    if place != len(data):
        raise _damaged("the headers of a message exceed their length")
    return headers


def _value(data: bytes, place: int) -> tuple[HeaderValue, int]:
    """Parse the type and value at *place*; return the value and its end."""
    kind = data[place]
    place += 1
    match kind:
        case 0 | 1:
            return kind == 0, place
        case 2 | 3 | 4 | 5 | 8:  # numbers; the last is a time, in milliseconds since the epoch
            number = _NUMBERS[kind]
            return _integer(number, data, place), place + number.size
        case 6 | 7:
            length = _integer(_LENGTH, data, place)
            raw = _slice(data, place + _LENGTH.size, length)
            return (raw if kind == 6 else raw.decode()), place + _LENGTH.size + length
        case 9:
            return _slice(data, place, 16), place + 16
        case _:
            raise _damaged(f"a header has the unknown value type {kind}")


_NUMBERS = {
    2: struct.Struct(">b"),
    3: struct.Struct(">h"),
    4: struct.Struct(">i"),
    5: struct.Struct(">q"),
    8: struct.Struct(">q"),
}
_LENGTH = struct.Struct(">H")


def _integer(number: struct.Struct, data: bytes, place: int) -> int:
    (value,) = number.unpack_from(data, place)
    assert isinstance(value, int)
    return value


def _slice(data: bytes, place: int, length: int) -> bytes:
    if place + length > len(data):
        raise _damaged("a header exceeds its message")
    return data[place : place + length]


def _damaged(what: str) -> ProviderProtocolError:
    return ProviderProtocolError(f"the event stream is corrupted: {what}", retryable=True)


# -- as events ------------------------------------------------------------------------


@attrs.define(eq=False)
class EventStreamFraming:
    """Turns messages into named events, as `SseParser` does for lines."""

    _parser: EventStreamParser = attrs.field(factory=EventStreamParser, init=False)
    _has_reported: bool = attrs.field(default=False, init=False)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that *data* completes; corruption is reported once, as the last event."""
        events = [_event(message) for message in self._parser.feed(data)]
        failure = self._parser.failure
        if failure is not None and not self._has_reported:
            self._has_reported = True
            events.append(ServerSentEvent(DAMAGED, dumps({"message": str(failure)})))
        return events

    def close(self) -> list[ServerSentEvent]:
        """Return nothing: an incomplete message has no event."""
        return []


def _event(message: EventMessage) -> ServerSentEvent:
    return _KINDS.get(message.text(":message-type"), _plain)(message)


def _plain(message: EventMessage) -> ServerSentEvent:
    return ServerSentEvent(message.text(":event-type"), message.payload.decode("utf-8", "replace") or "{}")


def _exception(message: EventMessage) -> ServerSentEvent:
    payload = message.payload.decode("utf-8", "replace")
    name = ":" + (message.text(":exception-type") or "exception")
    return ServerSentEvent(name, dumps(loads_object(payload) or {"message": payload}))


def _error(message: EventMessage) -> ServerSentEvent:
    name = ":" + (message.text(":error-code") or "error")
    return ServerSentEvent(name, dumps({"message": message.text(":error-message")}))


_KINDS: Mapping[str, Callable[[EventMessage], ServerSentEvent]] = {"exception": _exception, "error": _error}
