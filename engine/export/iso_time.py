"""A moment as ISO 8601 writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def iso_time(moment: float, precision: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Return a moment, in seconds since the epoch, as ISO 8601 in UTC; empty if no calendar has it."""
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec=precision)
    except (ValueError, OverflowError, OSError):
        return ""
