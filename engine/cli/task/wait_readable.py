"""Waiting for a pipe outside of trio, such that Ctrl-C always ends it."""

from __future__ import annotations

import select
import time
from typing import Final

_POLL_SECONDS: Final = 0.25


def wait_readable(descriptor: int, seconds: float) -> bool:
    """Wait until there is something to read, or the end; return False after *seconds*. It blocks.

    A signal that comes just before a blocking system call does not interrupt it, and Python acts on the signal after the
    call only. So no call here lasts long.
    """
    deadline = time.monotonic() + seconds
    while True:
        rest = max(0.0, deadline - time.monotonic())
        if select.select([descriptor], [], [], min(rest, _POLL_SECONDS))[0]:
            return True
        if rest <= _POLL_SECONDS:
            return False
