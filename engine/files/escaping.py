"""What others have named and written, put where the program speaks to a model: it can't pass for the program's. Pure."""

from __future__ import annotations

import re
from typing import Final

from engine.core.lazy import regex

# The marks by which a model distinguishes the engine's own words from the text of a file, a sub-agent or a summary.
_TAG: Final = regex(r"<\s*(?:/\s*)?(?:instructions|reminder|sub-agent-report|background-job-report)\b", re.IGNORECASE)
_QUOTING: Final = frozenset('"<>')


def shown_path(path: str) -> str:
    """Return a path as it may stand in a prompt, and on a terminal: in one line, and between quotes or in a tag."""
    return "".join(
        character if character.isprintable() and character not in _QUOTING else "\N{REPLACEMENT CHARACTER}"
        for character in path
    )


def inert(text: str) -> str:
    """Return *text* without the program's marks: a file must not end its own section and pose as the engine."""
    return _TAG.sub(lambda found: found[0].replace("<", "&lt;"), text)
