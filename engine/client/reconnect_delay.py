"""`ReconnectDelay`: how long to wait before the next attempt to connect. No clock, no randomness of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

FIRST: Final = 0.5
MOST: Final = 15.0
# An attempt on this machine costs next to nothing, and its user waits: a server that is back is found within two seconds.
MOST_LOCAL: Final = 2.0


@final
class ReconnectDelay:
    """Delays that double up to a limit, each a random part of that: a thousand clients don't come back all at once."""

    def __init__(self, *, random: Callable[[], float], most: float = MOST) -> None:
        """Make it; *random* returns numbers from 0 to 1."""
        self._random = random
        self._most = most
        self._next = FIRST

    def next_delay(self) -> float:
        """Return how long to wait now."""
        delay = self._next * self._random()
        self._next = min(2 * self._next, self._most)
        return delay

    def reset(self) -> None:
        """Begin again with short delays: a connection has lasted."""
        self._next = FIRST
