"""Files of a project that run later by themselves (`permission/rules/run_later`), in whichever of its folders they lie.

What a package manager has installed is left out: users do not work in those folders, and what builds or tests the project runs
their content anyway.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from engine.files.real_path import followed, is_within
from engine.permission.rules.run_later import INSTALLED, may_run_later, runs_later

GIT: Final = ".git"
# What git obeys in the folder of a repository.
GIT_SETTINGS: Final = ("hooks", "config", "config.worktree", "commondir")
# A repository without a working tree: git finds it by these names in the folder where it is called.
_BARE: Final = ({"HEAD", "objects", "refs"}, {"HEAD", "commondir"})


@attrs.frozen
class FileIdentity:
    """Which file a path leads to. It changes if the path gets another file, also by a link.

    Attributes:
        device: of the path itself.
        number: of its inode.
        target: where it leads, if it is a link, and the device and inode of what is there.
    """

    device: int
    number: int
    target: tuple[str, int, int] | None = None


def run_later_files(project: str, cwd: str) -> dict[str, FileIdentity]:
    """Return the files and folders that run later, as absolute paths. It blocks, 10 ms for each 1,000 folders at most.

    Args:
        project: the project's real path.
        cwd: the real path of a folder in it, which is searched even if it is an installed one.
    """
    roots = dict.fromkeys((project, cwd if is_within(cwd, project) else project))
    identities = {path: file_identity(path) for root in roots for path in _in_folder(root, project)}
    return {path: identity for path, identity in identities.items() if identity is not None}


def git_folders_of(repository: str) -> Iterator[str]:
    """Yield a repository's folder, and those of its submodules and working trees in it. It blocks."""
    pending = [repository]
    while pending:
        folder = pending.pop()
        is_repository = folder == repository or os.path.lexists(f"{folder}/HEAD")
        if is_repository:
            yield folder
        # The name of a submodule may have slashes.
        pending += _folders_in(f"{folder}/modules") if is_repository else _folders_in(folder)
        pending += _folders_in(f"{folder}/worktrees") if is_repository else ()


def file_identity(path: str) -> FileIdentity | None:
    """Return which file a path leads to; None if there is none. It blocks."""
    with suppress(OSError):
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode):
            return FileIdentity(status.st_dev, status.st_ino)
        device, number = 0, 0
        with suppress(OSError):
            there = os.stat(path)  # noqa: PTH116
            device, number = there.st_dev, there.st_ino
        return FileIdentity(status.st_dev, status.st_ino, (os.readlink(path), device, number))  # noqa: PTH115
    return None


def _in_folder(root: str, project: str) -> Iterator[str]:
    pending = [root]
    while pending:
        folder = pending.pop()
        entries = _entries(folder)
        if "HEAD" in entries and any(entries.keys() >= bare for bare in _BARE):
            yield from _settings_in(folder)
        for name, is_folder in entries.items():
            path = f"{folder}/{name}"
            if may_run_later(name) and runs_later(os.path.relpath(path, project)):
                yield path
                if name == GIT and is_folder:
                    yield from _settings_in(path)
            elif is_folder and name not in INSTALLED:
                pending.append(path)


def _settings_in(repository: str) -> Iterator[str]:
    for folder in git_folders_of(repository):
        yield from (path for name in GIT_SETTINGS if os.path.lexists(path := f"{folder}/{name}"))


def _folders_in(folder: str) -> list[str]:
    return [f"{folder}/{name}" for name, is_folder in _entries(folder).items() if is_folder]


def _entries(folder: str) -> dict[str, bool]:
    """Return the names in a folder, and whether each is a folder and no link; what can't be read is empty."""
    with suppress(OSError), os.scandir(folder) as entries:
        return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    return {}


def link_targets(paths: Iterable[str], project: str) -> Iterator[str]:
    """Yield the real paths in the project that links lead to. It blocks."""
    for path in paths:
        target = followed(path) if Path(path).is_symlink() else ""
        if target and is_within(target, project) and os.path.lexists(target):
            yield target
