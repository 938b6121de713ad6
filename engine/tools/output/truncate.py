"""Cut an output that is too long for the model: which parts are kept, and the line that says what is not.

Both limits hold for the whole of what is shown, that line included. Cuts are made between
lines where that keeps at least half of what there is room for, and else between
characters, so that an output of one giant line is shown in part and not left out.

Sizes are counted in bytes as the output has them. What is no UTF-8 takes more room when
it is shown than it has bytes, and is cut accordingly.
"""

from __future__ import annotations

from typing import Final

import attrs

_NEWLINE: Final = 0x0A
# How much of an error's text goes into the marker.
_REASON_CHARS: Final = 200


@attrs.frozen(kw_only=True)
class OutputLimits:
    """What one result may take, at most."""

    lines: int = 2_000
    size: int = 51_200

    def less(self, other: OutputLimits) -> OutputLimits:
        """Return what is left when *other* is taken."""
        return OutputLimits(lines=self.lines - other.lines, size=self.size - other.size)


LIMITS: Final = OutputLimits()
# Of a command; leaves room for the notes at the end of a result.
SHOWN_OF_COMMAND: Final = LIMITS.less(OutputLimits(lines=10, size=1_000))


@attrs.frozen(kw_only=True)
class Rest:
    """Where the whole output can be read.

    Attributes:
        spill_id: names it in the spill store; empty: it is nowhere.
        trouble: why it was not kept, or not completely.
    """

    spill_id: str = ""
    trouble: str = ""


@attrs.frozen
class Measure:
    """So many lines and bytes."""

    lines: int
    size: int


def encoded(text: str) -> bytes:
    """Return *text* as bytes, half characters (lone surrogates) included."""
    return text.encode(errors="surrogatepass")


def line_count(data: bytes) -> int:
    """Return how many lines *data* has; the last one need not end."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def fits(text: str, limits: OutputLimits = LIMITS) -> bool:
    """Tell whether *text* may be shown as it is."""
    if len(text) > limits.size or (4 * len(text) > limits.size and len(encoded(text)) > limits.size):
        return False
    ends = text.count("\n")
    return ends < limits.lines or (ends == limits.lines and text.endswith("\n"))


def cut(data: bytes, share: float, rest: Rest, *, limits: OutputLimits = LIMITS) -> str:
    """Return an output that is too long in as much room as *limits* give; *share* of it is for its beginning."""
    return excerpt(data, data, Measure(line_count(data), len(data)), share, rest, limits=limits)


def excerpt(
    first: bytes, last: bytes, whole: Measure, share: float, rest: Rest, *, limits: OutputLimits = LIMITS
) -> str:
    """Return what `cut` does for an output of which not all is at hand.

    *first* and *last* are its first and its last bytes, at least `limits.size` of them.
    """
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
    """Return the beginning of *data*, shown in at most *size* bytes."""
    part = _first(data, lines, size)
    while (surplus := len(_readable(part)) - size) > 0:
        # A byte that is no UTF-8 is shown as three.
        part = _first(part, lines, len(part) - (surplus + 2) // 3)
    return part


def last_part(data: bytes, lines: int, size: int) -> bytes:
    """Return the end of *data*, shown in at most *size* bytes."""
    part = _last(data, lines, size)
    while (surplus := len(_readable(part)) - size) > 0:
        part = _last(part, lines, len(part) - (surplus + 2) // 3)
    return part


def _marker(missing: Measure, whole: Measure, first_line: int, rest: Rest) -> str:
    """Return the line that says what is not shown, or not whole, and how to read it."""
    what = f"{missing.lines:,} of {whole.lines:,} lines, {missing.size:,} of {whole.size:,} bytes are not shown"
    trouble = rest.trouble.replace("\n", " ")[:_REASON_CHARS]
    if not rest.spill_id:
        return f"[{what}, and were not kept{f': {trouble}' if trouble else ''}]"
    where = f'To read them: read with path="spill:{rest.spill_id}", offset={first_line}'
    return f"[{what}. {where}{f' ({trouble})' if trouble else ''}]"


def _readable(data: bytes) -> bytes:
    """Return *data* as it is shown: what is no UTF-8 is replaced."""
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
    """Return the nearest place that is not inside a character; *at* itself if there is none near."""
    for place in range(at, at + 4 * step, step):
        if not 0 <= place < len(data):
            break
        if not 0x80 <= data[place] < 0xC0:
            return place
    return at
