"""`collect_session`: reads a session and its descendants from a store, for export."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.errors import SessionNotFound
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.protocols import Store
from engine.store.store_protocols import Catalogue, SessionQuery, SessionRow

# Rows that are read at once: a page must not keep the store's reader from others for long.
_PAGE = 500


async def collect_session(store: Store, session_id: SessionId) -> Sequence[Sequence[Durable]]:
    """Return the events of a session, then those of each descendant, parents first. A checkpoint.

    Only the session itself, if the store has no lists. If cancelled, nothing has changed.
    Raises `SessionNotFound`, `JournalCorrupt`, `StoreError`.
    """
    first = await store.load(session_id)
    if not first:
        raise SessionNotFound(f"the store has no session {session_id!r}")
    journals: dict[SessionId, Sequence[Durable]] = {session_id: first}
    if not isinstance(store, Catalogue):
        return list(journals.values())
    waiting = [session_id]
    while waiting:
        for child in await _children(store, waiting.pop(0)):
            if child.id not in journals:  # rows of a damaged file may name each other
                journals[child.id] = await store.load(child.id)
                waiting.append(child.id)
    return [journal for journal in journals.values() if journal]


async def _children(store: Catalogue, parent: SessionId) -> Sequence[SessionRow]:
    """Return the rows of a session's children, the oldest first."""
    rows: list[SessionRow] = []
    while True:
        last = rows[-1] if rows else None
        page = await store.list_sessions(SessionQuery(parent_id=parent, limit=_PAGE, before=last))
        rows += page
        if len(page) < _PAGE:
            return rows[::-1]
