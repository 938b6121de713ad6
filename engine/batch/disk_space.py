"""Whether there is space on the disk for another task."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

GIBIBYTE: Final = 1_073_741_824
# A look costs some microseconds, but ten thousand small tasks start in a minute.
_LOOK_SECONDS: Final = 0.5


@attrs.frozen(eq=False)
class FreeSpace:
    """How much must stay free: so many bytes, or a share of the disk.

    Attributes:
        share: between 0 and 1; 0: none.
    """

    bytes: int = 5 * GIBIBYTE
    share: float = 0.05

    def least(self, total: int) -> int:
        """Return the bytes that must be free on a disk of that size: the smaller of the two, if both are set."""
        sizes = [size for size in (self.bytes, int(total * self.share)) if size]
        return min(sizes, default=0)


@attrs.define(eq=False, repr=False)
class DiskGate:
    """Lets no attempt start while one of the folders has too little space. See `StartGate`."""

    _folders: Sequence[Path]
    _least: FreeSpace
    _checked_at: float = attrs.field(default=float("-inf"), init=False)
    _reason: str = attrs.field(default="", init=False)

    def blocked(self) -> str:
        """Return why no attempt may start now; empty: it may. It blocks for some microseconds."""
        if time.monotonic() - self._checked_at >= _LOOK_SECONDS:
            self._checked_at = time.monotonic()
            self._reason = self._look()
        return self._reason

    def _look(self) -> str:
        for folder in self._folders:
            with suppress(OSError):
                disk = shutil.disk_usage(folder)
                least = self._least.least(disk.total)
                if disk.free < least:
                    return f"{folder} has {disk.free / GIBIBYTE:.1f} GiB free, and {least / GIBIBYTE:.1f} GiB are to stay free"
        return ""
