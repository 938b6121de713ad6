"""Text of models and tools, made harmless for whoever looks at it later. Pure.

Control characters (a terminal would obey them) and characters that hide or turn others
around are written out; so is half a surrogate, which no file can hold.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_KEPT: Final = frozenset("\n\t\u200c\u200d")
_SUSPECT: Final = re.compile(r"[^\t\n\x20-\x7e]")


def harmless(text: str) -> str:
    r"""Return *text* with what is no good character written as `\u202e`; a carriage return is left out."""
    return _SUSPECT.sub(_written, text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


def _written(found: re.Match[str]) -> str:
    char = found.group()
    if char == "\r":
        return ""
    if char in _KEPT or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def in_one_line(text: str, width: int) -> str:
    """Return the beginning of *text* on one line of at most *width* characters."""
    line = " ".join(harmless(text[: 8 * width]).split())
    return line if len(line) <= width else line[: width - 1] + "…"
