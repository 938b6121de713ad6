"""Find the place in a file that a model's request means: an exact match, or the only place that it can mean.

An exact match is searched first; if there are several, the request is ambiguous, and nothing is guessed. Only without
one are the tiers tried, from the strictest to the loosest. The first tier with a result decides: one place is used,
several are ambiguous. A place is never used if

- it is much larger than the request,
- lines would be lost that the request does not contain,
- the new text is there already, so that the edit seems to have been made before,
- it lacks a line of the request that another place has, which holds about as much of the request (`rivals.py`).

A match is described by splices (`source_text.py`), made so that only what the request changes is changed (`splices.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, Literal

import attrs

from engine.files.line_diff import differences
from engine.tools.edit.match_lines import MOST_PLACES, Finder, LineSearch, TextRange, Tier, runs
from engine.tools.edit.match_parts import inside_a_line, occurrences, plain_part, trimmed_boundary, unescaped
from engine.tools.edit.rivals import find_rival
from engine.tools.edit.similarity import align, closest, similarity
from engine.tools.edit.source_text import SourceText, Splice, unix
from engine.tools.edit.splices import Request, make_splices

# In longer files only exact matches are searched: the tiers compare all lines several times.
_MOST_LINES: Final = 500_000
# How similar a deleted line must be to the request's line in its place.
_SIMILARITY_OF_LOST: Final = 0.5

# The first and the last line, counted from 1.
Lines = tuple[int, int]


@attrs.frozen
class Matched:
    """The place (or with `replace_all` all of them, the first thousand with their lines), and the splices."""

    tier: Tier
    lines: tuple[Lines, ...]
    splices: tuple[Splice, ...]
    count: int = 1


@attrs.frozen
class Ambiguous:
    """Several places match: their number, and the first line of each, up to a thousand.

    *best* is the place that the request probably means, with lines that the request does not have.
    """

    tier: Tier
    lines: tuple[int, ...]
    count: int
    best: Lines | None = None


@attrs.frozen
class Missing:
    """No place is certain: why, and the lines concerned.

    `absent`: nothing matches; the lines are the most similar ones. `applied`: the new text is there already. `lossy`:
    the similar lines include others that the request does not have. `long`: the file is so long that only exact matches
    were searched.
    """

    why: Literal["absent", "applied", "lossy", "long"]
    lines: Lines | None = None


Answer = Matched | Ambiguous | Missing


def find(source: SourceText, old: str, new: str, *, replace_all: bool = False, fuzzy: bool = True) -> Answer:
    """Find *old*, which is not empty, in a file; return the splices that replace it by *new*."""
    old, new = unix(old), unix(new)
    starts = list(islice(occurrences(source.text, old, overlapping=not replace_all), MOST_PLACES))
    if starts:
        return _exact(source, old, new, starts, replace_all=replace_all)
    if source.text.count("\n") > _MOST_LINES:
        return Missing("long")
    if not fuzzy or not old.strip():
        return _missing(source, old.split("\n"))
    search = LineSearch(source, Request.of(old, new), (range(len(source.lines)),))
    if "".join(old.split()) == "".join(new.split()):
        # A change of whitespace only is not matched by ignoring whitespace.
        return _decide(search, search.equal_tiers()[:1])
    tiers: tuple[Finder, ...] = (
        *search.equal_tiers(),
        ("whitespace-normalised", lambda: inside_a_line(source, old, new)),
        ("punctuation-normalised", lambda: plain_part(source, old, new)),
        ("escape-normalised", lambda: unescaped(source, old, new)),
        ("trimmed-boundary", lambda: trimmed_boundary(source, old, new)),
        *search.similar_tiers(),
    )
    return _decide(search, tiers)


def _exact(source: SourceText, old: str, new: str, starts: Sequence[int], *, replace_all: bool) -> Matched | Ambiguous:
    """Return the answer for an exact match with these first places."""
    lines = source.lines_at(starts)
    count = len(starts) if len(starts) < MOST_PLACES else max(MOST_PLACES, source.text.count(old))
    if count > 1 and not replace_all:
        return Ambiguous("exact", tuple(lines), count)
    height = old.removesuffix("\n").count("\n")
    places = tuple((line, line + height) for line in lines)
    if count > MOST_PLACES and not source.is_mixed:
        # One splice for all of them: millions of objects would take gigabytes.
        return Matched("exact", places, (Splice(0, len(source.text), source.text.replace(old, new)),), count)
    every = occurrences(source.text, old, overlapping=False)
    splices = tuple(_trimmed(source, Splice(start, start + len(old), new)) for start in every)
    return Matched("exact", places, splices, count)


def find_lines(
    source: SourceText, request: Request, scopes: tuple[range, ...], *, at_end: bool = False, fuzzy: bool = True
) -> Answer:
    """Find whole lines. The first one is in one of *scopes* (from 0), and with *at_end* the last one is the file's."""
    search = LineSearch(source, request, scopes, at_end)
    tiers: tuple[Finder, ...] = (search.exact_tier(),)
    if fuzzy and any(line.strip() for line in request.old):
        tiers = (*tiers, *search.equal_tiers(), *search.similar_tiers())
    return _decide(search, tiers)


