"""Styles of text in the chat: the palette's, and the weight. All meaning is also in a sign or a word."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import attrs

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan", "reverse"]

_CODES: Final[dict[Style, int]] = {
    "bold": 1,
    "dim": 2,
    "reverse": 7,
    "red": 31,
    "green": 32,
    "yellow": 33,
    "cyan": 36,
}
_SGR: Final = re.compile(r"\x1b\[[0-9;]*m")


def plain_text(text: str) -> str:
    """Return *text* without its styles."""
    return _SGR.sub("", text)


@attrs.frozen
class Styles:
    """How text is styled.

    Attributes:
        has_colour: whether there are any styles.
    """

    has_colour: bool = True

    def paint(self, text: str, *styles: Style) -> str:
        """Return *text* in these styles."""
        if not self.has_colour or not text or not styles:
            return text
        return f"\x1b[{';'.join(str(_CODES[style]) for style in styles)}m{text}\x1b[0m"
