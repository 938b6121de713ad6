"""Lines that are too long to be shown whole, as minified code has them: what stands around the match is shown."""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import Final

from engine.tools.search.results import Hit
from engine.tools.search.ripgrep import MAX_COLUMNS
from engine.tools.search.search_arguments import MAX_LINE_CHARS
from engine.tools.search.walk import without_waiting

_BEFORE_BYTES: Final = 120
_BYTES: Final = 4 * MAX_LINE_CHARS
_CUT: Final = "[...]"
_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def line_text(folder: Path, hit: Hit) -> str:
    """Return a found line in the form in which it is shown. It reads the file again if the searcher has cut the line."""
    start = _start(hit)
    if start == 0:
        return fitted(hit.text, 0)
    data = hit.text[start : start + _BYTES + 1]
    if len(hit.text) > MAX_COLUMNS:
        data = _read(folder, hit, start)
    return fitted(data, start) if data else fitted(hit.text, 0)


def fitted(data: bytes, start: int) -> str:
    """Return what begins *start* bytes behind the beginning of a line, cut to `MAX_LINE_CHARS` characters."""
    # A character that was cut in two is dropped at the beginning; at the end it is behind the cut.
    text = (data.lstrip(bytes(range(0x80, 0xC0))) if start else data).decode(errors="replace")
    is_cut = len(text) > MAX_LINE_CHARS
    return (f"{_CUT} " if start else "") + text[:MAX_LINE_CHARS] + (f" {_CUT}" if is_cut else "")


def _start(hit: Hit) -> int:
    """Return from which byte on a line is shown, so that its match is."""
    behind = hit.column - 1 if hit.is_match else 0
    return 0 if len(hit.text) <= MAX_LINE_CHARS or behind < MAX_LINE_CHARS - _BEFORE_BYTES else behind - _BEFORE_BYTES


def _read(folder: Path, hit: Hit, start: int) -> bytes:
    try:
        with open(os.path.join(os.fsencode(folder), hit.path), "rb", opener=without_waiting) as file:  # noqa: PTH118 - Path has no bytes
            if file.read(2) in _UTF16_MARKS:
                return b""  # the searcher counts in UTF-8
            file.seek(hit.offset + start)
            return file.read(_BYTES + 1).partition(b"\n")[0]
    except OSError:  # it has changed in the meantime
        return b""
