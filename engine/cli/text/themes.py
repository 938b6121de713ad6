"""The themes: how the styles of text look. What a style says is always in a sign or a word, too.

Only the 16 colours of the terminal's own palette, and no backgrounds: the terminal knows what is readable. So nothing is
asked of the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from engine.cli.terminal.colours import CODES, Colour
from engine.cli.text.styled_text import PALETTE, PLAIN, Style
from engine.cli.text.styled_text import Theme as StyleCodes


@attrs.frozen
class Theme:
    """A theme.

    Attributes:
        styles: the codes of styles.
        colours: the codes of the symbols of calls, and of what is painted by the name of a colour.
        context: the codes of a context window that is rather full, and of one that is nearly full.
    """

    styles: StyleCodes
    colours: Mapping[Colour, str]
    context: tuple[str, str]


_ATTRIBUTES: Final[StyleCodes] = {
    Style.STRONG: "1",
    Style.EMPHASIS: "3",
    Style.STRUCK: "9",
    Style.LINK: "4",
    Style.HEADING: "1",
}

THEMES: Final[Mapping[str, Theme]] = {
    "palette": Theme(PALETTE, CODES, ("33", "31")),
    "mono": Theme(
        {**_ATTRIBUTES, Style.DIM: "2", Style.REMOVED: "2", Style.BAD: "1", Style.WARNING: "1"}, {}, ("1", "1;4")
    ),
    # Nothing is dim, and colours are the bright ones.
    "high-contrast": Theme(
        {
            **_ATTRIBUTES,
            Style.CODE: "96",
            Style.ADDED: "1;92",
            Style.REMOVED: "1;91",
            Style.GOOD: "1;92",
            Style.WARNING: "1;93",
            Style.BAD: "1;91",
        },
        {colour: f"1;{int(code) + 60}" for colour, code in CODES.items()},
        ("1;93", "1;91"),
    ),
    # Blue and yellow, which most people with a colour blindness tell apart, instead of green and red.
    "color-blind": Theme(
        {
            **_ATTRIBUTES,
            Style.CODE: "36",
            Style.DIM: "2",
            Style.ADDED: "34",
            Style.REMOVED: "33",
            Style.GOOD: "34",
            Style.WARNING: "35",
            Style.BAD: "33",
        },
        {**CODES, "green": "34", "red": "33", "yellow": "35"},
        ("33", "1;33"),
    ),
}
NO_THEME: Final = Theme(PLAIN, {}, ("", ""))
