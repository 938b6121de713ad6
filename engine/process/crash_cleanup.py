"""Crash clean-up: an engine that starts ends the processes that a crashed engine left running.

The marker of a call ends with its *owner*, which identifies the process that runs the call. A process whose marker
names an owner that is gone was left behind, because an engine that exits properly leaves none.

Only engines of the same user and the same PID namespace judge an owner: of others we could not tell whether they are
alive. A reboot needs no special case: no process survives it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Final

from engine.process.process_tree import others_alive
from engine.process.procfs import (
    ENVIRONMENT_MARKER,
    SEPARATOR,
    ProcessId,
    environment_of,
    identify,
    is_alive,
    markers_in,
)

_OWNED_BY: Final = "@"

_log = logging.getLogger(__name__)
_cleaned_pids: set[int] = set()  # pids, not a flag: a fork of this process has not cleaned up yet


def owner() -> str:
    """Return a name of this process that is unique on this machine; empty if it can't be determined."""
    pid = os.getpid()
    home = _home()
    began = identify(pid).start_time if home else 0
    return f"{home}.{pid}.{began}" if began else ""


def owned(marker: str) -> str:
    """Return a call's *marker* with its owner."""
    return f"{marker}{_OWNED_BY}{owner()}"


def find_dead_owners() -> frozenset[str]:
    """Return the owners that are gone and have left processes running. Blocks for some milliseconds.

    Never one that this process itself descends from: such processes may run on purpose.
    """
    home = _home()
    if not home:
        return frozenset()
    # This process may have been started by a tool of a dead engine: then it must not end itself.
    ours = {_owner_of(mark) for mark in os.environ.get(ENVIRONMENT_MARKER, "").split(SEPARATOR)}
    owners = {_owner_of(mark) for entry in others_alive() for mark in markers_in(environment_of(entry.pid))}
    return frozenset(name for name in owners - ours if _is_dead(name, home))


def look_once() -> frozenset[str]:
    """Return what `find_dead_owners` does, the first time in each process; then nothing. Never raises `OSError`."""
    if os.getpid() in _cleaned_pids:
        return frozenset()
    # Even if it fails below: the next engine of this process would fail in the same way.
    _cleaned_pids.add(os.getpid())
    try:
        return find_dead_owners()
    except OSError as error:
        _log.warning("can't tell whether an engine that crashed has left processes: %r", error)
        return frozenset()


async def end_leftovers(owners: frozenset[str]) -> None:
    """End what these *owners* have left running, within half a second. Always a checkpoint.

    If cancelled, all that are found then are killed at once.
    """
    # Imported here: needed only after a crash.
    from engine.process.kill_tree import reap

    _log.info("ending the processes of an engine that crashed")
    left = await reap(lambda mark: _owner_of(mark) in owners, grace=0.5)
    if left:
        _log.warning(
            "an engine that crashed has left processes that can't be ended: %s", [process.pid for process in left]
        )


def _home() -> str:
    """Identify our user and our PID namespace; empty without `/proc`, or if `/proc` shows another namespace."""
    with contextlib.suppress(OSError):
        if str(Path("/proc/self").readlink()) == str(os.getpid()):
            return f"{os.geteuid()}.{Path('/proc/self/ns/pid').stat().st_ino}"
    return ""


def _owner_of(mark: str) -> str:
    return mark.rpartition(_OWNED_BY)[2]


def _is_dead(name: str, home: str) -> bool:
    pid, _, began = name.removeprefix(f"{home}.").partition(".")
    is_one = name.startswith(f"{home}.") and pid.isdecimal() and began.isdecimal()
    return is_one and not is_alive(ProcessId(int(pid), int(began)))