def _trimmed(source: SourceText, splice: Splice) -> Splice:
    """Trim unchanged lines from the ends of an exact splice: in a file of mixed line endings they keep their own."""
    if not source.is_mixed:
        return splice
    old, new = source.text[splice.start : splice.end].split("\n"), splice.text.split("\n")
    head = _kept(old, new)
    tail = _kept(old[head:][::-1], new[head:][::-1])
    start = splice.start + sum(len(line) + 1 for line in old[:head])
    end = splice.end - sum(len(line) + 1 for line in old[len(old) - tail :])
    return Splice(start, end, "\n".join(new[head : len(new) - tail]))


def _kept(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines both begin with; at least one of each is left over."""
    fewer = min(len(old), len(new)) - 1
    return next((index for index in range(fewer) if old[index] != new[index]), fewer)


# -- deciding -----------------------------------------------------------------------------


def _decide(search: LineSearch, tiers: Iterable[Finder]) -> Answer:
    """Return the answer of the first tier that finds something."""
    source, request = search.source, search.request
    lossy: Lines | None = None
    for tier, places_of in tiers:
        places = list(places_of())
        if len(places) > 1:
            return Ambiguous(tier, tuple(place.first + 1 for place in places), len(places))
        for place in places:
            # An exact match can't lose anything that the model has not seen.
            if tier == "exact" or not _is_lossy(source, place, request):
                rival = _rival(source, place, request)
                return _match_at(source, tier, place, request) if rival is None else _ambiguous(tier, place, rival)
            lossy = lossy or (place.first + 1, place.last + 1)
    lossy = lossy or _richer_lines(search)
    return Missing("lossy", lossy) if lossy else _missing(source, request.old)


def _richer_lines(search: LineSearch) -> Lines | None:
    """Return the lines, from 1, of a block that holds the request and more; None if there is none."""
    block = search.richer_block() if len(search.request.old) > 2 else None
    return None if block is None else (block[0] + 1, block[1] + 1)


def _match_at(source: SourceText, tier: Tier, place: TextRange, request: Request) -> Matched | Missing:
    """Return the splices for an edit at *place*; "applied" if it was made already."""
    lines = (place.first + 1, place.last + 1)
    splices = make_splices(source, request, place.pairs) if place.splice is None else (place.splice,)
    if all(map(source.is_idle, splices)):
        return Missing("applied", lines)
    applied = None if tier == "exact" else _applied_at(source, tier, place, request)
    return Matched(tier, (lines,), splices) if applied is None else Missing("applied", applied)


def _rival(source: SourceText, place: TextRange, request: Request) -> Lines | None:
    """Return the lines, from 0, of another place that holds as much of the request, and a line that *place* lacks."""
    if place.splice is not None:
        return None
    return find_rival(source, [line.strip() for line in request.old], range(place.first, place.last + 1), place.pairs)


def _ambiguous(tier: Tier, place: TextRange, rival: Lines) -> Ambiguous:
    first, last = rival[0] + 1, rival[1] + 1
    return Ambiguous(tier, tuple(sorted((place.first + 1, first))), 2, best=(first, last))


def _is_lossy(source: SourceText, place: TextRange, request: Request) -> bool:
    return _is_much_larger(source, place, request) or _loses_lines(source, place, request)


def _missing(source: SourceText, old: Sequence[str]) -> Missing:
    lines = closest(source, old)
    return Missing("absent", None if lines is None else (lines[0] + 1, lines[1] + 1))


def _is_much_larger(source: SourceText, place: TextRange, request: Request) -> bool:
    old = "\n".join(request.old).strip()
    start, end = source.starts[place.first], source.line_end(place.last)
    if place.splice is not None:
        start, end = place.splice.start, place.splice.end
    text = source.text[start:end].strip()
    lines = old.count("\n") + 1
    # Small requests may grow by some lines; beyond that the model has not seen what it would replace.
    return text.count("\n") + 1 >= max(lines + 3, 2 * lines) or len(text) > max(len(old) + 500, 4 * len(old))


def _loses_lines(source: SourceText, place: TextRange, request: Request) -> bool:
    """Return whether a line would be deleted that the request does not contain, or not nearly."""
    if place.splice is not None:
        return False
    gone = (index for change in differences(request.old, request.new) for index in range(change.start, change.end))
    return any(
        (pair := place.pairs[index]) is not None
        and similarity(request.old[index].strip(), source.stripped[pair]) < _SIMILARITY_OF_LOST
        for index in gone
    )


def _applied_at(source: SourceText, tier: Tier, place: TextRange, request: Request) -> Lines | None:
    """Return the lines where the new text is already: anywhere if it has several lines, else at the place only."""
    if tier in {"block-anchor", "context-aware"} and _is_more_like_new(source, place, request):
        return place.first + 1, place.last + 1
    new = "\n".join(line.strip() for line in request.new).strip("\n").split("\n")
    if not any(new) or runs([line.strip() for line in request.old], new):
        return None
    # A single line such as `}` occurs anywhere, so it proves nothing elsewhere.
    starts = range(len(source.lines)) if len(new) > 1 else range(place.first, place.last + 1)
    first = next(iter(runs(source.stripped, new, starts)), None)
    return None if first is None else (first + 1, first + len(new))


def _is_more_like_new(source: SourceText, place: TextRange, request: Request) -> bool:
    block = source.stripped[place.first : place.last + 1]
    as_new, as_old = (align([line.strip() for line in lines], block) for lines in (request.new, request.old))
    return as_new is not None and (as_old is None or as_new.mean >= as_old.mean)
