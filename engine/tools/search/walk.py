"""Walking a folder in Python: sorted by name, without what ignore files exclude, links not followed.

What is left out, and in which order the files that say so are asked, is as in
ripgrep: `.rgignore` before `.ignore` before `.gitignore` before git's own
`info/exclude`, and of each kind the nearest file first. `.gitignore` counts outside
of a repository too; inside of one, those above its root do not.

The `list` tool walks, a folder at a time; `grep` and `glob` ask ripgrep itself. All of it blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from itertools import islice
from typing import Final, Literal

import attrs

from engine.tools.search.gitignore import Rules

VCS_FOLDERS: Final = (".git", ".hg", ".jj", ".svn")
MAX_IGNORE_FILE_BYTES: Final = 4_194_304

_VCS_NAMES: Final = frozenset(os.fsencode(name) for name in VCS_FOLDERS)
_REPOSITORY_MARKS: Final = (b".git", b".jj")
_KINDS: Final = (b".rgignore", b".ignore", b".gitignore", b".git")
_FIRST_OF_GIT: Final = 2
_POINTER: Final = b"gitdir: "

Kind = Literal["file", "folder", "link", "other"]


@attrs.frozen
class FolderEntry:
    """Something in a folder, that is not left out."""

    name: bytes
    kind: Kind


@attrs.frozen
class _Source:
    """The rules of one file, and how much of an absolute path comes before what they speak of."""

    rules: Rules
    start: int


# For each kind of ignore file those that count, the nearest first; None: nothing is ignored.
_Chains = tuple[tuple[_Source, ...], ...]


@attrs.frozen
class Folder:
    """A folder that a walk comes to.

    Attributes:
        path: where it is, without links.
        relative: its path from where the walk began, with a slash at its end; empty there.
        chains: the ignore files above it.
        in_repository: whether the walk began in a repository.
    """

    path: bytes
    relative: bytes
    chains: _Chains | None = attrs.field(repr=False)
    in_repository: bool

    def read(self, most: int | None = None) -> Listing:
        """Return what is in it, of a giant folder only the first *most* that the system tells of. Raises `OSError`."""
        with os.scandir(self.path) as entries:
            there: dict[bytes, Kind] = {entry.name: _kind(entry) for entry in islice(entries, most)}
            is_whole = next(entries, None) is None
        kept = [FolderEntry(name, there[name]) for name in sorted(there) if name not in _VCS_NAMES]
        chains = self.chains
        if chains is not None:
            chains = _extended(chains, self.path, there, in_repository=self.in_repository)
            if any(chains):
                before = self.path if self.path.endswith(b"/") else self.path + b"/"
                kept = [entry for entry in kept if not _is_ignored(chains, before + entry.name, entry)]
        return Listing(self, kept, len(there) - len(kept), is_whole, chains)


@attrs.frozen
class Listing:
    """What is in a folder.

    Attributes:
        folder: the folder.
        entries: what is in it, sorted by name.
        left_out: how much else is in it, that is ignored.
        is_whole: whether everything in it was looked at.
    """

    folder: Folder
    entries: list[FolderEntry]
    left_out: int
    is_whole: bool
    _chains: _Chains | None = attrs.field(repr=False)

    def below(self, name: bytes) -> Folder:
        """Return the folder of that name in it."""
        above = self.folder
        path = os.path.join(above.path, name)  # noqa: PTH118 - Path has no bytes
        return Folder(path, above.relative + name + b"/", self._chains, above.in_repository)


def start(path: bytes, *, include_ignored: bool) -> Folder:
    """Return the folder where a walk begins; it is never ignored itself. With *include_ignored* nothing below is, but version control."""
    real = os.path.realpath(path)
    in_repository = is_in_repository(real)
    if include_ignored:
        return Folder(real, b"", None, in_repository)
    chains: _Chains = ((),) * len(_KINDS)
    for above in reversed(_above(real)):
        there: dict[bytes, Kind] = {}
        for name in {*_KINDS, *_REPOSITORY_MARKS}:
            if os.path.lexists(os.path.join(above, name)):  # noqa: PTH118 - Path has no bytes
                there[name] = "other"
        chains = _extended(chains, above, there, in_repository=in_repository)
    return Folder(real, b"", chains, in_repository)


def is_in_repository(path: bytes) -> bool:
    """Tell whether a folder is a repository's or lies in one."""
    return any(
        os.path.lexists(os.path.join(folder, mark))  # noqa: PTH118 - Path has no bytes
        for folder in (path, *_above(path))
        for mark in _REPOSITORY_MARKS
    )


def _kind(entry: os.DirEntry[bytes]) -> Kind:
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:  # it went away meanwhile
        return "other"


def _above(path: bytes) -> list[bytes]:
    """Return the folders above *path*, the nearest first."""
    folders: list[bytes] = []
    while (parent := os.path.dirname(path)) != path:  # noqa: PTH120 - Path has no bytes
        folders.append(parent)
        path = parent
    return folders


def _extended(chains: _Chains, path: bytes, there: Mapping[bytes, Kind], *, in_repository: bool) -> _Chains:
    """Return *chains* with the ignore files of a folder in front of them."""
    is_root = in_repository and any(mark in there for mark in _REPOSITORY_MARKS)
    if not is_root and not any(kind in there for kind in _KINDS):
        return chains
    extended: list[tuple[_Source, ...]] = []
    for kind, (name, chain) in enumerate(zip(_KINDS, chains, strict=True)):
        own = _source(path, name) if name in there else None
        above = () if is_root and kind >= _FIRST_OF_GIT else chain
        extended.append(above if own is None else (own, *above))
    return tuple(extended)


def _is_ignored(chains: _Chains, path: bytes, entry: FolderEntry) -> bool:
    for chain in chains:
        for source in chain:
            verdict = source.rules.verdict(path[source.start :], entry.name, is_folder=entry.kind == "folder")
            if verdict is not None:
                return verdict
    return False


def _source(folder: bytes, name: bytes) -> _Source | None:
    path = os.path.join(folder, name)  # noqa: PTH118 - Path has no bytes
    data = _beginning(os.path.join(_common_git_folder(path), b"info/exclude") if name == b".git" else path)  # noqa: PTH118
    rules = Rules.parse(data)
    return None if rules is None else _Source(rules, len(folder.rstrip(b"/")) + 1)


def _common_git_folder(path: bytes) -> bytes:
    """Return where the exclusions are of the repository that `.git` stands for; a worktree has a file there."""
    pointer = _beginning(path).split(b"\n", 1)[0]
    if not pointer.startswith(_POINTER):
        return path
    own = os.path.join(os.path.dirname(path), pointer.removeprefix(_POINTER))  # noqa: PTH118, PTH120 - Path has no bytes
    common = _beginning(os.path.join(own, b"commondir")).split(b"\n", 1)[0]  # noqa: PTH118
    return os.path.join(own, common) if common else path  # noqa: PTH118


def _beginning(path: bytes) -> bytes:
    """Return the beginning of a regular file; nothing if there is none. A pipe would never answer."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            return file.read(MAX_IGNORE_FILE_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def without_waiting(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=)`: a pipe without a writer is opened at once."""
    return os.open(path, flags | os.O_NONBLOCK)
