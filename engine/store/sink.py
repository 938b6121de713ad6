"""`EventSink`: the writer's thread's side. Everything that is queued becomes one transaction.

What can go wrong stays where it belongs:

- what may pass (another's lock, a full disk): the batch is kept and tried again with the next
  one; whoever waits for a flush is told;
- a session that another engine has taken, or an event that doesn't follow: that session is
  *refused* from then on, the others go on;
- the file was deleted, replaced, migrated or damaged: the writer ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import attrs

from engine.codec import PRESENT, TAGS, Schema, encode_event
from engine.errors import SessionElsewhere, StoreError, StoreMismatch
from engine.events import Durable
from engine.ids import SessionId
from engine.store.connections import Connections
from engine.store.index import apply
from engine.store.inserting import insert
from engine.store.leases import Owner, elsewhere, lease_of
from engine.store.migrate import version_of
from engine.store.orders import Order
from engine.store.projection import Change
from engine.store.reasons import error_of, may_pass
from engine.store.schema import VERSION

T = TypeVar("T")


@attrs.frozen
class Row:
    """An event as it is stored; or why it can't be."""

    event: Durable
    seq: int
    type: str
    version: int
    body: str
    error: Exception | None = None


@attrs.define(eq=False, kw_only=True)
class EventSink:
    """Writes events and carries out orders. Its public attributes are set here and read in the trio thread.

    Attributes:
        durable: the last event of each session that this store has made durable.
        refused: sessions of which nothing more is written, and why.
        trouble: why the last attempt failed; None: it did not.
        behind: how many events and orders are still to be written since.
    """

    connections: Connections
    connection: sqlite3.Connection
    owner: Owner
    schema: Schema = PRESENT
    durable: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    refused: dict[SessionId, Exception] = attrs.field(factory=dict[SessionId, Exception], init=False)
    trouble: StoreError | None = attrs.field(default=None, init=False)
    behind: int = attrs.field(default=0, init=False)
    _backlog: list[Row | Order] = attrs.field(factory=list["Row | Order"], init=False)
    _last: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)

    def write(self, batch: Sequence[Durable | Order]) -> None:
        """Write *batch*, and what is left from before. Raises `StoreError` for what ends the writer."""
        # Encoded once, whatever happens to the transaction.
        self._backlog += [item if isinstance(item, Order) else self._prepared(item) for item in batch]
        self._try()

    def close(self) -> None:
        """Try what is left once more, give all leases back, and close the connection."""
        try:
            if self._backlog:
                self._try()
            if self.trouble is None:
                with self.connections.writing(self.connection):
                    self.connections.check()
                    self.owner.release_all(self.connection)
        except (sqlite3.Error, StoreError) as error:
            # A lease that stays expires. What was put and is not written is told by `behind`.
            self.trouble = self._told(error) if isinstance(error, sqlite3.Error) else error
        finally:
            self.connections.close_writer(self.connection)

    def _try(self) -> None:
        try:
            with self.connections.writing(self.connection):
                self._commit()
        except sqlite3.Error as error:
            self.trouble = self._told(error)
            if not may_pass(error):
                raise self.trouble from error
        except StoreError as error:
            self.trouble = error
            raise
        else:
            self.trouble = None
        finally:
            self.behind = len(self._backlog)

    def _commit(self) -> None:
        connection = self.connection
        self.connections.check()
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = version_of(connection)
            if found != VERSION:
                raise StoreMismatch(
                    f"another engine has brought the store to version {found}; this one knows {VERSION}", is_newer=True
                )
            at = Transaction(connection, self.owner, self._last, self.refused)
            at.run(self._backlog)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        # A commit into a file that has no name any more would be durable for nobody.
        self.connections.check()
        for item in self._backlog:
            if isinstance(item, Order):
                item.is_done = not item.is_withdrawn
        self._backlog = []
        _merge(self._last, at.last)
        _merge(self.durable, at.written)
        _merge(self.refused, at.refused)

    def _prepared(self, event: Durable) -> Row:
        tag = TAGS[type(event)]
        assert event.seq is not None  # `SqliteStore.put` has looked
        try:
            event.session_id.encode()
            return Row(event, event.seq, tag, self.schema.version(tag), encode_event(event, schema=self.schema))
        except (TypeError, ValueError, RecursionError) as error:
            return Row(event, event.seq, tag, 0, "", error)

    def _told(self, error: sqlite3.Error) -> StoreError:
        return error_of(error, self.connections.path)


