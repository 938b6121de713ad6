"""Commands for the writer: everything except events. They run in order with the events, and in the same transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import attrs

from engine.core.errors import SessionElsewhere
from engine.core.events import Delta
from engine.core.ids import PartId, SessionId
from engine.journal.codec import encode_event, encode_state
from engine.journal.state import SessionState
from engine.store.backend import TableWriter
from engine.store.leases import Lease, Owner, session_elsewhere
from engine.store.projection import storable


class WriteTransaction(Protocol):
    """The transaction in which a command runs."""

    @property
    def tables(self) -> TableWriter:
        """The tables it writes."""
        ...

    @property
    def owner(self) -> Owner:
        """The store that writes."""
        ...

    def forget(self, session_id: SessionId, *, refused: bool) -> None:
        """Drop the cached number of a session's last event, and with *refused* also the fact that it was refused."""
        ...

    def is_refused(self, session_id: SessionId) -> bool:
        """Return whether a session's events are no longer written, because an earlier one was refused."""
        ...


@attrs.define(eq=False, repr=False)
class WriteCommand(ABC):
    """A command. It is run again if its transaction fails, so a run must not depend on earlier ones.

    Attributes:
        is_done: whether it is committed.
        is_withdrawn: whether its caller has stopped waiting, so that it is skipped unless done.
    """

    is_done: bool = attrs.field(default=False, init=False)
    is_withdrawn: bool = attrs.field(default=False, init=False)

    @abstractmethod
    def run(self, at: WriteTransaction) -> None:
        """Run in the writer's thread. Raises the database's errors."""


@attrs.define(eq=False, repr=False)
class RetryPending(WriteCommand):
    """Does nothing itself, but makes the writer retry its backlog."""

    def run(self, at: WriteTransaction) -> None:
        """Do nothing."""


@attrs.define(eq=False, repr=False)
class RenewLeases(WriteCommand):
    """Renews all leases."""

    def run(self, at: WriteTransaction) -> None:
        """Renew them."""
        at.tables.renew_leases(at.owner)


@attrs.define(eq=False, repr=False)
class ClaimSession(WriteCommand):
    """Claims a session; sets `error` if another engine has it."""

    session_id: SessionId
    error: SessionElsewhere | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Claim it if it is free."""
        lease = at.tables.leases_of([self.session_id], at.owner).get(self.session_id)
        holder = take_lease(at.tables, at.owner, self.session_id, lease)
        if holder is None:
            at.forget(self.session_id, refused=True)
        self.error = None if holder is None else session_elsewhere(self.session_id, holder)


@attrs.define(eq=False, repr=False)
class ReleaseSession(WriteCommand):
    """Releases a session."""

    session_id: SessionId

    def run(self, at: WriteTransaction) -> None:
        """Release the lease."""
        at.tables.release_lease(at.owner, self.session_id)


@attrs.define(eq=False, repr=False)
class SaveState(WriteCommand):
    """Saves the folded state of a session, with the version of the code that folded it."""

    state: SessionState
    made_by: str
    _body: str | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Save it, unless some of its events were refused because another engine has written different ones."""
        if at.is_refused(self.state.session_id):
            return
        if self._body is None:
            self._body = encode_state(self.state)
        at.tables.save_state(self.state.session_id, self.state.seq, self.made_by, self._body)


@attrs.define(eq=False, repr=False)
class DeleteSession(WriteCommand):
    """Deletes a session and its descendants for good.

    Attributes:
        quiet_since: delete only if none of them has newer events; None: always.
        deleted: the ids of the deleted sessions.
        error: set if one of them is open.
    """

    session_id: SessionId
    quiet_since: float | None = None
    deleted: Sequence[SessionId] = attrs.field(default=(), init=False)
    error: SessionElsewhere | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Delete them, unless one of them is open or has newer events."""
        self.deleted, self.error = (), None
        rows = at.tables.session_tree(self.session_id)
        if self.quiet_since is not None and any(updated >= self.quiet_since for _, updated in rows):
            return
        # Claimed first: otherwise another engine could open one of them between the check and the deletion.
        self.error = self._claim_all(at, [session_id for session_id, _ in rows])
        if self.error is not None:
            return
        for session_id, _ in rows:
            at.forget(session_id, refused=False)
        self.deleted = tuple(session_id for session_id, _ in rows if at.tables.delete_session(session_id))

    def _claim_all(self, at: WriteTransaction, session_ids: Sequence[SessionId]) -> SessionElsewhere | None:
        """Claim all of them and return None; or claim none and return the error."""
        leases = at.tables.leases()
        for session_id in session_ids:
            lease = leases.get(session_id)
            if lease is not None and at.owner.is_live(lease):
                return session_elsewhere(session_id, lease)
        # A lease may have been taken since it was read, so each is taken only if it has not changed.
        for number, session_id in enumerate(session_ids):
            holder = take_lease(at.tables, at.owner, session_id, leases.get(session_id))
            if holder is not None:
                for claimed in session_ids[:number]:
                    at.tables.release_lease(at.owner, claimed)
                return session_elsewhere(session_id, holder)
        return None


@attrs.define(eq=False, repr=False)
class ReclaimSpace(WriteCommand):
    """Frees some of the space of deleted sessions.

    Attributes:
        has_more: whether there may be more to free.
    """

    has_more: bool = attrs.field(default=False, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Free it."""
        self.has_more = at.tables.reclaim_space()


@attrs.define(eq=False, repr=False)
class SaveDraft(WriteCommand):
    """Saves the text that an open part has gained."""

    delta: Delta

    def run(self, at: WriteTransaction) -> None:
        """Save it if the session is ours."""
        delta = self.delta
        if at.owner.holds(at.tables.leases_of([delta.session_id], at.owner).get(delta.session_id)):
            at.tables.save_draft(delta.session_id, PartId(storable(delta.part_id)), delta.offset, encode_event(delta))


@attrs.define(eq=False, repr=False)
class DeleteDrafts(WriteCommand):
    """Deletes the drafts of a finished part; without a part, of all parts of the session."""

    session_id: SessionId
    part_id: PartId | None = None

    def run(self, at: WriteTransaction) -> None:
        """Delete them."""
        at.tables.delete_drafts(self.session_id, None if self.part_id is None else PartId(storable(self.part_id)))


def take_lease(tables: TableWriter, owner: Owner, session_id: SessionId, lease: Lease | None) -> Lease | None:
    """Take the lease of a session, which was *lease*. Return None, or the live lease of another engine."""
    while lease is None or owner.holds(lease) or owner.may_take(lease):
        if tables.take_lease(owner, session_id, lease):
            return None
        lease = tables.leases_of([session_id], owner).get(session_id)
    return lease
