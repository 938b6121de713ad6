"""`TimeSlots`: work of many connections, spread over time, so that the engine gets its turn meanwhile."""

from __future__ import annotations

from typing import Final, final

import trio

# However many there are.
_LONGEST_WAIT: Final = 0.5


@final
class TimeSlots:
    """Who books a slot may go on at once, unless many others have booked before."""

    def __init__(self, per_second: float) -> None:
        """Make it for so many slots in a second."""
        self._gap = 1 / per_second
        self._next = 0.0

    def book(self) -> float:
        """Return the time of the next free slot. Not a checkpoint."""
        now = trio.current_time()
        slot = min(max(self._next, now), now + _LONGEST_WAIT)
        self._next = slot + self._gap
        return slot

    async def wait(self) -> None:
        """Book a slot, and wait for it. A checkpoint, unless it is now."""
        slot = self.book()
        if slot > trio.current_time():
            await trio.sleep_until(slot)
