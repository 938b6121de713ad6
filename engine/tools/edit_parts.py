"""Tiers of parts of lines: where the old text of a request stands in a file, but for differences of a known kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from engine.tools.edit_lines import MOST_PLACES, Place
from engine.tools.edit_text import Source, Splice, unix

_ESCAPE: Final = re.compile(r"\\([ntr\"'`\\$\n])")
_MEANINGS: Final = {"n": "\n", "t": "\t", "r": "\r"}


def occurrences(text: str, piece: str, *, overlapping: bool) -> Iterator[int]:
    """Yield where *piece* begins; for a place to be certain, occurrences that overlap count as well."""
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + (1 if overlapping else len(piece)))


def inside_a_line(source: Source, old: str, new: str) -> list[Place]:
    """Return the places of the words of *old* in one line, with other blanks between them."""
    words = old.split()
    if len(words) < 2 or "\n" in old.strip():
        return []
    return _matches(source, r"[^\S\n]++".join(map(re.escape, words)), old, new)


def trimmed_boundary(source: Source, old: str, new: str) -> list[Place]:
    """Return the places of *old* without the blanks around it."""
    return _matches(source, re.escape(old.strip()), old, new) if old.strip() != old else []


def unescaped(source: Source, old: str, new: str) -> list[Place]:
    """Return the places of *old* as it reads when its escapes are taken for what they stand for."""
    kinds = set(_ESCAPE.findall(old))
    # If the new text has other ones, nobody can tell whether those are meant.
    if not kinds or not kinds >= set(_ESCAPE.findall(new)):
        return []
    wanted, text = (unix(_ESCAPE.sub(lambda match: _MEANINGS.get(match[1], match[1]), piece)) for piece in (old, new))
    starts = islice(occurrences(source.text, wanted, overlapping=True), MOST_PLACES)
    return [_part(source, start, start + len(wanted), text) for start in starts]


def _matches(source: Source, pattern: str, old: str, new: str) -> list[Place]:
    """Return the places of a pattern that stands for *old* without the blanks around it."""
    trimmed = old.strip()
    # A part of a word is meant exactly, or not at all.
    before = r"(?<!\w)" if re.match(r"\w", trimmed) else ""
    after = r"(?!\w)" if re.match(r"\w", trimmed[-1]) else ""
    text = new.lstrip() if old[0].isspace() else new
    text = text.rstrip() if old[-1].isspace() else text
    found = re.finditer(before + pattern + after, source.text)
    return [_part(source, match.start(), match.end(), text) for match in islice(found, MOST_PLACES)]


def _part(source: Source, start: int, end: int, text: str) -> Place:
    return Place(source.line_at(start) - 1, source.line_at(end - 1) - 1, splice=Splice(start, end, text))
