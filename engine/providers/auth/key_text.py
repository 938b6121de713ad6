"""What a key may look like: it becomes a header of a request."""

from __future__ import annotations

from engine.core.errors import ConfigError


def require_key(text: str, source: str) -> str:
    """Return *text* without blanks around it. Raises `ConfigError`, without the key, if it can't be one."""
    key = text.strip()
    # The HTTP library would quote an invalid header in its error.
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{source} contains a character that no key has: set it again, on one line")
    return key
