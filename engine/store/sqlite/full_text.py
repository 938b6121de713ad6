"""Prepares texts for SQLite's full-text index, and turns what a user types into a query. Pure.

The index's tokenizer treats a run of Chinese or Japanese as one word, inside which nothing
would match. So a zero-width space follows each such character, in indexed texts and in queries.
"""

from __future__ import annotations

from typing import Final

from engine.core.lazy import regex
from engine.store.projection import storable
from engine.store.search_text import UNSPACED

_SEPARATOR: Final = "\u200b"
_UNSPACED: Final = regex(f"[{UNSPACED}]")


def index_text(text: str) -> str:
    """Return *text* as it is stored in the index."""
    if text.isascii():
        return text
    return _UNSPACED.sub(rf"\g<0>{_SEPARATOR}", storable(text).replace(_SEPARATOR, ""))


def display_text(text: str) -> str:
    """Undo `index_text`: return the text for display."""
    return text.replace(_SEPARATOR, "")


def match_query(words: str) -> str:
    """Build the query for texts with all of *words*, the last of which may be incomplete; empty if there is no word.

    Nothing typed is an operator, so there are no syntax errors.
    """
    phrases = [_quoted(word) for word in index_text(words.replace("\x00", " ")).split() if _has_token(word)]
    if phrases and not words[-1].isspace():
        phrases[-1] += "*"
    return " ".join(phrases)


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _has_token(word: str) -> bool:
    return any(char.isalnum() for char in word)
