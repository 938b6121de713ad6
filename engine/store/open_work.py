"""The turns and the background work that run in the sessions of a store, as their events tell."""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.events import BackgroundEnded, BackgroundStarted, Durable, TurnEnded, TurnResumed, TurnStarted
from engine.core.ids import SessionId

# Its key among the work of a session; that of background work is its id.
_TURN: Final = ""


@attrs.define(eq=False, repr=False)
class OpenWork:
    """What runs now. Nothing here is a checkpoint."""

    _open: dict[SessionId, set[str]] = attrs.field(factory=dict[SessionId, set[str]], init=False)

    def note(self, event: Durable) -> None:
        """Note what *event* begins or ends."""
        match event:
            case TurnStarted() | TurnResumed():
                self._open.setdefault(event.session_id, set()).add(_TURN)
            case BackgroundStarted():
                self._open.setdefault(event.session_id, set()).add(event.work_id)
            case TurnEnded():
                self._end(event.session_id, _TURN)
            case BackgroundEnded():
                self._end(event.session_id, event.work_id)
            case _:
                pass

    def forget(self, session_id: SessionId) -> None:
        """Forget a session: it is closed here."""
        self._open.pop(session_id, None)

    def is_open(self, session_id: SessionId) -> bool:
        """Return whether something runs in a session."""
        return session_id in self._open

    def is_none(self) -> bool:
        """Return whether nothing runs."""
        return not self._open

    def _end(self, session_id: SessionId, work: str) -> None:
        running = self._open.get(session_id)
        if running is not None:
            running.discard(work)
            if not running:
                del self._open[session_id]
