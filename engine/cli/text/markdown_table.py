"""Tables of Markdown, as aligned columns or, if those don't fit, as a list of `header: value` lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from engine.cli.text.inline_markdown import parse_inline
from engine.cli.text.styled_text import Line, Span, Style, line_of, line_width, wrap_line

_DELIMITER_ROW: Final = re.compile(r" {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_GAP: Final = "  "
_MAX_COLUMNS: Final = 100


def is_delimiter_row(row: str) -> bool:
    """Return whether *row* is the line between a table's header and its body."""
    return _DELIMITER_ROW.fullmatch(row) is not None


class TableLayout:
    """How the rows of a table are shown; decided by its header and its first rows."""

    def __init__(self, rows: Sequence[str], width: int, *, keeps_marks: bool, is_linear: bool) -> None:
        """Lay out a table.

        Args:
            rows: the header, the delimiter row, and the rows that are known.
            width: of the terminal.
            keeps_marks: leave the markers of emphasis in the text.
            is_linear: never as columns, for screen readers.
        """
        self._keeps_marks = keeps_marks
        self._width = width
        self._aligns = [(cell.startswith(":"), cell.endswith(":")) for cell in _split(rows[1])]
        self._header = self._cells(rows[0], Style.STRONG)
        bodies = [self._cells(row) for row in rows[2:]]
        self._widths = [
            max([line_width(self._header[column]), *(line_width(body[column]) for body in bodies)])
            for column in range(len(self._header))
        ]
        total = sum(self._widths) + len(_GAP) * (len(self._widths) - 1)
        self._is_linear = is_linear or total > width

    def head(self) -> Iterator[Line]:
        """Yield the lines above the rows."""
        if not self._is_linear:
            yield self._aligned(self._header)
            yield line_of(_GAP.join("-" * max(1, width) for width in self._widths), Style.DIM)

    def row(self, row: str, *, is_first: bool) -> Iterator[Line]:
        """Yield the lines of a row."""
        cells = self._cells(row)
        if not self._is_linear:
            yield self._aligned(cells)
            return
        if not is_first:
            yield ()
        for name, value in zip(self._header, cells, strict=True):
            if name or value:
                yield from wrap_line((*name, Span(": " if name else ""), *value), self._width, rest=line_of("  "))

    def _cells(self, row: str, style: Style = Style.NONE) -> list[Line]:
        """Return the cells of a row, as many as the header has."""
        count = len(self._aligns)
        cells = [parse_inline(cell, style, keeps_marks=self._keeps_marks).line for cell in _split(row)[:count]]
        return cells + [()] * (count - len(cells))

    def _aligned(self, cells: Sequence[Line]) -> Line:
        spans: list[Span] = []
        for index, (cell, width, (left, right)) in enumerate(zip(cells, self._widths, self._aligns, strict=True)):
            free = max(0, width - line_width(cell))
            before = (free // 2 if left else free) if right else 0
            is_last = index == len(cells) - 1
            after = 0 if is_last else free - before + len(_GAP)
            spans += [Span(" " * before), *cell, Span(" " * after)]
        while spans and not spans[-1].text.strip():
            spans.pop()
        return tuple(span for span in spans if span.text)


def _split(row: str) -> list[str]:
    r"""Return the cells of a row; `\|` is a bar, also in code."""
    text = row.strip().removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    cells = re.split(r"(?<!\\)\|", text)[:_MAX_COLUMNS]
    return [cell.strip().replace("\\|", "|") for cell in cells]
