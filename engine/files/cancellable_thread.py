"""Threads that stop by themselves soon after their task was cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from engine.core.threads import to_thread

T = TypeVar("T")


async def to_halting_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run *work* in a thread and return its result; *work* gets a function that returns True when it should stop.

    Always a checkpoint. If cancelled, the thread is abandoned and asked to stop.
    """
    unwanted = threading.Event()
    try:
        return await to_thread(work, unwanted.is_set)
    finally:
        unwanted.set()
