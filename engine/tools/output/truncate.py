"""Truncate an output that is too long for the model, and mark what is missing.

The limits apply to everything shown, the marker included. The output is cut between lines if that keeps at least half
of the available room, otherwise between characters, so that an output of one huge line is shown in part.

Sizes are bytes of the output. Invalid UTF-8 takes more room when shown, and is cut accordingly.
"""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.value_base import Value

_NEWLINE: Final = 0x0A
# How much of an error message goes into the marker.
_REASON_CHARS: Final = 200


@attrs.frozen(kw_only=True, eq=False, repr=False)
class OutputLimits(Value):
    """The maximal size of one result."""

    # About 12,000 tokens, a tenth of a small window.
    lines: int = 2_000
    size: int = 51_200

    def less(self, other: OutputLimits) -> OutputLimits:
        """Return what remains after *other*."""
        return OutputLimits(lines=self.lines - other.lines, size=self.size - other.size)


LIMITS: Final = OutputLimits()
# For a command's output; leaves room for notes at the end of the result.
SHOWN_OF_COMMAND: Final = LIMITS.less(OutputLimits(lines=10, size=1_000))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Rest(Value):
    """Where the whole output can be read.

    Attributes:
        spill_id: its id in the spill; empty: it was not kept.
        trouble: why it was not kept, or not completely.
    """

    spill_id: str = ""
    trouble: str = ""


@attrs.frozen(eq=False, repr=False)
class Measure(Value):
    """A number of lines and bytes."""

    lines: int
    size: int


def encoded(text: str) -> bytes:
    """Encode *text*, lone surrogates included."""
    return text.encode(errors="surrogatepass")


def line_count(data: bytes) -> int:
    """Return the number of lines; the last one may lack its line feed."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def fits(text: str, limits: OutputLimits = LIMITS) -> bool:
    """Return whether *text* is within the limits."""
    # Encoding is skipped where the length in characters decides already.
    if len(text) > limits.size or (4 * len(text) > limits.size and len(encoded(text)) > limits.size):
        return False
    ends = text.count("\n")
    return ends < limits.lines or (ends == limits.lines and text.endswith("\n"))


def cut(data: bytes, share: float, rest: Rest, *, limits: OutputLimits = LIMITS) -> str:
    """Truncate an output to *limits*; *share* of the room is for its beginning."""
    return excerpt(data, data, Measure(line_count(data), len(data)), share, rest, limits=limits)


def excerpt(
    first: bytes, last: bytes, whole: Measure, share: float, rest: Rest, *, limits: OutputLimits = LIMITS
) -> str:
    """Truncate an output of which only the beginning and end are in memory.

    *first* and *last* are its first and last bytes, at least `limits.size` each.
    """
    # The marker's length depends on the numbers in it, so room is reserved for the longest one.
    longest = _marker(whole, whole, whole.lines, rest)
    # One line end on either side of the marker.
    room = max(0, limits.size - len(encoded(longest)) - 2)
    room_lines = max(0, limits.lines - 1)
    head = first_part(first, round(share * room_lines), int(share * room))
    begin, end = _readable(head), b""
    tail = b""
    if share < 1:
        tail = last_part(last, room_lines - line_count(head), room - len(begin))
        end = _readable(tail)
    begins_inside = 0 < len(tail) < len(last) and last[-len(tail) - 1] != _NEWLINE
    whole_lines = head.count(b"\n") + line_count(tail) - begins_inside
    missing = Measure(whole.lines - whole_lines, whole.size - len(head) - len(tail))
    marker = encoded(_marker(missing, whole, head.count(b"\n") + 1, rest))
    joint = b"\n" if begin and not begin.endswith(b"\n") else b""
    return (begin + joint + marker + (b"\n" + end if end else b"")).decode(errors="replace")


def first_part(data: bytes, lines: int, size: int) -> bytes:
    """Return the beginning of *data* that takes at most *size* bytes when shown."""
    part = _first(data, lines, size)
    while (surplus := len(_readable(part)) - size) > 0:
        # An invalid byte is shown as U+FFFD, three bytes.
        part = _first(part, lines, len(part) - (surplus + 2) // 3)
    return part


def last_part(data: bytes, lines: int, size: int) -> bytes:
    """Return the end of *data* that takes at most *size* bytes when shown."""
    part = _last(data, lines, size)
    while (surplus := len(_readable(part)) - size) > 0:
        part = _last(part, lines, len(part) - (surplus + 2) // 3)
    return part


def _marker(missing: Measure, whole: Measure, first_line: int, rest: Rest) -> str:
    """Return the line that states what is missing, and how to read it."""
    what = f"{missing.lines:,} of {whole.lines:,} lines, {missing.size:,} of {whole.size:,} bytes are not shown"
    trouble = rest.trouble.replace("\n", " ")[:_REASON_CHARS]
    if not rest.spill_id:
        return f"[{what}, and were not kept{f': {trouble}' if trouble else ''}]"
    where = f'To read them: read with path="spill:{rest.spill_id}", offset={first_line}'
    return f"[{what}. {where}{f' ({trouble})' if trouble else ''}]"


def _readable(data: bytes) -> bytes:
    """Return *data* as it is shown, with invalid UTF-8 replaced."""
    return data if data.isascii() else data.decode(errors="replace").encode()


def _first(data: bytes, lines: int, size: int) -> bytes:
    if lines <= 0 or size <= 0:
        return b""
    part = data[:size]
    *whole, after = part.split(b"\n", lines)
    if len(whole) == lines:
        return part[: len(part) - len(after)]
    if len(part) == len(data):
        return part
    at_line = part.rfind(b"\n") + 1
    if 2 * at_line >= size:
        return part[:at_line]
    return data[: _boundary(data, size, -1)]


def _last(data: bytes, lines: int, size: int) -> bytes:
    if lines <= 0 or size <= 0:
        return b""
    part = data[-size:]
    ends = lines + part.endswith(b"\n")
    before, *whole = part.rsplit(b"\n", ends)
    if len(whole) == ends:
        return part[len(before) + 1 :]
    start = len(data) - len(part)
    if start == 0 or data[start - 1] == _NEWLINE:
        return part
    at_line = part.find(b"\n") + 1
    if at_line and 2 * (len(part) - at_line) >= size:
        return part[at_line:]
    return data[_boundary(data, start, 1) :]


def _boundary(data: bytes, at: int, step: int) -> int:
    """Return the nearest position between two characters; *at* itself if there is none nearby."""
    # A character has at most four bytes; the later ones begin with the bits 10.
    for place in range(at, at + 4 * step, step):
        if not 0 <= place < len(data):
            break
        if not 0x80 <= data[place] < 0xC0:
            return place
    return at
