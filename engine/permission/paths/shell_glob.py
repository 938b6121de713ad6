"""Expand bash patterns on the real file system, within bounds.

The result may contain more than bash would find, never less: `[...]` counts as any one character,
and `.*` matches `..` as it did before bash 5.2.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

import attrs

from engine.files.real_path import Unclear

# Beyond these bounds the answer is "unclear", and the user is asked.
MAX_MATCHES: Final = 1_000
MAX_SEEN: Final = 20_000
_MAX_CHARS: Final = 4_096

_PART: Final = re.compile(
    r"\\(?P<quoted>.) | (?P<star>\*+) | (?P<any>\?) | (?P<set>\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]) | (?P<plain>.)",
    re.DOTALL | re.VERBOSE,
)


def expand_glob(pattern: str) -> tuple[str, ...] | Unclear:
    """Return the files that match an absolute pattern; if there are none, the pattern itself. It blocks."""
    if len(pattern) > _MAX_CHARS:
        return Unclear("the pattern is too long to expand")
    search = _Search()
    # Names without a pattern are not looked up until the end, so their folders need not be readable.
    paths = [""]
    for name in pattern.split("/")[1:]:
        paths = search.below(paths, name)
        if search.is_too_much or len(paths) > MAX_MATCHES:
            return Unclear("the pattern matches too many files to check each of them")
    existing = tuple(path for path in paths if os.path.lexists(path or "/"))
    return tuple(path or "/" for path in existing) or (_literal(pattern),)


@attrs.define(eq=False)
class _Search:
    """A search by the parts of a pattern, one after the other."""

    seen: int = 0

    @property
    def is_too_much(self) -> bool:
        """Whether so many names were read that the rest would take too long."""
        return self.seen > MAX_SEEN

    def below(self, folders: list[str], name: str) -> list[str]:
        """Return what one part of a pattern matches in *folders*."""
        if not _is_magic(name):
            return [f"{folder}/{_literal(name)}" for folder in folders]
        parts = list(_PART.finditer(name))
        begins_with_dot = _literal(name).startswith(".")
        return [
            f"{folder}/{entry}"
            for folder in folders
            for entry in self._names(folder or "/")
            if (begins_with_dot or not entry.startswith(".")) and _fits(parts, entry)
        ]

    def _names(self, folder: str) -> list[str]:
        if self.is_too_much:
            return []
        # bash matches these two against `.*`.
        names = [".", ".."]
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    names.append(entry.name)
                    if len(names) + self.seen > MAX_SEEN:
                        break
        except OSError:  # not a folder, or not readable: nothing matches
            return []
        self.seen += len(names)
        return names


def _is_magic(name: str) -> bool:
    return any(part.lastgroup in {"star", "any", "set"} for part in _PART.finditer(name))


def _fits(parts: Sequence[re.Match[str]], name: str) -> bool:
    """Return whether a name matches. All possible positions are tracked at once, as bits, so no name takes long.

    (A regular expression with seven stars took minutes for some names, and a repository may contain such a name.)
    """
    # Bit n of `at` is set if the pattern so far can match the first n characters.
    whole = (2 << len(name)) - 1
    at = 1
    for part in parts:
        match part.lastgroup:
            case "star":
                # All bits from the lowest one on: a star may match any number of characters.
                at = whole & -(at & -at)
            case "any":
                at = whole & at << 1
            case "set":  # or a literal, if bash reads it differently
                at = whole & (at << 1 | _behind(at, part["set"], name))
            case _:
                at = _behind(at, part["quoted"] or part["plain"], name)
        if not at:
            return False
    return bool(at >> len(name))


def _behind(at: int, text: str, name: str) -> int:
    """Return the positions after *text*, wherever it occurs at one of the positions *at*."""
    positions, start = 0, name.find(text)
    while start >= 0:
        positions |= 1 << start
        start = name.find(text, start + 1)
    return (at & positions) << len(text)


def _literal(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)
