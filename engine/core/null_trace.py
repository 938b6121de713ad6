"""The default `Trace`: nothing."""

from __future__ import annotations


class NoTrace:
    """Takes note of nothing."""

    def point(self, name: str) -> None:
        """Do nothing."""
