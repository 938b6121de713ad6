"""What was killed, to be yanked: kills in a row count as one."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.chat.editor.text_buffer import TextBuffer, line_end_at, line_start_at
from engine.cli.chat.editor.word_edits import word_end_at, word_start_at

_MAX_KILLS: Final = 20


@attrs.define(eq=False)
class KillRing:
    """The kills, the newest last."""

    _kills: list[str] = attrs.field(factory=list[str], init=False)
    _yanked: tuple[int, int] = attrs.field(default=(0, 0), init=False)

    def kill_line_end(self, buffer: TextBuffer) -> None:
        """Kill to the end of the line; at its end, the line break."""
        end = line_end_at(buffer.text, buffer.cursor)
        end = end if end > buffer.cursor else min(len(buffer.text), end + 1)
        self._kill(buffer, buffer.cursor, end, forward=True)

    def kill_line_start(self, buffer: TextBuffer) -> None:
        """Kill to the beginning of the line."""
        self._kill(buffer, line_start_at(buffer.text, buffer.cursor), buffer.cursor, forward=False)

    def kill_blank_word(self, buffer: TextBuffer) -> None:
        """Kill back to a blank."""
        head = buffer.text[: buffer.cursor].rstrip()
        start = max(head.rfind(" "), head.rfind("\n"), head.rfind("\t")) + 1
        self._kill(buffer, start, buffer.cursor, forward=False)

    def kill_word_back(self, buffer: TextBuffer) -> None:
        """Kill to the beginning of the word before the cursor."""
        self._kill(buffer, word_start_at(buffer.text, buffer.cursor), buffer.cursor, forward=False)

    def kill_word(self, buffer: TextBuffer) -> None:
        """Kill to the end of the word after the cursor."""
        self._kill(buffer, buffer.cursor, word_end_at(buffer.text, buffer.cursor), forward=True)

    def yank(self, buffer: TextBuffer) -> None:
        """Insert what was killed last."""
        if self._kills:
            self._put(buffer, buffer.cursor, buffer.cursor)

    def yank_earlier(self, buffer: TextBuffer) -> None:
        """Right after a yank: replace it with what was killed before that."""
        if buffer.last_edit == "yank" and len(self._kills) > 1:
            self._kills.insert(0, self._kills.pop())
            self._put(buffer, *self._yanked)

    def _put(self, buffer: TextBuffer, start: int, end: int) -> None:
        buffer.splice(start, end, self._kills[-1], "yank")
        self._yanked = (start, buffer.cursor)

    def _kill(self, buffer: TextBuffer, start: int, end: int, *, forward: bool) -> None:
        if start == end:
            return
        killed, continues = buffer.text[start:end], buffer.last_edit == "kill" and bool(self._kills)
        buffer.splice(start, end, edit="kill")
        if continues:
            self._kills[-1] = self._kills[-1] + killed if forward else killed + self._kills[-1]
        else:
            self._kills.append(killed)
            del self._kills[:-_MAX_KILLS]
