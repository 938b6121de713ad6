"""The files of a plugin: copied, and identified by one hash of all of them. All of it blocks.

Links are left out: what they lead to may change after it was hashed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engine.core.errors import ConfigError

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64_000_000
_LEFT_OUT: Final = frozenset({".git", "__pycache__"})


def copy_files(source: Path, target: Path) -> tuple[str, ...]:
    """Copy the regular files of a folder, which nobody can change then; return the links that were left out.

    Raises `ConfigError` for too many or too large files, and `OSError`.
    """
    files, links = _walk(source)
    target.mkdir(mode=0o700, parents=True)
    for name, state in files.items():
        copy = target / name
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(source / name, copy, follow_symlinks=False)
        copy.chmod(0o555 if state.st_mode & stat.S_IXUSR else 0o444)
    for folder, _, _ in os.walk(target, topdown=False):
        Path(folder).chmod(0o555)
    return links


def hash_files(folder: Path) -> tuple[str, Mapping[str, str]]:
    """Return one hash of all files of a copy, and one of each by its path. Raises `ConfigError` and `OSError`."""
    files, links = _walk(folder)
    if links:
        raise ConfigError(f"{folder} holds a link: {links[0]}")
    hashes: dict[str, str] = {}
    whole = hashlib.sha256()
    for name, state in files.items():
        with (folder / name).open("rb") as file:
            hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
        kind = "x" if state.st_mode & stat.S_IXUSR else "-"
        whole.update(b"\0".join([kind.encode(), os.fsencode(name), hashes[name].encode()]) + b"\n")
    return whole.hexdigest(), hashes


def delete_files(folder: Path) -> None:
    """Delete a copy, if it is there. Raises `OSError`."""
    if not folder.is_dir():
        return
    for each, _, _ in os.walk(folder):
        Path(each).chmod(0o700)
    shutil.rmtree(folder)


def _walk(root: Path) -> tuple[Mapping[str, os.stat_result], tuple[str, ...]]:
    """Return the regular files by their relative paths, sorted, and the links."""
    files: dict[str, os.stat_result] = {}
    links: list[str] = []
    size = 0
    for folder, names, others in os.walk(root):
        names[:] = [name for name in names if name not in _LEFT_OUT]
        for name in (*names, *others):
            path = Path(folder, name)
            relative, state = str(path.relative_to(root)), path.lstat()
            if stat.S_ISLNK(state.st_mode):
                links.append(relative)
            elif stat.S_ISREG(state.st_mode):
                files[relative] = state
                size += state.st_size
        if len(files) > MAX_FILES or size > MAX_BYTES:
            raise ConfigError(
                f"{root} is too large for a plugin: at most {MAX_FILES:,} files of {MAX_BYTES:,} bytes in all"
            )
    return dict(sorted(files.items())), tuple(sorted(links))
