"""A thread that calls back into the trio thread every few seconds to renew the leases.

It can't be a task, since a store has no nursery, nor the writer's thread, which waits for its queue. The thread is a
daemon, and ends with its trio run or its target, and while nothing has to be renewed.
"""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

import attrs
import trio


class HeartbeatTarget(Protocol):
    """What the heartbeat calls."""

    def renew_leases(self) -> None:
        """Renew the leases. Runs in the trio thread; must not raise."""
        ...


@attrs.define(eq=False, repr=False)
class Heartbeat:
    """Calls its target every few seconds, from each start until it is paused.

    Attributes:
        is_stopped: it will never call again.
    """

    # A weak reference, so that a store that was never closed can be collected; then the thread ends.
    _target: weakref.ref[HeartbeatTarget]
    _seconds: float
    # Ends the thread that runs; None: none does.
    _end: threading.Event | None = attrs.field(default=None, init=False)
    is_stopped: bool = attrs.field(default=False, init=False)

    def start(self) -> None:
        """Start the thread, unless one runs. In the trio thread; not a checkpoint."""
        if self._end is not None or self.is_stopped:
            return
        token = trio.lowlevel.current_trio_token()
        self._end = threading.Event()
        thread = threading.Thread(target=self._run, args=(token, self._end), name="engine store leases", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread is available: the leases will expire, and another engine can take a session. Writes are still
            # fenced.
            self.stop()

    def pause(self) -> None:
        """Stop calling until the next start. Not a checkpoint."""
        if self._end is not None:
            self._end.set()
            self._end = None

    def stop(self) -> None:
        """Stop calling for good. Not a checkpoint."""
        self.is_stopped = True
        self.pause()

    def _run(self, token: trio.lowlevel.TrioToken, end: threading.Event) -> None:
        while not end.wait(self._seconds) and self._target() is not None:
            try:
                # Idempotent: while the event loop is blocked, calls do not pile up.
                token.run_sync_soon(self._notify, idempotent=True)
            except trio.RunFinishedError:
                return

    def _notify(self) -> None:
        target = self._target()
        if target is not None and self._end is not None:
            target.renew_leases()
