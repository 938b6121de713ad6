"""Orphans: find the processes of a call wherever they went, and end them.

Every process of a call carries ENGINE_CALL in its environment, which `/proc`
shows: so one is found even after it left its process group by `setsid` or a
double fork, and after the engine that started it has crashed. Sessions, groups
and parents are looked at too. **One hole remains**: a descendant that left the
session, whose parents are gone, *and* which wiped or overwrote its environment
is not found; only a PID namespace (the sandbox) holds it. (What forks and exits
in turn, each time in a new session, is outrun as a rule, not by necessity.)
Where there is no `/proc` (macOS) none are found, and the group is all that can
be ended.

Whom to signal is named by pid and start time, and signalled through a pidfd
that was opened before the two were compared: a recycled pid is never hit.

Looking through `/proc` is done in the trio thread, on purpose: it takes 4 ms
with 400 processes, and a tenth of that when most of them were seen before; a thread
would have to be waited for in a clean-up which is short of time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs
import trio

from engine.process.process_tree import Leftovers, has_marker, others_alive, with_descendants
from engine.process.procfs import ENVIRONMENT_MARKER, SEPARATOR, ProcessId, is_alive

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.008
# For the synchronous kill, which must not wait.
_LAST_SCANS: Final = 3

_log = logging.getLogger(__name__)


def marked(env: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return *env* with *marker* in it. Raises `ValueError` for one that would not be found again."""
    if not marker or not marker.isprintable() or SEPARATOR in marker:
        raise ValueError(f"a marker is printable and has no {SEPARATOR!r} in it, unlike {marker!r}")
    outer = env.get(ENVIRONMENT_MARKER)
    return {**env, ENVIRONMENT_MARKER: f"{outer}{SEPARATOR}{marker}" if outer else marker}


def find_marked(matches: Callable[[str], bool]) -> list[ProcessId]:
    """Return the living processes whose marker *matches*, and their descendants.

    Never this process, nor one it descends from. Blocks for some milliseconds.
    """
    entries = others_alive()
    marked = [entry for entry in entries if has_marker(entry, matches)]
    return [entry.process for entry in with_descendants(marked, entries)]


async def end_processes(find: Callable[[], Iterable[ProcessId]], *, grace: float = 0.25) -> tuple[ProcessId, ...]:
    """End what *find* finds, until it has found none twice in a row; return those left after *grace*.

    Always a checkpoint. If cancelled, they have no time to go in peace: who is found then is killed at once.
    """
    killer = TreeKiller(find=find)
    start = trio.current_time()
    is_over = False
    try:
        with trio.move_on_at(start + grace / 2):
            await killer.terminate()
        with trio.move_on_at(start + grace):
            await killer.kill_until_gone()
        await trio.lowlevel.checkpoint()
        is_over = True
    finally:
        if not is_over:
            killer.kill_now()
    return killer.survivors()


async def reap(
    matches: Callable[[str], bool], leaders: Iterable[ProcessId] = (), *, grace: float = 0.25
) -> tuple[ProcessId, ...]:
    """End what a crashed engine left running; return who is left after *grace*.

    Always a checkpoint. If cancelled, who is found then is killed at once.

    Args:
        matches: tells from the marker of a call whether it was one of that engine's.
        leaders: those whom `on_start` of `run_tree` named, if they were saved; only since the machine was booted, which
            `boot_id` tells. A process that has such a pid now, but began at another time, is left alone.
        grace: half of it for ending on SIGTERM, the other half for being gone after SIGKILL.
    """
    return await end_processes(Leftovers(matches, frozenset(leaders)), grace=grace)


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if there is no such process, or no such thing (an old kernel, sandbox or Python)."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


# ---- ending ----------------------------------------------------------------------------------------------------------


@attrs.define(eq=False, kw_only=True)
class TreeKiller:
    """Ends processes: first `terminate`, then `kill_until_gone`.

    Both send their first signals before their first checkpoint, so that a
    deadline which passed long ago (a blocked loop) can't keep SIGKILL back.
    """

    find: Callable[[], Iterable[ProcessId]]
    group: int | None = None
    signalled: set[ProcessId] = attrs.field(factory=set[ProcessId], init=False)
    _last_found: list[ProcessId] = attrs.field(factory=list[ProcessId], init=False)
    _empty_scans: int = attrs.field(default=0, init=False)
    _is_sure: bool = attrs.field(default=True, init=False)

    @property
    def is_empty(self) -> bool:
        """Whether the last two looks found none. One is not enough: a process may just have been forking."""
        return self._empty_scans >= 2

    def survivors(self) -> tuple[ProcessId, ...]:
        """Return those of the last look who are still alive."""
        return tuple(filter(is_alive, self._last_found))

    async def terminate(self) -> None:
        """Send SIGTERM, wait until all who were found are gone. Always a checkpoint; has no limit of its own."""
        self._signal_group(signal.SIGTERM)
        # Calls cancelled together: each signals its group before any of them looks for strays.
        await trio.lowlevel.checkpoint()
        self.scan(signal.SIGTERM)
        await self.wait_gone(signal.SIGTERM)

    async def kill_until_gone(self, until: Callable[[], bool] = lambda: True) -> None:
        """Send SIGKILL until none are found and *until* returns True. Always a checkpoint; has no limit of its own."""
        self._signal_group(signal.SIGKILL)
        pause = _FIRST_PAUSE
        while not (self.is_empty and until()):
            self._signal_group(signal.SIGKILL)
            self.scan(signal.SIGKILL)
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        await trio.lowlevel.checkpoint()

    def kill_now(self) -> None:
        """Send SIGKILL to all who are found, and to those who have come meanwhile. Not a checkpoint."""
        self._signal_group(signal.SIGKILL)
        for _ in range(_LAST_SCANS):
            self.scan(signal.SIGKILL)
            if self.is_empty:
                break

    async def wait_gone(self, number: signal.Signals | None = None) -> None:
        """Wait until those of the last look are gone; look again if that one was not sure. Always a checkpoint."""
        pause = _FIRST_PAUSE
        await trio.lowlevel.checkpoint()
        while self.survivors() or not self._is_sure:
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if not self._is_sure:
                self.scan(number)

    def scan(self, number: signal.Signals | None = None) -> None:
        """Look who is there, and signal them on sight: who forks and exits in turn is gone a moment later."""
        self._last_found = []
        self._is_sure = True
        try:
            for process in self.find():
                self._last_found.append(process)
                if number is not None:
                    self._signal(process, number)
        except OSError as error:
            # Unsure, or out of file descriptors: then it is unknown which are left.
            _log.debug("can't tell all processes: %r", error)
            self._is_sure = False
        self._empty_scans = 0 if self._last_found or not self._is_sure else self._empty_scans + 1

    def _signal(self, process: ProcessId, number: signal.Signals) -> None:
        # Many a program takes a second SIGTERM for impatience; the group had one already, as a group.
        has_had_it = number == signal.SIGTERM and (process.group == self.group or process in self.signalled)
        if has_had_it or _send(process, number):
            self.signalled.add(process)

    def _signal_group(self, number: signal.Signals) -> None:
        if self.group is not None:
            # Not permitted: all of them are another user's; on macOS also, all of them are zombies.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)


def _send(process: ProcessId, number: signal.Signals) -> bool:
    """Signal that very process; return whether it was there, and ours to signal."""
    pidfd = open_pidfd(process.pid)
    try:
        # In this order: what is compared now is what the pidfd holds.
        if not is_alive(process):
            return False
        if pidfd is not None:
            signal.pidfd_send_signal(pidfd, number)
        else:
            os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if pidfd is not None:
            os.close(pidfd)
    return True
