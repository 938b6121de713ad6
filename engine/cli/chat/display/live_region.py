"""The live region: the few rows at the bottom that are drawn again and again, below lines that are printed once.

It returns what to write, as text. A finished line is never touched again. Nothing that outlives this process is armed,
and neither the screen nor the scrollback is ever cleared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs

from engine.cli.chat.display.styles import without_styles
from engine.cli.chat.editor.graphemes import cells

# Synchronized output: a terminal that knows it shows a frame as a whole, others ignore it.
_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
_ERASE_BELOW: Final = "\x1b[J"
_ERASE_LINE_END: Final = "\x1b[K"
# Which rows a terminal wraps when they no longer fit; others it cuts.
Reflow: TypeAlias = Literal["all", "all but the cursor's", "none"]


@attrs.frozen
class RegionFrame:
    """What the live region shows.

    Attributes:
        rows: the rows, from the top, each narrower than the terminal; with styles, without other control characters.
        row: the row of the cursor.
        column: the column of the cursor.
    """

    rows: tuple[str, ...]
    row: int
    column: int


_NOTHING: Final = RegionFrame((), 0, 0)


@attrs.define(eq=False)
class LiveRegion:
    """What the terminal shows of the live region, and how to change it.

    Attributes:
        columns: the terminal's width when the region was drawn.
    """

    columns: int
    _shown: RegionFrame = attrs.field(default=_NOTHING, init=False)

    def draw(self, lines: Sequence[str], frame: RegionFrame) -> str:
        """Return what prints *lines* above the region and shows *frame*; empty if nothing changes."""
        if not lines and frame == self._shown:
            return ""
        text = self._with_lines(lines, frame) if lines else self._changes(frame)
        self._shown = frame
        return f"{_BEGIN}{text}{_END}"

    def clear(self) -> str:
        """Return what removes the region; the cursor is then below the finished lines."""
        text = self._to_top()
        self._shown = _NOTHING
        return f"{text}{_ERASE_BELOW}"

    def resize(self, columns: int, reflow: Reflow) -> str:
        """Return what removes the region after the terminal's size has changed; it is *columns* wide now."""
        frame = self._shown
        text = self.clear()
        if reflow != "none" and columns < self.columns:
            above = sum(wrapped_rows(row, columns) for row in frame.rows[: frame.row])
            if reflow == "all":
                above += frame.column // columns
            text = f"{_up(above)}\r{_ERASE_BELOW}"
        self.columns = columns
        return text

    def forget(self) -> None:
        """Take it that nothing of the region is shown, and the cursor is at the beginning of a line."""
        self._shown = _NOTHING

    def _with_lines(self, lines: Sequence[str], frame: RegionFrame) -> str:
        # A line of code may be wider than the terminal, and how it wraps is unknown. So the region is redrawn.
        kept = 0
        # Rows that are finished as they are stay where they are: text that streams is written once.
        for line, row in zip(lines, self._shown.rows[: self._shown.row], strict=False):
            if line != row:
                break
            kept += 1
        rest = lines[kept:]
        begin = f"{_up(self._shown.row - kept)}\r"
        above = self._shown.rows[kept] if kept < self._shown.row else ""
        if rest and above and rest[0].startswith(above) and "\x1b" not in rest[0]:
            begin += _to_column(cells(above))
            rest = [rest[0][len(above) :], *rest[1:]]
        printed = "".join(f"{line}\r\n" for line in rest)
        return f"{begin}{_ERASE_BELOW}{printed}{_all_rows(frame)}"

    def _changes(self, frame: RegionFrame) -> str:
        """Return what draws the rows that differ."""
        before = self._shown
        if not before.rows:
            return _all_rows(frame)
        text, at = "", before.row
        for index, row in enumerate(frame.rows):
            if index >= len(before.rows):
                text += f"{_down(len(before.rows) - 1 - at)}\r\n{row}" if at < len(before.rows) - 1 else f"\r\n{row}"
                at = index
            elif row != before.rows[index]:
                text += _vertical(index - at) + _row_change(before.rows[index], row)
                at = index
        if len(frame.rows) < len(before.rows):
            text += f"{_vertical(len(frame.rows) - at)}\r{_ERASE_BELOW}"
            at = len(frame.rows)
        return text + _vertical(frame.row - at) + _to_column(frame.column)

    def _to_top(self) -> str:
        return f"{_up(self._shown.row)}\r"


def wrapped_rows(row: str, columns: int) -> int:
    """Return how many rows of the terminal a row takes that has become too wide."""
    return max(1, -(-cells(without_styles(row)) // columns))


def _all_rows(frame: RegionFrame) -> str:
    if not frame.rows:
        return ""
    return "\r\n".join(frame.rows) + _up(len(frame.rows) - 1 - frame.row) + _to_column(frame.column)


def _row_change(before: str, after: str) -> str:
    """Return what changes a row, with the cursor anywhere in it."""
    if before and after.startswith(before) and "\x1b" not in after:
        # Text that grows at its end, as the answer does.
        return f"{_to_column(cells(before))}{after[len(before) :]}"
    return f"\r{after}{_ERASE_LINE_END}"


def _vertical(rows: int) -> str:
    return _down(rows) if rows > 0 else _up(-rows)


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""


def _down(rows: int) -> str:
    # Line feeds, as the control sequence stops at the last row: a terminal that has just become lower has removed the
    # rows below the cursor, and what belongs there would overwrite this one.
    return "\n" * rows


def _to_column(column: int) -> str:
    return f"\r\x1b[{column}C" if column > 0 else "\r"
