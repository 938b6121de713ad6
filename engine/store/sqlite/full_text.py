"""How texts get into the full-text index, and how what a person types becomes a query of it. Pure.

The index's own tokenizer takes a run of Chinese or Japanese for one word, in which
nothing could be found. So each such character is set apart, by a space that has no
width, in what is indexed and in what is asked.
"""

from __future__ import annotations

import re
from typing import Final

from engine.store.projection import storable

FOUND: Final = ("\ue000", "\ue001")

_APART: Final = "\u200b"
# Scripts that are written without blanks: Han, kana, Thai, Lao, Khmer, Myanmar.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED: Final = re.compile(f"[{UNSPACED}]")


def indexed(text: str) -> str:
    """Return *text* as it is put into the index."""
    if text.isascii():
        return text
    return _UNSPACED.sub(rf"\g<0>{_APART}", storable(text).replace(_APART, ""))


def shown(text: str) -> str:
    """Return what was *indexed* as a person reads it."""
    return text.replace(_APART, "")


def query_of(words: str) -> str:
    """Return the query that finds texts with all of *words*, the last one perhaps unfinished; empty: there is none.

    Nothing in it is an operator: a query has no syntax, so it has no syntax errors.
    """
    phrases = [_quoted(word) for word in indexed(words.replace("\x00", " ")).split() if _has_token(word)]
    if phrases and not words[-1].isspace():
        phrases[-1] += "*"
    return " ".join(phrases)


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _has_token(word: str) -> bool:
    return any(char.isalnum() for char in word)
