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
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    if is_dumb or _may_be_in_lines() or not {"--accessible", "--help", "-h"}.isdisjoint(arguments):
        return
    _state["is_shown"] = _write(_FRAME)


def _may_be_in_lines() -> bool:
    """Return whether the chat will be in lines; also if the user's file only has the word, as it is not parsed here."""
    variable = os.environ.get("ENGINE_ACCESSIBLE", "")
    if variable:
        return variable != "0"
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  # pathlib is slow
    try:
        with open(os.environ.get("ENGINE_CONFIG") or f"{folder}/engine/config.toml", "rb") as file:  # noqa: PTH123
            return b"accessible" in file.read()
    except OSError:  # there is none
        return False


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
