"""Adopt orphans: a process whose parent has exited becomes our child, even if nothing else tells where it came from.

A process of a command may leave the command's group, overwrite its environment and with it the marker, and lose its parent:
then it can't be found by any of these. A *subreaper* becomes its parent. That is a property of the whole process, so it is
only for a process that is the engine's alone: in another one, the host's own processes could be taken for orphans.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import trio

from engine.process.kill_tree import end_processes
from engine.process.process_tree import others_alive, with_descendants
from engine.process.procfs import ProcessId, environment_of, is_exiting, markers_in

# As `linux/prctl.h` numbers them.
_SET: Final = 36
_GET: Final = 37


def become_subreaper() -> bool:
    """Make this process the parent of all orphans that descend from it; return whether the system can do that."""
    if sys.platform != "linux":
        return False
    # Imported here: only the command line needs it.
    import ctypes

    result: int = ctypes.CDLL(None).prctl(_SET, ctypes.c_ulong(1), *[ctypes.c_ulong(0)] * 3)
    return result == 0


def is_subreaper() -> bool:
    """Return whether this process adopts orphans, and can see them."""
    if sys.platform != "linux" or not environment_of(os.getpid()):
        return False
    import ctypes

    answer = ctypes.c_int(0)
    result: int = ctypes.CDLL(None).prctl(_GET, ctypes.byref(answer), *[ctypes.c_ulong(0)] * 3)
    return result == 0 and answer.value == 1


def has_children() -> bool:
    """Return whether this process has a child, an adopted or an ended one included. One system call.

    A subreaper without a child has no descendants at all: none of them could have another parent.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def find_adopted() -> list[ProcessId]:
    """Return the living orphans that have no marker, and their descendants. Blocks for some milliseconds if there may be one."""
    if not has_children():
        return []
    others = others_alive()
    own = environment_of(os.getpid())
    roots = [entry for entry in others if entry.parent == os.getpid() and _is_orphan(entry.pid, own)]
    return [entry.process for entry in with_descendants(roots, others)]


async def end_adopted(grace: float) -> tuple[ProcessId, ...]:
    """End the orphans; return those left after *grace*. Always a checkpoint; if cancelled, they are killed at once."""
    if not has_children():
        await trio.lowlevel.checkpoint()
        return ()
    return await end_processes(find_adopted, grace=grace)


def _is_orphan(pid: int, own: bytes) -> bool:
    environment = environment_of(pid)
    # One of ours that exits has lost its marker.
    if not environment and is_exiting(pid):
        return False
    # A process of ours shows our environment until it has loaded its program, and then its marker.
    return not markers_in(environment) and environment != own
