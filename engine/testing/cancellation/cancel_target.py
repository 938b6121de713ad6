"""What surrounds a function in a run, and can cancel it in each way."""

from __future__ import annotations

import signal
import threading

import attrs
import trio

from engine.testing.cancellation.injections import Means
from engine.testing.cancellation.trio_internals import raises_keyboard_interrupt

REASON = "injected by cancel_everywhere"

DESCRIPTIONS: dict[Means, str] = {
    "scope": "a scope around the function",
    "deadline": "the deadline of a scope around the function",
    "sibling": "a sibling task, which cancels their nursery",
    "thread": "another thread, through the trio token",
    "interrupt": "a KeyboardInterrupt",
}


@attrs.define(eq=False)
class CancelTarget:
    """The scopes around the function, the sibling's bell, and the watchdog.

    Attributes:
        limit: how much virtual time the function may take to end after a cancel.
        most_quiet_seconds: with a clock of the test's own, so long in real time nothing may happen.
        first: the scope that the first part of a cancel cancels.
        second: the scope around it, for the second part.
        watchdog: its deadline is when the function should have ended.
        bell: wakes the sibling task.
        token: of the run.
        interrupted: SIGINT was sent.
        must_interrupt: it raises KeyboardInterrupt; false where the function receives the signal by itself.
        stands_still: nothing has happened for so long.
    """

    limit: float = 10.0
    most_quiet_seconds: float = 5.0
    first: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    second: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    watchdog: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    bell: trio.Event = attrs.field(factory=trio.Event, init=False)
    token: trio.lowlevel.TrioToken | None = attrs.field(default=None, init=False)
    interrupted: bool = attrs.field(default=False, init=False)
    must_interrupt: bool = attrs.field(default=False, init=False)
    stands_still: bool = attrs.field(default=False, init=False)

    def strike(self, means: Means, *, first: bool) -> None:
        """Cancel the function, for the first or the second time."""
        if means != "interrupt" or raises_keyboard_interrupt():
            # From now on the function has so much time. A program that receives the signal as an event may go on.
            self.watchdog.deadline = trio.current_time() + self.limit
        scope = self.first if first else self.second
        match means:
            case "scope":
                scope.cancel(reason=REASON)
            case "deadline":
                scope.deadline = trio.current_time()
            case "sibling":
                self.bell.set()
            case "thread":
                assert self.token is not None
                # Joined, so that the cancel is always delivered before the next round of the scheduler.
                thread = threading.Thread(target=self.token.run_sync_soon, args=(scope.cancel,), name="canceller")
                thread.start()
                thread.join()
            case "interrupt":
                self.interrupted = True
                self.must_interrupt = self.must_interrupt or raises_keyboard_interrupt()
                signal.raise_signal(signal.SIGINT)
