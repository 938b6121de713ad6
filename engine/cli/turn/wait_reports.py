"""Tasks that show what a turn is doing: on a status line, or as lines where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from engine.cli.turn.waiting import WaitState, feed, next_report, status_text
from engine.core import events as ev
from engine.journal.state import Resync

_TICK_SECONDS: Final = 1.0


@attrs.define(eq=False, repr=False)
class WaitReports:
    """Follows a turn's events, and says what it is doing while nothing else is shown.

    Attributes:
        state: what it is doing now.
    """

    _show: Callable[[], None]
    _has_status: bool = attrs.field(kw_only=True, alias="has_status")
    state: WaitState = attrs.field(factory=WaitState)
    # When it is to be shown next, and when `run` wakes up to look.
    _due: float = attrs.field(default=float("inf"), init=False)
    _wakes_at: float = attrs.field(default=float("inf"), init=False)
    _is_earlier: trio.Event = attrs.field(factory=trio.Event, init=False)

    def feed(self, event: ev.Durable | ev.Live | Resync) -> None:
        """Take note of *event*. Not a checkpoint."""
        before = self.state
        self.state = feed(before, event, trio.current_time())
        if (self.state.activity, self.state.since) != (before.activity, before.since):
            self._due = self._next_due()
            if self._due < self._wakes_at:
                self._is_earlier.set()

    @property
    def text(self) -> str:
        """What the turn is doing now, as a status line or a line of its own."""
        return status_text(self.state, trio.current_time())

    @property
    def addition(self) -> str:
        """What is added to a line that already says which tool runs."""
        return status_text(self.state, trio.current_time(), is_short=True) if self.state.activity == "tool" else ""

    async def run(self) -> None:
        """Show it when it is due, until cancelled. Always a checkpoint."""
        self._due = self._next_due()
        while True:
            self._is_earlier, self._wakes_at = trio.Event(), self._due
            # Not woken where it is due later now: that is so several times in each step.
            with trio.move_on_at(self._wakes_at) as scope:
                await self._is_earlier.wait()
            if scope.cancelled_caught and self._due <= trio.current_time():
                self._show()
                self._due = self._next_due()

    def _next_due(self) -> float:
        now = trio.current_time()
        if not self._has_status:
            due = next_report(self.state, now)
            return float("inf") if due is None else due
        if self.state.activity == "none":
            return float("inf")
        return now + (_TICK_SECONDS if now - self.state.since > 0.25 else 0.3)
