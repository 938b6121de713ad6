"""Tables for a terminal: columns that fit the width, and timestamps in a readable form."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence

import attrs

from engine.cli.terminal.terminal_text import one_line


def format_moment(moment: float, now: float) -> str:
    """Format a moment: the time if it is today, else the date."""
    try:
        then, today = time.localtime(moment), time.localtime(now)
    except (ValueError, OverflowError, OSError):  # an imported session may hold any number
        return "?"
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%d %b %H:%M" if then.tm_year == today.tm_year else "%Y-%m-%d", then)


def display_width(text: str) -> int:
    """Return how many terminal columns *text* takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.category(char) in {"Mn", "Me", "Cf"} for char in text)


@attrs.frozen(kw_only=True)
class Column:
    """A column of a table: its heading, its cells, and their alignment."""

    heading: str
    texts: Sequence[str]
    is_right: bool = False
    grows: bool = False


def table(columns: Sequence[Column], width: int) -> str:
    """Format *columns* as a table; empty columns are left out, and the one that grows shrinks to fit *width*."""
    shown = [column for column in columns if any(column.texts)]
    widths = [max(map(display_width, (column.heading, *column.texts))) for column in shown]
    room = width - sum(widths) - 2 * (len(shown) - 1)
    for number, column in enumerate(shown):
        if column.grows and room < 0:
            widths[number] = max(12, widths[number] + room)
    rows = zip(*((column.heading, *column.texts) for column in shown), strict=True)
    lines = (
        "  ".join(_cell(text, size, is_right=c.is_right) for text, size, c in zip(row, widths, shown, strict=True))
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _cell(text: str, size: int, *, is_right: bool) -> str:
    text = one_line(text, size)
    # `one_line` counts characters; wide ones take two columns.
    while display_width(text) > size:
        text = f"{text[:-2]}…"
    blank = " " * (size - display_width(text))
    return f"{blank}{text}" if is_right else f"{text}{blank}"
