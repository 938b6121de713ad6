"""A unified diff as styled lines: signs at the front, colours, and changed words in bold. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from engine.cli.terminal.terminal_text import escape_control_chars
from engine.cli.text.styled_text import Line, Span, Style, line_of

# Longer lines are not compared word by word, nor are those that have little in common.
_MOST_COMPARED: Final = 500
_LEAST_ALIKE: Final = 0.4
_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


def diff_lines(text: str, most: int | None = None) -> list[Line]:
    """Return at most *most* lines of a unified diff, and how many more there are."""
    rows = text.splitlines()
    lines = list(_lines(rows))
    if most is None or len(lines) <= most + 1:
        return lines
    return [*lines[:most], line_of(f"… {len(lines) - most} more lines", Style.DIM)]


def _lines(rows: Sequence[str]) -> Iterator[Line]:
    removed: list[str] = []
    added: list[str] = []
    for at, row in enumerate(rows):
        kind = " " if _is_heading(rows, at) else row[:1]
        if kind == "+":
            added.append(row[1:])
            continue
        if kind != "-" or added:
            yield from _change(removed, added)
            removed, added = [], []
        if kind == "-":
            removed.append(row[1:])
        else:
            yield _other(row, is_heading=_is_heading(rows, at))
    yield from _change(removed, added)


def _is_heading(rows: Sequence[str], at: int) -> bool:
    """Return whether a row names a file. A line `-- x` that was removed looks like one, but for its neighbour."""
    if rows[at].startswith("--- "):
        return at + 1 < len(rows) and rows[at + 1].startswith("+++ ")
    return rows[at].startswith("+++ ") and at > 0 and rows[at - 1].startswith("--- ")


def _other(row: str, *, is_heading: bool) -> Line:
    style = Style.DIM if row.startswith(("@@", "\\")) else Style.NONE
    return line_of(escape_control_chars(row), Style.STRONG if is_heading else style)


def _change(removed: Sequence[str], added: Sequence[str]) -> Iterator[Line]:
    """Yield lines that were removed and those in their place; if they are as many, their words are compared."""
    pairs = [_words(old, new) for old, new in zip(removed, added, strict=True)] if len(removed) == len(added) else []
    yield from (
        _signed("-", pairs[at][0] if pairs else [(text, False)], Style.REMOVED) for at, text in enumerate(removed)
    )
    yield from (_signed("+", pairs[at][1] if pairs else [(text, False)], Style.ADDED) for at, text in enumerate(added))


_Pieces = list[tuple[str, bool]]


def _words(old: str, new: str) -> tuple[_Pieces, _Pieces]:
    """Return the pieces of both lines, and whether each of them differs."""
    if max(len(old), len(new)) > _MOST_COMPARED:
        return [(old, False)], [(new, False)]
    olds, news = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, olds, news, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return [(old, False)], [(new, False)]
    before: _Pieces = []
    after: _Pieces = []
    for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        before.append(("".join(olds[old_from:old_to]), tag != "equal"))
        after.append(("".join(news[new_from:new_to]), tag != "equal"))
    return before, after


def _signed(sign: str, pieces: Iterable[tuple[str, bool]], style: Style) -> Line:
    spans = [
        Span(escape_control_chars(text), style | Style.STRONG if differs else style) for text, differs in pieces if text
    ]
    return (Span(sign, style), *spans)
