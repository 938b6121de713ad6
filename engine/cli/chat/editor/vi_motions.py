"""Where vi's motions lead in a text, and what its text objects cover. Positions are those of characters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from engine.cli.chat.editor.text_buffer import TextBuffer, line_end_at, line_start_at
from engine.cli.chat.editor.word_edits import MARKS

_WORD: Final = re.compile(rf"\w[\w{MARKS}]*|[^\w\s]+")
_BIG_WORD: Final = re.compile(r"\S+")
_PAIRS: Final[Mapping[str, str]] = {
    **dict.fromkeys("()b", "()"),
    **dict.fromkeys("[]", "[]"),
    **dict.fromkeys("{}B", "{}"),
    **dict.fromkeys("<>", "<>"),
}
_QUOTES: Final = "\"'`"


@attrs.frozen
class ViRange:
    """What an operator works on.

    Attributes:
        is_linewise: whole lines, with their line break.
    """

    start: int
    end: int
    is_linewise: bool = False


def motion_target(buffer: TextBuffer, motion: str, count: int) -> int | None:
    """Return where a motion leads; None: nowhere."""
    position = buffer.cursor
    if motion[0] in "fFtT":
        return _find_char(buffer.text, position, motion, count)
    if motion in {"G", "gg"}:
        return _line_target(buffer.text, motion, count)
    for _ in range(min(count or 1, len(buffer.text) + 1)):
        position = _step(buffer, position, motion)
    return position


def _step(buffer: TextBuffer, position: int, motion: str) -> int:
    if motion.lower() in {"w", "b", "e"}:
        return _word_step(buffer.text, position, motion)
    start, end = line_start_at(buffer.text, position), line_end_at(buffer.text, position)
    match motion:
        case "h":
            return max(start, buffer.before(position))
        case "0":
            return start
        case "^":
            return end - len(buffer.text[start:end].lstrip())
        case "$":
            return end
        case _:
            return min(end, buffer.after(position))


def _word_step(text: str, position: int, motion: str) -> int:
    words = (_BIG_WORD if motion.isupper() else _WORD).finditer(text)
    match motion.lower():
        case "w":
            return next((word.start() for word in words if word.start() > position), len(text))
        case "e":
            return next((word.end() - 1 for word in words if word.end() - 1 > position), len(text))
        case _:
            return max((word.start() for word in words if word.start() < position), default=0)


def _line_target(text: str, motion: str, count: int) -> int:
    lines = text.split("\n")
    number = count or (len(lines) if motion == "G" else 1)
    return sum(len(line) + 1 for line in lines[: min(number, len(lines)) - 1])


def _find_char(text: str, position: int, motion: str, count: int) -> int | None:
    kind, char = motion[0], motion[1:]
    start, end = line_start_at(text, position), line_end_at(text, position)
    for _ in range(count or 1):
        at = text.find(char, position + 1, end) if kind in "ft" else text.rfind(char, start, position)
        if at < 0:
            return None
        position = at
    return position + {"t": -1, "T": len(char)}.get(kind, 0)


def operator_range(buffer: TextBuffer, motion: str, count: int) -> ViRange | None:
    """Return what an operator with that motion works on; None: nothing."""
    text, cursor = buffer.text, buffer.cursor
    if motion in {"j", "k", "G", "gg", "lines"}:
        return _lines(text, cursor, motion, count)
    target = motion_target(buffer, motion, count)
    if target is None:
        return None
    start, end = sorted((cursor, target))
    if motion[0] in "eEft" and start < len(text):
        end = buffer.after(end)  # these motions include the character that they lead to
    elif motion in {"w", "W"} and "\n" in text[start:end]:
        # The last word of a line does not take the line break along.
        end = max(line_end_at(text, start), start + len(text[start:end].rstrip()))
    return ViRange(start, end)


def _lines(text: str, cursor: int, motion: str, count: int) -> ViRange:
    first, last = line_start_at(text, cursor), line_end_at(text, cursor)
    if motion in {"G", "gg"}:
        target = _line_target(text, motion, count)
        return ViRange(min(first, target), max(last, line_end_at(text, target)), is_linewise=True)
    for _ in range((count or 1) - (motion == "lines")):
        if motion == "k":
            first = line_start_at(text, max(0, first - 1))
        else:
            last = line_end_at(text, min(len(text), last + 1))
    return ViRange(first, last, is_linewise=True)


def text_object(text: str, cursor: int, kind: str) -> ViRange | None:
    """Return what a text object such as `iw` or `a"` covers; None: there is none here."""
    is_around, name = kind[0] == "a", kind[1]
    if name in "wW":
        return _word_object(text, cursor, is_around=is_around, is_big=name == "W")
    if name in _QUOTES:
        return _quoted(text, cursor, name, is_around=is_around)
    return _between(text, cursor, _PAIRS[name], is_around=is_around) if name in _PAIRS else None


def _word_object(text: str, cursor: int, *, is_around: bool, is_big: bool) -> ViRange | None:
    start, end = line_start_at(text, cursor), line_end_at(text, cursor)
    pattern = r"\S+|[^\S\n]+" if is_big else rf"{_WORD.pattern}|[^\S\n]+"
    for match in re.compile(pattern).finditer(text, start, end):
        if match.start() <= cursor < match.end():
            first, last = match.span()
            if is_around:
                after = last + len(text[last:end]) - len(text[last:end].lstrip())
                before = start + len(text[start:first].rstrip())
                first, last = (first, after) if after > last else (before, last)
            return ViRange(first, last)
    return None


def _quoted(text: str, cursor: int, quote: str, *, is_around: bool) -> ViRange | None:
    start, end = line_start_at(text, cursor), line_end_at(text, cursor)
    marks = [at for at in range(start, end) if text[at] == quote and text[at - 1 : at] != "\\"]
    for first, last in zip(marks[::2], marks[1::2], strict=False):
        if cursor <= last:
            return ViRange(first, last + 1) if is_around else ViRange(first + 1, last)
    return None


def _between(text: str, cursor: int, pair: str, *, is_around: bool) -> ViRange | None:
    opening, closing = pair[0], pair[1]
    depth, first = 0, -1
    for at in range(cursor, -1, -1):
        if text[at : at + 1] == closing and at != cursor:
            depth += 1
        elif text[at : at + 1] == opening:
            if depth == 0:
                first = at
                break
            depth -= 1
    if first < 0:
        return None
    depth = 0
    for at in range(first + 1, len(text)):
        if text[at] == opening:
            depth += 1
        elif text[at] == closing:
            if depth == 0:
                return ViRange(first, at + 1) if is_around else ViRange(first + 1, at)
            depth -= 1
    return None
