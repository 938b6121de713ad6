"""`ServerDrain`: how a server ends. It takes no new work; what runs may go on for a while; then the host closes the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, final

import trio

_LOOK_SECONDS: Final = 0.05


class DrainableWork(Protocol):
    """What is waited for."""

    def is_working(self) -> bool:
        """Return whether a turn or a request runs. Not a checkpoint."""
        ...

    async def release_idle(self) -> None:
        """Let go of what a successor may use. A checkpoint."""
        ...


@final
class ServerDrain:
    """The end of a server.

    Attributes:
        until: when turns that still run are ended, in seconds since the epoch; None: the server does not end yet.
        reason: why it ends.
        successor: the address of the server that takes its place; None: there is none that is known of.
        over: set when nothing runs any more, or the time is up: the host then closes the engine.
        engine_closed: to be set when it has.
        ended: set when clients have read what there was, and their connections are closed.
    """

    def __init__(self, work: DrainableWork, announce: Callable[[float], None], *, now: Callable[[], float]) -> None:
        """Make it; *announce* tells clients when the server ends, and *now* is the time since the epoch."""
        self.until: float | None = None
        self.reason: str = ""
        self.successor: str | None = None
        self.over: trio.Event = trio.Event()
        self.engine_closed: trio.Event = trio.Event()
        self.ended: trio.Event = trio.Event()
        self._work = work
        self._announce = announce
        self._now = now
        self._begun = trio.Event()
        self._end = 0.0

    def begin(self, seconds: float, reason: str, *, successor: str | None = None) -> float:
        """Begin, or change when it ends; return when that is. Not a checkpoint."""
        self.until = self._now() + seconds
        self.reason = reason
        self.successor = successor or self.successor
        self._end = trio.current_time() + seconds
        self._announce(self.until)
        self._begun.set()
        return self.until

    async def run(self) -> None:
        """Wait until it has begun, and then until it is over. A checkpoint."""
        await self._begun.wait()
        while self._work.is_working() and trio.current_time() < self._end:
            if self.successor is not None:
                await self._work.release_idle()
            await trio.sleep(_LOOK_SECONDS)
        self.over.set()
