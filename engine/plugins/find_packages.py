"""Whether a package may be a plugin. This alone is asked at each start: without one, nothing of plugins is loaded."""

from __future__ import annotations

import os
import sys
from typing import Final

GROUP: Final = "engine.plugins"
_MOST_BYTES: Final = 1_000_000
_METADATA: Final = (".dist-info", ".egg-info")


def has_packages() -> bool:
    """Return whether a package may have such an entry point: without one, nothing of `importlib.metadata` is needed."""
    return any(_mentions_group(path) for path in dict.fromkeys(sys.path))


def _mentions_group(folder: str) -> bool:
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.path for entry in entries if entry.name.endswith(_METADATA)]
    except OSError:  # an archive, or no folder at all
        return False
    return any(f"[{GROUP}]".encode() in _head(f"{name}/entry_points.txt") for name in names)


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # a str, a hundred times at each start
            return file.read(_MOST_BYTES)
    except OSError:
        return b""
