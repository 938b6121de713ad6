"""How many sub-agents work at once: so many on each level below a session that a user talks to.

A level has its own places, so that a sub-agent which waits for its own sub-agents never
waits for a place that it holds itself: the deepest level always goes on, and then the one
above it. Those in the background have places of their own: they may take long, and nobody
in the foreground waits for them.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio


@attrs.define(eq=False)
class SubAgentLimiter:
    """The places of one tree of sessions."""

    _levels: dict[tuple[int, bool], trio.CapacityLimiter] = attrs.field(
        factory=dict[tuple[int, bool], trio.CapacityLimiter], init=False
    )

    async def enter(
        self, level: int, *, limit: int, in_background: bool = False, on_wait: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """Wait for a place, first come, first served; return what gives it back. Always a checkpoint; if cancelled, none is held."""
        places = self._levels.setdefault((level, in_background), trio.CapacityLimiter(limit))
        places.total_tokens = limit
        if places.available_tokens <= 0:
            on_wait()
        # One of its own: two errands may be equal.
        who = object()
        await places.acquire_on_behalf_of(who)
        return lambda: places.release_on_behalf_of(who)
