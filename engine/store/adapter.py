"""`StoreAdapter`: how an engine uses its store, with or without the optional protocols.

A host's own store may only keep events. In that case sessions are not locked, no states are cached, and opening a
session folds all its events.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import attrs

from engine.core.errors import EngineError, SessionNotFound
from engine.core.events import TurnStarted
from engine.core.foreign_calls import call_foreign
from engine.core.ids import CallId, SessionId
from engine.core.protocols import Store
from engine.journal.closing_events import RunningAgent, running_calls
from engine.journal.fold import fold
from engine.journal.partial_output import DraftSaver, DraftStore, with_drafts
from engine.journal.state import SessionState
from engine.store.store_protocols import Catalogue, Leasing, Releasing, ReleasingIdle, SessionQuery, StateCaching

if TYPE_CHECKING:
    from engine.store.lazy_events import StoredSession


# How many of a session's newest sub-agents are checked after a crash.
_MAX_AGENTS: Final = 32
_STORE: Final = "the store"


@attrs.frozen(eq=False, repr=False, kw_only=True)
class StoreAdapter:
    """Opens and releases sessions. Made by `of`.

    Attributes:
        store: the store.
        drafting: the same store, if it keeps drafts.
    """

    store: Store
    drafting: DraftStore | None
    _leasing: Leasing | None = attrs.field(alias="leasing")
    _remembering: StateCaching | None = attrs.field(alias="remembering")

    @classmethod
    def of(cls, store: Store) -> Self:
        """Find out which protocols *store* implements."""
        # Only once: `isinstance` with a protocol takes microseconds each time.
        return cls(
            store=store,
            drafting=store if isinstance(store, DraftStore) else None,
            leasing=store if isinstance(store, Leasing) else None,
            remembering=store if isinstance(store, StateCaching) else None,
        )

    async def open_for_writing(self, session_id: SessionId) -> StoredSession:
        """Claim a session, so that no other engine writes it, and return it.

        A checkpoint; if cancelled, it is not claimed.

        Raises `SessionElsewhere`, `SessionNotFound`, `JournalCorrupt`, `StoreError`.
        """
        if self._leasing is not None:
            await call_foreign(_STORE, self._leasing.claim, session_id)
        try:
            return await self.read(session_id)
        except BaseException:  # re-raised: a session that could not be opened must not keep its lease
            self.release(session_id)
            raise

    async def claim_new(self, session_id: SessionId) -> bool:
        """Claim an id for a new session; return whether there is none with it, in any engine. A checkpoint.

        If cancelled, or if there is one, it is not claimed. Raises `SessionElsewhere`, `JournalCorrupt`, `StoreError`.
        """
        if self._leasing is not None:
            await call_foreign(_STORE, self._leasing.claim, session_id)
        try:
            await self.read(session_id)
        except SessionNotFound:
            return True
        except BaseException:  # re-raised: an id that is not used must not keep its lease
            self.release(session_id)
            raise
        self.release(session_id)
        return False

    async def running_agents(self, state: SessionState) -> Sequence[RunningAgent]:
        """Return the sub-agents of calls that were running when the engine of the session ended.

        A checkpoint if there were any such calls. Sub-agents that can't be read are left out; if cancelled, nothing has
        happened.
        """
        agents = await self.running_children(state)
        return [
            RunningAgent(call_id=call_id, session_id=child.state.session_id, agent=name)
            for call_id, name, child in agents
        ]

    async def running_children(self, state: SessionState) -> Sequence[tuple[CallId, str, StoredSession]]:
        """Return those calls, with the names and the sessions of their sub-agents. As `running_agents`."""
        calls, agents = running_calls(state), list[tuple[CallId, str, "StoredSession"]]()
        if not calls or not isinstance(self.store, Catalogue):
            return agents
        # Contained, here and below: a damaged sub-agent must not keep its parent from opening.
        with suppress(EngineError):
            query = SessionQuery(parent_id=state.session_id, limit=_MAX_AGENTS)
            for row in await call_foreign(_STORE, self.store.list_sessions, query):
                with suppress(EngineError):
                    child = await self.read(row.id)
                    turn_calls = [event.call_id for event in child.events.of_type(TurnStarted)]
                    if turn_calls and turn_calls[-1] is not None and turn_calls[-1] in calls:
                        agents.append((turn_calls[-1], row.agent, child))
        return agents

    def drafts(self) -> DraftSaver | None:
        """Return the saver of one journal's drafts; None if the store keeps none. Not a checkpoint."""
        return None if self.drafting is None else DraftSaver(self.drafting)

    async def read(self, session_id: SessionId) -> StoredSession:
        """Read a session, even if another engine holds it. A checkpoint.

        The state includes the text that was saved of parts that are being received, or were when an engine was killed.
        Raises `SessionNotFound`, `JournalCorrupt`, `StoreError`.
        """
        session: StoredSession | None
        if self._remembering is not None:
            session = await call_foreign(_STORE, self._remembering.open_session, session_id)
        else:
            # Imported here: it imports the codec, which a new session does not need.
            from engine.store.lazy_events import LazyEvents, StoredSession

            events = await call_foreign(_STORE, self.store.load, session_id)
            session = StoredSession(fold(events), LazyEvents(session_id, events)) if events else None
        if session is None:
            raise SessionNotFound(f"the store has no session {session_id!r}")
        if self.drafting is None or session.state.turn is None:
            return session
        drafts = await call_foreign(_STORE, self.drafting.drafts, session_id)
        return attrs.evolve(session, state=with_drafts(session.state, session.events, drafts))

    def needs_claim(self, session_id: SessionId) -> bool:
        """Return whether an open session is held by no engine, or by another one. Not a checkpoint."""
        return isinstance(self.store, ReleasingIdle) and self.store.is_released(session_id)

    async def reclaim(self, session_id: SessionId, seq: int) -> bool:
        """Claim an open session again; return whether it still ends with that event. Always a checkpoint.

        Raises `SessionElsewhere`, `JournalCorrupt`, `StoreError`.
        """
        assert isinstance(self.store, ReleasingIdle)
        return await call_foreign(_STORE, self.store.reclaim, session_id, seq)

    def release(self, session_id: SessionId) -> None:
        """Release a session, once all its events are written. Not a checkpoint; no error if it is not claimed."""
        if self._leasing is not None:
            self._leasing.release(session_id)

    async def released(self) -> None:
        """Wait until what was released is free for other engines. A checkpoint if sessions are claimed. Raises `StoreError`."""
        if isinstance(self.store, Releasing):
            await call_foreign(_STORE, self.store.released)

    def save_state(self, state: SessionState) -> None:
        """Save the state of a session whose turn has ended, if worthwhile. Not a checkpoint."""
        if self._remembering is not None:
            self._remembering.save_state(state)
