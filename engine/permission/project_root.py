"""Find the project folder: files inside it can be used with fewer questions."""

from __future__ import annotations

import os
from pathlib import Path

from engine.files.real_path import Unclear, followed, is_within, real_path


def find_project_root(cwd: str, *, home: str) -> str:
    """Return the real path of the project that *cwd* belongs to; empty if there is none. It blocks.

    It is the repository around *cwd*, or else *cwd* itself. A repository does not count if it is the
    root of the machine, if it contains the user's home folder (some people version their settings), or if
    it belongs to another user, who could have made it in a folder like `/tmp`.
    """
    folder = real_path(cwd)
    if isinstance(folder, Unclear):
        return ""
    home_path = real_path(home)
    for parent in (folder.path, *map(str, Path(folder.path).parents)):
        if parent == "/" or (
            parent != folder.path and not isinstance(home_path, Unclear) and is_within(home_path.path, parent)
        ):
            break
        if _is_repository(parent, folder.path):
            return parent
    return "" if folder.path == "/" else folder.path


def comes_from_project(program: str, *, search: str, project: str) -> bool:
    """Return whether a program is one of the project's own, not the system's of that name. It blocks.

    A folder of the project may be on the path (`.venv/bin`, `node_modules/.bin`), and a repository may bring an `ls`.

    Args:
        program: the name of a command, or its path.
        search: the folders of programs, as in `PATH`.
        project: the project's real path; empty: none.
    """
    if "/" in program or not project:
        return False
    for folder in search.split(":"):
        # From which folder such a path counts, only the shell knows.
        if not folder.startswith("/"):
            return True
        path = f"{folder}/{program}"
        if os.access(path, os.X_OK):
            return is_within(followed(folder), project) or is_within(followed(path), project)
    return False


def _is_repository(folder: str, cwd: str) -> bool:
    try:
        owner = Path(folder, ".git").lstat().st_uid
        return owner in {os.geteuid(), Path(cwd).stat().st_uid}
    except OSError:
        return False
