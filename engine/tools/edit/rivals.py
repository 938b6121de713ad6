"""Find a place that holds more of a request than the one that was found.

A loose match may lack lines of the request, or have others in their place. If such a line is elsewhere in the file,
among more of the request's lines, then the request probably means the place there, even if it can't be matched: it may
have lines that the request does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from engine.tools.edit.similarity import LINE_CHARS, similarity
from engine.tools.edit.source_text import SourceText

# How similar a line must be to one of the request to count as that line.
_SAME: Final = 0.75
# The share of what the match holds that makes another place a rival: what holds about as much is a rival, too.
_ENOUGH: Final = 0.85
# Lines around the request's own in which equal lines count: the block that is meant may have many more lines.
_WIDE: Final = 40
# Limits of the work: beyond them, only equal lines are found.
_MOST_CHARS: Final = 20_000_000
_MOST_PAIRS: Final = 200_000
# Places examined for one line of the request; a line that occurs more often tells nothing.
_MOST_PLACES: Final = 500


@attrs.frozen
class _Line:
    """A line of the request: its index, its text, and how similar the line in its place is; 0 if there is none."""

    index: int
    text: str
    similarity: float


def find_rival(
    source: SourceText, request: Sequence[str], place: range, pairs: Sequence[int | None]
) -> tuple[int, int] | None:
    """Return the lines of a place outside *place* that holds as much of *request*, and a line that *place* lacks.

    *request* has stripped lines; *pairs* maps them to lines of the file.
    """
    compared = _compared(source, request, pairs)
    lacking = [line for line in compared if line.similarity < 1]
    if not lacking:
        return None
    windows = _RivalSearch(source, request, place).windows(lacking)
    held, window = max(windows, key=lambda found: found[0], default=(0.0, range(0)))
    if not window or held < _ENOUGH * sum(line.similarity for line in compared):
        return None
    known = [index for index in window if source.stripped[index] and source.stripped[index] in request]
    return (known[0], known[-1]) if known else (window.start, window.stop - 1)


def _compared(source: SourceText, request: Sequence[str], pairs: Sequence[int | None]) -> list[_Line]:
    return [
        _Line(index, line, 0.0 if pair is None else similarity(line, source.stripped[pair]))
        for index, (line, pair) in enumerate(zip(request, pairs, strict=True))
        if line
    ]


@attrs.define(eq=False)
class _RivalSearch:
    source: SourceText
    request: Sequence[str]
    place: range
    _pairs: int = 0

    def windows(self, lacking: Sequence[_Line]) -> Iterator[tuple[float, range]]:
        """Yield the surroundings of each line that the match lacks, and how much of the request they hold."""
        positions: dict[str, list[int]] = {}
        start, stop = self.place.start, self.place.stop
        for index, line in enumerate(self.source.stripped):
            if line and not start <= index < stop:
                positions.setdefault(line, []).append(index)
        chars = sum(map(len, positions)) * sum(1 + len(lack.text) // 64 for lack in lacking)
        seen: set[range] = set()
        for lack in lacking:
            lines = _alike(lack, positions) if chars <= _MOST_CHARS else [lack.text] * (lack.text in positions)
            for index in [index for line in lines for index in positions[line]][:_MOST_PLACES]:
                window = self._around(index, lack.index)
                if window not in seen:
                    seen.add(window)
                    yield self._held(window, self._around(index, lack.index, _WIDE)), window

    def _around(self, index: int, at: int, more: int = 2) -> range:
        """Return the lines where the request would be if its line *at* were the file's line *index*."""
        size = len(self.request)
        slack = more + size // 2
        first, last = index - at - slack, index - at + size + slack
        # The window ends where the match is.
        if index < self.place.start:
            last = min(last, self.place.start)
        else:
            first = max(first, self.place.stop)
        return range(max(0, first), min(len(self.source.stripped), last))

    def _held(self, window: range, wide: range) -> float:
        """Return how many of the request's lines two windows hold: equal ones the wide one, similar ones the other."""
        lines = [line for line in self.source.stripped[window.start : window.stop] if line]
        exact = set(self.source.stripped[wide.start : wide.stop])
        total = 0.0
        for line in filter(None, self.request):
            if line in exact:
                total += 1
            elif self._pairs < _MOST_PAIRS:
                self._pairs += len(lines)
                best = max((similarity(line, other) for other in lines), default=0.0)
                total += best
        return total


def _alike(lack: _Line, lines: dict[str, list[int]]) -> list[str]:
    """Return the lines that are more like the request's line than the one in its place, the most similar first."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import extract

    if len(lack.text) > LINE_CHARS:
        return [lack.text] if lack.text in lines else []
    scorer = Levenshtein.normalized_similarity
    cutoff = max(_SAME, lack.similarity)
    found = extract(lack.text, lines.keys(), scorer=scorer, score_cutoff=cutoff, limit=_MOST_PLACES)
    return [line for line, score, _ in found if score > lack.similarity]
