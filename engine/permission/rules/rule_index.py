"""Find the few patterns that may match a text without trying all of them.

Patterns that begin with a plain text are looked up by it, those that end with one by that; the
rest are filtered by a text that their matches must contain.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import attrs

from engine.core.permission_types import UNKNOWN
from engine.permission.rules.path_pattern import PathPattern, absolute, is_resolved
from engine.permission.rules.wildcard import Wildcard

# The number of a pattern, and another text that its matches contain.
_Numbers = list[tuple[str, int]]
# Patterns by the text that they begin or end with: by its length, then by the text.
_ByLength = dict[int, dict[str, _Numbers]]


@attrs.define(eq=False, repr=False)
class CommandIndex:
    """An index of wildcards."""

    patterns: Sequence[Wildcard]
    _heads: _ByLength = attrs.field(init=False, factory=dict[int, dict[str, _Numbers]])
    _tails: _ByLength = attrs.field(init=False, factory=dict[int, dict[str, _Numbers]])
    _plain: dict[str, list[int]] = attrs.field(init=False, factory=dict[str, list[int]])
    _loose: _Numbers = attrs.field(init=False, factory=list[tuple[str, int]])
    _sorted: _Numbers = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        for number, pattern in enumerate(self.patterns):
            if pattern.is_plain:
                self._plain.setdefault(pattern.head, []).append(number)
            elif pattern.head:
                _put(self._heads, pattern.head, (pattern.needle, number))
            elif pattern.tail:
                _put(self._tails, pattern.tail, (pattern.needle, number))
            else:
                self._loose.append((pattern.needle, number))
        self._sorted = sorted((pattern.head, number) for number, pattern in enumerate(self.patterns) if pattern.head)

    def candidates(self, text: str) -> list[int]:
        """Return the numbers of all patterns that may match *text*, and few others, highest first."""
        prefix, unknown, _ = text.partition(UNKNOWN)
        if unknown:
            numbers = self._matching_prefix(prefix)
        else:
            numbers = [number for needle, number in self._loose if needle in text]
            numbers += self._plain.get(text, ())
            for length, tails in self._tails.items():
                for needle, number in tails.get(text[-length:], ()):
                    if needle in text:
                        numbers.append(number)
        for length, heads in self._heads.items():
            for needle, number in heads.get(prefix[:length], ()):
                if unknown or needle in text:
                    numbers.append(number)
        numbers.sort(reverse=True)
        return numbers

    def _matching_prefix(self, prefix: str) -> list[int]:
        """Return the numbers of the patterns that may match a text that begins with *prefix*, in any order."""
        result = [number for _, number in self._loose]
        for tails in self._tails.values():
            for numbers in tails.values():
                result += [number for _, number in numbers]
        at = bisect_left(self._sorted, (prefix, -1))
        while at < len(self._sorted) and self._sorted[at][0].startswith(prefix):
            head, number = self._sorted[at]
            if head != prefix or self.patterns[number].is_plain:  # else `candidates` finds it by its head
                result.append(number)
            at += 1
        return result


@attrs.define(eq=False, repr=False)
class PathIndex:
    """An index of path patterns of the same project."""

    patterns: Sequence[PathPattern]
    project: str
    _names: dict[str, list[int]] = attrs.field(init=False, factory=dict[str, list[int]])
    _paths: dict[str, list[int]] = attrs.field(init=False, factory=dict[str, list[int]])
    _loose: list[tuple[str, str, int]] = attrs.field(init=False, factory=list[tuple[str, str, int]])

    def __attrs_post_init__(self) -> None:
        for number, pattern in enumerate(self.patterns):
            for shape in pattern.shapes:
                plain = shape.plain
                if plain is None or (shape.reach == "name" and "/" in plain):
                    self._loose.append((*shape.needles, number))
                else:
                    by_text = self._names if shape.reach == "name" else self._paths
                    by_text.setdefault(plain, []).append(number)

    def candidates(self, path: str) -> list[int]:
        """Return the numbers of all patterns that may match *path*, and few others, highest first."""
        if not is_resolved(path):
            return list(range(len(self.patterns) - 1, -1, -1))
        whole = absolute(self.project, path)
        numbers = {number for first, other, number in self._loose if first in whole and other in whole}
        for name in path.split("/"):
            numbers.update(self._names.get(name, ()))
        for folder in _folders(whole):
            numbers.update(self._paths.get(folder, ()))
        return sorted(numbers, reverse=True)


def _put(by_length: _ByLength, text: str, entry: tuple[str, int]) -> None:
    by_length.setdefault(len(text), {}).setdefault(text, []).append(entry)


def _folders(path: str) -> Iterator[str]:
    """Yield the folders that lead to an absolute path, and the path."""
    at = path.find("/", 1)
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)
    yield path
