"""Text with a cursor, edited like a line of a shell: words, a kill ring, undo.

The cursor stands between grapheme clusters. Each method leaves it there.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from typing import Final

import attrs

from engine.cli.chat.editor.graphemes import boundaries

_MAX_UNDO: Final = 500
_MAX_KILLS: Final = 20
_WORD: Final = re.compile(r"\w+")


@attrs.define(eq=False)
class TextBuffer:
    """The text that is being written."""

    text: str = attrs.field(default="", init=False)
    cursor: int = attrs.field(default=0, init=False)
    _undo: list[tuple[str, int]] = attrs.field(factory=list[tuple[str, int]], init=False)
    _kills: list[str] = attrs.field(factory=list[str], init=False)
    # What the last edit was, so that a word typed in one go is undone in one go, and kills in a row are yanked together.
    _last: str = attrs.field(default="", init=False)
    _yanked: tuple[int, int] | None = attrs.field(default=None, init=False)

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
        self.text, self.cursor, self._last = "", 0, ""
        self._undo.clear()

    # -- typing ------------------------------------------------------------------------------

    def insert(self, text: str) -> None:
        """Insert at the cursor."""
        if not text:
            return
        # Typed letters are undone as a word.
        self._remember("insert", goes_on=self._last == "insert" and not text.isspace())
        self._put(text)

    def delete_back(self) -> None:
        """Delete the cluster before the cursor."""
        self._delete(self._before(self.cursor), self.cursor, "delete")

    def delete_forward(self) -> None:
        """Delete the cluster after the cursor."""
        self._delete(self.cursor, self._after(self.cursor), "delete")

    def undo(self) -> None:
        """Undo the last edit."""
        if self._undo:
            self.text, self.cursor = self._undo.pop()
        self._last = ""

    # -- moving ------------------------------------------------------------------------------

    def move(self, position: int) -> None:
        """Put the cursor at *position*, or before the cluster that holds it."""
        self._last = ""
        self.cursor = self._at_boundary(max(0, min(position, len(self.text))), nearest_end=False)

    def left(self) -> None:
        """Move over the cluster before the cursor."""
        self.move(self._before(self.cursor))

    def right(self) -> None:
        """Move over the cluster after the cursor."""
        self.move(self._after(self.cursor))

    def word_left(self) -> None:
        """Move to the beginning of the word before the cursor."""
        self.move(self._word_start())

    def word_right(self) -> None:
        """Move behind the word after the cursor."""
        self.move(self._word_end())

    def line_start(self) -> None:
        """Move to the beginning of the line."""
        self.move(self._line_start(self.cursor))

    def line_end(self) -> None:
        """Move to the end of the line."""
        self.move(self._line_end(self.cursor))

    # -- kills -------------------------------------------------------------------------------

    def kill_line_end(self) -> None:
        """Kill to the end of the line; at its end, the line break."""
        end = self._line_end(self.cursor)
        self._kill(self.cursor, end if end > self.cursor else min(len(self.text), end + 1), forward=True)

    def kill_line_start(self) -> None:
        """Kill to the beginning of the line."""
        self._kill(self._line_start(self.cursor), self.cursor, forward=False)

    def kill_blank_word(self) -> None:
        """Kill back to a blank."""
        head = self.text[: self.cursor].rstrip()
        start = max(head.rfind(" "), head.rfind("\n"), head.rfind("\t")) + 1
        self._kill(start, self.cursor, forward=False)

    def kill_word_back(self) -> None:
        """Kill to the beginning of the word before the cursor."""
        self._kill(self._word_start(), self.cursor, forward=False)

    def kill_word(self) -> None:
        """Kill to the end of the word after the cursor."""
        self._kill(self.cursor, self._word_end(), forward=True)

    def yank(self) -> None:
        """Insert what was killed last."""
        if not self._kills:
            return
        self._remember("yank")
        start = self.cursor
        self._put(self._kills[-1])
        self._yanked = (start, self.cursor)

    def yank_earlier(self) -> None:
        """Right after a yank: replace it with what was killed before that."""
        if self._last != "yank" or self._yanked is None or len(self._kills) < 2:
            return
        start, end = self._yanked
        self._kills.insert(0, self._kills.pop())
        self.text = self.text[:start] + self.text[end:]
        self.cursor = self._at_boundary(start)
        self._put(self._kills[-1])
        self._yanked = (start, self.cursor)

    def swap(self) -> None:
        """Swap the clusters around the cursor, and move on; at the end of the line, the last two."""
        middle = self.cursor if self.cursor < self._line_end(self.cursor) else self._before(self.cursor)
        start, end = self._before(middle), self._after(middle)
        if start < self._line_start(middle) or start == middle:
            return
        self._remember("swap")
        self.text = self.text[:start] + self.text[middle:end] + self.text[start:middle] + self.text[end:]
        self.cursor = self._at_boundary(end)

    def change_word(self, change: Callable[[str], str]) -> None:
        """Replace the rest of the word after the cursor by what *change* makes of it, and move behind it."""
        end = self._word_end()
        if end == self.cursor:
            return
        self._remember("change")
        changed = change(self.text[self.cursor : end])
        self.text = self.text[: self.cursor] + changed + self.text[end:]
        self.cursor = self._at_boundary(self.cursor + len(changed))

    # -- helpers -----------------------------------------------------------------------------

    def _remember(self, edit: str, *, goes_on: bool = False) -> None:
        """Make this state one that undo returns to, unless the edit continues the last one."""
        if not goes_on:
            self._undo.append((self.text, self.cursor))
            del self._undo[:-_MAX_UNDO]
        self._last = edit

    def _put(self, text: str) -> None:
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        # What was inserted may have become a part of the cluster that follows.
        self.cursor = self._at_boundary(self.cursor + len(text))

    def _delete(self, start: int, end: int, edit: str) -> None:
        if start == end:
            return
        self._remember(edit)
        self.text = self.text[:start] + self.text[end:]
        self.cursor = self._at_boundary(start)

    def _kill(self, start: int, end: int, *, forward: bool) -> None:
        if start == end:
            return
        killed, goes_on = self.text[start:end], self._last == "kill" and bool(self._kills)
        self._delete(start, end, "kill")
        if goes_on:
            self._kills[-1] = self._kills[-1] + killed if forward else killed + self._kills[-1]
        else:
            self._kills.append(killed)
            del self._kills[:-_MAX_KILLS]

    def _line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def _line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end

    def _word_start(self) -> int:
        words = [match.start() for match in _WORD.finditer(self.text, 0, self.cursor)]
        return words[-1] if words else 0

    def _word_end(self) -> int:
        match = _WORD.search(self.text, self.cursor)
        return len(self.text) if match is None else match.end()

    def _marks(self, position: int) -> tuple[int, list[int]]:
        """Return the beginning of the line of *position*, and the positions in it where a cursor may stand."""
        # A line break is always a cluster of its own, so that no other line matters.
        start = self._line_start(position)
        return start, boundaries(self.text[start : self._line_end(position)])

    def _before(self, position: int) -> int:
        start, marks = self._marks(position)
        if position == start:
            return max(0, start - 1)
        return start + marks[bisect.bisect_left(marks, position - start) - 1]

    def _after(self, position: int) -> int:
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
