"""What the writer does besides writing events, in their order and in their transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Protocol

import attrs

from engine.codec import encode_state
from engine.errors import SessionElsewhere
from engine.ids import SessionId
from engine.state import SessionState
from engine.store.index import remove
from engine.store.leases import Owner, elsewhere, lease_of, leases


class Round(Protocol):
    """The transaction in which an order is carried out."""

    @property
    def connection(self) -> sqlite3.Connection:
        """Where."""
        ...

    @property
    def owner(self) -> Owner:
        """For whom."""
        ...

    def forget(self, session_id: SessionId, *, refused: bool) -> None:
        """Know nothing of a session any more: look its last event up again; with *refused*, nor that it was refused."""
        ...


@attrs.define(eq=False)
class Order:
    """Something to do. It may be done again, if the transaction fails: each time is as the first.

    Attributes:
        is_done: it is committed.
        is_withdrawn: whoever gave it has gone: if it is not done yet, it need not be.
    """

    is_done: bool = attrs.field(default=False, init=False)
    is_withdrawn: bool = attrs.field(default=False, init=False)

    def do(self, at: Round) -> None:
        """Do it, in the writer's thread. Raises `sqlite3.Error`."""
        raise NotImplementedError


@attrs.define(eq=False)
class Nudge(Order):
    """Nothing, but for what is left from before, which is tried again."""

    def do(self, at: Round) -> None:
        """Do nothing."""


@attrs.define(eq=False)
class Beat(Order):
    """Renew all leases."""

    def do(self, at: Round) -> None:
        """Renew them."""
        at.owner.renew(at.connection)


@attrs.define(eq=False)
class Claim(Order):
    """Take a session; `error`, if another engine has it."""

    session_id: SessionId
    error: SessionElsewhere | None = attrs.field(default=None, init=False)

    def do(self, at: Round) -> None:
        """Take it if it is free."""
        lease = lease_of(at.connection, self.session_id)
        self.error = None
        if at.owner.holds(lease) or at.owner.may_take(lease):
            at.owner.take(at.connection, self.session_id)
            at.forget(self.session_id, refused=True)
        elif lease is not None:
            self.error = elsewhere(self.session_id, lease)


@attrs.define(eq=False)
class Release(Order):
    """Let go of a session."""

    session_id: SessionId

    def do(self, at: Round) -> None:
        """Give the lease back."""
        at.owner.release(at.connection, self.session_id)


@attrs.define(eq=False)
class Remember(Order):
    """Keep the folded state of a session; the engine's version is kept with it, as another may fold otherwise."""

    state: SessionState
    made_by: str
    _body: str | None = attrs.field(default=None, init=False)

    def do(self, at: Round) -> None:
        """Keep it."""
        if self._body is None:
            self._body = encode_state(self.state)
        row = (self.state.session_id, self.state.seq, self.made_by, self._body)
        at.connection.execute(
            "INSERT OR REPLACE INTO states (session_id, seq, made_by, body) SELECT ?1, ?2, ?3, ?4"
            " WHERE (SELECT max(seq) FROM events WHERE session_id = ?1) >= ?2",
            row,
        )


@attrs.define(eq=False)
class Delete(Order):
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

    def do(self, at: Round) -> None:
        """Remove them, unless one of them is open or was used."""
        self.deleted, self.error = (), None
        rows: list[tuple[SessionId, float]] = at.connection.execute(_TREE, (self.session_id,)).fetchall()
        if self.quiet_since is not None and any(updated >= self.quiet_since for _, updated in rows):
            return
        known = leases(at.connection)
        for session_id, _ in rows:
            lease = known.get(session_id)
            if lease is not None and at.owner.is_live(lease):
                self.error = elsewhere(session_id, lease)
                return
        for session_id, _ in rows:
            for table in ("events", "states", "leases"):
                at.connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608  # three names of ours
            remove(at.connection, session_id)
            at.forget(session_id, refused=False)
        self.deleted = tuple(session_id for session_id, _ in rows)


@attrs.define(eq=False)
class Shrink(Order):
    """Give pages that hold nothing any more back to the disk, some of them."""

    def do(self, at: Round) -> None:
        """Give them back."""
        at.connection.execute("PRAGMA incremental_vacuum (10000)").fetchall()


# UNION, not UNION ALL: damaged rows may name each other as parents.
_TREE = """
WITH RECURSIVE tree (id) AS (
    SELECT id FROM sessions WHERE id = ?1 OR root_id = ?1
    UNION
    SELECT sessions.id FROM sessions JOIN tree ON sessions.parent_id = tree.id
)
SELECT id, updated FROM sessions WHERE id IN (SELECT id FROM tree) ORDER BY id
"""
