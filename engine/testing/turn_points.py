"""A cancel at one of the points of a turn: by its user, by its host, or by leaving its block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import attrs
import trio

from engine.core.errors import EngineError
from engine.session.session import live_session
from engine.testing.cancellation.points import PointCounter

if TYPE_CHECKING:
    from engine.session.session import Session
    from engine.session.turn import Turn

Way = Literal["user", "host", "host_deadline", "user_then_host", "host_then_user", "user_twice", "leave"]
WAYS: tuple[Way, ...] = get_args(Way)
TWO_PARTS: frozenset[str] = frozenset({"user_then_host", "host_then_user", "user_twice"})


@attrs.define(eq=False)
class Points(PointCounter):
    """Counts the points of a turn, before and after each scheduler step and inside the ports, and cancels at one.

    It is a trio instrument and a `Trace`.
    """

    in_body: bool = attrs.field(default=False, init=False)
    fired_in_body: bool = attrs.field(default=False, init=False)
    fired_seq: int = attrs.field(default=0, init=False)
    session: Session | None = attrs.field(default=None, init=False)
    turn: Turn | None = attrs.field(default=None, init=False)
    host: trio.CancelScope | None = attrs.field(default=None, init=False)
    leaving: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def strikes_twice(self) -> bool:
        """Tell whether the way of the injection has a second part."""
        return self.injection is not None and self.injection.way in TWO_PARTS

    def strike(self, *, first: bool) -> None:
        """Cancel, in the way of the injection."""
        assert self.injection is not None
        assert self.turn is not None
        assert self.host is not None
        if first:
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
