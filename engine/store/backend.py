"""The interface between what all stores share and the SQL of each database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import attrs

from engine.core.errors import StoreError
from engine.core.events import Delta, Durable
from engine.core.ids import PartId, SessionId
from engine.core.value_base import Value
from engine.journal.codec import Schema
from engine.store.lazy_events import StoredSession
from engine.store.leases import Lease, Owner
from engine.store.projection import SessionChange
from engine.store.store_protocols import SearchHit, SessionQuery, SessionRow, Spending, SpendingQuery


class TransientStoreError(StoreError):
    """A transaction failed for a temporary reason: a lock, a full disk, a broken connection. It was rolled back.

    If the connection broke during the commit, `WriterConnection.has_committed` tells whether it was.
    """


@attrs.frozen(eq=False, repr=False)
class EventRow(Value):
    """An event as a row, or the error that prevents that."""

    event: Durable
    seq: int
    type: str
    version: int
    body: str
    error: Exception | None = None


class TableReader(Protocol):
    """A connection for reading. Each method blocks, and reads from one snapshot of the data."""

    def load(self, session_id: SessionId, schema: Schema, *, after: int = 0) -> Sequence[Durable]:
        """Return the events of a session that come after number *after*. Raises `JournalCorrupt`."""
        ...

    def open_session(self, session_id: SessionId, schema: Schema) -> tuple[StoredSession, int] | None:
        """Return a session, and the number of the event at which its state was saved; None if there is no such session.

        Raises `JournalCorrupt`.
        """
        ...

    def drafts(self, session_id: SessionId, schema: Schema) -> Sequence[Delta]:
        """Return a session's drafts, in order within each part."""
        ...

    def inactive_trees(self, older_than: float, keep: int) -> Sequence[SessionId]:
        """Return the roots of trees without events since then, except the *keep* newest trees."""
        ...

    def list_sessions(self, owner: Owner, query: SessionQuery) -> Sequence[SessionRow]:
        """Return the rows that match *query*, newest first."""
        ...

    def search(self, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[SearchHit]:
        """Return one hit per session that contains the words, newest texts first."""
        ...

    def ids(self, prefix: str) -> Sequence[SessionId]:
        """Return the ids that begin with *prefix*, in order."""
        ...

    def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """Return what was spent, summed as *query* says."""
        ...


class TableWriter(Protocol):
    """A transaction of the writer. All methods block."""

    def write(self, rows: Sequence[EventRow], changes: Sequence[SessionChange]) -> None:
        """Write events, and update the lists."""
        ...

    def last_seq(self, session_id: SessionId) -> int:
        """Return the number of the last event of a session; 0: it has none."""
        ...

    def save_state(self, session_id: SessionId, seq: int, made_by: str, body: str) -> None:
        """Save a folded state, unless the session has no such event yet."""
        ...

    def save_draft(self, session_id: SessionId, part_id: PartId, offset: int, body: str) -> None:
        """Save the text that an open part has gained."""
        ...

    def delete_drafts(self, session_id: SessionId, part_id: PartId | None) -> None:
        """Delete the drafts of a part; None: of all parts of the session."""
        ...

    def leases_of(self, session_ids: Collection[SessionId], owner: Owner) -> Mapping[SessionId, Lease]:
        """Return the leases of those sessions, and lock those of *owner* until the transaction ends."""
        ...

    def leases(self) -> Mapping[SessionId, Lease]:
        """Return all leases."""
        ...

    def take_lease(self, owner: Owner, session_id: SessionId, over: Lease | None) -> bool:
        """Take a free lease, or replace *over*, the lease of a dead engine; False if another engine was faster."""
        ...

    def renew_leases(self, owner: Owner) -> None:
        """Renew all leases of *owner*."""
        ...

    def release_lease(self, owner: Owner, session_id: SessionId) -> None:
        """Release a lease, if *owner* holds it."""
        ...

    def release_leases(self, owner: Owner) -> None:
        """Release all leases of *owner*."""
        ...

    def session_tree(self, session_id: SessionId) -> Sequence[tuple[SessionId, float]]:
        """Return a session and its descendants, in the order of their ids, each with the time of its last event."""
        ...

    def delete_session(self, session_id: SessionId) -> bool:
        """Remove a session and its lease; False: there is none."""
        ...

    def reclaim_space(self) -> bool:
        """Free some of the space of deleted sessions; return whether there may be more to free."""
        ...


class WriterConnection(Protocol):
    """The writer's own connection; used in the writer's thread only."""

    @property
    def name(self) -> str:
        """What the store is called in errors."""
        ...

    def transaction(self, number: int) -> AbstractContextManager[TableWriter]:
        """Begin a transaction, and commit it at the end of the block; *number* identifies it.

        Raises `TransientStoreError`, or another `StoreError`, which ends the writer.
        """
        ...

    def has_committed(self, number: int) -> bool:
        """Return whether that transaction was committed although it failed. Raises like `transaction`."""
        ...

    def will_retry(self, error: TransientStoreError, since: float) -> bool:
        """Wait a moment and return True if *error* is worth another attempt; the first one began at *since*."""
        ...

    def announce(self, session_ids: Collection[SessionId]) -> float | None:
        """Notify watchers in other processes of new events in those sessions. Never raises: they also poll.

        Return in how many seconds it must be called again, since some have to wait; None: all were notified.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
