"""Finds files for `@path`: the project's, listed once in a while, those that git ignores last; and any other by its folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.cli.chat.machine.path_ranking import PathList
from engine.core.threads import to_thread
from engine.process.run_tree import run_tree

_MAX_PATHS: Final = 200_000
_MAX_BYTES: Final = 32 << 20
_MAX_MATCHES: Final = 50
# An older list is made again: the agent writes files.
_FRESH_SECONDS: Final = 20.0
_GIT_SECONDS: Final = 10.0
_GIT: Final = ("git", "-c", "core.quotePath=false", "ls-files", "-z", "--others")
_IGNORED: Final = ("--exclude-standard", "--directory")
_SKIPPED: Final = frozenset({".git", ".hg", ".svn"})
# Without git, these come last.
_UNINTERESTING: Final = frozenset({"node_modules", ".venv", "venv", "__pycache__", "target", "build", "dist"})


@attrs.frozen(eq=False)
class _Listing:
    folder: str
    made_at: float
    paths: PathList
    ignored: PathList


@attrs.define(eq=False)
class PathFinder:
    """Completes paths below, and relative to, a folder."""

    folder: Callable[[], str]
    _listing: _Listing | None = attrs.field(default=None, init=False)

    async def find(self, typed: str, *, is_fuzzy: bool) -> list[str]:
        """Return the paths that *typed* may become. A checkpoint; if cancelled, nothing is left.

        Args:
            typed: what was typed: a part of a path, or letters of it.
            is_fuzzy: the letters may be anywhere in it; else it is a path that is not complete.
        """
        folder = self.folder()
        beginning = await to_thread(_complete_name, folder, typed)
        if not is_fuzzy or typed.startswith(("/", "~", "./", "../")):
            return beginning
        listing = await self._list(folder)
        return await to_thread(_search, listing, typed, beginning)

    async def _list(self, folder: str) -> _Listing:
        listing, now = self._listing, trio.current_time()
        if listing is None or listing.folder != folder or now > listing.made_at + _FRESH_SECONDS:
            listed = await _git_files(folder, "--cached", "--exclude-standard")
            ignored = None if listed is None else await _git_files(folder, "--ignored", *_IGNORED)
            self._listing = listing = await to_thread(_make_listing, folder, now, listed, ignored)
        return listing


def _make_listing(folder: str, now: float, listed: list[str] | None, ignored: list[str] | None) -> _Listing:
    """Return the list; without one of git's, what is below the folder. It blocks."""
    if listed is None:
        listed, ignored = _walk(folder)
    return _Listing(folder, now, PathList(sorted(dict.fromkeys(listed))), PathList(ignored or []))


def _search(listing: _Listing, typed: str, beginning: list[str]) -> list[str]:
    matches = dict.fromkeys(listing.paths.search(typed, _MAX_MATCHES))
    # A folder of that name, and what the list does not have.
    matches |= dict.fromkeys(beginning) if len(matches) < _MAX_MATCHES else {}
    if len(matches) < _MAX_MATCHES:
        matches |= dict.fromkeys(listing.ignored.search(typed, _MAX_MATCHES))
    matches.pop(typed, None)
    return list(islice(matches, _MAX_MATCHES))


async def _git_files(folder: str, *options: str) -> list[str] | None:
    """Return what git lists; None: it is no repository, or there is no git. A checkpoint."""
    chunks: list[bytes] = []
    size = 0

    def take(chunk: bytes) -> None:
        nonlocal size
        if size < _MAX_BYTES:
            chunks.append(chunk)
        size += len(chunk)

    try:
        finished = await run_tree(
            [*_GIT, *options],
            cwd=folder,
            marker=f"path_finder/{secrets.token_hex(4)}",
            on_output=take,
            on_errors=lambda _: None,
            timeout=_GIT_SECONDS,
        )
    except OSError:
        return None
    if finished.exit_code != 0:
        return None
    names = b"".join(chunks).split(b"\0")[:-1]
    return [os.fsdecode(name) for name in names[:_MAX_PATHS]]


def _walk(folder: str) -> tuple[list[str], list[str]]:
    """Return the files below *folder*, and those that hardly anybody means. It blocks."""
    listed: list[str] = []
    ignored: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        below = os.path.relpath(root, folder)
        is_dull = not _UNINTERESTING.isdisjoint(Path(below).parts)
        prefix = "" if below == "." else f"{below}/"
        (ignored if is_dull else listed).extend(f"{prefix}{name}" for name in names)
        if len(listed) + len(ignored) > _MAX_PATHS:
            break
    return listed, ignored


def _complete_name(folder: str, typed: str) -> list[str]:
    """Return the entries of the folder that *typed* names whose names begin with the rest of it. It blocks."""
    name = typed.rpartition("/")[2]
    head = typed[: len(typed) - len(name)]
    try:
        place = Path(folder, Path(head or ".").expanduser())
        return list(islice(_entries(place, head, name), _MAX_MATCHES))
    except (OSError, RuntimeError):  # no such folder, or no such user
        return []


def _entries(place: Path, head: str, name: str) -> Iterator[str]:
    with os.scandir(place) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            is_hidden = entry.name.startswith(".") and not name.startswith(".")
            if entry.name.startswith(name) and not is_hidden and entry.name not in _SKIPPED:
                yield f"{head}{entry.name}{'/' if entry.is_dir() else ''}"
