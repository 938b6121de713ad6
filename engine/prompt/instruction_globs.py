"""Expand glob patterns of the configuration: `docs/style/*.md`, `**/rules.md`. It blocks.

The number of names read is bounded. `**` does not follow links, which could form a loop, and skips third-party folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from typing import Final

import attrs

from engine.core.value_base import Value

# About 0.1 s on a local disk; `/**` would walk the whole machine.
MAX_NAMES: Final = 20_000
MAX_FILES: Final = 100
# Third-party code and the files of tools.
IGNORED_FOLDERS: Final = frozenset({"node_modules", "site-packages", ".venv", "venv", ".git", ".hg", ".jj", ".svn"})
_ANY_DEPTH: Final = "**"


@attrs.frozen(eq=False, repr=False)
class GlobResult(Value):
    """The files that match a pattern.

    Attributes:
        paths: the files, sorted.
        problem: why the list is incomplete; empty if it is complete.
    """

    paths: tuple[str, ...]
    problem: str = ""


def is_pattern(path: str) -> bool:
    """Return whether *path* contains wildcards."""
    return any(character in path for character in "*?[")


def expand(pattern: str, root: str) -> GlobResult:
    """Return the files that match *pattern*, which is absolute or relative to *root*. It never raises."""
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    # `a/**/**/b` is the same as `a/**/b`, and `a/**` matches every file below `a`.
    parts = [part for part, before in zip(parts, ["", *parts], strict=False) if not part == before == _ANY_DEPTH]
    parts += ["*"] if parts and parts[-1] == _ANY_DEPTH else []
    search = _Search()
    paths = sorted(set(search.files("/" if pattern.startswith("/") else root, parts)))
    problem = ""
    if search.is_over:
        problem = f"only the first {MAX_NAMES:,} names were searched: name a smaller folder"
    elif len(paths) > MAX_FILES:
        problem = f"it matches {len(paths):,} files; only the first {MAX_FILES} are read"
    return GlobResult(tuple(paths[:MAX_FILES]), problem)


@attrs.define(eq=False, repr=False)
class _Search:
    names_read: int = 0
    # One budget for the whole pattern: nested `**` would multiply a budget per folder.

    @property
    def is_over(self) -> bool:
        return self.names_read > MAX_NAMES

    def files(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        """Yield the files below *folder* that match the rest of a pattern."""
        first, *rest = parts
        if first == _ANY_DEPTH:
            for below in self._folders(folder):
                yield from self.files(below, rest)
            return
        for name in self._matching(folder, first) if is_pattern(first) else (first,):
            path = _join(folder, name)
            if rest:
                yield from self.files(path, rest)
            elif os.path.lexists(path) and not os.path.isdir(path):  # noqa: PTH112 - a str
                yield path

    def _folders(self, folder: str) -> Iterator[str]:
        """Yield *folder* and all folders below it, except hidden ones, third-party ones and links."""
        waiting = [folder]
        while waiting:
            one = waiting.pop()
            yield one
            below = [
                _join(one, name)
                for name in self._names(one)
                if not name.startswith(".") and name not in IGNORED_FOLDERS
            ]
            waiting += [path for path in below if os.path.isdir(path) and not os.path.islink(path)]  # noqa: PTH112, PTH114 - a str

    def _matching(self, folder: str, pattern: str) -> list[str]:
        fits = re.compile(translate(pattern)).match
        # As in a shell: `*` doesn't match hidden names.
        is_hidden = pattern.startswith(".")
        return [name for name in self._names(folder) if fits(name) and (is_hidden or not name.startswith("."))]

    def _names(self, folder: str) -> list[str]:
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.names_read += 1
                    if self.is_over:
                        break
                    names.append(entry.name)
        except (OSError, ValueError):
            return []
        return names


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
