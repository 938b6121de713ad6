"""Server-sent events: bytes in, events out, at any chunk boundaries.

Follows the HTML standard's event stream format: lines end in LF, CR or CRLF, a
byte order mark at the very beginning is dropped, a line which begins with a
colon is a comment, several `data` lines of an event are joined by LF, a blank
line ends the event, and an event without a `data` line is dropped. `id` and
`retry` only matter to a client that reconnects, which a POST never does.

The parser keeps the pieces of the unfinished line in a list and joins them once,
so an event of any size, in pieces of any size, costs its own length.
"""

from __future__ import annotations

import attrs

from engine.core.value_base import Value

_BOM = b"\xef\xbb\xbf"
_MESSAGE = "message"


@attrs.frozen(eq=False, repr=False)
class ServerSentEvent(Value):
    """An event: its type and its data."""

    event: str
    data: str


@attrs.define(eq=False, repr=False)
class SseParser:
    """Turns the bytes of one event stream into its events.

    Attributes:
        reads_errors: a field `error`, which is not in the standard, is an event with that data: llama.cpp sends it.
    """

    reads_errors: bool = False
    _line: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _data: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _type: str = attrs.field(default=_MESSAGE, init=False)
    _at_start: bool = attrs.field(default=True, init=False)
    _after_cr: bool = attrs.field(default=False, init=False)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that *data* completes."""
        if not data:
            return []
        first, *rest = self._split(data)
        self._line.append(first)
        if not rest:
            return []
        head = b"".join(self._line)
        if self._at_start:
            self._at_start = False
            head = head.removeprefix(_BOM)
        tail = rest.pop()
        self._line = [tail] if tail else []
        return self._read([head, *rest])

    def close(self) -> list[ServerSentEvent]:
        """Return the event that the stream ended in, if it has any data.

        The standard discards it, since it may be incomplete. Some hosts omit the
        last blank line, so the caller decides.
        """
        return self.feed(b"\n\n")

    def _split(self, chunk: bytes) -> list[bytes]:
        # A CR ends its line at once; the LF that may follow it, perhaps in the
        # next chunk, is then dropped. (Waiting for it would hold an event back.)
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return [b""]
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk.split(b"\n")

    def _read(self, lines: list[bytes]) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        for line in lines:
            if line.startswith(b"data:"):
                # The standard removes one space only: more of them are data.
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line:
                self._end_event(events)
            elif line.startswith(b"event:"):
                self._type = line[6:].removeprefix(b" ").decode("utf-8", "replace") or _MESSAGE
            elif self.reads_errors and line.startswith(b"error:"):
                self._type = "error"
                self._data.append(line[6:].removeprefix(b" "))
            elif line == b"event":
                self._type = _MESSAGE
            # A field name without a colon has an empty value.
            elif line == b"data":
                self._data.append(b"")
        return events

    def _end_event(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            # Nearly all events have one line of data.
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(ServerSentEvent(self._type, data.decode("utf-8", "replace")))
            self._data.clear()
        self._type = _MESSAGE
