"""What this process uses, in the units of Prometheus. Without `/proc` (macOS) less of it is known."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/statm")
_DESCRIPTORS: Final = Path("/proc/self/fd")


def resident_bytes() -> int:
    """Return the memory that this process has in use; 0 if that is not known. It blocks for some microseconds."""
    return _memory()[1]


def process_stats() -> Iterator[tuple[str, float]]:
    """Yield the names and values of the metrics `process_*`. It blocks for less than a millisecond."""
    times = os.times()
    yield "process_cpu_seconds_total", times.user + times.system
    virtual, resident = _memory()
    if resident:
        yield "process_virtual_memory_bytes", virtual
        yield "process_resident_memory_bytes", resident
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        yield "process_max_fds", soft
    with suppress(OSError):
        # Without the one that lists them.
        yield "process_open_fds", len(os.listdir(_DESCRIPTORS)) - 1  # noqa: PTH208  # only their number
    started = _started()
    if started is not None:
        yield "process_start_time_seconds", started


def _memory() -> tuple[int, int]:
    """Return how many bytes of memory are mapped, and how many are in use."""
    with suppress(OSError, ValueError, IndexError):
        fields = _STATUS.read_text("ascii").split()
        return int(fields[0]) * resource.getpagesize(), int(fields[1]) * resource.getpagesize()
    return 0, 0


def _started() -> float | None:
    """Return when this process was started, in seconds since the epoch."""
    with suppress(OSError, ValueError, IndexError):
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    return None
