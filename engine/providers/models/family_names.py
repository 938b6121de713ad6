"""Which makers' models a name belongs to, where that says how they like to be talked to."""

from __future__ import annotations

import re
from typing import Final

# Where a name begins: after a maker, a cloud's region, a gateway. Not after another word: `some-claude-distill` is none.
_BEGIN: Final = r"(?<![a-z0-9])(?<![a-z0-9][-_])"
_ROWS: Final = (
    ("claude", re.compile(rf"{_BEGIN}claude(?![a-z0-9])")),
    ("gpt", re.compile(rf"{_BEGIN}(?:(?:chat)?gpt-|o[1-9](?![a-z0-9])|codex(?![a-z0-9]))")),
    ("gemini", re.compile(rf"{_BEGIN}gemini-")),
)


def family_of(model: str) -> str:
    """Return `claude`, `gpt` or `gemini` for a model of theirs, by its name at its host; empty for all others."""
    name = model.lower()
    return next((family for family, pattern in _ROWS if pattern.search(name)), "")
