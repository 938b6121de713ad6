"""Reads `/proc`: the processes, their parents, groups and start times, and the markers in their environments.

All of it blocks, for some microseconds a process. Without `/proc` (macOS) no processes are found.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.core.value_base import Value

ENVIRONMENT_MARKER: Final = "ENGINE_CALL"
# An engine may run inside a call of another engine: the variable then holds a
# path of markers, outermost first, so that each engine finds its own.
SEPARATOR: Final = ":"

_PROC = "/proc"
_CHUNK_BYTES: Final = 65_536
_ROUNDS: Final = 5
_KERNEL_THREAD: Final = 0x00200000  # PF_KTHREAD
_EXITING: Final = 0x00000004  # PF_EXITING

# Start times of processes in clock ticks, by pid and inode of their folder in /proc. No two processes share both, so an
# entry never becomes wrong, and processes older than the leader of a tree are not read again at each scan.
_births: Final[dict[tuple[int, int], int]] = {}
_MOST_BIRTHS: Final = 1_000


@attrs.frozen(eq=False, repr=False)
class ProcessId(Value):
    """The identity of a process, unique until the machine is rebooted.

    Attributes:
        pid: its number, which the kernel may give to another process later.
        start_time: clock ticks from boot to its start, which distinguishes the two.
        group: its process group when it was seen; 0 if that is not known.
    """

    pid: int
    start_time: int
    group: int = attrs.field(default=0, eq=False)


@attrs.frozen(eq=False, repr=False)
class ProcEntry(Value):
    """What the kernel reports of a process."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: int
    is_alive: bool
    has_empty_environment: bool

    @property
    def process(self) -> ProcessId:
        """Its identity."""
        return ProcessId(self.pid, self.start_time, self.group)


def is_alive(process: ProcessId) -> bool:
    """Tell whether exactly that process still runs; a zombie does not. True if it is unknown."""
    try:
        entry = _entry_of(process.pid)
    except OSError:
        return True
    return entry is not None and entry.is_alive and entry.start_time == process.start_time


def is_stopped(pid: int) -> bool:
    """Tell whether a process was stopped by a signal, as by Ctrl-Z; one that is gone was not."""
    text = _read(f"{_PROC}/{pid}/stat", 4_096)
    return bool(text) and _fields(text)[0] == b"T"


def is_exiting(pid: int) -> bool:
    """Tell whether a process runs no code of its own any more, or is gone: nobody can read its environment then."""
    text = _read(f"{_PROC}/{pid}/stat", 4_096)
    if not text:
        return True
    fields = _fields(text)
    return bool(int(fields[6]) & _EXITING) and int(fields[17]) <= 1


def identify(pid: int) -> ProcessId:
    """Return the identity of a child that was not reaped yet. Its start time is 0 if that is unknown."""
    with contextlib.suppress(OSError):
        entry = _entry_of(pid)
        if entry is not None:
            return entry.process
    return ProcessId(pid, 0, pid)


def usage(pid: int) -> tuple[int, int]:
    """Return how many threads a process has, and how many bytes of memory; zeros if it is gone."""
    text = _read(f"{_PROC}/{pid}/stat", 4_096)
    if not text:
        return 0, 0
    fields = _fields(text)
    return int(fields[17]), int(fields[21]) * resource.getpagesize()


