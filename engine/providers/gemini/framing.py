"""Framing of Gemini streams without `alt=sse`: one JSON array, whose elements are the events.

A response that was not streamed has the same content type and is one JSON object: the first character distinguishes
them. Elements are found by counting brackets outside of strings, and no byte is scanned twice, at any chunk boundaries;
parsing an element is left to the JSON parser.
"""

from __future__ import annotations

import re

import attrs

from engine.providers.wire.sse import ServerSentEvent

DOCUMENT = "document"
_MESSAGE = "message"
_BETWEEN = re.compile(rb"[\s,]*")
# A complete string without escapes is skipped at once.
_OUTSIDE = re.compile(rb'"[^"\\]*"|["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


@attrs.define(eq=False)
class JsonFraming:
    """Splits an array into its elements; a single object is an event called "document".

    Invalid JSON becomes an event that cannot be parsed, so the error comes after all earlier events. The end of the
    array is `[DONE]`.
    """

    _pieces: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _depth: int = attrs.field(default=0, init=False)
    _in_array: bool = attrs.field(default=False, init=False)
    _in_string: bool = attrs.field(default=False, init=False)
    _after_backslash: bool = attrs.field(default=False, init=False)
    _is_over: bool = attrs.field(default=False, init=False)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the elements that *data* completes."""
        events: list[ServerSentEvent] = []
        place = 0
        while place < len(data) and not self._is_over:
            if self._depth == 0:
                place = self._skip_separators(data, place, events)
            else:
                start, place = place, self._scan_element(data, place)
                self._pieces.append(data[start:place])
                if self._depth == 0:
                    events.append(self._element())
        return events

    def close(self) -> list[ServerSentEvent]:
        """Return nothing: an incomplete element is dropped."""
        return []

    def _skip_separators(self, data: bytes, place: int, events: list[ServerSentEvent]) -> int:
        """Return the start of the next element, or the end of *data*."""
        separator = _BETWEEN.match(data, place)
        place = place if separator is None else separator.end()
        match data[place : place + 1]:
            case b"":
                pass
            case b"{":
                self._depth = 1
                self._pieces.append(b"{")
                place += 1
            case b"[" if not self._in_array:
                self._in_array = True
                place += 1
            case b"]" if self._in_array:
                self._is_over = True
                events.append(ServerSentEvent(_MESSAGE, "[DONE]"))
            case _:
                self._is_over = True
                events.append(ServerSentEvent(_MESSAGE, "(no JSON)"))
        return place

    def _scan_element(self, data: bytes, place: int) -> int:
        """Return the end of the element, or of *data*."""
        if self._after_backslash:
            self._after_backslash = False
            place += 1
        while self._depth:
            token = (_INSIDE if self._in_string else _OUTSIDE).search(data, place)
            if token is None:
                return len(data)
            place = token.end()
            match token.group():
                case b'"':
                    self._in_string = not self._in_string
                case b"\\":
                    self._after_backslash = place == len(data)
                    place = min(place + 1, len(data))
                case b"{" | b"[":
                    self._depth += 1
                case b"}" | b"]":
                    self._depth -= 1
                case _:
                    pass
        return place

    def _element(self) -> ServerSentEvent:
        element = b"".join(self._pieces).decode("utf-8", "replace")
        self._pieces.clear()
        return ServerSentEvent(_MESSAGE if self._in_array else DOCUMENT, element)
