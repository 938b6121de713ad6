"""Gemini's streams without `alt=sse`: one JSON array, whose elements are the events.

An answer that was not streamed has the same content type and is one JSON object: the
first character tells which it is. Elements are found by counting brackets outside of
strings, and no byte is looked at again when more come, however they are cut; what an
element means is for the JSON parser to say.
"""

from __future__ import annotations

import re

import attrs

from engine.providers.wire.sse import ServerSentEvent

DOCUMENT = "document"
_MESSAGE = "message"
_BETWEEN = re.compile(rb"[\s,]*")
# A string without escapes is passed at once, if its end is there.
_OUTSIDE = re.compile(rb'"[^"\\]*"|["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


@attrs.define(eq=False)
class JsonFraming:
    """Cuts the bytes of an array into its elements; an object alone is one event called "document".

    What is no JSON becomes an event that nobody can parse: so it is found where it
    stands, after all that came before it. The end of the array is `[DONE]`.
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
        """Return nothing: half an element is none."""
        return []

    def _skip_separators(self, data: bytes, place: int, events: list[ServerSentEvent]) -> int:
        """Return where the next element begins, or the end of *data*."""
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
        """Return where the element ends, or the end of *data*."""
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
