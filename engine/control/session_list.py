"""`SessionListWatch`: which sessions of an engine have changed, as rows of a list with live status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, final

import trio

from engine.control.engine_reads import EngineReads, questions_of, row_of
from engine.control.protocol.watch_methods import SessionsNote, WatchedRow, WatchParams
from engine.core.errors import EngineError
from engine.core.ids import SessionId
from engine.session.engine import engine_runtime

if TYPE_CHECKING:
    from engine.session.engine import Engine

# At most five times a second.
_INTERVAL: Final = 0.2


@final
class SessionListWatch:
    """A watched list. There is no queue: a session that has changed a hundred times meanwhile comes once."""

    def __init__(self, engine: Engine, reads: EngineReads, params: WatchParams) -> None:
        """Begin with all sessions that are open in *engine*."""
        self._runtime = engine_runtime(engine)
        self._reads = reads
        self._params = params
        self._changes = engine.watch_sessions()
        self._waiting: frozenset[SessionId] = frozenset(self._runtime.sessions.by_id)
        # What the client knows not to be in the list. It may have any other session from `session.list`.
        self._removed: set[SessionId] = set()
        self._next = trio.current_time()

    async def next_note(self, sub: str) -> SessionsNote | None:
        """Wait for changes, and return the newest rows; None: the engine was closed. A checkpoint."""
        while True:
            await trio.sleep_until(self._next)
            if not self._waiting:
                try:
                    self._waiting = await self._changes.__anext__()
                except StopAsyncIteration:
                    return None
            self._next = trio.current_time() + _INTERVAL
            rows: list[WatchedRow] = []
            removed: list[SessionId] = []
            for session_id in self._roots(self._waiting):
                await self._look(session_id, rows, removed)
            self._waiting = frozenset()
            if rows or removed:
                return SessionsNote(sub=sub, rows=tuple(rows), removed=tuple(removed))

    def _roots(self, changed: Iterable[SessionId]) -> list[SessionId]:
        """Return the sessions whose rows may have changed: a sub-agent's questions are counted at its root."""
        open_sessions = self._runtime.sessions.by_id
        return sorted(
            {open_sessions[each].journal.path[0] if each in open_sessions else each for each in changed},
        )

    async def _look(self, session_id: SessionId, rows: list[WatchedRow], removed: list[SessionId]) -> None:
        row = await self._row(session_id)
        if row is not None:
            self._removed.discard(session_id)
            rows.append(row)
        elif session_id not in self._removed:
            self._removed.add(session_id)
            removed.append(session_id)

    async def _row(self, session_id: SessionId) -> WatchedRow | None:
        """Return the newest row; None: it is not in the list."""
        try:
            record = await self._reads.record(session_id)
        except EngineError:
            # It was removed; or it can't be read now, and opening it says why.
            return None
        row = row_of(record)
        if row.parent_id is not None or self._params.cwd not in {None, row.cwd}:
            return None
        if self._params.status not in {None, row.status}:
            return None
        asked = questions_of(record)
        return WatchedRow(row=row, waiting=len(asked), waiting_since=min((each.time for each in asked), default=None))
