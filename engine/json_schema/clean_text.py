"""Texts of strangers, without what people can't see. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

from engine.json_schema.keywords import JsonValue

MAX_DESCRIPTION_CHARS: Final = 2_000
# Control, format (bidi, zero width, tags), surrogates, private use, unassigned.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


# Of those, what has no use in a name or a value: not the joiners of Persian and of emoji, nor what is newer than Python.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs"})
_USEFUL: Final = frozenset("\n\r\t\u00ad\u200c\u200d")


def clean_text(text: str, limit: int = MAX_DESCRIPTION_CHARS) -> str:
    """Return a stranger's text without what people can't see, and not too long."""
    if text.isprintable():
        return text if len(text) <= limit else f"{text[: limit - 1]}…"
    kept = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _INVISIBLE)
    return kept if len(kept) <= limit else f"{kept[: limit - 1]}…"


def has_hidden(value: JsonValue) -> bool:
    """Return whether a name or a text in a JSON value has characters that hide: control, direction, tags."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str) and not part.isprintable() and any(map(_is_hidden, part)):
            return True
    return False


def _is_hidden(char: str) -> bool:
    return char not in _USEFUL and unicodedata.category(char) in _HIDDEN
