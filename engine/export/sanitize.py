"""Makes text of models and tools safe to display. Pure.

Control characters, which a terminal would obey, are replaced by visible escapes; so are characters that hide others or
reverse their order, and lone surrogates, which can't be written to a file.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_KEPT: Final = frozenset("\n\t\u200c\u200d")
# Invisible marks, which can hide text: variation selectors, without the two for emoji that are in many texts; and
# letters that look blank.
UNSEEN: Final = frozenset(
    [
        0x034F,
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        0x3164,
        0xFFA0,
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE0E),
        *range(0xE0000, 0xE1000),
    ]
)
_SUSPECT: Final = re.compile(r"[^\t\n\x20-\x7e]")


def escape_unsafe_chars(text: str) -> str:
    r"""Return *text* with what is no good character written as `\u202e`; a carriage return is left out."""
    return _SUSPECT.sub(_escape_char, text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


def _escape_char(match: re.Match[str]) -> str:
    char = match.group()
    if char == "\r":
        return ""
    code = ord(char)
    if char in _KEPT or (code not in UNSEEN and unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}):
        return char
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, width: int) -> str:
    """Return the beginning of *text* on one line of at most *width* characters."""
    line = " ".join(escape_unsafe_chars(text[: 8 * width]).split())
    return line if len(line) <= width else line[: width - 1] + "…"
