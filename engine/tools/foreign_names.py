"""The names of foreign tools: for models, and for rules. Pure; a name depends on nothing but the tool itself.

So a name is the same at each start, and no other tool can change it by coming or going. That is why each name that was
cleaned, shortened, or could be that of another pair of server and tool ends in a hash, even where the other one is not there.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from engine.core.lazy import regex

# What every host accepts.
NAME_LIMIT: Final = 64
_UNSAFE: Final = regex(r"[^A-Za-z0-9_-]")
_UNSAFE_RIGHT: Final = regex(r"[^A-Za-z0-9._/-]")
_HASHED: Final = regex(r"_[0-9a-f]{8}\Z")
_MAX_RIGHT_CHARS: Final = 100


def foreign_name(server: str, tool: str, *, limit: int = NAME_LIMIT, is_taken: bool = False) -> str:
    """Return the name that models use for a server's tool.

    It is `{server}_{tool}`, with two underscores after a server whose own name has one: otherwise the tool `c` of `a_b`
    and the tool `b_c` of `a` would be the same. *is_taken*: the host has a tool of its own with that name.
    """
    separator = "__" if "_" in server else "_"
    plain = f"{server}{separator}{tool}"
    cleaned = _UNSAFE.sub("_", plain)
    if not cleaned[:1].isalpha():
        cleaned = f"t{cleaned}"
    is_plain = cleaned == plain and len(plain) <= limit and tool != "" and _is_unambiguous(server, tool)
    if is_plain and not is_taken:
        return plain
    return f"{cleaned[: limit - 9]}_{_digest(server, tool)}"


def _is_unambiguous(server: str, tool: str) -> bool:
    """Return whether the name can be taken apart in one way only."""
    if _HASHED.search(f"_{tool}") is not None:
        return False
    if "_" not in server:
        # A single underscore follows: the first one in the name, and not the first of two.
        return "__" not in f"_{tool}"
    return "__" not in server and not server.endswith("_") and not server.startswith("_")


def foreign_right(kind: str, server: str, tool: str) -> str:
    """Return the right that a foreign tool needs, as rules name it: `mcp:github/create_issue`.

    No name of a stranger can reach a rule for something else: wildcards and colons are replaced.
    """
    return f"{kind}:{_right_part(server, '/')}/{_right_part(tool, '')}"


def _right_part(text: str, forbidden: str) -> str:
    cleaned = _UNSAFE_RIGHT.sub("_", text)
    if forbidden:
        cleaned = cleaned.replace(forbidden, "_")
    if cleaned == text and 0 < len(text) <= _MAX_RIGHT_CHARS:
        return text
    return f"{cleaned[: _MAX_RIGHT_CHARS - 9]}_{_digest(text)}"


def _digest(*texts: str) -> str:
    data = "\0".join(f"{len(text)}:{text}" for text in texts).encode("utf-8", "surrogatepass")
    return sha256(data).hexdigest()[:8]