@attrs.define(eq=False)
class Transaction:
    """One transaction: what it finds counts once it is committed, and not before.

    Attributes:
        last: the last events that it has looked up or written; None: not known any more.
        written: those that it has written.
        refused: sessions of which nothing more is written, and why; None: no longer so.
    """

    connection: sqlite3.Connection
    owner: Owner
    _known: Mapping[SessionId, int]
    _known_refused: Mapping[SessionId, Exception]
    last: dict[SessionId, int | None] = attrs.field(factory=dict[SessionId, "int | None"], init=False)
    written: dict[SessionId, int | None] = attrs.field(factory=dict[SessionId, "int | None"], init=False)
    refused: dict[SessionId, Exception | None] = attrs.field(factory=dict[SessionId, "Exception | None"], init=False)

    def run(self, backlog: Iterable[Row | Order]) -> None:
        """Do all of *backlog*, in order."""
        rows: list[Row] = []
        for item in backlog:
            if isinstance(item, Row):
                rows.append(item)
            else:
                self._write(rows)
                rows = []
                if not item.is_withdrawn:
                    item.do(self)
        self._write(rows)

    def forget(self, session_id: SessionId, *, refused: bool) -> None:
        """See `Round`."""
        self.last[session_id] = self.written[session_id] = None
        if refused:
            self.refused[session_id] = None

    def _write(self, rows: Sequence[Row]) -> None:
        """Write those events that may be written and that follow."""
        changes: dict[SessionId, Change] = {}
        accepted: list[Row] = []
        for row in rows:
            session_id = row.event.session_id
            change = changes.get(session_id)
            if change is None:
                if self._is_refused(session_id):
                    continue
                change = Change.of(row.event, row.seq)
            if (error := self._objection(row, is_first=session_id not in changes)) is not None:
                self.refused[session_id] = error
                # Those of it that came before stay; of those after it, each is the first again.
                self._apply(accepted, changes)
                accepted, changes = [], {}
                continue
            changes[session_id] = change
            change.take(row.event, row.seq)
            self.last[session_id] = self.written[session_id] = row.seq
            accepted.append(row)
        self._apply(accepted, changes)

    def _apply(self, rows: Sequence[Row], changes: Mapping[SessionId, Change]) -> None:
        if rows:
            insert(
                self.connection,
                "events",
                "session_id, seq, type, version, body",
                [(row.event.session_id, row.seq, row.type, row.version, row.body) for row in rows],
            )
            apply(self.connection, tuple(changes.values()))

    def _is_refused(self, session_id: SessionId) -> bool:
        if session_id in self.refused:
            return self.refused[session_id] is not None
        return session_id in self._known_refused

    def _objection(self, row: Row, *, is_first: bool) -> Exception | None:
        """Return why *row* may not be written; its session's lease is looked at for the first one."""
        session_id = row.event.session_id
        if row.error is not None:
            return row.error
        if is_first and (taken := self._hold(session_id)) is not None:
            return taken
        last = self._last_of(session_id)
        if row.seq != last + 1:
            return StoreError(
                f"event {row.seq} of session {session_id} can't follow {last}, the last one in the store: "
                "the session went on elsewhere, so open it again"
            )
        return None

    def _hold(self, session_id: SessionId) -> SessionElsewhere | None:
        """Make sure that the session is ours to write, and return None; or return who has it."""
        lease = lease_of(self.connection, session_id)
        if self.owner.holds(lease):
            return None
        if lease is not None and not self.owner.may_take(lease):
            return elsewhere(session_id, lease)
        self.owner.take(self.connection, session_id)
        self.forget(session_id, refused=False)
        return None

    def _last_of(self, session_id: SessionId) -> int:
        known = self.last[session_id] if session_id in self.last else self._known.get(session_id)
        if known is None:
            known = self.connection.execute(
                "SELECT coalesce(max(seq), 0) FROM events WHERE session_id = ?", (session_id,)
            ).fetchone()[0]
            self.last[session_id] = known
        return known


def _merge(known: dict[SessionId, T], found: Mapping[SessionId, T | None]) -> None:
    for session_id, value in found.items():
        if value is None:
            known.pop(session_id, None)
        else:
            known[session_id] = value
