"""What a confined command may use. Builds need thousands of processes, but a few hundred at once."""

from __future__ import annotations

from typing import Final

from engine.process.resource_limits import ResourceLimits, default_memory

_PROCESSES: Final = 1_000
# Of a command that only reads: the temporary files of `sort`, of a large here-document.
_TEMPORARY_MEGABYTES: Final = 1_000


def limits(folder: str = "") -> ResourceLimits:
    """Return the limits of a command, with a *folder* for its temporary files if it has one of its own."""
    return ResourceLimits(
        processes=_PROCESSES,
        memory=default_memory(),
        folder=folder,
        folder_size=_TEMPORARY_MEGABYTES if folder else 0,
    )
