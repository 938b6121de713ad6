"""Characters that look alike: typographic punctuation, composed and decomposed letters, special blanks.

Models write ASCII punctuation and composed letters, whatever the file has. Texts are compared in a folded form, and an
edit keeps the file's form of what the request leaves alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from engine.files.line_diff import differences
from engine.tools.edit.source_text import SourceText

_SIGNS: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
        "\u2026": "...",
    }
)
# Characters that compose with the one before them: accents, voicing marks, vowels of Hangul.
_MARKS: Final = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u093c\u09bc\u0a3c\u1160-\u11ff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f"
)
_CLUSTER: Final = re.compile(rf"[^{_MARKS}][{_MARKS}]*|[{_MARKS}]+", re.DOTALL)
_TOKEN: Final = re.compile(rf"\.{{3}}|[\w{_MARKS}]+|\s|.", re.DOTALL)
# Not seen at all.
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
# Differences in one message.
_MOST_NAMED: Final = 5


def composed(text: str) -> str:
    """Return *text* with composed letters."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def plain(text: str) -> str:
    """Return *text* with composed letters and ASCII punctuation."""
    return text if text.isascii() else composed(text).translate(_SIGNS)


def plain_places(text: str, piece: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each place in *text* that is like *piece* in its plain form; they may overlap."""
    if text.isascii() and piece.isascii():
        return  # the plain forms are the texts themselves
    clusters = [match[0] for match in _CLUSTER.finditer(text)]
    # Where in the plain text each cluster begins, and where in the text itself.
    borders: dict[int, int] = {}
    pieces: list[str] = []
    at = plain_at = 0
    for cluster in clusters:
        borders[plain_at] = at
        pieces.append(cluster if cluster.isascii() else plain(cluster))
        at, plain_at = at + len(cluster), plain_at + len(pieces[-1])
    borders[plain_at] = at
    folded, sought = "".join(pieces), plain(piece)
    start = folded.find(sought)
    while start >= 0:
        first, end = borders.get(start), borders.get(start + len(sought))
        if first is not None and end is not None:
            yield first, end
        start = folded.find(sought, start + 1)


def keep_forms(old: str, new: str, actual: str) -> str:
    """Return *new* with the forms that *actual*, the file's text for *old*, has of what *old* and *new* share."""
    if old.isascii() and actual.isascii():
        return new
    olds, news, actuals = (_TOKEN.findall(text) for text in (old, new, actual))
    forms = dict(_shared([plain(token) for token in olds], [plain(token) for token in actuals]))
    for place, in_new in _shared(olds, news):
        if place in forms:
            news[in_new] = actuals[forms[place]]
    return "".join(news)


def _shared(one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of indexes of what both sequences have."""
    at = other_at = 0
    for gap in differences(one, other):
        yield from zip(range(at, gap.start), range(other_at, gap.new_start), strict=True)
        at, other_at = gap.end, gap.new_end
    yield from zip(range(at, len(one)), range(other_at, len(other)), strict=True)


def lookalikes(source: SourceText, request: Sequence[str], first: int, last: int) -> str:
    """Return a note on characters in which lines of the request and the file differ although they look the same."""
    lines = {_visible(source.lines[index]): index for index in range(first, last + 1)}
    notes: list[str] = []
    for line in request:
        index = lines.get(_visible(line))
        if index is None or line.strip() == source.stripped[index]:
            continue
        for mine, its in _unequal(line.strip(), source.stripped[index]):
            note = f"line {index + 1} has {_named(its)}, not {_named(mine)}"
            if note not in notes:
                notes.append(note)
    some = "; ".join(notes[:_MOST_NAMED])
    return f"\n[characters that look alike differ: {some}]" if notes else ""


def _visible(line: str) -> str:
    return " ".join(plain(_INVISIBLE.sub("", line)).split())


def _unequal(one: str, other: str) -> Iterator[tuple[str, str]]:
    ours, theirs = _CLUSTER.findall(one), _CLUSTER.findall(other)
    for gap in differences(ours, theirs):
        mine, its = "".join(ours[gap.start : gap.end]), "".join(theirs[gap.new_start : gap.new_end])
        # Blanks that only differ in number are seen in the comparison.
        if not (mine + its).isascii():
            yield mine, its


def _named(text: str) -> str:
    codes = " ".join(f"U+{ord(character):04X}" for character in text[:_MOST_NAMED])
    return f"{text.strip()} ({codes})" if text.strip() and text.isprintable() else codes or "nothing"
