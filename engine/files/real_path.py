"""The real path of a name: links are followed as the kernel follows them, one after the other, before any `..`.

It is also known for paths that do not exist yet: the deepest existing folder decides, and
a dangling link is followed to its target. Everything here asks the file system.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

import attrs

from engine.core.value_base import Value

# The kernel's limits: beyond them it refuses a path, too.
MAX_LINKS: Final = 40
MAX_BYTES: Final = 4_095
_TRIES: Final = 100


@attrs.frozen(eq=False, repr=False)
class Unclear(Value):
    """It is unclear which file a path means; *reason* says why."""

    reason: str


@attrs.frozen(eq=False, repr=False)
class Real(Value):
    """A real path.

    Attributes:
        path: absolute, without links, `.` and `..`.
        missing: the first part of it, from the root, that does not exist; empty: all of it exists.
    """

    path: str
    missing: str = ""


def real_path(path: str) -> Real | Unclear:
    """Return the real path of an absolute one. It blocks, and raises nothing."""
    if not path.startswith("/") or not is_name(path):
        return Unclear("it is no path that a file can have")
    real, missing, links = "", "", 0
    pending = _parts_of(path)
    while pending:
        name = pending.pop()
        if name == "..":
            real, missing = _folder_above(real, missing)
            continue
        here = f"{real}/{name}"
        match _look(here, missing):
            case Unclear() as unclear:
                return unclear
            case _Entry(is_there=is_there, target=""):
                real, missing = here, missing if is_there else here
            case _Entry(target=target):
                links += 1
                if links > MAX_LINKS:
                    return Unclear("its links go round in circles, or there are too many of them")
                real = "" if target.startswith("/") else real
                pending += _parts_of(target)
    return Real(real or "/", missing)


def _folder_above(real: str, missing: str) -> tuple[str, str]:
    """Return the folder above *real*, and the first missing part of that."""
    above = real.rpartition("/")[0]
    return above, missing if is_within(above, missing) else ""


def _parts_of(path: str) -> list[str]:
    """Return the names in a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def followed(path: str | os.PathLike[str]) -> str:
    """Return what `os.path.realpath` does, also while links are being changed. It blocks, and raises nothing."""
    for _ in range(_TRIES):
        with suppress(OSError):  # it was a link when it was looked at, and none when it was read
            return os.path.realpath(path)
    return os.path.abspath(path)  # noqa: PTH100 - as realpath


def is_within(path: str, folder: str) -> bool:
    """Tell whether a real path is *folder*, a real one too, or below it. Nothing is within no folder."""
    return bool(folder) and (path == folder or path.startswith(f"{folder.rstrip('/')}/"))


def is_name(path: str) -> bool:
    """Tell whether a file can have that name."""
    try:
        name = os.fsencode(path)
        return b"\0" not in name and len(name) <= MAX_BYTES
    except UnicodeEncodeError:
        return False


@attrs.frozen(eq=False, repr=False)
class _Entry(Value):
    """Whether something is at a path, and the target if it is a link."""

    is_there: bool = True
    target: str = ""


def _look(here: str, missing: str, tries: int = _TRIES) -> _Entry | Unclear:
    if missing:
        # Below a folder that is missing, the file system has no answer, and there is no link.
        return _Entry()
    try:
        state = os.lstat(here)
        if not stat.S_ISLNK(state.st_mode):
            return _Entry()
        target = os.readlink(here)  # noqa: PTH115 - Path would change it
    except (FileNotFoundError, NotADirectoryError):
        return _Entry(is_there=False)
    except OSError as error:
        if error.errno == errno.EINVAL and tries:  # it was a link a moment ago
            return _look(here, missing, tries - 1)
        return Unclear(f"it can't be looked at ({(error.strerror or str(error)).lower()})")
    if _is_of_proc(state) and not _is_plain(here, target):
        return Unclear("it leads to what a process has open")
    return _Entry(target=target)


def _is_of_proc(state: os.stat_result) -> bool:
    try:
        return state.st_dev == os.stat("/proc").st_dev  # noqa: PTH116 - only one number is needed
    except OSError:  # a machine without it
        return False


def _is_plain(here: str, target: str) -> bool:
    """Tell whether a link in `/proc` leads where its text says; others lead to a file that a process has open, wherever that is."""
    is_own_root = target == "/" and here.startswith(f"/proc/{os.getpid()}/")
    return is_own_root or (not target.startswith("/") and ":" not in target)