def own_memory(pid: int) -> int:
    """Return the bytes of memory that a process takes: its part of what it shares, and no pages of files."""
    lines = _read(f"{_PROC}/{pid}/smaps_rollup").splitlines()
    return sum(int(line.split()[1]) * 1_024 for line in lines if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")))


def boot_id() -> str:
    """Return the id of the current boot, during which a `ProcessId` is unique; may be empty."""
    return _read(f"{_PROC}/sys/kernel/random/boot_id").decode().strip()


def entries(since: int = 0) -> Iterator[ProcEntry]:
    """Yield the processes that started then or later, the newest first, and then those that started during the iteration.

    Several rounds, so that a process which keeps forking does not outrun us.
    """
    seen: set[int] = set()
    for _ in range(_ROUNDS):
        inodes = _inodes()
        fresh = [pid for pid, inode in inodes.items() if pid not in seen and _births.get((pid, inode), since) >= since]
        if not fresh:
            return
        seen.update(fresh)
        for pid in sorted(fresh, reverse=True):
            entry = _entry_of(pid)
            if entry is not None:
                _births[pid, inodes[pid]] = entry.start_time
                if entry.start_time >= since:
                    yield entry
        _forget_all_but(inodes)


def _inodes() -> dict[int, int]:
    """Return the number of every process, and the inode of its folder."""
    with contextlib.suppress(FileNotFoundError), os.scandir(_PROC) as folder:
        return {int(item.name): item.inode() for item in folder if item.name.isdigit()}
    return {}


def _forget_all_but(inodes: Mapping[int, int]) -> None:
    if len(_births) > 2 * len(inodes) + _MOST_BIRTHS:
        for pid, inode in list(_births):
            if inodes.get(pid) != inode:
                _births.pop((pid, inode), None)


def children(pid: int) -> list[int]:
    """Return the children of a process; none if the kernel keeps no lists of them."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), os.scandir(f"{_PROC}/{pid}/task") as threads:
        return [int(child) for thread in threads for child in _read(f"{thread.path}/children").split()]
    return []


def _entry_of(pid: int) -> ProcEntry | None:
    """Parse `/proc/PID/stat`; None if there is no such process."""
    text = _read(f"{_PROC}/{pid}/stat", 4_096)
    if not text:
        return None
    fields = _fields(text)
    state, flags, threads = fields[0], int(fields[6]), int(fields[17])
    return ProcEntry(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_time=int(fields[19]),
        # If the first thread ends before the others, the process looks like a zombie but is alive.
        is_alive=(state not in {b"Z", b"X"} or threads > 1) and not flags & _KERNEL_THREAD,
        # env_start and env_end are equal. Both are 0 while execve loads a program, and for processes we may not inspect.
        has_empty_environment=fields[47:48] == fields[48:49] != [b"0"],
    )


def _fields(text: bytes) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` from the third on."""
    # The program's name is in parentheses, and may contain parentheses and blanks itself: so look for the last one.
    return text[text.rindex(b")") + 2 :].split()


def environment_of(pid: int) -> bytes:
    """Return the content of `/proc/PID/environ`; empty if we may not read it."""
    return _read(f"{_PROC}/{pid}/environ")


def markers_in(environment: bytes) -> Sequence[str]:
    """Return the markers in the content of `/proc/PID/environ`, outermost first; empty if there is none."""
    prefix = ENVIRONMENT_MARKER.encode() + b"="
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            return os.fsdecode(variable.removeprefix(prefix)).split(SEPARATOR)
    return ()


def is_readable(pid: int) -> bool:
    """Tell whether a process is of our user, so that we may read its environment."""
    try:
        return os.geteuid() in {0, Path(f"{_PROC}/{pid}").stat().st_uid}
    except FileNotFoundError:
        return False


def is_own(pid: int) -> bool:
    """Tell whether a process belongs to our user; one that is gone does not."""
    try:
        return Path(f"{_PROC}/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _read(path: str, at_once: int = _CHUNK_BYTES) -> bytes:
    """Return a whole file of `/proc`; empty if it is gone or we may not read it."""
    # os.open and os.read, not Path.read_bytes: that takes twice as long, and a scan reads hundreds of files.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = chunk = os.read(fd, at_once)
            while len(chunk) == at_once:
                chunk = os.read(fd, at_once)
                text += chunk
            return text
        finally:
            os.close(fd)
    except OSError as error:
        # The process has ended in the meantime, or is another user's.
        if error.errno in {errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM}:
            return b""
        raise
