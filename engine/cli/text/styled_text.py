"""Lines of text with styles, for terminals.

Styles say what a text is ("code"), not how it looks. Where a terminal can't show or a user doesn't want styles, the same
lines are printed without them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs
from wcwidth import iter_graphemes, wcswidth

from engine.core.value_base import Value


class Style(enum.Flag):
    """What a text is. A combination of several; the empty one is ordinary text."""

    NONE = 0
    STRONG = enum.auto()
    EMPHASIS = enum.auto()
    STRUCK = enum.auto()
    CODE = enum.auto()
    LINK = enum.auto()
    HEADING = enum.auto()
    DIM = enum.auto()
    ADDED = enum.auto()
    REMOVED = enum.auto()
    GOOD = enum.auto()
    WARNING = enum.auto()
    BAD = enum.auto()


@attrs.frozen(eq=False, repr=False)
class Span(Value):
    """A piece of a line in one style."""

    text: str
    style: Style = Style.NONE


Line = tuple[Span, ...]
Theme = Mapping[Style, str]

# The 16 colours of the terminal's own palette, which the user has chosen, and no backgrounds.
PALETTE: Final[Theme] = {
    Style.STRONG: "1",
    Style.EMPHASIS: "3",
    Style.STRUCK: "9",
    Style.CODE: "36",
    Style.LINK: "4",
    Style.HEADING: "1",
    Style.DIM: "2",
    Style.ADDED: "32",
    Style.REMOVED: "31",
    Style.GOOD: "32",
    Style.WARNING: "33",
    Style.BAD: "31",
}
# No escape sequences at all.
PLAIN: Final[Theme] = {}

_PIECES: Final = re.compile(r"\s+|\S+")


def line_of(text: str, style: Style = Style.NONE) -> Line:
    """Return a line in one style."""
    return (Span(text, style),) if text else ()


def plain_text(line: Line) -> str:
    """Return the text of *line*."""
    return "".join(span.text for span in line)


def cell_width(text: str) -> int:
    """Return how many columns of a terminal *text* takes. Control characters have to be escaped before."""
    if text.isascii():
        return len(text)
    return max(0, wcswidth(text))


def line_width(line: Line) -> int:
    """Return how many columns *line* takes."""
    return sum(cell_width(span.text) for span in line)


def paint(line: Line, theme: Theme) -> str:
    """Return *line* as a terminal shows it in *theme*; every style ends within the line."""
    pieces: list[str] = []
    for span in line:
        codes = ";".join(theme[style] for style in span.style if style in theme)
        pieces.append(f"\x1b[{codes}m{span.text}\x1b[0m" if codes else span.text)
    return "".join(pieces)


def wrap_line(line: Line, width: int, *, first: Line = (), rest: Line = ()) -> list[Line]:
    """Wrap *line* at spaces; no row but one with a single long word takes more than *width* columns.

    Args:
        line: the text.
        width: of the rows, with their prefixes.
        first: what stands before the first row.
        rest: what stands before the others.
    """
    rows: list[Line] = []
    row, used, is_empty = list(first), line_width(first), True
    for blank, word in _words(line, max(1, width - line_width(rest))):
        size = line_width(word)
        if not is_empty and used + 1 + size > width:
            rows.append(_joined(row))
            row, used, is_empty = list(rest), line_width(rest), True
        if not is_empty:
            row.append(Span(" ", blank))
            used += 1
        row += word
        used += size
        is_empty = False
    rows.append(_joined(row))
    return rows


def clip_line(line: Line, width: int) -> Line:
    """Return as much of *line* as takes at most *width* columns."""
    if line_width(line) <= width:
        return line
    clipped: list[Span] = []
    for span in line:
        for cluster in iter_graphemes(span.text):
            width -= cell_width(cluster)
            if width < 0:
                return _joined(clipped)
            clipped.append(Span(cluster, span.style))
    return _joined(clipped)


def _words(line: Line, width: int) -> Iterator[tuple[Style, Line]]:
    """Yield the words of *line*, each with the style of the blank before it.

    A word in a script without spaces is cut if it is wider than *width*.
    """
    word: list[Span] = []
    blank = Style.NONE
    for span in line:
        for piece in _PIECES.findall(span.text):
            if not piece.isspace():
                word.append(Span(piece, span.style))
                continue
            for part in _cut_word(word, width):
                yield blank, part
            word.clear()
            blank = span.style
    for part in _cut_word(word, width):
        yield blank, part


def _cut_word(spans: Iterable[Span], width: int) -> Iterator[Line]:
    word = tuple(spans)
    if not word:
        return
    # A URL or a path stays whole, so that it can be copied: the terminal wraps it.
    if line_width(word) <= width or not any(_has_wide(span.text) for span in word):
        yield word
        return
    row: list[Span] = []
    used = 0
    for span in word:
        for cluster in iter_graphemes(span.text):
            size = cell_width(cluster)
            if row and used + size > width:
                yield _joined(row)
                row, used = [], 0
            row.append(Span(cluster, span.style))
            used += size
    yield _joined(row)


def _has_wide(text: str) -> bool:
    return not text.isascii() and cell_width(text) > len(text)


def _joined(spans: Iterable[Span]) -> Line:
    """Return *spans* as a line, neighbours in the same style as one; no blanks at the end."""
    line: list[Span] = []
    for span in spans:
        if line and line[-1].style == span.style:
            line[-1] = Span(line[-1].text + span.text, span.style)
        elif span.text:
            line.append(span)
    while line:
        text = line[-1].text.rstrip()
        if text:
            line[-1] = Span(text, line[-1].style)
            break
        line.pop()
    return tuple(line)
