"""The terminal's clipboard: OSC 52, wrapped as tmux and screen need it. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Final

# GNU screen drops longer strings.
_SCREEN_CHUNK: Final = 700
# Terminals refuse more.
MAX_COPIED_BYTES: Final = 74_000
_FENCED: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)^ {0,3}\1", re.DOTALL | re.MULTILINE)


def copy_sequence(text: str, env: Mapping[str, str]) -> str:
    """Return what makes the terminal copy *text*."""
    encoded = base64.b64encode(text.encode(errors="replace")).decode()
    sequence = f"\x1b]52;c;{encoded}\x07"
    if env.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    if env.get("STY"):
        chunks = [sequence[at : at + _SCREEN_CHUNK] for at in range(0, len(sequence), _SCREEN_CHUNK)]
        return "".join(f"\x1bP{chunk}\x1b\\" for chunk in chunks)
    return sequence


def code_blocks(text: str) -> list[str]:
    """Return the fenced code blocks of Markdown."""
    return [match[2] for match in _FENCED.finditer(text)]
