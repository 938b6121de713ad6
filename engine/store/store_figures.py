"""`StoreFigures`: what one open store counts of its writing, for the metrics of a fleet."""

from __future__ import annotations

import time
from collections.abc import Mapping

import attrs


@attrs.define(kw_only=True, eq=False, repr=False)
class StoreFigures:
    """Counts since the store was opened.

    Written in the writer's thread, but for the flushes, and read anywhere: each field has one thread that changes it.

    Attributes:
        commits: transactions that have written something.
        commit_seconds: how long they took together.
        flushes: how often something has waited until events were durable.
        flush_seconds: how long it waited in all.
        drafts: texts of open parts that were saved.
        notifications: how often watchers were notified.
        takeovers: leases that were taken from engines that had lost them.
    """

    commits: int = 0
    commit_seconds: float = 0.0
    flushes: int = 0
    flush_seconds: float = 0.0
    drafts: int = 0
    notifications: int = 0
    takeovers: int = 0
    # When the last report was made, and what it counted.
    _reported: tuple[float, int, int] = attrs.field(factory=lambda: (time.monotonic(), 0, 0), init=False)

    def note_flush(self, seconds: float) -> None:
        """Count that something has waited for so long. In the trio thread; not a checkpoint."""
        self.flushes += 1
        self.flush_seconds += seconds

    def report(self) -> Mapping[str, float]:
        """Return the counts, and rates since the last report. In the writer's thread."""
        now = time.monotonic()
        since, drafts, notifications = self._reported
        self._reported = (now, self.drafts, self.notifications)
        seconds = max(now - since, 0.001)
        return {
            "commits": self.commits,
            "commit_seconds": self.commit_seconds,
            "flushes": self.flushes,
            "flush_seconds": self.flush_seconds,
            "takeovers": self.takeovers,
            "drafts_per_second": (self.drafts - drafts) / seconds,
            "notifications_per_second": (self.notifications - notifications) / seconds,
        }
