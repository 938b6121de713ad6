"""A fixed limit for each minute, of requests or tokens: no minute has more, wherever it begins. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

MINUTE: Final = 60.0


@attrs.define(eq=False, repr=False)
class _Entry:
    at: float
    amount: float


@attrs.define(eq=False, repr=False)
class MinuteWindow:
    """What was taken in the last minute.

    Attributes:
        limit: how much a minute may have. Less than one: one in several minutes.
    """

    limit: float
    _entries: deque[_Entry] = attrs.field(factory=deque[_Entry], init=False)
    _used: float = attrs.field(default=0.0, init=False)

    def delay(self, amount: float, now: float) -> float:
        """Return in how many seconds *amount* may be taken; 0: now. More than the limit may be taken alone."""
        self._forget(now)
        excess = self._used + min(amount, self._most) - self._most
        if excess <= 0:
            return 0.0
        for entry in self._entries:
            excess -= entry.amount
            if excess <= 0:
                return max(0.0, entry.at + self._seconds - now)
        return 0.0

    def take(self, amount: float, now: float) -> None:
        """Count *amount*, which may be more than there is room for: an answer has as many tokens as it has."""
        self._entries.append(_Entry(now, amount))
        self._used += amount

    @property
    def _most(self) -> float:
        return max(1.0, self.limit)

    @property
    def _seconds(self) -> float:
        return MINUTE / min(1.0, self.limit)

    def _forget(self, now: float) -> None:
        while self._entries and self._entries[0].at + self._seconds <= now:
            self._used -= self._entries.popleft().amount
        if not self._entries:
            # Sums of floats drift.
            self._used = 0.0
