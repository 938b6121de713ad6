"""What a reader takes for one character, and the cells that it fills."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import wcwidth

from engine.cli.terminal.terminal_text import escape_control_chars

_TAB = "    "


def clusters(text: str) -> Iterator[str]:
    """Yield the grapheme clusters of *text*."""
    # Nearly all text is typed in ASCII, where each character is a cluster; only CR LF is one of two.
    return iter(text) if text.isascii() and "\r" not in text else wcwidth.iter_graphemes(text)


def boundaries(text: str) -> list[int]:
    """Return the positions in *text* where a cursor may stand: 0, and the end of each cluster."""
    return [0, *accumulate(len(cluster) for cluster in clusters(text))]


def visible_cluster(cluster: str) -> str:
    """Return what is drawn for a cluster: a control character is shown, never executed."""
    return _TAB if cluster == "\t" else escape_control_chars(cluster).replace("\n", " ")


def cells(text: str) -> int:
    """Return the width of *text*, which holds no control characters."""
    return len(text) if text.isascii() else max(0, wcwidth.width(text, control_codes="ignore"))
