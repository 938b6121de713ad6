"""`SendLock`: one sender at a time."""

from __future__ import annotations

from typing import final

import trio


@final
class SendLock:
    """A fair lock that is no checkpoint while it is free: a thousand sends, each under three locks, would be 3,000.

    The one that holds it sends.
    """

    def __init__(self) -> None:
        """Make it."""
        self._lock = trio.StrictFIFOLock()

    async def __aenter__(self) -> None:
        """Acquire it; a checkpoint if another task has it, and if cancelled there, it is not acquired."""
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        """Release it: the one who waits longest has it then. Not a checkpoint."""
        self._lock.release()
