"""`IdleSessions`: which open sessions have rested for so long that their leases are released."""

from __future__ import annotations

import time
from collections.abc import Sequence

import attrs

from engine.core.ids import SessionId
from engine.store.open_work import OpenWork


@attrs.define(eq=False, repr=False)
class IdleSessions:
    """The sessions of one store, with their last use. Nothing here is a checkpoint.

    Attributes:
        seconds: after so long without an event, a session in which nothing runs is idle; None: never.
    """

    seconds: float | None
    # On the monotonic clock.
    _used: dict[SessionId, float] = attrs.field(factory=dict[SessionId, float], init=False)
    _released: set[SessionId] = attrs.field(factory=set[SessionId], init=False)

    def note_use(self, session_id: SessionId) -> None:
        """Note that a session was claimed, or that something happened in it."""
        if self.seconds is not None:
            self._used[session_id] = time.monotonic()
            self._released.discard(session_id)

    def forget(self, session_id: SessionId) -> None:
        """Forget a session: it is closed here."""
        self._used.pop(session_id, None)
        self._released.discard(session_id)

    def due(self, work: OpenWork) -> Sequence[SessionId]:
        """Return the sessions that are to be released now."""
        if self.seconds is None:
            return ()
        until = time.monotonic() - self.seconds
        return [name for name, used in self._used.items() if used <= until and not work.is_open(name)]

    def note_release(self, session_id: SessionId) -> None:
        """Note that a session was released because it is idle."""
        self._used.pop(session_id, None)
        self._released.add(session_id)

    def is_released(self, session_id: SessionId) -> bool:
        """Return whether a session was released because it is idle, and has not been used since."""
        return session_id in self._released
