"""The blocks in which the text of files follows the words of a task."""

from __future__ import annotations

import re
from typing import Final

from engine.core.lazy import regex

_BLOCK: Final = regex(r'\n\n<file path="[^"\n]*">\n.*?\n</file>(?=\n\n<file path="|\Z)', re.DOTALL)


def file_block(name: str, body: str) -> str:
    """Return the text of a file as the model reads it."""
    return f'<file path="{name}">\n{body}\n</file>'


def without_file_blocks(text: str) -> str:
    """Return the words of a task without the files that follow them: these are named in the words."""
    return _BLOCK.sub("", text)
