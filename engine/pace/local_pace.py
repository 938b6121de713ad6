"""`LocalPace`: the pace of the requests of one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import trio

from engine.pace.adaptive_limit import PAUSE, AdaptiveLimit
from engine.pace.lane import Lane, PaceLimits
from engine.pace.pace_port import LaneStatus, PaceKey, Permit, PermitOutcome


@final
class LocalPace:
    """Counts requests in this process, and finds out how many a host accepts at once.

    It may be shared by engines of one Trio run. Each model at each host has a limit of its own.
    """

    def __init__(
        self, *, reserve: float = 0.0, requests_minute: int | None = None, tokens_minute: int | None = None
    ) -> None:
        """Make one; see `PaceLimits`. Raises `ConfigError`."""
        self._limits = PaceLimits(reserve=reserve, requests_minute=requests_minute, tokens_minute=tokens_minute)
        self._lanes: dict[PaceKey, Lane] = {}
        self._adaptive: dict[PaceKey, AdaptiveLimit] = {}

    async def acquire(
        self, key: PaceKey, *, tokens: Callable[[], int], longest: float, notify: Callable[[str], None]
    ) -> Permit:
        """See `Pace`."""
        return await self._lane(key).acquire(tokens, longest, notify)

    def status(self) -> tuple[LaneStatus, ...]:
        """Return what goes on at each host. Not a checkpoint."""
        return tuple(lane.status(self._adaptive[key].limit) for key, lane in self._lanes.items())

    def _note_outcome(self, lane: Lane, outcome: PermitOutcome, answers: int) -> None:
        """Learn from how a request has ended. Not a checkpoint."""
        adaptive, now, reserve = self._adaptive[lane.key], trio.current_time(), self._limits.reserve
        if outcome.kind == "rate_limited":
            # The one that was refused was under way as well.
            if adaptive.note_rate_limit(now, lane.in_flight + 1) and not outcome.wait:
                lane.pause(PAUSE)
        elif answers:
            adaptive.note_answers(answers, now, reserve=reserve)
        lane.permits = adaptive.permits(reserve)

    def _lane(self, key: PaceKey) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            adaptive = self._adaptive[key] = AdaptiveLimit()
            lane = self._lanes[key] = Lane(
                key=key,
                on_outcome=self._note_outcome,
                on_wait=lambda _: None,
                permits=adaptive.permits(self._limits.reserve),
                requests=self._limits.window(self._limits.requests_minute),
                tokens=self._limits.window(self._limits.tokens_minute),
            )
        return lane
