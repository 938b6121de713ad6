"""Patterns for models' names, searched for where a name may begin. Most begin with a maker's name, which is looked for first.

A lookup tries some hundred of them, and compiling one takes a hundred times as long as looking for its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

_ANCHOR: Final = "(?<![a-z0-9])"
# The plain text at the beginning, without a character that may be left out.
_BEGINNING: Final = re.compile(r"[a-z-]+(?![?*{])")


def anchored(pattern: str) -> str:
    """Return *pattern*, restricted to where a model's name may begin."""
    return rf"{_ANCHOR}(?:{pattern})"


def matches_name(pattern: str, name: str) -> bool:
    """Return whether *pattern* is found in a model's *name*, which is in lower case."""
    return any(beginning in name for beginning in _beginnings(pattern)) and _compiled(pattern).search(name) is not None


@cache
def _beginnings(pattern: str) -> tuple[str, ...]:
    """Return plain texts, one of which each match contains."""
    inner = pattern.removeprefix(f"{_ANCHOR}(?:")
    alternatives = _alternatives(inner[:-1] if inner != pattern else pattern)
    found = [_BEGINNING.match(alternative) for alternative in alternatives]
    return tuple("" if text is None else text[0] for text in found)


def _alternatives(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a pattern that are in no parentheses. Brackets of a class never hold a parenthesis here."""
    depth = start = 0
    for at, char in enumerate(pattern):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            yield pattern[start:at]
            start = at + 1
    yield pattern[start:]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile *pattern* on first use: one host needs few."""
    return re.compile(pattern)
