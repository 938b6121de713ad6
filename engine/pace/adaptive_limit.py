"""How many requests may be under way at a host that does not say: a limit that grows until it refuses one. Pure.

The constants are those that Inspect has found for evaluations of many hours.
"""

from __future__ import annotations

from math import floor, inf
from typing import Final

import attrs

START: Final = 20.0
# Fewer requests would let the host's prompt caches go cold, and then each one takes more of the limit.
FLOOR: Final = 10.0
GROWTH: Final = 1.05
CUT: Final = 0.8
# Seconds. Requests that were sent together are refused together: that is one reason to cut, not twenty.
CUT_SPACING: Final = 15.0
# Seconds for which all wait after a refusal, where the host does not say how long.
PAUSE: Final = 2.0
# Seconds for which a pace with a reserve does not go beyond what was refused.
CEILING_SECONDS: Final = 300.0


@attrs.define(eq=False, repr=False)
class AdaptiveLimit:
    """The limit of one lane.

    Attributes:
        limit: how many requests may be under way. Not rounded, or it would grow by less than one and never change.
        clean: the answers since the last change, with all permits taken.
        cut_at: when it was cut last.
        ceiling: how many were under way when it was cut last.
    """

    limit: float = START
    clean: int = 0
    cut_at: float = -inf
    ceiling: float = inf

    def note_answers(self, count: int, now: float, *, reserve: float = 0.0) -> None:
        """Count requests that were answered while all permits were taken; grow after as many as the limit."""
        self.clean += count
        if self.clean < self.limit:
            return
        self.clean = 0
        grown = self.limit * GROWTH
        if reserve and now < self.cut_at + CEILING_SECONDS:
            # Else it would grow until its own share is what the host can take, and leave nothing to anybody.
            grown = min(grown, max(self.limit, self.ceiling))
        self.limit = grown

    def note_rate_limit(self, now: float, in_flight: int) -> bool:
        """Note a refusal; cut the limit and return True, unless it was cut a moment ago."""
        self.clean = 0
        if now - self.cut_at < CUT_SPACING:
            return False
        self.cut_at = now
        self.ceiling = max(FLOOR, float(in_flight))
        self.limit = max(FLOOR, self.limit * CUT)
        return True

    def permits(self, reserve: float = 0.0) -> int:
        """Return how many requests may be under way for one who leaves that share to others."""
        return max(1, floor(self.limit * (1.0 - reserve) + 1e-9))
