"""What a database has to do for a store: the border between what all stores share and the SQL of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import attrs

from engine.core.codec import Schema
from engine.core.errors import StoreError
from engine.core.events import Delta, Durable
from engine.core.ids import PartId, SessionId
from engine.store.lazy_events import StoredSession
from engine.store.leases import Lease, Owner
from engine.store.projection import SessionChange
from engine.store.protocols import Hit, SessionQuery, SessionRow, Spending, SpendingQuery


class TransientStoreError(StoreError):
    """A transaction failed for a reason that may pass: another's lock, a full disk, a cable. Nothing of it is there.

    Unless the connection broke while it was being committed: then `WriterConnection.has_committed` knows.
    """


@attrs.frozen
class EventRow:
    """An event as it is stored; or why it can't be."""

    event: Durable
    seq: int
    type: str
    version: int
    body: str
    error: Exception | None = None


class TableReader(Protocol):
    """A connection for reading. Each method blocks, and sees one moment."""

    def load(self, session_id: SessionId, schema: Schema, *, after: int = 0) -> Sequence[Durable]:
        """Return the events of a session that come after number *after*. Raises `JournalCorrupt`."""
        ...

    def open_session(self, session_id: SessionId, schema: Schema) -> tuple[StoredSession, int] | None:
        """Return a session and the number of the event at which its state was remembered; None if it is not known.

        Raises `JournalCorrupt`.
        """
        ...

    def drafts(self, session_id: SessionId, schema: Schema) -> Sequence[Delta]:
        """Return the drafts of a session, those of a part in their order."""
        ...

    def inactive_trees(self, older_than: float, keep: int) -> Sequence[SessionId]:
        """Return the roots of the trees in which nothing has happened since then, without the *keep* newest of all."""
        ...

    def list_sessions(self, owner: Owner, query: SessionQuery) -> Sequence[SessionRow]:
        """Return the rows that *query* asks for, newest first."""
        ...

    def search(self, owner: Owner, words: str, limit: int, cwd: str | None) -> Sequence[Hit]:
        """Return one hit for each session that has the words, those said last first."""
        ...

    def ids(self, prefix: str) -> Sequence[SessionId]:
        """Return the ids that begin with *prefix*, in order."""
        ...

    def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """Return what was spent, added up as *query* asks."""
        ...


class TableWriter(Protocol):
    """A transaction of the writer. Each method blocks."""

    def write(self, rows: Sequence[EventRow], changes: Sequence[SessionChange]) -> None:
        """Write events, and what they change in the lists."""
        ...

    def last_seq(self, session_id: SessionId) -> int:
        """Return the number of the last event of a session; 0: it has none."""
        ...

    def save_state(self, session_id: SessionId, seq: int, made_by: str, body: str) -> None:
        """Keep a folded state, unless the session has no such event yet."""
        ...

    def save_draft(self, session_id: SessionId, part_id: PartId, offset: int, body: str) -> None:
        """Keep by how much an open part has grown."""
        ...

    def delete_drafts(self, session_id: SessionId, part_id: PartId | None) -> None:
        """Forget the drafts of a part; None: of all parts of the session."""
        ...

    def leases_of(self, session_ids: Collection[SessionId], owner: Owner) -> Mapping[SessionId, Lease]:
        """Return the leases of those sessions. Nobody can take those of *owner* until the transaction ends."""
        ...

    def leases(self) -> Mapping[SessionId, Lease]:
        """Return all leases."""
        ...

    def take_lease(self, owner: Owner, session_id: SessionId, over: Lease | None) -> bool:
        """Write the lease of *owner* over that of a dead one, or of nobody; False: somebody else was faster."""
        ...

    def renew_leases(self, owner: Owner) -> None:
        """Renew all leases of *owner*."""
        ...

    def release_lease(self, owner: Owner, session_id: SessionId) -> None:
        """Give a lease back, if it is its own."""
        ...

    def release_leases(self, owner: Owner) -> None:
        """Give all leases of *owner* back."""
        ...

    def session_tree(self, session_id: SessionId) -> Sequence[tuple[SessionId, float]]:
        """Return a session and its descendants, in the order of their ids, each with the time of its last event."""
        ...

    def delete_session(self, session_id: SessionId) -> bool:
        """Remove a session and its lease; False: there is none."""
        ...

    def reclaim_space(self) -> None:
        """Give some of the space that holds nothing any more back to the disk."""
        ...


class WriterConnection(Protocol):
    """The writer's own connection; used in the writer's thread only."""

    @property
    def name(self) -> str:
        """What the store is called in errors."""
        ...

    def transaction(self, number: int) -> AbstractContextManager[TableWriter]:
        """Begin a transaction, and commit it at the end of the block; *number* is one that no other has had.

        Raises `TransientStoreError`; another `StoreError` for what ends the writer.
        """
        ...

    def has_committed(self, number: int) -> bool:
        """Tell whether that transaction, which failed, was committed for all that. Raises as `transaction`."""
        ...

    def will_retry(self, error: TransientStoreError, since: float) -> bool:
        """Wait a moment and return True, if *error* is worth another attempt *since* the first one began."""
        ...

    def announce(self, session_ids: Collection[SessionId]) -> None:
        """Tell watchers in other processes that those sessions have new events. No error: they look by themselves too."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
