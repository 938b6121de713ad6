"""What the processes of a command may use together, and a watch over it.

The kernel's own limits do not serve. `RLIMIT_NPROC` counts all processes of the user, and does not hold for root; limits of
memory hold for each process apart, or for addresses, of which some programs reserve a thousand times what they use;
control groups need a folder that the user may write to. So the processes are looked at again and again (ten times a second
by default), which needs no right at all. What a command uses in between is not limited.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.core.threads import in_background, to_thread
from engine.core.value_base import Value
from engine.process.procfs import ProcessId, own_memory, usage

_INTERVAL: Final = 0.1
# Of the engine's time, a fiftieth at most is spent on looking.
_REST: Final = 50
# An empty file takes space as well.
_LEAST_BYTES: Final = 16_384
_MEGABYTE: Final = 1_000_000
_THREADS: Final = 10
# Where a container's limit is.
_MEMORY_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResourceLimits(Value):
    """What a command's processes may use together.

    Attributes:
        processes: how many there may be at once; and ten times as many threads.
        memory: megabytes of memory.
        folder: a folder for temporary files; it is made for the command and removed after it. Empty: none.
        folder_size: megabytes of files in it.
        interval: seconds between two looks; longer for what runs for hours.
    """

    processes: int
    memory: int
    folder: str = ""
    folder_size: int = 0
    interval: float = _INTERVAL

    @contextmanager
    def own_folder(self) -> Generator[None]:
        """Make the folder for temporary files, and remove it at the end of the block. Raises `OSError`. It needs Trio."""
        if not self.folder:
            yield
            return
        folder = Path(self.folder)
        folder.mkdir(mode=0o700)
        try:
            yield
        finally:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:  # it is not empty; there may be very much in it
                in_background(lambda: shutil.rmtree(folder, ignore_errors=True))


@lru_cache(maxsize=1)
def default_memory() -> int:
    """Return three quarters of the machine's memory, or the container's, in megabytes."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text(encoding="ascii")))
    return min(sizes) * 3 // 4 // _MEGABYTE


async def wait_exceeded(limits: ResourceLimits, find: Callable[[], Iterable[ProcessId]]) -> str:
    """Wait until the processes that *find* finds use more than they may; return what, for people. Always a checkpoint."""
    free = _free_space(limits.folder)
    # Not the common one: tools that hang must not use it up.
    thread = trio.CapacityLimiter(1)
    while True:
        began = time.perf_counter()
        processes = list(_all(find))
        used = [usage(process.pid) for process in processes]
        if len(processes) > limits.processes:
            return f"{limits.processes:,} processes"
        if sum(threads for threads, _ in used) > _THREADS * limits.processes:
            return f"{_THREADS * limits.processes:,} threads"
        # Quick, and too much: what processes share counts for each of them.
        if sum(memory for _, memory in used) > limits.memory * _MEGABYTE:
            memory = await to_thread(_memory_of, processes, limiter=thread)
            if memory > limits.memory * _MEGABYTE:
                return f"{limits.memory:,} MB of memory"
        is_full = bool(limits.folder) and await to_thread(_is_full, limits, free, limiter=thread)
        if is_full:
            return f"{limits.folder_size:,} MB of temporary files"
        await trio.sleep(max(limits.interval, _REST * (time.perf_counter() - began)))


def _memory_of(processes: Iterable[ProcessId]) -> int:
    return sum(own_memory(process.pid) for process in processes)


def _all(find: Callable[[], Iterable[ProcessId]]) -> Iterator[ProcessId]:
    # Raised after the last one, if some can't be recognized yet.
    with suppress(OSError):
        yield from find()


def _is_full(limits: ResourceLimits, free: int) -> bool:
    """Return whether too much is in the folder; or on its disk, in files that were removed while they were open."""
    left = limits.folder_size * _MEGABYTE
    if _free_space(limits.folder) < min(left, free // 2):
        return True
    folders = [limits.folder]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                left -= max(_LEAST_BYTES, _size(entry))
                if left < 0:
                    return True
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    return False


def _size(entry: os.DirEntry[str]) -> int:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_blocks * 512
    return 0


def _free_space(folder: str) -> int:
    with suppress(OSError):
        space = os.statvfs(folder or "/")
        return space.f_bavail * space.f_frsize
    return 0
