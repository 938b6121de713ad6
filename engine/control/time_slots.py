"""Work of many connections, spread over time (`TimeSlots`) and over the passes of Trio's scheduler (`PassLimit`).

So the engine gets its turn meanwhile.
"""

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


@final
class PassLimit:
    """At most so many tasks go on in one pass of the scheduler, the others in later ones, in their order.

    Slots alone don't do this: after a delay, all that had one meanwhile would go on in a single pass.
    """

    def __init__(self, most: int) -> None:
        """Make it for so many tasks in a pass."""
        self._most = self._free = most
        self._waiting = trio.lowlevel.ParkingLot()

    async def wait(self) -> None:
        """Go on, now or in a later pass. A checkpoint only if it waits; if cancelled there, nobody waits longer for it."""
        if self._free and not self._waiting:
            self._free -= 1
            return
        if not self._waiting:
            self._refill_soon()
        await self._waiting.park()

    def _refill_soon(self) -> None:
        # Called in the next pass, by a task of Trio.
        trio.lowlevel.current_trio_token().run_sync_soon(self._refill)

    def _refill(self) -> None:
        self._free = self._most - len(self._waiting.unpark(count=self._most))
        if self._waiting:
            self._refill_soon()
