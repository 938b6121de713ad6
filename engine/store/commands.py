"""What the writer does besides writing events, in their order and in their transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from engine.core.codec import encode_event, encode_state
from engine.core.errors import SessionElsewhere
from engine.core.events import Delta
from engine.core.ids import PartId, SessionId
from engine.core.state import SessionState
from engine.store.backend import TableWriter
from engine.store.leases import Lease, Owner, session_elsewhere
from engine.store.projection import storable


class WriteTransaction(Protocol):
    """The transaction in which an order is carried out."""

    @property
    def tables(self) -> TableWriter:
        """What can be done in it."""
        ...

    @property
    def owner(self) -> Owner:
        """For whom."""
        ...

    def forget(self, session_id: SessionId, *, refused: bool) -> None:
        """Know nothing of a session any more: look its last event up again; with *refused*, nor that it was refused."""
        ...

    def is_refused(self, session_id: SessionId) -> bool:
        """Tell whether nothing more of a session is written: what was put of it last is not in the store."""
        ...


@attrs.define(eq=False)
class WriteCommand:
    """Something to do. It may be done again, if the transaction fails: each time is as the first.

    Attributes:
        is_done: it is committed.
        is_withdrawn: whoever gave it has gone: if it is not done yet, it need not be.
    """

    is_done: bool = attrs.field(default=False, init=False)
    is_withdrawn: bool = attrs.field(default=False, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Do it, in the writer's thread. Raises what the database raises."""
        raise NotImplementedError


@attrs.define(eq=False)
class RetryPending(WriteCommand):
    """Nothing, but for what is left from before, which is tried again."""

    def run(self, at: WriteTransaction) -> None:
        """Do nothing."""


@attrs.define(eq=False)
class RenewLeases(WriteCommand):
    """Renew all leases."""

    def run(self, at: WriteTransaction) -> None:
        """Renew them."""
        at.tables.renew_leases(at.owner)


@attrs.define(eq=False)
class ClaimSession(WriteCommand):
    """Take a session; `error`, if another engine has it."""

    session_id: SessionId
    error: SessionElsewhere | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Take it if it is free."""
        lease = at.tables.leases_of([self.session_id], at.owner).get(self.session_id)
        holder = take_lease(at.tables, at.owner, self.session_id, lease)
        if holder is None:
            at.forget(self.session_id, refused=True)
        self.error = None if holder is None else session_elsewhere(self.session_id, holder)


@attrs.define(eq=False)
class ReleaseSession(WriteCommand):
    """Let go of a session."""

    session_id: SessionId

    def run(self, at: WriteTransaction) -> None:
        """Give the lease back."""
        at.tables.release_lease(at.owner, self.session_id)


@attrs.define(eq=False)
class SaveState(WriteCommand):
    """Keep the folded state of a session; the engine's version is kept with it, as another may fold otherwise."""

    state: SessionState
    made_by: str
    _body: str | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Keep it, unless it is the fold of events that were refused: whoever has the session now has written others."""
        if at.is_refused(self.state.session_id):
            return
        if self._body is None:
            self._body = encode_state(self.state)
        at.tables.save_state(self.state.session_id, self.state.seq, self.made_by, self._body)


@attrs.define(eq=False)
class DeleteSession(WriteCommand):
    """Remove a session and its descendants for good.

    Attributes:
        quiet_since: only if nothing has happened in any of them since then; None: whatever happened.
        deleted: which were.
        error: one of them is open.
    """

    session_id: SessionId
    quiet_since: float | None = None
    deleted: Sequence[SessionId] = attrs.field(default=(), init=False)
    error: SessionElsewhere | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Remove them, unless one of them is open or was used."""
        self.deleted, self.error = (), None
        rows = at.tables.session_tree(self.session_id)
        if self.quiet_since is not None and any(updated >= self.quiet_since for _, updated in rows):
            return
        # Held while they are removed, so that nobody goes on with one meanwhile.
        self.error = self._claim_all(at, [session_id for session_id, _ in rows])
        if self.error is not None:
            return
        for session_id, _ in rows:
            at.forget(session_id, refused=False)
        self.deleted = tuple(session_id for session_id, _ in rows if at.tables.delete_session(session_id))

    def _claim_all(self, at: WriteTransaction, session_ids: Sequence[SessionId]) -> SessionElsewhere | None:
        """Take all of them, and return None; or none, and return who has one."""
        leases = at.tables.leases()
        for session_id in session_ids:
            lease = leases.get(session_id)
            if lease is not None and at.owner.is_live(lease):
                return session_elsewhere(session_id, lease)
        for number, session_id in enumerate(session_ids):
            holder = take_lease(at.tables, at.owner, session_id, leases.get(session_id))
            if holder is not None:
                for claimed in session_ids[:number]:
                    at.tables.release_lease(at.owner, claimed)
                return session_elsewhere(session_id, holder)
        return None


@attrs.define(eq=False)
class ReclaimSpace(WriteCommand):
    """Give pages that hold nothing any more back to the disk, some of them."""

    def run(self, at: WriteTransaction) -> None:
        """Give them back."""
        at.tables.reclaim_space()


@attrs.define(eq=False)
class SaveDraft(WriteCommand):
    """Keep by how much an open part has grown."""

    delta: Delta

    def run(self, at: WriteTransaction) -> None:
        """Keep it, if the session is ours to write."""
        delta = self.delta
        if at.owner.holds(at.tables.leases_of([delta.session_id], at.owner).get(delta.session_id)):
            at.tables.save_draft(delta.session_id, PartId(storable(delta.part_id)), delta.offset, encode_event(delta))


@attrs.define(eq=False)
class DeleteDrafts(WriteCommand):
    """Forget the drafts of a part that is over; of all parts of a session, if none is named."""

    session_id: SessionId
    part_id: PartId | None = None

    def run(self, at: WriteTransaction) -> None:
        """Forget them."""
        at.tables.delete_drafts(self.session_id, None if self.part_id is None else PartId(storable(self.part_id)))


def take_lease(tables: TableWriter, owner: Owner, session_id: SessionId, lease: Lease | None) -> Lease | None:
    """Take a session whose lease was *lease*, and return None; or return the lease of who has it."""
    while lease is None or owner.holds(lease) or owner.may_take(lease):
        if tables.take_lease(owner, session_id, lease):
            return None
        lease = tables.leases_of([session_id], owner).get(session_id)
    return lease
