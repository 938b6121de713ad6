"""Markdown as styled lines for a terminal, while it streams.

Each line is shown on its own: nothing that comes later changes a line that has been returned. So a table is held until it
ends, and a long line is returned row by row as soon as its rows can't change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from engine.cli.terminal.terminal_text import escape_control_chars
from engine.cli.text.inline_markdown import parse_inline
from engine.cli.text.markdown_table import TableLayout, is_delimiter_row
from engine.cli.text.styled_text import Line, Style, line_of, wrap_line
from engine.core.value_base import Value

# Prose in longer rows is hard to read.
MAX_PROSE_WIDTH: Final = 100
_MAX_HELD_ROWS: Final = 200
# A longer line is shown in pieces: its markers are looked for in each alone.
_MAX_LINE: Final = 4_000
_FENCE: Final = re.compile(r"\s{0,12}(?P<fence>`{3,}(?=[^`]*$)|~{3,})\s*(?P<info>.*)")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*")
_MAYBE_RULE: Final = re.compile(r"\s*[-*_\s]*")
_HEADING: Final = re.compile(r" {0,3}(?P<marks>#{1,6})\s+(?P<text>.*?)(?:\s+#+)?\s*")
_LIST_ITEM: Final = re.compile(r"(?P<indent>\s*)(?P<marker>[-*+]|\d{1,9}[.)])(?P<gap>\s+)(?=\S)")
_QUOTE: Final = re.compile(r" {0,3}(?P<marks>(?:> ?)+)")
_INDENT: Final = re.compile(r"\s*")
_CODE_INDENT: Final = 4


@attrs.frozen(eq=False, repr=False)
class _Block(Value):
    """A line of prose: what stands before its rows, and its text."""

    first: Line
    rest: Line
    text: str


@attrs.define(eq=False, repr=False)
class MarkdownView:
    """Turns Markdown that comes in pieces into styled lines. The lines do not depend on where the pieces end.

    Attributes:
        width: of the terminal, in columns.
        keeps_marks: leave the markers of emphasis in the text, for terminals without styles.
        is_linear: tables as `header: value` lines, for screen readers.
    """

    width: int = MAX_PROSE_WIDTH
    keeps_marks: bool = attrs.field(default=False, kw_only=True)
    is_linear: bool = attrs.field(default=False, kw_only=True)
    _line: list[str] = attrs.field(factory=list[str], init=False)
    _length: int = attrs.field(default=0, init=False)
    # The rows of the unfinished line that have been returned, and how long it is when it is looked at again.
    _rows_returned: int = attrs.field(default=0, init=False)
    _next_look: int = attrs.field(default=0, init=False)
    _fence: str = attrs.field(default="", init=False)
    _is_in_list: bool = attrs.field(default=False, init=False)
    # Of a line that is shown in pieces: what stands before the rows of the next piece.
    _continued: Line | None = attrs.field(default=None, init=False)
    # Whether the unfinished line, being too long, is shown as one all the same.
    _is_whole: bool | None = attrs.field(default=None, init=False)
    _table: list[str] = attrs.field(factory=list[str], init=False)
    _layout: TableLayout | None = attrs.field(default=None, init=False)
    # The width from the next line on; a line of which rows were returned is wrapped to its end as it was begun.
    _next_width: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._next_width = self.width

    def resize(self, width: int) -> None:
        """Use another width for what has not been returned; a line that has begun to be, goes on as it was."""
        self._next_width = width
        self._use_next_width()

    def feed(self, text: str) -> list[Line]:
        """Add *text*; return the lines that it finishes."""
        lines: list[Line] = []
        while text:
            head, newline, text = text.partition("\n")
            while self._length + len(head) > _MAX_LINE and self._is_cut(head):
                size = _MAX_LINE - self._length
                self._append(head[:size])
                head = head[size:]
                lines += self._end_piece()
            self._append(head)
            lines += self._end_line() if newline else self._settled_rows()
        return lines

    def finish(self) -> list[Line]:
        """Return the lines that are left at the end of the text."""
        lines = self._end_line() if self._length else []
        self._continued = None
        return [*lines, *self._end_table()]

    @property
    def preview(self) -> list[Line]:
        """The rows of the unfinished line, as they look now."""
        text = self._source()
        if not text:
            return []
        if not self._is_prose(text):
            return [line_of(escape_control_chars(text), Style.CODE if self._fence else Style.NONE)]
        return self._prose(text)[self._rows_returned :]

    # -- lines --------------------------------------------------------------------------------

    def _use_next_width(self) -> None:
        if not self._rows_returned and self.width != self._next_width:
            self.width, self._next_look = self._next_width, 0

    def _append(self, text: str) -> None:
        if text:
            self._line.append(text)
            self._length += len(text)

    def _source(self) -> str:
        # Joined once: a line may come in thousands of pieces.
        if len(self._line) > 1:
            self._line = ["".join(self._line)]
        return self._line[0] if self._line else ""

    def _is_cut(self, head: str) -> bool:
        """Return whether a line that is too long is shown in pieces: code and tables are not."""
        if self._is_whole is None:
            self._is_whole = self._continued is None and not self._is_prose((self._source() + head)[:_MAX_LINE])
        return not self._is_whole

    def _is_prose(self, text: str) -> bool:
        """Return whether a line that begins with *text* is wrapped."""
        if self._continued is not None:
            return True
        return not (self._fence or text.lstrip().startswith(("|", "```", "~~~")) or self._is_indented_code(text))

    def _take_line(self) -> str:
        text = self._source()
        self._line.clear()
        self._length = self._next_look = 0
        return text

    def _end_line(self) -> list[Line]:
        text = self._take_line().rstrip("\r")
        is_rest, rows_returned = self._continued is not None, self._rows_returned
        self._rows_returned = 0
        self._is_whole = None
        if is_rest and not text:
            self._continued = None
            return []
        lines = [] if self._is_table_row(text) else list(self._end_table())
        lines += list(self._whole_line(text))[rows_returned:]
        self._continued = None
        self._use_next_width()
        return lines

    def _end_piece(self) -> list[Line]:
        """Return the rows of a piece of a line that is too long."""
        text = self._take_line()
        rest = self._block(text).rest
        lines = [*self._end_table(), *list(self._whole_line(text))[self._rows_returned :]]
        self._rows_returned = 0
        self._continued = rest
        self._use_next_width()
        return lines

    def _settled_rows(self) -> list[Line]:
        """Return the rows of the unfinished line that can't change any more."""
        if self._fence or self._length < max(self._next_look, self._prose_width):
            return []
        # Looking costs as much as the line is long.
        self._next_look = self._length + max(self._prose_width, self._length) // 2
        text = self._source()
        # The last word may go on, and so may what is a rule or a heading at the end of the line only.
        text = text[: max(text.rfind(" "), 0)]
        if not self._is_prose(text) or _MAYBE_RULE.fullmatch(text) or _HEADING.fullmatch(text):
            return []
        rows = self._prose(text, settled_only=True)[self._rows_returned : -1]
        self._rows_returned += len(rows)
        return [*self._end_table(), *rows] if rows else []

    def _whole_line(self, text: str) -> Iterator[Line]:
        """Yield the rows of a line."""
        if self._continued is not None:
            yield from self._prose(text)
        elif self._fence:
            yield self._code_line(text)
        elif self._is_table_row(text):
            yield from self._table_row(text)
        else:
            yield from self._block_line(text)

    def _is_table_row(self, text: str) -> bool:
        return not self._fence and self._continued is None and text.lstrip().startswith("|")

    def _block_line(self, text: str) -> Iterator[Line]:
        fence = _FENCE.fullmatch(text)
        if fence is not None:
            self._fence = fence["fence"]
            yield line_of(escape_control_chars(text.strip()), Style.DIM)
        elif not text.strip():
            yield ()
        elif _RULE.fullmatch(text):
            self._is_in_list = False
            yield line_of("-" * min(self._prose_width, 40), Style.DIM)
        elif self._is_indented_code(text):
            yield line_of(escape_control_chars(text.rstrip()), Style.CODE)
        else:
            rows = self._prose(text)
            self._is_in_list = _LIST_ITEM.match(text) is not None or (self._is_in_list and text[0].isspace())
            yield from rows

    def _code_line(self, text: str) -> Line:
        fence = _FENCE.fullmatch(text)
        if fence is not None and fence["fence"].startswith(self._fence) and not fence["info"]:
            self._fence = ""
            return line_of(text.strip(), Style.DIM)
        return line_of(escape_control_chars(text.rstrip()), Style.CODE)

    def _is_indented_code(self, text: str) -> bool:
        indent = _INDENT.match(text.expandtabs(_CODE_INDENT))
        is_indented = indent is not None and indent.end() >= _CODE_INDENT
        return is_indented and not self._is_in_list and _LIST_ITEM.match(text) is None

    # -- prose ----------------------------------------------------------------------------------

    @property
    def _prose_width(self) -> int:
        return max(1, min(self.width, MAX_PROSE_WIDTH))

    def _prose(self, text: str, *, settled_only: bool = False) -> list[Line]:
        """Return the rows of a line of prose."""
        heading = _HEADING.fullmatch(text)
        if heading is not None and self._continued is None:
            line = parse_inline(escape_control_chars(heading["text"]), Style.HEADING, keeps_marks=self.keeps_marks).line
            marks = line_of(f"{heading['marks']} ", Style.HEADING)
            return wrap_line(line, self._prose_width, first=marks)
        block = self._block(text)
        inline = parse_inline(block.text, keeps_marks=self.keeps_marks)
        if settled_only and inline.settled < len(block.text):
            inline = parse_inline(block.text[: inline.settled], keeps_marks=self.keeps_marks)
        return wrap_line(inline.line, self._prose_width, first=block.first, rest=block.rest)

    def _block(self, text: str) -> _Block:
        """Split a line of prose into what stands before its rows and its text."""
        if self._continued is not None:
            return _Block(self._continued, self._continued, escape_control_chars(text))
        first: list[str] = []
        rest: list[str] = []
        quote = _QUOTE.match(text)
        if quote is not None:
            bars = "> " * quote["marks"].count(">")
            first.append(bars)
            rest.append(bars)
            text = text[quote.end() :]
        item = _LIST_ITEM.match(text)
        if item is not None:
            marker = "-" if item["marker"] in "*+" else item["marker"]
            indent = item["indent"].expandtabs(_CODE_INDENT)
            first.append(f"{indent}{marker} ")
            rest.append(" " * len(first[-1]))
            text = text[item.end() :]
        else:
            indent = _INDENT.match(text)
            blanks = "" if indent is None else indent[0].expandtabs(_CODE_INDENT)
            blanks = blanks if self._is_in_list else ""
            first.append(blanks)
            rest.append(blanks)
        style = Style.DIM if quote is not None else Style.NONE
        return _Block(line_of("".join(first), style), line_of("".join(rest), style), escape_control_chars(text.strip()))

    # -- tables ---------------------------------------------------------------------------------

    def _table_row(self, text: str) -> Iterator[Line]:
        row = escape_control_chars(text)
        if self._layout is not None:
            yield from self._layout.row(row, is_first=False)
            return
        self._table.append(row)
        if len(self._table) == 2 and not is_delimiter_row(row):
            yield from self._end_table()
        elif len(self._table) > _MAX_HELD_ROWS:
            yield from self._lay_out()

    def _end_table(self) -> Iterator[Line]:
        if len(self._table) >= 2 and is_delimiter_row(self._table[1]):
            yield from self._lay_out()
        for row in self._table:  # it is none
            yield from self._prose(row)
        self._table.clear()
        self._layout = None

    def _lay_out(self) -> Iterator[Line]:
        self._layout = TableLayout(self._table, self.width, keeps_marks=self.keeps_marks, is_linear=self.is_linear)
        yield from self._layout.head()
        for index, row in enumerate(self._table[2:]):
            yield from self._layout.row(row, is_first=not index)
        self._table.clear()
