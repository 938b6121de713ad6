"""Buffers for hits: all of them, a window of them, or counts per file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, Protocol

import attrs

from engine.tools.search.results import Hit

_HIT_BYTES: Final = 400  # the approximate size of a hit without its text


class HitBuffer(Protocol):
    """Receives hits until it is full."""

    @property
    def hits(self) -> list[Hit]:
        """The hits in it."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether it needs no more hits."""
        ...

    def add(self, hit: Hit) -> None:
        """Add a hit."""
        ...

    def drop(self, path: bytes) -> None:
        """Remove the hits of this file, which is the last one."""
        ...

    def finish(self) -> None:
        """Note that no more hits come."""
        ...


@attrs.define
class AllHits:
    """Holds all hits in the order of their arrival, up to a limit in bytes."""

    held: int
    hits: list[Hit] = attrs.field(factory=list[Hit], init=False)
    _size: int = attrs.field(default=0, init=False)

    @property
    def is_full(self) -> bool:
        """Whether the limit is exceeded."""
        return self._size > self.held

    def add(self, hit: Hit) -> None:
        """Add a hit."""
        self.hits.append(hit)
        self._size += _HIT_BYTES + len(hit.text)

    def drop(self, path: bytes) -> None:
        """Remove the hits of this file, which is the last one."""
        drop_last(self.hits, path)

    def finish(self) -> None:
        """Do nothing."""


@attrs.define
class HitWindow:
    """Of sorted hits, skips the first and holds the following ones, plus one more, which shows that there are more."""

    skip: int
    take: int
    held: int
    before: int = 0
    hits: list[Hit] = attrs.field(factory=list[Hit], init=False)
    _skipped: int = attrs.field(default=0, init=False)
    _skipped_in: dict[bytes, int] = attrs.field(factory=dict[bytes, int], init=False)  # the last file
    _matches_kept: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)

    @property
    def is_full(self) -> bool:
        """Whether it has one more than requested, or exceeds the limit in bytes."""
        return self._matches_kept > self.take or self._size > self.held

    @property
    def matches(self) -> int:
        """The number of matches received."""
        return self._skipped + self._matches_kept

    def add(self, hit: Hit) -> None:
        """Add a hit."""
        if hit.is_match and self._skipped < self.skip:
            self._skipped += 1
            self._skipped_in = {hit.path: self._skipped_in.get(hit.path, 0) + 1}
            del self.hits[
                : max(0, len(self.hits) - self.before)
            ]  # so far all is context; the rest may be the next one's
            return
        self._matches_kept += hit.is_match
        self._size += _HIT_BYTES + len(hit.text)
        self.hits.append(hit)

    def drop(self, path: bytes) -> None:
        """Remove the hits of this file, which is the last one, including those that were skipped."""
        self._matches_kept -= drop_last(self.hits, path)
        self._skipped -= self._skipped_in.pop(path, 0)

    def finish(self) -> None:
        """Do nothing."""


@attrs.define
class HitCounter:
    """Passes on one hit per file, with the number of its matching lines."""

    buffer: HitBuffer
    _count: Hit | None = attrs.field(default=None, init=False)

    @property
    def hits(self) -> list[Hit]:
        """The hits passed on."""
        return self.buffer.hits

    @property
    def is_full(self) -> bool:
        """Whether no more can be passed on."""
        return self.buffer.is_full

    def add(self, hit: Hit) -> None:
        """Count a line."""
        if self._count is not None and self._count.path == hit.path:
            self._count = attrs.evolve(self._count, number=self._count.number + 1)
            return
        self.finish()
        self._count = Hit(path=hit.path, number=1)

    def drop(self, path: bytes) -> None:
        """Drop the count of this file, which is the last one."""
        if self._count is not None and self._count.path == path:
            self._count = None

    def finish(self) -> None:
        """Pass on the last count."""
        if self._count is not None:
            self.buffer.add(self._count)
            self._count = None


def in_order(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, which are grouped by file, sorted by the files' paths."""
    groups = [(path.split(b"/"), list(group)) for path, group in groupby(hits, key=lambda hit: hit.path)]
    return [hit for _, group in sorted(groups, key=lambda pair: pair[0]) for hit in group]


def window(hits: Sequence[Hit], skip: int, take: int, *, before: int = 0, after: int = 0) -> tuple[Hit, ...]:
    """Return *take* matches after the first *skip*, with their context lines."""
    shown = [hit for hit in hits if hit.is_match][skip : skip + take]
    if not (before or after):
        return tuple(shown)
    near = {(hit.path, number) for hit in shown for number in range(hit.number - before, hit.number + after + 1)}
    matches = {(hit.path, hit.number) for hit in shown}
    return tuple(hit for hit in hits if (hit.path, hit.number) in (matches if hit.is_match else near))


def drop_last(hits: list[Hit], path: bytes) -> int:
    """Remove the hits of this file from the end; return how many were matches."""
    matches = 0
    while hits and hits[-1].path == path:
        matches += hits.pop().is_match
    return matches
