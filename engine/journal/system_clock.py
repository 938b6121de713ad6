"""The machine's own clock, and identifiers made of its randomness."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable
from typing import Final

import attrs

_SESSION: Final = "ses"


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


@attrs.define(eq=False, repr=False)
class RandomIds:
    """Identifiers that are unique among all engines: one random part, then a count; for a session a random part only.

    People type the beginning of a session's id, or its end, so ids that one engine makes must differ in both.
    """

    _prefix: str = attrs.field(factory=lambda: secrets.token_hex(6), init=False)
    _count: Callable[[], int] = attrs.field(factory=lambda: itertools.count(1).__next__, init=False)

    def new(self, kind: str) -> str:
        """Return a fresh identifier."""
        if kind == _SESSION:
            return f"{kind}_{secrets.token_hex(9)}"
        return f"{kind}_{self._prefix}{self._count():06x}"
