"""Folders for the temporary files of confined commands. They are removed when the engine exits, or by the next one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

from engine.files.real_path import followed
from engine.files.staging import temporary_token

_lock = threading.Lock()
# By process and user: one that has given up its rights can't use the folder that it made before.
_made: dict[tuple[int, int], str] = {}
_NAME_CHARS: Final = 16


def new_folder() -> str:
    """Return the path of a folder that is not there yet, for one command. It blocks."""
    return f"{process_folder()}/{uuid4().hex[:_NAME_CHARS]}"


def project_folder(project: str) -> str:
    """Return the folder for all commands that run in the sandbox of a project. It blocks. Raises `OSError`."""
    folder = f"{process_folder()}/project-{sha256(os.fsencode(project)).hexdigest()[:_NAME_CHARS]}"
    Path(folder).mkdir(mode=0o700, exist_ok=True)
    return folder


def process_folder() -> str:
    """Return this process's folder, which holds the others. It blocks. Raises `OSError`."""
    with _lock:
        process, user = owner = os.getpid(), os.geteuid()
        if owner not in _made or not os.path.isdir(_made[owner]):  # noqa: PTH112
            parent = tempfile.gettempdir()
            # By this name the next engine finds it, if this one is killed.
            folder = Path(parent, f"engine-{temporary_token(parent)}box{user}.tmp")
            folder.mkdir(mode=0o700, exist_ok=True)
            _made[owner] = followed(str(folder))
            atexit.register(_remove, process, _made[owner])
        return _made[owner]


def _remove(process: int, folder: str) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
