"""Text with a cursor, edited like a line of a shell: words, a kill ring, undo.

The cursor stands between grapheme clusters. Each method leaves it there.
"""

from __future__ import annotations

import bisect
from typing import Final

import attrs

from engine.cli.chat.editor.graphemes import boundaries

_MAX_UNDO: Final = 500


@attrs.define(eq=False)
class TextBuffer:
    """The text that is being written.

    Attributes:
        text: the text.
        cursor: where the cursor is in it.
        last_edit: what the last edit was; empty: the cursor was moved since.
    """

    text: str = attrs.field(default="", init=False)
    cursor: int = attrs.field(default=0, init=False)
    _undo: list[tuple[str, int]] = attrs.field(factory=list[tuple[str, int]], init=False)
    # So that a word typed in one go is undone in one go, and kills in a row are yanked together.
    last_edit: str = attrs.field(default="", init=False)
    # Edits of a group are undone together. None: there is no group; else, whether it has its state to return to.
    _group: bool | None = attrs.field(default=None, init=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but blanks."""
        return not self.text.strip()

    def replace(self, text: str, cursor: int | None = None) -> None:
        """Replace the whole text; the cursor goes to *cursor*, by default to the end."""
        self._remember("replace")
        self.text = text
        self.cursor = self._at_boundary(len(text) if cursor is None else cursor)

    def clear(self) -> None:
        """Remove everything, and forget how it was written."""
        self.text, self.cursor, self.last_edit = "", 0, ""
        self._undo.clear()
        self._group = None if self._group is None else False

    # -- typing ------------------------------------------------------------------------------

    def insert(self, text: str) -> None:
        """Insert at the cursor."""
        if not text:
            return
        # Typed letters are undone as a word.
        self._remember("insert", goes_on=self.last_edit == "insert" and not text.isspace())
        self._put(text)

    def delete_back(self) -> None:
        """Delete the cluster before the cursor."""
        self.splice(self.before(self.cursor), self.cursor)

    def delete_forward(self) -> None:
        """Delete the cluster after the cursor."""
        self.splice(self.cursor, self.after(self.cursor))

    def undo(self) -> None:
        """Undo the last edit."""
        if self._undo:
            self.text, self.cursor = self._undo.pop()
        self.last_edit = ""

    def begin_group(self) -> None:
        """From now on, edits are undone together."""
        self._group = False

    def end_group(self) -> None:
        """The next edit is undone by itself again."""
        self._group = None
        self.last_edit = ""

    # -- moving ------------------------------------------------------------------------------

    def move(self, position: int) -> None:
        """Put the cursor at *position*; inside a cluster it goes to that end of it that is in the direction of the move."""
        self.last_edit = ""
        position = max(0, min(position, len(self.text)))
        self.cursor = self._at_boundary(position, nearest_end=position > self.cursor)

    def left(self) -> None:
        """Move over the cluster before the cursor."""
        self.move(self.before(self.cursor))

    def right(self) -> None:
        """Move over the cluster after the cursor."""
        self.move(self.after(self.cursor))

    # -- helpers -----------------------------------------------------------------------------

    def _remember(self, edit: str, *, goes_on: bool = False) -> None:
        """Make this state one that undo returns to, unless the edit continues the last one."""
        if not goes_on and not self._group:
            self._group = None if self._group is None else True
            self._undo.append((self.text, self.cursor))
            del self._undo[:-_MAX_UNDO]
        self.last_edit = edit

    def _put(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        # What was inserted may have become a part of the cluster that follows.
        self.cursor = self._at_boundary(self.cursor + len(text))

    def splice(self, start: int, end: int, text: str = "", edit: str = "delete") -> None:
        """Replace a range by *text*; the cursor goes behind it."""
        if start == end and not text:
            return
        self._remember(edit)
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start
        self._put(text)

    def _marks(self, position: int) -> tuple[int, list[int]]:
        """Return the beginning of the line of *position*, and the positions in it where a cursor may stand."""
        # A line break is always a cluster of its own, so that no other line matters.
        start = line_start_at(self.text, position)
        return start, boundaries(self.text[start : line_end_at(self.text, position)])

    def before(self, position: int) -> int:
        """Return the position of the cluster before *position*."""
        start, marks = self._marks(position)
        if position == start:
            return max(0, start - 1)
        return start + marks[bisect.bisect_left(marks, position - start) - 1]

    def after(self, position: int) -> int:
        """Return the position behind the cluster at *position*."""
        start, marks = self._marks(position)
        if position == start + marks[-1]:
            return min(len(self.text), position + 1)
        return start + marks[bisect.bisect_right(marks, position - start)]

    def _at_boundary(self, position: int, *, nearest_end: bool = True) -> int:
        """Return *position*, or the end (else the beginning) of the cluster that it would split."""
        start, marks = self._marks(position)
        index = bisect.bisect_left(marks, position - start)
        if marks[index] != position - start and not nearest_end:
            index -= 1
        return start + marks[index]


def line_start_at(text: str, position: int) -> int:
    """Return where the line of *position* begins."""
    return text.rfind("\n", 0, position) + 1


def line_end_at(text: str, position: int) -> int:
    """Return where the line of *position* ends."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end
