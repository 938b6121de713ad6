"""`SessionMirror`: the states of a session and its sub-agents, as they follow from what a client has received. No I/O."""

from __future__ import annotations

import json
from typing import Final, Literal, cast, final

from engine.control.protocol.watch_methods import WireEvent
from engine.control.protocol.wire_converter import Elided
from engine.core.errors import JournalCorrupt
from engine.core.events import SessionCreated, TurnEnded
from engine.core.ids import SessionId
from engine.journal.codec import Unknown
from engine.journal.fold import apply
from engine.journal.state import Resync, SessionState, copy_with

# "snapshot": the states can't be followed any further, as was to be expected. "broken": as was not.
Verdict = Literal["ok", "snapshot", "broken"]
_EMPTY: Final = SessionState()


@final
class SessionMirror:
    """States, kept by the fold that the server uses, too.

    Attributes:
        states: by session; only those that are known as a whole. A sub-agent's is dropped when its turn ends.
        unknown: how many events of a newer server there were.
    """

    def __init__(self, root: SessionId) -> None:
        """Know nothing yet of the session *root*."""
        self.states: dict[SessionId, SessionState] = {}
        self.unknown: int = 0
        self._root = root
        # A newer server has sent what this version can't know, so the states may be wrong until the next snapshot.
        self._is_doubtful = False

    def reset(self, resync: Resync) -> None:
        """Begin again with a snapshot."""
        self.states = {each.state.session_id: each.state for each in resync.descendants}
        self.states[self._root] = resync.state
        self._is_doubtful = False

    def apply(self, event: WireEvent) -> Verdict:
        """Follow an event; return whether a snapshot is needed from here on."""
        match event:
            case Elided():
                return "snapshot"
            case Unknown():
                self._skip(event)
                return "ok"
            case _:
                pass
        before = self.states.get(event.session_id, _EMPTY if isinstance(event, SessionCreated) else None)
        if before is None:
            return "ok"
        try:
            self.states[event.session_id] = apply(before, event)
        except JournalCorrupt:
            if not self._is_doubtful:
                return "broken"
        if not isinstance(event, TurnEnded):
            return "ok"
        if event.session_id != self._root:
            del self.states[event.session_id]
            return "ok"
        return "snapshot" if self._is_doubtful else "ok"

    def _skip(self, event: Unknown) -> None:
        """Step over an event that can't be read, so that the next ones still follow."""
        self.unknown += 1
        self._is_doubtful = True
        seq, session_id = sequence_of(event)
        state = self.states.get(session_id)
        if state is not None and seq == state.seq + 1:
            self.states[session_id] = copy_with(state, seq=seq)


def sequence_of(event: Unknown) -> tuple[int | None, SessionId]:
    """Return the number and the session of an event that this version can't know: all events have those."""
    document = cast("dict[str, object]", json.loads(event.raw))
    seq, session_id = document.get("seq"), document.get("session_id")
    return seq if isinstance(seq, int) else None, SessionId(str(session_id))
