"""A file's text for editing: lines, splices by offset, and preserved line endings.

Models write no carriage returns, even if the file has them. So a text is searched without those at its line ends, and
what is found is spliced into the original. Nothing outside of a splice is changed, even in a file of mixed endings;
inside, the prevailing line ending of the place is used.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

import attrs


@attrs.frozen
class Splice:
    """The text from *start* to *end* becomes *text*. Offsets refer to `SourceText.text`."""

    start: int
    end: int
    text: str


def unix(text: str) -> str:
    """Return *text* with plain line ends."""
    return text.replace("\r\n", "\n")


@attrs.define(eq=False)
class SourceText:
    """A file's text, in its original form and as it is searched."""

    original: str

    @cached_property
    def text(self) -> str:
        """The text without the carriage returns at its line ends."""
        return unix(self.original)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, without their ends; an empty text has none."""
        lines = self.text.split("\n")
        return lines if lines[-1] else lines[:-1]

    @cached_property
    def stripped(self) -> list[str]:
        """Its lines without the blanks around them."""
        return [line.strip() for line in self.lines]

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins."""
        offsets: list[int] = []
        offset = 0
        for line in self.lines:
            offsets.append(offset)
            offset += len(line) + 1
        return offsets

    @cached_property
    def _returns(self) -> list[int]:
        """Offsets of the line feeds that follow a carriage return in the file."""
        offsets: list[int] = []
        offset = -1
        for piece in self.original.split("\r\n")[:-1]:
            offset += len(piece) + 1
            offsets.append(offset)
        return offsets

    @property
    def is_mixed(self) -> bool:
        """Whether only some line ends have a carriage return."""
        return 0 < len(self._returns) < self.text.count("\n")

    def lines_at(self, offsets: Iterable[int]) -> list[int]:
        """Return the line numbers of ascending offsets, without building the list of all lines."""
        numbers: list[int] = []
        number, at = 1, 0
        for offset in offsets:
            number += self.text.count("\n", at, offset)
            at = offset
            numbers.append(number)
        return numbers

    def line_at(self, offset: int) -> int:
        """Return the line number of *offset*, counted from 1."""
        return max(1, bisect_right(self.starts, offset))

    def line_end(self, index: int) -> int:
        """Return the offset of a line's end, before its line feed. Lines are counted from 0."""
        return self.starts[index] + len(self.lines[index])

    def replaced(self, first: int, last: int, lines: Sequence[str]) -> Splice:
        """Return the splice that replaces the lines from *first* to *last*, inclusive, by *lines*."""
        start, end = self.starts[first], self.line_end(last)
        if lines:
            return Splice(start, end, "\n".join(lines))
        if end < len(self.text):
            return Splice(start, end + 1, "")
        # Deleting the last line of a text without a final line feed removes the line feed before it.
        return Splice(max(0, start - 1), end, "")

    def inserted(self, before: int, lines: Sequence[str]) -> Splice:
        """Return the splice that inserts *lines* before the line of that index, or after the last one."""
        text = "\n".join(lines)
        if before < len(self.lines):
            return Splice(self.starts[before], self.starts[before], text + "\n")
        at = len(self.text)
        return Splice(at, at, f"\n{text}" if self.text and not self.text.endswith("\n") else f"{text}\n")

    def is_idle(self, splice: Splice) -> bool:
        """Return whether a splice would change nothing."""
        return self.text[splice.start : splice.end] == splice.text

    def spliced(self, splices: Iterable[Splice]) -> str:
        """Return the file's text after non-overlapping splices; several at one place keep their order."""
        pieces: list[str] = []
        done = 0
        for splice in sorted(splices, key=lambda splice: splice.start):
            pieces += (self.original[done : self._place(splice.start)], self._with_endings(splice))
            done = self._place(splice.end)
        return "".join([*pieces, self.original[done:]])

    def _place(self, offset: int) -> int:
        """Return the offset in the original; a carriage return belongs to the line feed after it."""
        return offset + bisect_left(self._returns, offset)

    def _with_endings(self, splice: Splice) -> str:
        if not self._returns or "\n" not in splice.text:
            return splice.text
        return splice.text.replace("\n", "\r\n") if self._has_returns(splice.start, splice.end) else splice.text

    def _has_returns(self, start: int, end: int) -> bool:
        """Return whether carriage returns prevail in a range; if no line ends in it, at the next line end."""
        ends = self.text.count("\n", start, end)
        if ends:
            return 2 * (bisect_left(self._returns, end) - bisect_left(self._returns, start)) >= ends
        feed = self.text.find("\n", end)
        if feed < 0:
            feed = self.text.rfind("\n", 0, start)
        index = bisect_left(self._returns, feed)
        return index < len(self._returns) and self._returns[index] == feed
