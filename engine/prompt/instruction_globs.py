"""The files that a pattern of the user's means: `docs/style/*.md`, `**/rules.md`. It blocks.

No more is looked at than a bounded number of names: `**` leads into no folder by a link,
so a loop of them is none, and not into what others have put there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from typing import Final

import attrs

MAX_NAMES: Final = 20_000
MAX_FILES: Final = 100
# What others wrote, and a tool has put there.
FOREIGN: Final = frozenset({"node_modules", "site-packages", ".venv", "venv", ".git", ".hg", ".jj", ".svn"})
_ANY_DEPTH: Final = "**"


@attrs.frozen
class Expanded:
    """What a pattern means.

    Attributes:
        paths: the files, sorted, below the folder that was looked in.
        problem: why these are not all; empty: they are.
    """

    paths: tuple[str, ...]
    problem: str = ""


def is_pattern(path: str) -> bool:
    """Tell whether *path* is more than a plain path."""
    return any(character in path for character in "*?[")


def expand(pattern: str, root: str) -> Expanded:
    """Return the files that *pattern* means: one that is absolute, or goes from the folder *root*. It never fails."""
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    # `a/**/**/b` means what `a/**/b` does, and `a/**` all that is below.
    parts = [part for part, before in zip(parts, ["", *parts], strict=False) if not part == before == _ANY_DEPTH]
    parts += ["*"] if parts and parts[-1] == _ANY_DEPTH else []
    search = _Search()
    found = sorted(set(search.files("/" if pattern.startswith("/") else root, parts)))
    problem = ""
    if search.is_over:
        problem = f"it was looked for among the first {MAX_NAMES:,} names alone: name a folder that holds less"
    elif len(found) > MAX_FILES:
        problem = f"it means {len(found):,} files, and the first {MAX_FILES} alone are read"
    return Expanded(tuple(found[:MAX_FILES]), problem)


@attrs.define(eq=False)
class _Search:
    looked_at: int = 0

    @property
    def is_over(self) -> bool:
        return self.looked_at > MAX_NAMES

    def files(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        """Yield the files below *folder* that the rest of a pattern means."""
        first, *rest = parts
        if first == _ANY_DEPTH:
            for below in self._folders(folder):
                yield from self.files(below, rest)
            return
        for name in self._fitting(folder, first) if is_pattern(first) else (first,):
            path = _join(folder, name)
            if rest:
                yield from self.files(path, rest)
            elif os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112 - a str
                yield path

    def _folders(self, folder: str) -> Iterator[str]:
        """Yield *folder* and all below it, but for hidden ones, those of others, and links."""
        waiting = [folder]
        while waiting:
            one = waiting.pop()
            yield one
            below = [_join(one, name) for name in self._names(one) if not name.startswith(".") and name not in FOREIGN]
            waiting += [path for path in below if os.path.isdir(path) and not os.path.islink(path)]  # noqa: PTH112, PTH114 - a str

    def _fitting(self, folder: str, pattern: str) -> list[str]:
        fits = re.compile(translate(pattern)).match
        is_hidden = pattern.startswith(".")
        return [name for name in self._names(folder) if fits(name) and (is_hidden or not name.startswith("."))]

    def _names(self, folder: str) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.looked_at += 1
                    if self.is_over:
                        break
                    names.append(entry.name)
        except (OSError, ValueError):
            return []
        return names


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
