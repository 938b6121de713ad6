"""Messages in a stream of bytes: one per line, or each after a header with its length (as language servers do)."""

from __future__ import annotations

from typing import Final

import attrs

from engine.jsonrpc.strict_json import FrameTooLarge

_HEADER_BYTES: Final = 4096


class BadFraming(ValueError):
    """A header makes no sense, so nothing after it can be read."""


@attrs.define(eq=False)
class LineSplitter:
    """Splits a stream into lines. Empty ones are skipped, and a carriage return at the end is removed."""

    most: int
    _rest: bytearray = attrs.field(factory=bytearray, init=False)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that *data* completes. Raises `FrameTooLarge`."""
        # Only the new bytes are searched, so a long line that comes in small pieces takes linear time.
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            line = bytes(self._rest) + end
            self._rest.clear()
            if len(line) > self.most:
                raise FrameTooLarge(f"a line has at most {self.most} bytes", limit=self.most)
            if line.strip():
                lines.append(line.removesuffix(b"\r"))
        self._rest += rest
        if len(self._rest) > self.most:
            raise FrameTooLarge(f"a line has at most {self.most} bytes", limit=self.most)
        return lines


@attrs.define(eq=False)
class HeaderSplitter:
    """Splits a stream in which each message follows a header with its `Content-Length`."""

    most: int
    _rest: bytearray = attrs.field(factory=bytearray, init=False)
    _length: int | None = attrs.field(default=None, init=False)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that *data* completes. Raises `FrameTooLarge`, `BadFraming`."""
        self._rest += data
        messages: list[bytes] = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _next(self) -> bytes | None:
        if self._length is None:
            end = self._rest.find(b"\r\n\r\n")
            if (end if end >= 0 else len(self._rest)) > _HEADER_BYTES:
                raise BadFraming(f"a header has at most {_HEADER_BYTES} bytes")
            if end < 0:
                return None
            self._length = self._length_in(bytes(self._rest[:end]))
            del self._rest[: end + 4]
        if len(self._rest) < self._length:
            return None
        message = bytes(self._rest[: self._length])
        del self._rest[: self._length]
        self._length = None
        return message

    def _length_in(self, header: bytes) -> int:
        fields = [line.partition(b":") for line in header.split(b"\r\n")]
        lengths = [value.strip() for name, _, value in fields if name.strip().lower() == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
            raise BadFraming("a header has one Content-Length, a number")
        if (length := int(lengths[0])) > self.most:
            raise FrameTooLarge(f"a message has at most {self.most} bytes", limit=self.most)
        return length


def line_of(text: str) -> bytes:
    """Return a message as a line. JSON text of the engine has no line breaks in it."""
    return text.encode() + b"\n"


def with_header(text: str) -> bytes:
    """Return a message after its header."""
    body = text.encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
