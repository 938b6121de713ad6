"""Makes text of models and tools safe to display. Pure.

Control characters, which a terminal would obey, are replaced by visible escapes; so are characters that hide others or
reverse their order, and lone surrogates, which can't be written to a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from engine.core.lazy import regex

# What is written out wherever text is shown: in terminals, in exports, and in the page, whose scripts get the same table
# (`scripts/page_tables.py`). Control characters, formats and directions (but no newline, tab, carriage return, and no
# joiners within words and emoji), line and paragraph separators, lone surrogates; letters that look blank, and variation
# selectors, which can hide text, except the two for emoji that are in many texts. Listed, not looked up by category: what
# is shown must not depend on the version of Python or of the browser.
# fmt: off
UNSAFE_RANGES: Final[tuple[tuple[int, int], ...]] = (
    (0x0000, 0x0008), (0x000B, 0x000C), (0x000E, 0x001F), (0x007F, 0x009F), (0x00AD, 0x00AD), (0x034F, 0x034F),
    (0x0600, 0x0605), (0x061C, 0x061C), (0x06DD, 0x06DD), (0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200B), (0x200E, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x2064), (0x2066, 0x206F), (0x3164, 0x3164), (0xD800, 0xDFFF), (0xFE00, 0xFE0D), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)
# Besides those, in what a user is asked to approve: joiners, spaces that are no spaces to a shell, private characters.
BLANK_RANGES: Final[tuple[tuple[int, int], ...]] = (
    (0x000D, 0x000D), (0x00A0, 0x00A0), (0x1680, 0x1680), (0x2000, 0x200A), (0x200C, 0x200D), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x2800, 0x2800), (0x3000, 0x3000), (0xE000, 0xF8FF), (0xFE0E, 0xFE0F),
)
# fmt: on


def characters(ranges: Iterable[tuple[int, int]]) -> str:
    """Return *ranges* as the content of a character class of a pattern."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


_UNSAFE: Final = regex(f"[\r{characters(UNSAFE_RANGES)}]")


def escape_unsafe_chars(text: str) -> str:
    r"""Return *text* with what is no good character written as `\u202e`; a carriage return is left out."""
    return _UNSAFE.sub(_escape_char, text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


def _escape_char(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if char == "\r":
        return ""
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, width: int) -> str:
    """Return the beginning of *text* on one line of at most *width* characters."""
    line = " ".join(escape_unsafe_chars(text[: 8 * width]).split())
    return line if len(line) <= width else line[: width - 1] + "…"
