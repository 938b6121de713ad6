"""Tiers for parts of lines: find the old text of a request in spite of certain differences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from engine.tools.edit.match_lines import MOST_PLACES, TextRange
from engine.tools.edit.source_text import SourceText, Splice, unix
from engine.tools.edit.unicode_forms import keep_forms, plain_places

_ESCAPE: Final = re.compile(r"\\([ntr\"'`\\$\n])")
_MEANINGS: Final = {"n": "\n", "t": "\t", "r": "\r"}
_BLANKS: Final = re.compile(r"[^\S\n]+")
_WORDS: Final = re.compile(r"\S+")
_WORD: Final = re.compile(r"\w")


def occurrences(text: str, piece: str, *, overlapping: bool) -> Iterator[int]:
    """Yield the positions of *piece*; overlapping ones count when a place has to be the only one."""
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + (1 if overlapping else len(piece)))


def inside_a_line(source: SourceText, old: str, new: str) -> list[TextRange]:
    """Return the places of *old* within a line, with any blanks between its words."""
    words = old.split()
    if len(words) < 2 or "\n" in old.strip():
        return []
    squeezed = _BLANKS.sub(" ", source.text)
    starts = islice(_whole_words(squeezed, " ".join(words)), MOST_PLACES)
    text = _trimmed_like(old, new)
    offsets: list[TextRange] = []
    number = at = 0
    for start in starts:
        number += squeezed.count("\n", at, start)
        at = start
        begin = squeezed.rfind("\n", 0, start) + 1
        first = sum(map(len, squeezed[begin:start].split()))
        last = first + sum(map(len, words)) - 1
        offset, line = source.starts[number], source.lines[number]
        offsets.append(_part(source, offset + _nth(line, first), offset + _nth(line, last) + 1, text))
    return offsets


def trimmed_boundary(source: SourceText, old: str, new: str) -> list[TextRange]:
    """Return the places of *old* without the blanks around it."""
    trimmed = old.strip()
    if trimmed == old:
        return []
    text = _trimmed_like(old, new)
    starts = islice(_whole_words(source.text, trimmed), MOST_PLACES)
    return [_part(source, start, start + len(trimmed), text) for start in starts]


def plain_part(source: SourceText, old: str, new: str) -> list[TextRange]:
    """Return the places that differ from *old* in Unicode forms and typographic punctuation only."""
    places = islice(plain_places(source.text, old), MOST_PLACES)
    return [_part(source, start, end, keep_forms(old, new, source.text[start:end])) for start, end in places]


def unescaped(source: SourceText, old: str, new: str) -> list[TextRange]:
    """Return the places of *old* with its escapes resolved: some models escape quotes and line ends twice."""
    kinds = set(_ESCAPE.findall(old))
    # Other escapes in the new text may be meant literally.
    if not kinds or not kinds >= set(_ESCAPE.findall(new)):
        return []
    old_text, text = (unix(_ESCAPE.sub(lambda match: _MEANINGS.get(match[1], match[1]), piece)) for piece in (old, new))
    starts = islice(occurrences(source.text, old_text, overlapping=True), MOST_PLACES)
    return [_part(source, start, start + len(old_text), text) for start in starts]


def _whole_words(text: str, piece: str) -> Iterator[int]:
    """Yield the positions of *piece* where it doesn't begin or end within a word.

    Without a regular expression: that could take time proportional to the product of both lengths, holding the
    interpreter's lock.
    """
    begins, ends = _WORD.match(piece) is not None, _WORD.match(piece[-1]) is not None
    for start in occurrences(text, piece, overlapping=True):
        end = start + len(piece)
        if not (begins and _WORD.match(text[start - 1 : start])) and not (ends and _WORD.match(text[end : end + 1])):
            yield start


def _trimmed_like(old: str, new: str) -> str:
    """Return *new* without the blanks at those ends where *old* has some."""
    text = new.lstrip() if old[0].isspace() else new
    return text.rstrip() if old[-1].isspace() else text


def _nth(line: str, count: int) -> int:
    """Return the position of the character in *line* that follows *count* other non-blank characters."""
    for word in _WORDS.finditer(line):
        if count < word.end() - word.start():
            return word.start() + count
        count -= word.end() - word.start()
    return len(line)


def _part(source: SourceText, start: int, end: int, text: str) -> TextRange:
    return TextRange(source.line_at(start) - 1, source.line_at(end - 1) - 1, splice=Splice(start, end, text))
