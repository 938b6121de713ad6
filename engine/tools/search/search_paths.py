"""Places to search: the folder that a path and a pattern mean, and the paths of results as the model sees them.

Everything here accesses the file system, so it runs in a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.core.permission_types import RequiredRight
from engine.files.globs import GlobError, alternatives, escaped, glob_regex, is_magic
from engine.files.real_path import followed
from engine.files.text_files import (
    check_regular,
    is_utf16,
    looks_binary,
    pattern_of_real,
    renamed_errors,
    resolve,
    visible_name,
)
from engine.tools.call_values import Need
from engine.tools.search.walk import is_in_repository, without_waiting

# Globs that may be passed to ripgrep. To ripgrep `?` is a byte, here it is a character, so it is not among them.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.*+@%~-]+")
_MAX_NAMES: Final = 50
# As git does: a NUL in the first 8,000 bytes means binary.
_SNIFFED_BYTES: Final = 8_192


@attrs.frozen(kw_only=True)
class SearchPlace:
    """A place to search.

    Attributes:
        shown: its path as the model sees it; `.` is the working directory.
        folder: the folder to search.
        only: the only file in it to search; empty: all.
        in_repository: whether the folder lies in a repository.
    """

    shown: str
    folder: Path
    only: str = ""
    in_repository: bool

    def path(self, relative: bytes) -> str:
        """Return the path of a result as the model sees it."""
        if self.only:
            return self.shown
        return joined(self.shown, visible_name(os.fsdecode(relative)))


@attrs.frozen(kw_only=True)
class PathFilter:
    """A filter for files.

    Attributes:
        paths: matches the path below the place; None: any.
        names: matches the name; None: any.
        hint: globs of names that all wanted files match, which makes the searcher faster; empty: all.
        depth: the number of levels of folders to search; 0: all.
    """

    paths: re.Pattern[str] | None = None
    names: re.Pattern[str] | None = None
    hint: tuple[str, ...] = ()
    depth: int = 0

    def __call__(self, path: bytes) -> bool:
        """Return whether a file is wanted."""
        text = os.fsdecode(path)
        return (self.paths is None or self.paths.match(text) is not None) and (
            self.names is None or self.names.match(text.rpartition("/")[2]) is not None
        )


def joined(folder: str, path: str) -> str:
    """Return a path below *folder* as the model sees it."""
    return path if folder == "." else f"{folder.rstrip('/')}/{path}"


def shown_path(cwd: str, path: Path) -> str:
    """Return *path* relative to the working directory if it lies inside, otherwise absolute."""
    return visible_name(_relative(cwd, path))


def _relative(cwd: str, path: Path) -> str:
    whole = Path(followed(path)) if ".." in path.parts else path
    return str(whole.relative_to(cwd) if whole.is_relative_to(cwd) else whole)


def read_need(cwd: str, path: Path) -> Need:
    """Return the right to read *path*: by its real path, with the path as written as another spelling."""
    whole = followed(path)  # resolved once: what is judged is what may be read
    real, called = pattern_of_real(cwd, whole), shown_path(cwd, path)
    spellings = () if called == real else (called,)
    return Need(
        permission="read",
        patterns=(real,),
        rights=(RequiredRight(permission="read", pattern=real, spellings=spellings, reads_only=True),),
        paths=(whole,),
    )


def folder_at(cwd: str, path: str) -> SearchPlace:
    """Return the folder at *path*. Raises `ToolError` if it does not exist."""
    folder = resolve(cwd, path)
    with renamed_errors(path, folder):
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise ToolError(f"{path} is no folder. If it is a text file, use the read tool to see what is in it.")
    return _place(cwd, path, folder)


def place_at(cwd: str, path: str) -> SearchPlace:
    """Return the folder or file at *path*. Raises `ToolError` if it does not exist or is binary."""
    target = resolve(cwd, path)
    if is_folder(target):
        return _place(cwd, path, target)
    with renamed_errors(path, target):
        size = check_regular(path, target).st_size
        with open(target, "rb", opener=without_waiting) as file:
            beginning = file.read(_SNIFFED_BYTES) or b""
            if looks_binary(beginning) and not is_utf16(beginning):  # ripgrep can read UTF-16
                raise ToolError(f"{path} is a binary file of {size:,} bytes.")
    real = Path(followed(target))  # links are not followed in a search, but a file that was named is searched
    return attrs.evolve(_place(cwd, path, real.parent), shown=shown_path(cwd, target), only=real.name)


def approved_place(place: SearchPlace, approved: Collection[str] | None) -> SearchPlace:
    """Return a place by its real path. Raises `ToolError` if that is not among the *approved* paths."""
    real = followed(place.folder)
    whole = os.path.join(real, place.only) if place.only else real  # noqa: PTH118 - a str is needed
    if approved is not None and whole not in approved:
        raise ToolError(
            f"{place.shown} leads to another place than when it was allowed: a link on its way was changed. "
            "Nothing was searched."
        )
    return attrs.evolve(place, folder=Path(real))


def narrowed(cwd: str, place: SearchPlace, pattern: str) -> tuple[SearchPlace, PathFilter]:
    """Return the folder below *place* that *pattern* begins with, and a filter for its files.

    A pattern without a slash matches names at any depth. Raises `ToolError`.
    """
    folder, rest = start_of(place.folder, pattern)
    if folder != place.folder:
        place = folder_at(cwd, _relative(cwd, folder))
    # It would lead out of the folder that was approved.
    if ".." in rest.split("/"):
        raise ToolError(f"{pattern}: after a wildcard there can be no '..'.")
    if rest in {"**", "**/*"}:
        return place, PathFilter()
    try:
        paths = re.compile(glob_regex(rest), re.DOTALL)
        return place, PathFilter(paths=paths, hint=_hint(rest), depth=_depth(rest))
    except GlobError as error:
        raise ToolError(f"The pattern {pattern} makes no sense: {error}.") from error


def start_of(folder: Path, pattern: str) -> tuple[Path, str]:
    """Return the folder of the names before the first wildcard, and the rest of the pattern, relative to it."""
    if not pattern.strip("/"):
        raise ToolError("The pattern is empty." if not pattern else "The pattern names a folder: add ** to it.")
    if "/" not in pattern:
        return folder, f"**/{_escaped_name(folder, pattern) if is_magic(pattern) else escaped(pattern)}"
    names = pattern.split("/")
    if names[0] in {"", "~"}:
        folder = resolve(str(folder), f"{names.pop(0)}/")
    # A folder may really be called `[id]`, as in Next.js.
    while len(names) > 1 and (not is_magic(names[0]) or is_folder(folder / names[0])):
        folder = folder / names.pop(0)
    rest = "/".join([*names[:-1], names[-1] or "**"])
    return folder, rest if len(names) > 1 else _escaped_name(folder, rest)


def _escaped_name(folder: Path, name: str) -> str:
    """Return a pattern for a name; a file that is really called `[id].tsx` is matched literally."""
    return escaped(name) if is_magic(name) and _is_file(folder / name) else name


def is_folder(path: Path) -> bool:
    """Return whether *path* is a folder; False if that can't be determined."""
    try:
        return path.is_dir()
    except OSError:  # no permission for a folder above it
        return False


def filter_names(path_filter: PathFilter, globs: tuple[str, ...]) -> PathFilter:
    """Return *path_filter*, restricted to names that match one of *globs*."""
    names = re.compile("|".join(map(glob_regex, globs)), re.DOTALL)
    return attrs.evolve(path_filter, names=names, hint=path_filter.hint or globs)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _place(cwd: str, path: str, folder: Path) -> SearchPlace:
    """Return a place for *folder*. Raises `ToolError` about *path* if it can't be read."""
    with renamed_errors(path, folder):
        if not os.access(folder, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError
    in_repository = is_in_repository(os.fsencode(followed(folder)))
    return SearchPlace(shown=shown_path(cwd, folder), folder=folder, in_repository=in_repository)


def _hint(pattern: str) -> tuple[str, ...]:
    names = dict.fromkeys(one.rpartition("/")[2] for one in alternatives(pattern))
    if len(names) > _MAX_NAMES or any(name.startswith("**") or not _PLAIN.fullmatch(name) for name in names):
        return ()
    return tuple(names)


def _depth(pattern: str) -> int:
    # A slash in a class counts as a level too many, which is harmless.
    return 0 if "**" in pattern else max(one.count("/") for one in alternatives(pattern)) + 1
