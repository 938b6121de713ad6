"""How the chat paints text. All meaning is also in a sign or a word."""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.cli.text.styled_text import PLAIN, Line, Style, line_of, paint, wrap_line
from engine.cli.text.themes import THEMES, Theme

_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")


def without_styles(text: str) -> str:
    """Return *text* without its styles."""
    return _SGR.sub("", text)


def wrap_note(text: str, width: int) -> list[str]:
    """Return a remark as rows; the later ones are indented. One with styles is returned as it is."""
    if "\x1b" in text:
        return [text]
    indent = line_of(" " * (len(text) - len(text.lstrip()) + 2))
    rows = wrap_line(line_of(text.strip()), width, first=line_of(indent[0].text[2:]), rest=indent)
    return [paint(row, PLAIN) for row in rows]


@attrs.frozen
class Painter:
    """Paints lines for the terminal.

    Attributes:
        is_styled: whether there are any styles.
        theme: how they look.
    """

    is_styled: bool = True
    theme: Theme = attrs.field(factory=lambda: THEMES["palette"])

    def line(self, line: Line) -> str:
        """Return *line* as the terminal shows it."""
        return paint(line, self.theme.styles if self.is_styled else PLAIN)

    def text(self, text: str, style: Style) -> str:
        """Return *text* in one style."""
        return self.line(line_of(text, style))

    def raw(self, text: str, codes: str) -> str:
        """Return *text* with the codes of a theme."""
        return f"\x1b[{codes}m{text}\x1b[0m" if self.is_styled and codes else text
