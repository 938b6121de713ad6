"""Prepares texts for PostgreSQL's full-text index, and turns what a user types into a query. Pure.

PostgreSQL's own parser splits paths, addresses and hyphenated words depending on the server's locale. So texts are
split into words here, the same way for every server, and the index gets the list: runs of letters and digits, without
accents, in lower case. In scripts written without spaces, each character is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from engine.store.search_text import MATCH_MARKS, UNSPACED
from engine.store.session_row import SNIPPET_TOKENS

# The index accepts words of up to 2,046 bytes.
_LONGEST: Final = 500
_MARKS: Final = "\u0300-\u036f"
_TOKEN: Final = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])[^\W_]|[{_MARKS}])+")
_ASCII_TOKEN: Final = re.compile(r"[a-z0-9]+")


@attrs.frozen
class Token:
    """A word of a text, from *begin* to *end*."""

    begin: int
    end: int
    word: str


def tokenize(text: str) -> Iterator[Token]:
    """Yield the words of *text*, folded."""
    for match in _TOKEN.finditer(text):
        word = _folded(match[0])
        if word:
            yield Token(match.start(), match.end(), word)


def tsvector_text(text: str) -> str:
    """Return the words of *text* as a `tsvector` literal: letters and digits only, so no quoting is needed."""
    if text.isascii():
        return " ".join({word[:_LONGEST] for word in _ASCII_TOKEN.findall(text.lower())})
    return " ".join({token.word for token in tokenize(text)})


@attrs.frozen
class SearchQuery:
    """A user's query: texts that contain all of the phrases. Made by `of`.

    Attributes:
        phrases: consecutive words; each piece of the input without a space is a phrase.
        is_open: the last word may be incomplete.
    """

    phrases: tuple[tuple[str, ...], ...]
    is_prefix: bool

    @classmethod
    def of(cls, words: str) -> SearchQuery:
        """Parse what was typed. A query has no operators, and so no syntax errors."""
        phrases = (tuple(token.word for token in tokenize(word)) for word in words.split())
        return cls(tuple(phrase for phrase in phrases if phrase), bool(words) and not words[-1].isspace())

    @property
    def query(self) -> str:
        """The query for the index, as a `tsquery`: texts with all words, in any order."""
        every = [f"'{word}'" for phrase in self.phrases for word in phrase]
        if every and self.is_prefix:
            every[-1] += ":*"
        return " & ".join(every)

    def snippet(self, text: str) -> str | None:
        """Return an excerpt of *text* with the phrases marked; None if one of them is missing."""
        tokens = list(tokenize(text))
        places = [list(self._occurrences(tokens, number)) for number in range(len(self.phrases))]
        if not places or not all(places):
            return None
        spans = _merged(sorted({span for spans in places for span in spans}))
        return _excerpt(text, tokens, spans, _best(spans, places))

    def _occurrences(self, tokens: Sequence[Token], number: int) -> Iterator[tuple[int, int]]:
        """Yield the first and the last word of each occurrence of that phrase."""
        phrase = self.phrases[number]
        is_open = self.is_prefix and number == len(self.phrases) - 1
        *whole, end = phrase
        for at in range(len(tokens) - len(whole)):
            word = tokens[at + len(whole)].word
            if (word.startswith(end) if is_open else word == end) and all(
                tokens[at + n].word == expected for n, expected in enumerate(whole)
            ):
                yield at, at + len(whole)


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()[:_LONGEST]
    bare = unicodedata.normalize("NFKD", word).casefold()
    return "".join(char for char in unicodedata.normalize("NFKD", bare) if char.isalnum())[:_LONGEST] or _bare(word)


def _bare(word: str) -> str:
    """Return a word that folding would empty, such as a lone vowel sign, unchanged; empty for a mark."""
    return "" if re.fullmatch(rf"[{_MARKS}]+", word) else word


def _best(spans: Sequence[tuple[int, int]], places: Sequence[Sequence[tuple[int, int]]]) -> int:
    """Return the first word of the snippet, the first window that contains the most phrases."""

    def shown(first: int) -> int:
        last = first + SNIPPET_TOKENS - 1
        return sum(any(first <= a and b <= last for a, b in of_one) for of_one in places)

    if spans[-1][1] < SNIPPET_TOKENS:
        return 0
    return max((max(0, a - SNIPPET_TOKENS // 4) for a, _ in spans[:100]), key=shown)


def _excerpt(text: str, tokens: Sequence[Token], spans: Sequence[tuple[int, int]], first: int) -> str:
    """Return the snippet that begins at the token *first*, with *spans* marked and dots where it was cut."""
    last = min(len(tokens), first + SNIPPET_TOKENS) - 1
    begin = 0 if first == 0 else tokens[first].begin
    end = len(text) if last == len(tokens) - 1 else tokens[last].end
    shown = [(tokens[a].begin, tokens[b].end) for a, b in spans if first <= a and b <= last]
    marked = _marked(text, begin, end, shown)
    return ("…" if begin else "") + marked + ("…" if end < len(text) else "")


def _merged(spans: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """Merge the *spans* that overlap."""
    merged: list[tuple[int, int]] = []
    for begin, end in spans:
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _marked(text: str, begin: int, end: int, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = begin
    for a, b in spans:
        if a >= at:
            parts += (text[at:a], MATCH_MARKS[0], text[a:b], MATCH_MARKS[1])
            at = b
    return "".join([*parts, text[at:end]])
