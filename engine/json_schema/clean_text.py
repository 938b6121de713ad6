"""Texts of strangers, without what people can't see. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

MAX_DESCRIPTION_CHARS: Final = 2_000
# Control, format (bidi, zero width, tags), surrogates, private use, unassigned.
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def clean_text(text: str, limit: int = MAX_DESCRIPTION_CHARS) -> str:
    """Return a stranger's text without what people can't see, and not too long."""
    if text.isprintable():
        return text if len(text) <= limit else f"{text[: limit - 1]}…"
    kept = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) not in _INVISIBLE)
    return kept if len(kept) <= limit else f"{kept[: limit - 1]}…"
