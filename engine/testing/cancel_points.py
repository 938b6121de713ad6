"""The points of a run, and a cancel at one of them.

Points lie before and after each scheduler step and inside the engine's ports; neither
kind alone finds every bug. `Points` counts them, and cancels at one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import attrs
import trio

from engine.core.errors import EngineError
from engine.session.session import live_session

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.session.turn import Turn

Way = Literal["user", "host", "host_deadline", "user_then_host", "host_then_user", "user_twice", "leave"]
WAYS: tuple[Way, ...] = get_args(Way)


@attrs.frozen(kw_only=True)
class Injection:
    """A cancel: how, at which point, and how many points later its second part follows."""

    way: Way
    point: int
    second: int = 1


@attrs.define(eq=False)
class Points(trio.abc.Instrument):
    """Counts the points of a run, before and after each scheduler step and inside the ports, and cancels at one.

    It is a trio instrument and a `Trace`.
    """

    injection: Injection | None
    names: list[str] = attrs.field(factory=list[str], init=False)
    armed: bool = attrs.field(default=False, init=False)
    fired: int = attrs.field(default=0, init=False)
    fired_at: float | None = attrs.field(default=None, init=False)
    in_body: bool = attrs.field(default=False, init=False)
    fired_in_body: bool = attrs.field(default=False, init=False)
    fired_seq: int = attrs.field(default=0, init=False)
    session: Session | None = attrs.field(default=None, init=False)
    turn: Turn | None = attrs.field(default=None, init=False)
    host: trio.CancelScope | None = attrs.field(default=None, init=False)
    leaving: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        self.point(f"before {task.name}")

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has run to its next checkpoint."""
        self.point(f"after {task.name}")

    def point(self, name: str) -> None:
        """Count this point, and cancel if it is the selected one."""
        # Only points of the turn count: the set-up of a run is the same every time.
        if not self.armed:
            return
        index = len(self.names)
        self.names.append(name)
        injection = self.injection
        if injection is None:
            return
        if index == injection.point:
            self._fire(first=True)
        elif index == injection.point + injection.second and injection.way in _TWO:
            self._fire(first=False)

    def _fire(self, *, first: bool) -> None:
        assert self.injection is not None
        assert self.turn is not None
        assert self.host is not None
        self.fired += 1
        if first:
            self.fired_at = trio.current_time()
            # A cancel after the result is set may come too late to be noticed in the body.
            self.fired_in_body = self.in_body and not self._is_over()
            self.fired_seq = 0 if self.session is None else live_session(self.session).journal.seq
        way = self.injection.way
        if way in {"user", "user_twice", "user_then_host" if first else "host_then_user"}:
            self.turn.cancel()
        elif way == "host_deadline":
            self.host.deadline = trio.current_time()
        elif way == "leave":
            self.leaving.cancel(reason="injected: leave the block")
        else:
            self.host.cancel(reason="injected by the test")

    def _is_over(self) -> bool:
        try:
            return self.turn is not None and bool(self.turn.result.stop_reason)
        except EngineError:
            return False


_TWO = frozenset({"user_then_host", "host_then_user", "user_twice"})
