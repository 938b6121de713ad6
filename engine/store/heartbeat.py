"""A thread that says every few seconds, in the trio thread, that it is time to renew the leases.

Not a task: a store belongs to no nursery. Not the writer: it waits for its queue. The
thread is a daemon, and ends with the run it began in, or with whoever is to be told.
"""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

import attrs
import trio


class HeartbeatTarget(Protocol):
    """Whoever is told."""

    def renew_leases(self) -> None:
        """It is time. Runs in the trio thread, and must raise nothing."""
        ...


@attrs.define(eq=False)
class Heartbeat:
    """Tells *whom* every *seconds*, once started."""

    _target: weakref.ref[HeartbeatTarget]
    _seconds: float
    _stopped: threading.Event = attrs.field(factory=threading.Event, init=False)
    _is_started: bool = attrs.field(default=False, init=False)

    def start(self) -> None:
        """Begin, if it hasn't. In the trio thread; not a checkpoint."""
        if self._is_started:
            return
        self._is_started = True
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._run, args=(token,), name="engine store leases", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No more threads: the leases expire, and then a session can be taken. What is written stays fenced.
            self._stopped.set()

    def stop(self) -> None:
        """Tell nobody any more. Not a checkpoint."""
        self._stopped.set()

    def _run(self, token: trio.lowlevel.TrioToken) -> None:
        while not self._stopped.wait(self._seconds) and self._target() is not None:
            try:
                token.run_sync_soon(self._notify, idempotent=True)
            except trio.RunFinishedError:
                return

    def _notify(self) -> None:
        whom = self._target()
        if whom is not None and not self._stopped.is_set():
            whom.renew_leases()
