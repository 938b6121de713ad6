"""The model's text among the lines of a turn: as Markdown on a terminal, as it is elsewhere.

Markdown and the tables of widths are imported at the first text: by then the request is out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs

from engine.cli.terminal.terminal_text import escape_control_chars

if TYPE_CHECKING:
    from engine.cli.text.markdown_view import MarkdownView
    from engine.cli.text.styled_text import Line

# A preview costs as much as its line is long, and deltas come in hundreds a second.
_PREVIEW_SECONDS: Final = 0.1


@attrs.define(kw_only=True, eq=False, repr=False)
class AnswerView:
    """Turns deltas of text into what is printed.

    Attributes:
        margin: the text before each line.
        width: of a line.
        is_markdown: show whole lines of Markdown; otherwise each delta at once.
        is_styled: with bold text and colours.
    """

    margin: str = ""
    width: int = 100
    is_markdown: bool = False
    is_styled: bool = False
    _view: MarkdownView | None = attrs.field(default=None, init=False)
    _is_line_open: bool = attrs.field(default=False, init=False)
    _preview: str = attrs.field(default="", init=False)
    _next_preview: float = attrs.field(default=0.0, init=False)

    def feed(self, text: str) -> str:
        """Return what *text* adds."""
        if not self.is_markdown:
            return self._raw(escape_control_chars(text))
        if self._view is None:
            from engine.cli.text.markdown_view import MarkdownView

            self._view = MarkdownView(self._columns, keeps_marks=not self.is_styled)
        return self._lines(self._view.feed(text))

    def end(self) -> str:
        """Return what is left at the end of a text."""
        view, self._view = self._view, None
        return self.break_line() if view is None else self._lines(view.finish())

    def discard(self) -> None:
        """Forget what is not printed so far: the text is taken back."""
        self._view = None

    def break_line(self) -> str:
        """Return a line break if a printed line is open."""
        if not self._is_line_open:
            return ""
        self._is_line_open = False
        return "\n"

    @property
    def is_line_open(self) -> bool:
        """Whether the last printed line can go on."""
        return self._is_line_open

    def preview(self, now: float) -> str:
        """Return the line that is being written, as far as it is there; empty if there is none."""
        if self._view is None:
            return ""
        if now >= self._next_preview:
            self._next_preview = now + _PREVIEW_SECONDS
            rows = self._view.preview
            self._preview = self._one_row(rows[-1]) if rows else ""
        return self._preview

    def _paint(self, line: Line) -> str:
        from engine.cli.text.styled_text import PALETTE, PLAIN, paint

        return paint(line, PALETTE if self.is_styled else PLAIN)

    def _one_row(self, line: Line) -> str:
        from engine.cli.text.styled_text import Span, clip_line

        # A tab takes up to eight columns.
        row = tuple(Span(span.text.replace("\t", "    "), span.style) for span in line)
        return self.margin + self._paint(clip_line(row, self._columns))

    @property
    def _columns(self) -> int:
        # One less: a terminal may wrap after its last column.
        return max(1, self.width - len(self.margin) - 1)

    def _lines(self, lines: Iterable[Line]) -> str:
        # No margin on empty lines: it would leave blanks at their ends.
        return "".join(f"{self.margin if line else self.margin.rstrip()}{self._paint(line)}\n" for line in lines)

    def _raw(self, text: str) -> str:
        pieces: list[str] = []
        for line in text.splitlines(keepends=True):
            margin = "" if self._is_line_open else self.margin if line != "\n" else self.margin.rstrip()
            pieces.append(margin + line)
            self._is_line_open = not line.endswith("\n")
        return "".join(pieces)
