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
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    def feed(self, event: ev.Durable | ev.Live | Resync) -> None:
        """Take note of *event*. Not a checkpoint."""
        before = self.state
        self.state = feed(before, event, trio.current_time())
        if (self.state.activity, self.state.since) != (before.activity, before.since):
            self._changed.set()

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
        while True:
            self._changed = trio.Event()
            due = self._next_due()
            with trio.move_on_at(float("inf") if due is None else due) as scope:
                await self._changed.wait()
            if scope.cancelled_caught:
                self._show()

    def _next_due(self) -> float | None:
        now = trio.current_time()
        if not self._has_status:
            return next_report(self.state, now)
        if self.state.activity == "none":
            return None
        return now + (_TICK_SECONDS if now - self.state.since > 0.25 else 0.3)
