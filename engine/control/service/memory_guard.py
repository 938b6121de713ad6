"""`MemoryGuard`: what a server does when its process uses more memory than it may. Turns are never ended for it."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Final, Protocol, final

import trio

from engine.control.service.process_stats import resident_bytes

_LOOK_SECONDS: Final = 2.0
_log = logging.getLogger("engine.control")


class MemoryUser(Protocol):
    """What can use less memory."""

    async def save_memory(self, *, idle_only: bool) -> None:
        """Release what no client waits for, or of more than that; take no new work. A checkpoint."""
        ...

    def take_work(self) -> None:
        """Take new work again. Not a checkpoint."""
        ...


@final
class MemoryGuard:
    """Looks at the memory of the process, and takes no new work while it is too much."""

    def __init__(self, user: MemoryUser, most: int, *, used: Callable[[], int] = resident_bytes) -> None:
        """Make it; the process should use at most *most* bytes, and *used* returns how many it does."""
        self._user = user
        self._most = most
        self._used = used
        self._is_short = False

    async def run(self) -> None:
        """Guard until cancelled. A checkpoint."""
        while True:
            await trio.sleep(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look once. A checkpoint.

        The first time that it is too much, connections that only watch are closed, and sessions in which nothing runs. If
        it still is at the next look, all that are subscribed to something.
        """
        used = self._used()
        was_short, self._is_short = self._is_short, used > self._most
        if not self._is_short:
            self._user.take_work()
            await trio.lowlevel.checkpoint()
            return
        if not was_short:
            _log.warning("the server uses %d MB of memory, more than %d", used >> 20, self._most >> 20)
        await self._user.save_memory(idle_only=not was_short)
        gc.collect()
