"""Limits how many sub-agents run at once, on each level below the user's session.

Each level has its own slots. With one limit for all levels, sub-agents that wait for their own sub-agents could hold
every slot, a deadlock. This way the deepest level always makes progress, and then the one above it. Sub-agents in the
background have slots of their own: they may take long, and calls in the foreground must not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio


@attrs.define(eq=False)
class SubAgentLimiter:
    """The slots of one tree of sessions."""

    _levels: dict[tuple[int, bool], trio.CapacityLimiter] = attrs.field(
        factory=dict[tuple[int, bool], trio.CapacityLimiter], init=False
    )

    async def enter(
        self, level: int, *, limit: int, in_background: bool = False, on_wait: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """Wait for a slot, first come, first served; return the function that frees it. Always a checkpoint.

        If cancelled, no slot is held.
        """
        places = self._levels.setdefault((level, in_background), trio.CapacityLimiter(limit))
        # The setting may differ between turns; the newest counts.
        places.total_tokens = limit
        if places.available_tokens <= 0:
            on_wait()
        # Its own borrower instead of the task: a task may start several sub-agents, one after the other.
        who = object()
        await places.acquire_on_behalf_of(who)
        return lambda: places.release_on_behalf_of(who)
