"""Walk a folder in Python: sorted by name, without ignored files, not following links.

What is ignored follows ripgrep: `.rgignore` overrides `.ignore`, which overrides `.gitignore`, which overrides git's
`info/exclude`; and among files of one kind the nearest wins. `.gitignore` applies outside of repositories, too; inside,
those above the repository's root do not apply.

The `list` tool walks folder by folder; `grep` and `glob` use ripgrep itself. Everything here blocks.
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
# A larger one is generated, and would take seconds to compile.
MAX_IGNORE_FILE_BYTES: Final = 4_194_304

_VCS_NAMES: Final = frozenset(os.fsencode(name) for name in VCS_FOLDERS)
_REPOSITORY_MARKS: Final = (b".git", b".jj")
# In the order of precedence. `.git` stands for `info/exclude`.
_KINDS: Final = (b".rgignore", b".ignore", b".gitignore", b".git")
# The kinds from this index on are git's, and end at the repository's root.
_FIRST_OF_GIT: Final = 2
_POINTER: Final = b"gitdir: "

Kind = Literal["file", "folder", "link", "other"]


@attrs.frozen
class FolderEntry:
    """An entry of a folder that is not ignored."""

    name: bytes
    kind: Kind


@attrs.frozen
class _Source:
    """The rules of one ignore file, and the length of the path of its folder, to which they are relative."""

    rules: Rules
    start: int


# For each kind of ignore file, those that apply, nearest first; None: nothing is ignored.
_Chains = tuple[tuple[_Source, ...], ...]


@attrs.frozen
class Folder:
    """A folder of a walk.

    Attributes:
        path: its path, without links.
        relative: its path relative to the start, ending with a slash; empty for the start itself.
        chains: the ignore files above it.
        in_repository: whether the walk starts in a repository.
    """

    path: bytes
    relative: bytes
    chains: _Chains | None = attrs.field(repr=False)
    in_repository: bool

    def read(self, most: int | None = None) -> Listing:
        """List it; of a huge folder only the first *most* entries that the system returns. Raises `OSError`."""
        with os.scandir(self.path) as entries:
            there: dict[bytes, Kind] = {entry.name: _kind(entry) for entry in islice(entries, most)}
            # One more entry than allowed tells that there are more.
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
    """The content of a folder.

    Attributes:
        folder: the folder.
        entries: its entries, sorted by name.
        left_out: the number of ignored entries.
        is_whole: whether all entries were looked at.
    """

    folder: Folder
    entries: list[FolderEntry]
    left_out: int
    is_whole: bool
    _chains: _Chains | None = attrs.field(repr=False)

    def below(self, name: bytes) -> Folder:
        """Return its subfolder of that name."""
        above = self.folder
        path = os.path.join(above.path, name)  # noqa: PTH118 - Path has no bytes
        return Folder(path, above.relative + name + b"/", self._chains, above.in_repository)


def start(path: bytes, *, include_ignored: bool) -> Folder:
    """Return the start of a walk, which is never ignored; with *include_ignored* only `VCS_FOLDERS` are."""
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
    """Return whether a folder belongs to a repository."""
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
    except OSError:  # it was removed in the meantime
        return "other"


def _above(path: bytes) -> list[bytes]:
    """Return the folders above *path*, nearest first."""
    folders: list[bytes] = []
    while (parent := os.path.dirname(path)) != path:  # noqa: PTH120 - Path has no bytes
        folders.append(parent)
        path = parent
    return folders


def _extended(chains: _Chains, path: bytes, there: Mapping[bytes, Kind], *, in_repository: bool) -> _Chains:
    """Return *chains* with the ignore files of a folder added at the front."""
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
    """Return the git folder that `.git` leads to; in a linked working tree `.git` is a file."""
    pointer = _beginning(path).split(b"\n", 1)[0]
    if not pointer.startswith(_POINTER):
        return path
    own = os.path.join(os.path.dirname(path), pointer.removeprefix(_POINTER))  # noqa: PTH118, PTH120 - Path has no bytes
    common = _beginning(os.path.join(own, b"commondir")).split(b"\n", 1)[0]  # noqa: PTH118
    return os.path.join(own, common) if common else path  # noqa: PTH118


def _beginning(path: bytes) -> bytes:
    """Return the beginning of a regular file; empty if there is none. Reading a pipe would block."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            return file.read(MAX_IGNORE_FILE_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def without_waiting(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=)`, without waiting for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
