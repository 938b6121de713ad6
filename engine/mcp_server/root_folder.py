"""The folder that a server is for: sessions work there or below it."""

from __future__ import annotations

import os
from pathlib import Path

from engine.core.errors import ConfigError


def folder_below(root: str, folder: str) -> str:
    """Return a folder with links resolved. It blocks. Raises `ConfigError` if it is neither *root* nor below it."""
    try:
        path = os.path.realpath(folder)
    except ValueError as error:  # a NUL
        raise ConfigError(f"{folder[:200]!r} is no folder") from error
    if not Path(path).is_relative_to(root):
        raise ConfigError(f"{folder[:200]!r} is not below {root}, the folder that this server is for")
    return path
