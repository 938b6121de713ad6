"""Edits of a text by words and lines, and moves over them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from engine.cli.chat.editor.text_buffer import TextBuffer, line_end_at, line_start_at

# What may be in a word besides letters and digits: combining marks, which `\w` leaves out.
MARKS: Final = (
    r"\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963"
    r"\u0980-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
)
_WORD: Final = re.compile(rf"\w[\w{MARKS}]*")


def line_start(buffer: TextBuffer) -> None:
    """Move to the beginning of the line."""
    buffer.move(line_start_at(buffer.text, buffer.cursor))


def line_end(buffer: TextBuffer) -> None:
    """Move to the end of the line."""
    buffer.move(line_end_at(buffer.text, buffer.cursor))


def word_left(buffer: TextBuffer) -> None:
    """Move to the beginning of the word before the cursor."""
    buffer.move(word_start_at(buffer.text, buffer.cursor))


def word_right(buffer: TextBuffer) -> None:
    """Move behind the word after the cursor."""
    buffer.move(word_end_at(buffer.text, buffer.cursor))


def swap(buffer: TextBuffer) -> None:
    """Swap the clusters around the cursor, and move on; at the end of the line, the last two."""
    text, cursor = buffer.text, buffer.cursor
    middle = cursor if cursor < line_end_at(text, cursor) else buffer.before(cursor)
    start, end = buffer.before(middle), buffer.after(middle)
    if line_start_at(text, middle) <= start < middle:
        buffer.splice(start, end, text[middle:end] + text[start:middle], "swap")


def change_word(buffer: TextBuffer, change: Callable[[str], str]) -> None:
    """Replace the rest of the word after the cursor by what *change* makes of it, and move behind it."""
    end = word_end_at(buffer.text, buffer.cursor)
    if end != buffer.cursor:
        buffer.splice(buffer.cursor, end, change(buffer.text[buffer.cursor : end]), "change")


def word_start_at(text: str, position: int) -> int:
    """Return where the word before *position* begins."""
    return max((match.start() for match in _WORD.finditer(text, 0, position)), default=0)


def word_end_at(text: str, position: int) -> int:
    """Return where the word after *position* ends."""
    match = _WORD.search(text, position)
    return len(text) if match is None else match.end()
