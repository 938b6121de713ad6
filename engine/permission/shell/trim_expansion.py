"""`${x%.txt}` and `${x##*/}`: removing a prefix or suffix from a value, for simple patterns."""

from __future__ import annotations

import re
from typing import Final

from engine.permission.shell.shell_state import PatternMatch, Value, ValueKind

_LITERAL: Final = re.compile(r"[\w.,:@%+=\-]+", re.ASCII)
_MAGIC: Final = re.compile(r"[*?\[\\]")


def trim_value(value: Value, operator: str, pattern: str) -> Value:
    """Return a value without the prefix (`#`) or the suffix (`%`) that a pattern matches."""
    if isinstance(value, PatternMatch):
        shorter = _trim_text(value.pattern, operator, pattern, is_pattern=True)
        return ValueKind.UNKNOWN if shorter is None else PatternMatch(shorter, shorter)
    if not isinstance(value, str):
        return ValueKind.UNKNOWN
    shorter = _trim_text(value, operator, pattern, is_pattern=False)
    return ValueKind.UNKNOWN if shorter is None else shorter


def _trim_text(text: str, operator: str, pattern: str, *, is_pattern: bool) -> str | None:
    """Return the trimmed text, which may be a pattern itself; None: the result is uncertain."""
    if _LITERAL.fullmatch(pattern):
        if operator[0] == "%":
            return text.removesuffix(pattern) if text.endswith(pattern) or not is_pattern else None
        if operator[0] == "#" and not is_pattern:
            return text.removeprefix(pattern)
    if (operator, pattern) == ("##", "*/"):
        # A bracket may contain the last slash.
        return None if is_pattern and "[" in text else text.rpartition("/")[2]
    if (operator, pattern) == ("%", ".*"):
        return _without_extension(text, is_pattern=is_pattern)
    return None


def _without_extension(text: str, *, is_pattern: bool) -> str | None:
    before, dot, after = text.rpartition(".")
    if is_pattern and (not dot or _MAGIC.search(after) or "/" in after):
        return None
    return before if dot else text
