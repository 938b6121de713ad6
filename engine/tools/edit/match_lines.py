"""Tiers for whole lines: find the old lines of a request in spite of certain differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal

import attrs

from engine.tools.edit.similarity import align
from engine.tools.edit.source_text import SourceText, Splice
from engine.tools.edit.splices import Request
from engine.tools.edit.unicode_forms import composed, plain

Tier = Literal[
    "exact",
    "indentation-flexible",
    "line-trimmed",
    "whitespace-normalised",
    "unicode-normalised",
    "punctuation-normalised",
    "escape-normalised",
    "trimmed-boundary",
    "block-anchor",
    "context-aware",
]

# The mean similarity that the lines between the anchors must have.
SIMILARITY: Final = 0.65
# The share of equal lines that makes up for a lower similarity.
EQUAL_SHARE: Final = 0.5
# More places need not be counted: it is certain that there is more than one.
MOST_PLACES: Final = 1_000
# Limits for comparing blocks between anchors. Among more blocks, none would be certainly the only one.
_MOST_ALIGNED: Final = 200
_MOST_ALIGNED_LINES: Final = 20_000
# Lines examined to find the last line of a block.
_MOST_SEEN: Final = 1_000_000
# How much longer or shorter than the request a block may be, relative to the request.
_SLACK: Final = 0.25


@attrs.frozen
class TextRange:
    """A range of lines that may be meant, counted from 0, including the last one.

    Attributes:
        first: the first line.
        last: the last line.
        pairs: for each old line of the request, the corresponding line of the file.
        splice: the replacement, if the place is only a part of these lines.
    """

    first: int
    last: int
    pairs: tuple[int | None, ...] = ()
    splice: Splice | None = None


Finder = tuple[Tier, Callable[[], Iterable[TextRange]]]


@attrs.frozen
class LineSearch:
    """Searches a file for old lines that begin in certain ranges, and with *at_end* end with the file."""

    source: SourceText
    request: Request
    scopes: tuple[range, ...]
    at_end: bool = False

    def exact_tier(self) -> Finder:
        """Return the tier of exact lines."""
        return "exact", lambda: self._blocks(str)

    def equal_tiers(self) -> tuple[Finder, ...]:
        """Return the tiers of lines that are equal except for blanks, Unicode forms or punctuation."""
        return (
            ("indentation-flexible", self._indented),
            ("line-trimmed", lambda: self._blocks(str.strip)),
            ("whitespace-normalised", lambda: self._blocks(_squeezed)),
            ("unicode-normalised", lambda: self._blocks(_composed)),
            ("punctuation-normalised", lambda: self._blocks(_plain)),
        )

    def similar_tiers(self) -> tuple[Finder, ...]:
        """Return the tiers in which the first and the last line are equal, and those between are similar."""
        return ("block-anchor", self._anchored), ("context-aware", self._in_context)

    def richer_block(self) -> tuple[int, int] | None:
        """Return a block between the request's anchors that contains lines which the request does not have."""
        request, stripped = self._request_lines, self.source.stripped
        blocks = self._between_anchors(_SLACK)[:_MOST_ALIGNED]
        return next(
            (block for block in blocks if align(request[1:-1], stripped[block[0] + 1 : block[1]]) is None), None
        )

    @property
    def _request_lines(self) -> list[str]:
        return [line.strip() for line in self.request.old]

    def _blocks(self, key: Callable[[str], str]) -> list[TextRange]:
        size = len(self.request.old)
        lines = self.source.stripped if key is str.strip else [key(line) for line in self.source.lines]
        return [
            TextRange(first, first + size - 1, tuple(range(first, first + size)))
            for first in self._runs(lines, [key(line) for line in self.request.old])
            if not self.at_end or first + size == len(lines)
        ]

    def _indented(self) -> list[TextRange]:
        dedented, lines = _dedented(self.request.old), self.source.lines
        return [
            place for place in self._blocks(str.strip) if _dedented(lines[place.first : place.last + 1]) == dedented
        ]

    def _anchored(self) -> Iterator[TextRange]:
        """Yield blocks whose lines between the anchors are similar enough on average, and all in the request."""
        request, stripped = self._request_lines, self.source.stripped
        for first, last in self._comparable(_SLACK):
            aligned = align(request[1:-1], stripped[first + 1 : last])
            if aligned is not None and aligned.mean >= SIMILARITY:
                middle = (None if pair is None else first + 1 + pair for pair in aligned.pairs)
                yield TextRange(first, last, (first, *middle, last))

    def _in_context(self) -> Iterator[TextRange]:
        """Yield blocks of the same length with enough equal lines between the anchors."""
        request, stripped = self._request_lines, self.source.stripped
        enough = EQUAL_SHARE * max(1, sum(bool(line) for line in request[1:-1]))
        for first, last in self._comparable(0):
            pairs = list(zip(request[1:-1], stripped[first + 1 : last], strict=True))
            # A line of the file in the place of a blank one is unknown to the request.
            if all(one for one, other in pairs if other) and sum(one == other for one, other in pairs if one) >= enough:
                yield TextRange(first, last, tuple(range(first, last + 1)))

    def _runs(self, lines: Sequence[str], request: Sequence[str]) -> list[int]:
        places = (first for scope in self.scopes for first in runs(lines, request, scope))
        return list(places) if len(self.scopes) == 1 else sorted(set(places))

    def _comparable(self, slack: float) -> list[tuple[int, int]]:
        """Return the blocks between anchors; none if they are too many to compare."""
        blocks = self._between_anchors(slack)
        return blocks if len(blocks) <= max(_MOST_ALIGNED, _MOST_ALIGNED_LINES // len(self.request.old)) else []

    def _between_anchors(self, slack: float) -> list[tuple[int, int]]:
        """Return the first and last lines of blocks with the request's anchors and about its length.

        None if the search would take too long.
        """
        request = self._request_lines
        size, filled = len(request), sum(map(bool, request))
        if size < 3 or not request[0] or not request[-1]:
            return []
        firsts = self._lines_equal_to(request[0])
        if len(firsts) * 2 * size > _MOST_SEEN:
            return []
        some = max(1, int(filled * slack)) if slack else 0
        blocks = ((first, last) for first in firsts for last in self._ends(first, filled, some))
        return [(first, last) for first, last in blocks if slack or last - first + 1 == size]

    def _lines_equal_to(self, line: str) -> list[int]:
        return sorted({index for scope in self.scopes for index in scope if self.source.stripped[index] == line})

    def _ends(self, first: int, filled: int, some: int) -> Iterator[int]:
        """Yield the last lines of blocks from *first* with the request's end and about *filled* lines."""
        request, stripped = self._request_lines, self.source.stripped
        count = 1
        # Blank lines are not counted, but bounded.
        for last in range(first + 1, min(first + 2 * len(request), len(stripped))):
            count += bool(stripped[last])
            is_end = stripped[last] == request[-1] and (not self.at_end or last + 1 == len(stripped))
            if is_end and abs(count - filled) <= some:
                yield last


def runs(lines: Sequence[str], request: Sequence[str], starts: range | None = None) -> list[int]:
    """Return the positions of *request* among *lines* that begin in *starts*."""
    size = len(request)
    within = range(len(lines)) if starts is None else starts
    stop = min(within.stop, len(lines) - size + 1)
    indexes: list[int] = []
    at = within.start - 1
    while len(indexes) < MOST_PLACES:
        try:
            at = lines.index(request[0], at + 1, max(0, stop))
        except ValueError:
            break
        if lines[at : at + size] == request:
            indexes.append(at)
    return indexes


def _dedented(lines: Sequence[str]) -> list[str]:
    """Return lines without their common indentation; blank lines become empty."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    shared = min(indents, key=len, default="")
    while not all(indent.startswith(shared) for indent in indents):
        shared = shared[:-1]
    return [line[len(shared) :] if line.strip() else "" for line in lines]


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _composed(line: str) -> str:
    return _squeezed(composed(line))


def _plain(line: str) -> str:
    return _squeezed(plain(line))
