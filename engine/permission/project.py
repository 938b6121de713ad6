"""Which folder is the project: what may be read and changed without looking beyond it."""

from __future__ import annotations

import os
from pathlib import Path

from engine.files.real_path import Unclear, is_within, real_path


def project_of(cwd: str, *, home: str) -> str:
    """Return the real path of the project that *cwd* belongs to; empty if there is none. It blocks.

    That is the repository around it, or else *cwd* itself. Not a repository that is the whole
    machine or holds the user's whole home folder (some keep their settings in one), nor one
    that belongs to another user, who could make it of a folder like `/tmp`.
    """
    folder = real_path(cwd)
    if isinstance(folder, Unclear):
        return ""
    own = real_path(home)
    for parent in (folder.path, *map(str, Path(folder.path).parents)):
        if parent == "/" or (parent != folder.path and not isinstance(own, Unclear) and is_within(own.path, parent)):
            break
        if _is_repository(parent, folder.path):
            return parent
    return "" if folder.path == "/" else folder.path


def _is_repository(folder: str, cwd: str) -> bool:
    try:
        owner = Path(folder, ".git").lstat().st_uid
        return owner in {os.geteuid(), Path(cwd).stat().st_uid}
    except OSError:
        return False
