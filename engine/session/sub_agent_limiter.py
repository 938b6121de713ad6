"""Limits how many sub-agents work at once, on each level below the session that a user talks to.

Each level has its own places. With one limit for all, sub-agents that wait for sub-agents of their own could hold every
place, and none would go on; so the deepest level always goes on, and then the one above it. Sub-agents in the background
have places of their own: they may take long, and calls in the foreground must not wait for them.
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
        # The setting may differ from turn to turn; the newest counts.
        places.total_tokens = limit
        if places.available_tokens <= 0:
            on_wait()
        # A borrower of its own, and not the task: a task may start several sub-agents, one after the other.
        who = object()
        await places.acquire_on_behalf_of(who)
        return lambda: places.release_on_behalf_of(who)
