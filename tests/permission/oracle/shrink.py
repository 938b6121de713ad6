"""Makes a script that fails as short as it can be while it still fails."""

from __future__ import annotations

from collections.abc import Callable


def shrink(script: str, still_fails: Callable[[str], bool]) -> str:
    """Return a part of *script* that fails, and no piece of which can be left out.

    Args:
        script: one that fails.
        still_fails: tells whether a shorter one fails as well.
    """
    size = max(1, len(script) // 2)
    while True:
        at, shrunk = 0, False
        while at < len(script):
            shorter = script[:at] + script[at + size :]
            if shorter != script and still_fails(shorter):
                script, shrunk = shorter, True
            else:
                at += size
        if size == 1 and not shrunk:
            return script
        size = max(1, size // 2)
