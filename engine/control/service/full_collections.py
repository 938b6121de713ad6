"""`collect_between_turns`: full runs of Python's garbage collector, at times when no turn runs.

A full run visits all objects, and nothing else runs meanwhile: with a thousand connections it takes a fifth of a second.
Left alone, the collector does it while clients connect, whatever streams then. It can wait: neither a step of a turn nor a
connection leaves cyclic garbage (docs/design/0048).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

import trio

_LOOK_SECONDS: Final = 2.0
# Where turns run all the time.
_LONGEST_WAIT: Final = 600.0
# Of the time, for full runs, at most.
_SHARE: Final = 0.02
_NEVER: Final = 1_000_000_000


async def collect_between_turns(is_working: Callable[[], bool]) -> None:
    """Run the collector in full while *is_working* returns False, or after ten minutes, until cancelled. A checkpoint.

    Only for a process of one's own: it changes the collector's settings, and restores them. What the process has
    loaded so far is not visited any more.
    """
    young, middle, old = gc.get_threshold()
    if not (gc.isenabled() and young and old):
        await trio.sleep_forever()  # the host has decided otherwise
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, _NEVER)
    try:
        last, wait = trio.current_time(), _LOOK_SECONDS
        while True:
            await trio.sleep(wait)
            is_late = trio.current_time() - last >= _LONGEST_WAIT
            if gc.get_count()[2] > old and (is_late or not is_working()):
                began = time.perf_counter()
                gc.collect()
                wait = max(_LOOK_SECONDS, (time.perf_counter() - began) / _SHARE)
                last = trio.current_time()
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()
