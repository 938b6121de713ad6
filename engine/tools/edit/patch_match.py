"""Find the places of a patch's chunks in a file.

Chunks are in the order of the file. Context lines must match one place only: within the block of the line that an `@@`
names (the lines indented deeper), or else anywhere after it. So a patch that could mean two places is refused, where
other programs take the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

import attrs

from engine.files.line_diff import common
from engine.tools.edit.match import Ambiguous, Answer, Lines, Matched, Missing, find_lines
from engine.tools.edit.match_lines import Tier
from engine.tools.edit.patch_format import PatchChunk
from engine.tools.edit.source_text import SourceText, Splice

# A header that matches more lines does not narrow anything down.
_MOST_LINES: Final = 200


@attrs.frozen
class Placed:
    """A chunk with its place: how it was found, the lines concerned, and the splices."""

    chunk: PatchChunk
    tier: Tier
    lines: Lines
    splices: tuple[Splice, ...]


@attrs.frozen
class Unplaced:
    """A chunk without a certain place: what was found instead, or the header that is missing or ambiguous."""

    chunk: PatchChunk
    answer: Ambiguous | Missing | None = None
    header: str | None = None


def place_chunks(source: SourceText, chunks: Sequence[PatchChunk], *, fuzzy: bool) -> tuple[Placed, ...] | Unplaced:
    """Return the places of all chunks, or the first chunk that has none."""
    placements: list[Placed] = []
    at = changed = 0
    for chunk in chunks:
        if chunk.request.old == chunk.request.new:
            continue  # only context
        placed = _place(source, chunk, at, fuzzy=fuzzy)
        if isinstance(placed, Unplaced) and isinstance(placed.answer, Missing) and changed < at:
            # Its context may overlap with the end of the chunk before.
            again = _place(source, chunk, changed, fuzzy=False)
            placed = placed if isinstance(again, Unplaced) else again
        if isinstance(placed, Unplaced):
            return placed
        placements.append(placed)
        at = placed.lines[1]
        kept = common(chunk.request.old[::-1], chunk.request.new[::-1]) if placed.tier == "exact" else 0
        changed = at - kept
    return tuple(placements)


def _place(source: SourceText, chunk: PatchChunk, at: int, *, fuzzy: bool) -> Placed | Unplaced:
    everywhere = range(at, len(source.lines))
    scopes = _scopes(source, chunk.headers, everywhere)
    if isinstance(scopes, str):
        # The header may be wrong if the lines themselves occur exactly once.
        answer = find_lines(source, chunk.request, (everywhere,), fuzzy=False) if chunk.request.old else None
        return _describe(chunk, answer) if isinstance(answer, Matched) else Unplaced(chunk, header=scopes)
    if not chunk.request.old:
        return _inserted(source, chunk, scopes)
    answer = find_lines(source, chunk.request, scopes, at_end=chunk.at_end, fuzzy=fuzzy)
    if isinstance(answer, Missing) and chunk.headers:
        behind = range(min(scope.start for scope in scopes), len(source.lines))
        answer = find_lines(source, chunk.request, (behind,), at_end=chunk.at_end, fuzzy=fuzzy)
    if isinstance(answer, Missing) and chunk.at_end:
        # The patch may be wrong about the end of the file.
        exact = find_lines(source, chunk.request, (everywhere,), fuzzy=False)
        answer = exact if isinstance(exact, Matched) else answer
    return _describe(chunk, answer)


def _describe(chunk: PatchChunk, answer: Answer) -> Placed | Unplaced:
    if isinstance(answer, Matched):
        return Placed(chunk, answer.tier, answer.lines[0], answer.splices)
    return Unplaced(chunk, answer)


def _inserted(source: SourceText, chunk: PatchChunk, scopes: Sequence[range]) -> Placed | Unplaced:
    """Place added lines without context: after the line that the header names, or at the end of the file."""
    if len(scopes) > 1:
        return Unplaced(chunk, header=chunk.headers[-1])
    before = scopes[0].start + 1 if chunk.headers and not chunk.at_end else len(source.lines)
    return Placed(chunk, "exact", (before, before), (source.inserted(before, chunk.request.new),))


def _scopes(source: SourceText, headers: Sequence[str], everywhere: range) -> tuple[range, ...] | str:
    """Return the lines of the innermost header's block, the header included; or the header that matches nothing."""
    scopes: tuple[range, ...] = (everywhere,)
    for header in headers:
        inner = [_scope(source, index, within) for within in scopes for index in _lines_of(source, header, within)]
        if not inner or len(inner) > _MOST_LINES:
            return header
        scopes = tuple(dict.fromkeys(inner))
    return scopes


def _lines_of(source: SourceText, header: str, within: range) -> list[int]:
    """Return the lines that a header names: those equal to it, or else equal without indentation, or beginning with it.

    At most one more than allowed.
    """
    tests: tuple[Callable[[int], bool], ...] = (
        lambda index: source.lines[index] == header,
        lambda index: source.stripped[index] == header.strip(),
        lambda index: source.stripped[index].startswith(header.strip()),
    )
    for test in tests:
        if lines := list(islice(filter(test, within), _MOST_LINES + 1)):
            return lines
    return []


def _scope(source: SourceText, index: int, within: range) -> range:
    """Return the range of a line and the deeper indented lines after it."""
    indent = len(source.lines[index]) - len(source.lines[index].lstrip())
    inside = range(index + 1, within.stop)
    ends = (i for i in inside if source.stripped[i] and len(source.lines[i]) - len(source.lines[i].lstrip()) <= indent)
    return range(index, next(ends, within.stop))
