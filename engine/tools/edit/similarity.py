"""Compare blocks of lines, in bounded time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

import attrs

from engine.files.line_diff import differences
from engine.tools.edit.source_text import SourceText

# Longer lines are compared for equality only.
LINE_CHARS: Final = 2_000
# Pairs of lines compared to align one gap.
_MOST_PAIRS: Final = 2_500
# Lines of a file that are searched for the closest ones, and lines of the request that they are compared with.
_MOST_LINES: Final = 20_000
_TRIED: Final = 3
# A line less similar than this is not worth showing.
_CLOSE: Final = 0.5


def similarity(one: str, other: str) -> float:
    """Return the normalised Levenshtein similarity: 1 for equal lines, 0 for lines with nothing in common."""
    if one == other:
        return 1.0
    if max(len(one), len(other)) > LINE_CHARS:
        return 0.0
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(one, other)


@attrs.frozen
class Alignment:
    """The pairs of corresponding lines of a request and a block, and their mean similarity, blank lines aside."""

    pairs: tuple[int | None, ...]
    mean: float


def align(request: Sequence[str], block: Sequence[str]) -> Alignment | None:
    """Align stripped lines; None if the block has lines that the request does not have.

    Equal lines are found first. Between them, the request must have at least as many lines as the block.
    """
    request_indexes, block_indexes = _filled(request), _filled(block)
    ours, theirs = [request[i] for i in request_indexes], [block[i] for i in block_indexes]
    pairs: list[int | None] = [None] * len(request)
    total = 0.0
    at = block_at = 0
    for gap in [*differences(ours, theirs), None]:
        upto, block_upto = (len(ours), len(theirs)) if gap is None else (gap.start, gap.new_start)
        for one, other in zip(range(at, upto), range(block_at, block_upto), strict=True):
            pairs[request_indexes[one]] = block_indexes[other]
            total += 1.0
        if gap is None:
            break
        best = _best(ours[gap.start : gap.end], theirs[gap.new_start : gap.new_end])
        if best is None:
            return None
        for index, score, other in zip(*best, range(gap.new_start, gap.new_end), strict=True):
            pairs[request_indexes[gap.start + index]] = block_indexes[other]
            total += score
        at, block_at = gap.end, gap.new_end
    _pair_blanks(request, block, pairs)
    return Alignment(tuple(pairs), total / len(request_indexes) if request_indexes else 1.0)


def _filled(lines: Sequence[str]) -> list[int]:
    """Return the indexes of the lines that are not blank."""
    return [index for index, line in enumerate(lines) if line]


def _best(request: Sequence[str], block: Sequence[str]) -> tuple[list[int], list[float]] | None:
    """Return, for each line of the block, the corresponding line of the request, in order, and the similarities."""
    if len(block) > len(request) or len(block) * len(request) > _MOST_PAIRS:
        return None
    if len(block) == len(request):
        return list(range(len(block))), [similarity(one, other) for one, other in zip(request, block, strict=True)]
    # Dynamic programming: best[i][j] is the highest sum for the first i lines of the block among the first j of the
    # request.
    scores = [[similarity(one, other) for one in request] for other in block]
    best = [[0.0] * (len(request) + 1)]
    for i, row in enumerate(scores):
        sums = [float("-inf")] * (len(request) + 1)
        for j in range(i, len(request)):
            sums[j + 1] = max(sums[j], best[i][j] + row[j])
        best.append(sums)
    matched: list[int] = []
    j = len(request)
    for i in range(len(block), 0, -1):
        while best[i][j] == best[i][j - 1]:
            j -= 1
        j -= 1
        matched.append(j)
    matched.reverse()
    return matched, [scores[i][j] for i, j in enumerate(matched)]


def _pair_blanks(request: Sequence[str], block: Sequence[str], pairs: list[int | None]) -> None:
    """Pair blank lines between the same lines."""
    next_blank = 0
    for index, line in enumerate(request):
        pair = pairs[index]
        if pair is not None:
            next_blank = pair + 1
        elif not line and next_blank < len(block) and not block[next_blank]:
            pairs[index] = next_blank
            next_blank += 1


def closest(source: SourceText, request: Sequence[str]) -> tuple[int, int] | None:
    """Return the range of lines in the file that is most similar to the request, counted from 0."""
    lines_sought = list(dict.fromkeys(line.strip() for line in request if line.strip()))
    lines = source.stripped[:_MOST_LINES]
    if not lines_sought or not lines:
        return None
    sought = set(lines_sought)
    weights = [len(line) if line in sought else 0 for line in lines]
    if any(weights):
        return _heaviest(weights, min(len(request), len(lines)))
    tried = heapq.nlargest(_TRIED, lines_sought, key=len)
    scores = ((similarity(line, other), -index, line) for line in tried for index, other in enumerate(lines))
    score, place, line = max(scores, key=lambda found: found[:2])
    if score < _CLOSE:
        return None
    first = max(0, -place - [line.strip() for line in request].index(line))
    return first, min(len(lines), first + len(request)) - 1


def _heaviest(weights: Sequence[int], size: int) -> tuple[int, int]:
    """Return the window of *size* with the largest sum, the first of several."""
    total = best = sum(weights[:size])
    first = 0
    for end in range(size, len(weights)):
        total += weights[end] - weights[end - size]
        if total > best:
            best, first = total, end - size + 1
    return first, first + size - 1
