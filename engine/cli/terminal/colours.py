"""Colours on a terminal: whether there are any, and which.

Only colours of the terminal's own palette, in the foreground: it knows what is readable on its background. No meaning is
in a colour alone; each goes with a symbol or a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from engine.core.value_base import Value

ColourChoice = Literal["always", "never", "auto"]
COLOUR_CHOICES: Final[tuple[ColourChoice, ...]] = ("always", "never", "auto")
Colour = Literal["red", "green", "yellow", "blue", "magenta", "cyan"]

CODES: Final[Mapping[Colour, str]] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


def has_colour(choice: ColourChoice, env: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Return whether a stream gets colours.

    `auto`: not with NO_COLOR or on a dumb terminal; else with FORCE_COLOR or CLICOLOR_FORCE; else on a terminal.
    """
    if choice != "auto":
        return choice == "always"
    if env.get("NO_COLOR") or env.get("TERM") == "dumb":
        return False
    is_forced = any(env.get(name, "0") not in {"", "0"} for name in ("FORCE_COLOR", "CLICOLOR_FORCE"))
    return is_forced or (is_terminal and bool(env.get("TERM")))


@attrs.frozen(eq=False, repr=False)
class Palette(Value):
    """Paints text, or leaves it as it is.

    Attributes:
        codes: of the colours; one that is missing leaves the text as it is.
    """

    is_on: bool = False
    codes: Mapping[Colour, str] = attrs.field(factory=lambda: CODES)

    def paint(self, text: str, colour: Colour) -> str:
        """Return *text* in a colour. It must hold no escape sequence."""
        code = self.codes.get(colour) if self.is_on and text else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text
