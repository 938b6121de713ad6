"""`DraftPace`: how often an engine writes the text of open parts to a database that it shares.

Each draft takes its share of a second. An engine that streams much, or in many sessions at once, is written less often.
"""

from __future__ import annotations

from typing import Final

import attrs

SHORTEST: Final = 0.1
LONGEST: Final = 2.0
# Of the interval, commits may take a fifth.
_COMMITS_IN_INTERVAL: Final = 5
# How much the newest commits count in the mean.
_NEWEST: Final = 0.3


@attrs.define(eq=False)
class DraftPace:
    """Spaces out the drafts of all sessions of one engine. Nothing here is a checkpoint.

    Attributes:
        commit_seconds: how long a commit took lately.
    """

    per_second: float
    commit_seconds: float = attrs.field(default=0.0, init=False)
    # When the share of all drafts so far is used up.
    _free_at: float = attrs.field(default=0.0, init=False)
    _commits: int = attrs.field(default=0, init=False)
    _seconds: float = attrs.field(default=0.0, init=False)

    def note_draft(self, now: float) -> None:
        """Count one draft."""
        self._free_at = min(max(self._free_at, now) + 1 / self.per_second, now + LONGEST)

    def note_commits(self, commits: int, seconds: float) -> None:
        """Note how many transactions there were in all, and how long they took together."""
        if commits > self._commits:
            newest = (seconds - self._seconds) / (commits - self._commits)
            weight = _NEWEST if self._commits else 1.0
            self.commit_seconds += weight * (newest - self.commit_seconds)
            self._commits, self._seconds = commits, seconds

    def interval(self, now: float) -> float:
        """Return in how many seconds a stream should hand over its next draft."""
        shortest = max(SHORTEST, _COMMITS_IN_INTERVAL * self.commit_seconds)
        return min(max(shortest, self._free_at - now), LONGEST)
