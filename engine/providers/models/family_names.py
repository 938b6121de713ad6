"""The family of a model by its name, where prompts depend on it."""

from __future__ import annotations

import re
from typing import Final

# A name begins after a maker, a region or a gateway, but not after another word: `some-claude-distill` is no Claude.
_BEGIN: Final = r"(?<![a-z0-9])(?<![a-z0-9][-_])"
_ROWS: Final = (
    ("claude", re.compile(rf"{_BEGIN}claude(?![a-z0-9])")),
    ("gpt", re.compile(rf"{_BEGIN}(?:(?:chat)?gpt-|o[1-9](?![a-z0-9])|codex(?![a-z0-9]))")),
    ("gemini", re.compile(rf"{_BEGIN}gemini-")),
)


def family_of(model: str) -> str:
    """Return `claude`, `gpt` or `gemini` by the model's name at its host; empty for all others."""
    name = model.lower()
    return next((family for family, pattern in _ROWS if pattern.search(name)), "")
