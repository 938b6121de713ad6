"""Kills process trees: finds the processes of a call, also those that left its group or were orphaned, and ends them.

Every process of a call has ENGINE_CALL in its environment, which `/proc` shows.
So a process is found even after it left its process group by `setsid` or a
double fork, and after the engine that started it has crashed. Sessions, groups
and parents are compared too. **One hole remains**: a descendant that left the
session, whose parents are gone, *and* which wiped or overwrote its environment
is not found; only a PID namespace (the sandbox) holds it. (A program that keeps
forking into new sessions is usually outrun, but that is not guaranteed.)
Without `/proc` (macOS) no processes are found, and only the group can be ended.

A process is identified by pid and start time, and signalled through a pidfd
that was opened before the two were compared: a recycled pid is never signalled.

`/proc` is read in the trio thread, on purpose: it takes 4 ms with 400 processes,
and a tenth of that when most of them were seen before. A clean-up would have to
wait for a thread, and is short of time.
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

# Most processes exit within a millisecond of the signal; a slow one should not cost a scan of `/proc` every time.
_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.008
# For the synchronous kill, which must not wait. More than two, since two empty scans in a row end it.
_LAST_SCANS: Final = 3

_log = logging.getLogger(__name__)


def marked(env: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return *env* with *marker* in it. Raises `ValueError` for a marker that could not be found again."""
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

    Always a checkpoint. If cancelled, all that are found then are killed at once, without a grace.
    """
    killer = TreeKiller(find=find)
    start = trio.current_time()
    is_over = False
    try:
        with trio.move_on_at(start + grace / 2):
            await killer.terminate()
        with trio.move_on_at(kill_deadline(start, grace)):
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
    """End what a crashed engine left running; return what is left after *grace*.

    Always a checkpoint. If cancelled, all that are found then are killed at once.

    Args:
        matches: whether a marker belongs to a call of that engine.
        leaders: those that `on_start` of `run_tree` reported, if they were saved since the machine was booted (see
            `boot_id`). A process with such a pid that started at another time is left alone.
        grace: half of it to exit after SIGTERM, the other half to be gone after SIGKILL.
    """
    return await end_processes(Leftovers(matches, frozenset(leaders)), grace=grace)


def kill_deadline(start: float, grace: float) -> float:
    """Return when to stop waiting for killed processes, at the moment they are killed; the clean-up began at *start*.

    Half of the grace is theirs, also if the engine stood still and the whole of it has passed: a single scan would
    miss what was forked in the meantime, and report as survivors some that are gone a millisecond later.
    """
    return max(start + grace, trio.current_time() + grace / 2)


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd; None if the process is gone, or if the kernel, the sandbox or Python has no pidfds."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


# ---- ending ----------------------------------------------------------------------------------------------------------


@attrs.define(kw_only=True, eq=False, repr=False)
class TreeKiller:
    """Ends processes: first `terminate`, then `kill_until_gone`.

    Both send their first signals before their first checkpoint, so that a
    deadline which passed long ago (a blocked loop) can't delay SIGKILL.
    """

    find: Callable[[], Iterable[ProcessId]]
    group: int | None = None
    signalled: set[ProcessId] = attrs.field(factory=set[ProcessId], init=False)
    _last_found: list[ProcessId] = attrs.field(factory=list[ProcessId], init=False)
    _empty_scans: int = attrs.field(default=0, init=False)
    _is_sure: bool = attrs.field(default=True, init=False)

    @property
    def is_empty(self) -> bool:
        """Whether the last two scans found none. One is not enough: a process may have been forking during it."""
        return self._empty_scans >= 2

    def survivors(self) -> tuple[ProcessId, ...]:
        """Return the processes of the last scan that are still alive."""
        return tuple(filter(is_alive, self._last_found))

    async def terminate(self, on_signal: Callable[[], None] = lambda: None) -> None:
        """Send SIGTERM, call *on_signal* and wait until all processes that were found are gone.

        Always a checkpoint; has no limit of its own.
        """
        self.signal_group(signal.SIGTERM)
        on_signal()
        # When many calls are cancelled together, each signals its group before any of them reads `/proc`, which is slow.
        await trio.lowlevel.checkpoint()
        self.scan(signal.SIGTERM)
        await self.wait_gone(signal.SIGTERM)

    async def kill_until_gone(self, until: Callable[[], bool] = lambda: True) -> None:
        """Send SIGKILL until none are found and *until* returns True.

        Always a checkpoint; has no limit of its own. If cancelled, it looks once more: the engine may have stood still
        for as long as it meant to wait.
        """
        self.signal_group(signal.SIGKILL)
        pause = _FIRST_PAUSE
        try:
            while not (self.is_empty and until()):
                self.signal_group(signal.SIGKILL)
                self.scan(signal.SIGKILL)
                await trio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        except trio.Cancelled:
            # *until*, which reaps the leader, has not been true yet: the number of the group is still its own.
            self.kill_now()
            raise
        await trio.lowlevel.checkpoint()

    def kill_now(self) -> None:
        """Send SIGKILL to all that are found, and to those that were forked in the meantime. Not a checkpoint."""
        self.signal_group(signal.SIGKILL)
        for _ in range(_LAST_SCANS):
            self.scan(signal.SIGKILL)
            if self.is_empty:
                break

    async def wait_gone(self, number: signal.Signals | None = None) -> None:
        """Wait until the processes of the last scan are gone; scan again if that one was incomplete. Always a checkpoint."""
        pause = _FIRST_PAUSE
        await trio.lowlevel.checkpoint()
        # Polled: most of them are not our children, so nothing signals their end.
        while self.survivors() or not self._is_sure:
            await trio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            if not self._is_sure:
                self.scan(number)

    def scan(self, number: signal.Signals | None = None) -> None:
        """Find the processes, and signal each as soon as it is found: one that forks and exits is gone a moment later."""
        self._last_found = []
        self._is_sure = True
        try:
            for process in self.find():
                self._last_found.append(process)
                if number is not None:
                    self._signal(process, number)
        except OSError as error:
            # A process could not be recognized yet, or file descriptors ran out: some may be left that were not found.
            _log.debug("can't tell all processes: %r", error)
            self._is_sure = False
        self._empty_scans = 0 if self._last_found or not self._is_sure else self._empty_scans + 1

    def _signal(self, process: ProcessId, number: signal.Signals) -> None:
        # Many programs skip their clean-up on a second SIGTERM, and members of the group had theirs with the group.
        has_had_it = number == signal.SIGTERM and (process.group == self.group or process in self.signalled)
        if has_had_it or _send(process, number):
            self.signalled.add(process)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the group at once: none of them can fork in between. Not a checkpoint."""
        if self.group is not None:
            # PermissionError: all of them belong to another user; on macOS also if all of them are zombies.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, number)


def _send(process: ProcessId, number: signal.Signals) -> bool:
    """Signal exactly that process; return whether it was alive, and ours to signal."""
    pidfd = open_pidfd(process.pid)
    try:
        # Only now: the pidfd holds the process that is compared here, even if its pid is reused.
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
