"""A thread that calls back into the trio thread every few seconds to renew the leases.

It can't be a task, since a store has no nursery, nor the writer's thread, which waits for its queue. The thread is a
daemon, and ends with its trio run or its target.
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


@attrs.define(eq=False)
class Heartbeat:
    """Calls its target every few seconds, once started."""

    # A weak reference, so that a store that was never closed can be collected; then the thread ends.
    _target: weakref.ref[HeartbeatTarget]
    _seconds: float
    _stopped: threading.Event = attrs.field(factory=threading.Event, init=False)
    _is_started: bool = attrs.field(default=False, init=False)

    def start(self) -> None:
        """Start the thread, if not started yet. In the trio thread; not a checkpoint."""
        if self._is_started:
            return
        self._is_started = True
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._run, args=(token,), name="engine store leases", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread is available: the leases will expire, and another engine can take a session. Writes are still
            # fenced.
            self._stopped.set()

    def stop(self) -> None:
        """Stop calling. Not a checkpoint."""
        self._stopped.set()

    def _run(self, token: trio.lowlevel.TrioToken) -> None:
        while not self._stopped.wait(self._seconds) and self._target() is not None:
            try:
                # Idempotent: while the event loop is blocked, calls do not pile up.
                token.run_sync_soon(self._notify, idempotent=True)
            except trio.RunFinishedError:
                return

    def _notify(self) -> None:
        target = self._target()
        if target is not None and not self._stopped.is_set():
            target.renew_leases()
