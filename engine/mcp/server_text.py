"""Texts of servers, where a model or a user reads them: without what can't be seen, bounded, and marked as the server's."""

from __future__ import annotations

import re
from typing import Final

from engine.files.escaping import inert

# Of a description, a title, instructions or an error. Results are truncated like those of any tool.
MAX_CHARS: Final = 2_000

# Controls but tab and newline, marks of direction, characters without width, tags (which models read and people don't
# see), variation selectors beyond the common ones, lone surrogates.
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def clean(text: str) -> str:
    """Return *text* without what can't be seen, and without the marks by which a model knows the engine's own words."""
    return inert(_HIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def bounded(text: str, limit: int = MAX_CHARS) -> str:
    """Return *text*, cleaned, with at most *limit* characters."""
    # Cut before it is cleaned, too: cleaning takes time, and a server may send megabytes.
    cleaned = clean(text[: 4 * limit]).strip()
    if len(cleaned) <= limit and len(text) <= 4 * limit:
        return cleaned
    return f"{cleaned[: limit - 1]}…"


def one_line(text: str, limit: int = 200) -> str:
    """Return *text*, cleaned, in one line."""
    return " ".join(bounded(text, limit).split())


def framed_description(server: str, title: str, description: str) -> str:
    """Return a tool's description for a model: the server's words, and whose they are."""
    words = bounded("\n".join(part for part in (title, description) if part))
    return f"A tool of the MCP server {server}. The server describes it so:\n{words or '(it has no description)'}"
