"""What a server does besides answering: counted, and said once."""

from __future__ import annotations

from typing import Final

import attrs

# What is kept of a server's standard error, and how much of it an error shows.
RING_BYTES: Final = 65_536
SHOWN_BYTES: Final = 2_000


@attrs.define(eq=False)
class TransportReport:
    """Counts what a server sent that was of no use, and keeps the end of its standard error.

    Attributes:
        invalid_lines: lines of standard output that were no messages.
        late_answers: answers to requests that are over, or never were.
        dropped: notifications and requests that nobody here asked for.
    """

    invalid_lines: int = 0
    late_answers: int = 0
    dropped: int = 0
    _errors: bytearray = attrs.field(factory=bytearray, init=False)

    def add_errors(self, chunk: bytes) -> None:
        """Keep the end of what the server wrote to standard error."""
        self._errors += chunk
        del self._errors[:-RING_BYTES]

    @property
    def error_text(self) -> str:
        """The last of its standard error."""
        return bytes(self._errors[-SHOWN_BYTES:]).decode("utf-8", "replace").strip()

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about it."""
        counted = (
            (self.invalid_lines, "lines on standard output that are no messages"),
            (self.late_answers, "answers to no open request"),
            (self.dropped, "notifications or requests that are not used"),
        )
        return tuple(f"it sent {count:,} {what}" for count, what in counted if count)
