"""The prompt that `engine chat` shows while its modules are being imported, which takes longer than a user waits gladly.

The terminal itself shows what is typed in the meantime, and the chat reads it later. Nothing is armed, so a program that
ends here leaves nothing to restore. It imports nothing but what Python has loaded anyway.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

# The cursor is behind the prompt; the chat's first frame, which begins in the same row, replaces both rows.
_FRAME = "> \r\nStarting\x1b[A\r\x1b[2C"
_ERASE = "\r\x1b[J"
_state = {"is_shown": False}


def show_starting_frame(arguments: Collection[str]) -> None:
    """Show the prompt, unless the chat will be in lines, or only its help is wanted."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if any(stream is None or not stream.isatty() for stream in streams):
        return
    is_in_lines = os.environ.get("TERM", "dumb") == "dumb" or os.environ.get("ENGINE_ACCESSIBLE", "0") not in {"", "0"}
    if is_in_lines or not {"--accessible", "--help", "-h"}.isdisjoint(arguments):
        return
    _state["is_shown"] = _write(_FRAME)


def erase_starting_frame() -> None:
    """Erase the prompt, if it is shown."""
    if _state["is_shown"]:
        _state["is_shown"] = False
        _write(_ERASE)


def _write(text: str) -> bool:
    try:
        os.write(1, text.encode())
    except OSError:  # the terminal is gone, which the chat will notice
        return False
    return True
