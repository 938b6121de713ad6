"""A path that was pasted, or dropped onto the window. Pure."""

from __future__ import annotations

import re
import shlex
from typing import Final
from urllib.parse import unquote

_IMAGE: Final = re.compile(r"(?:~|\.{0,2})/.*\.(?:png|jpe?g|gif|webp)", re.IGNORECASE | re.DOTALL)
_MAX_CHARS: Final = 4_096


def pasted_image(text: str) -> str:
    """Return the path of an image, if *text* is nothing else, as terminals quote what is dropped onto them; else nothing."""
    line = text.strip()
    if len(line) > _MAX_CHARS or "\n" in line:
        return ""
    if line.startswith("file://"):
        path = unquote(line.removeprefix("file://"))
        return path if _IMAGE.fullmatch(path) else ""
    try:
        parts = shlex.split(line)
    except ValueError:
        return ""
    # An unquoted path with blanks: some terminals paste it as it is.
    path = parts[0] if len(parts) == 1 else line
    return path if _IMAGE.fullmatch(path) else ""
