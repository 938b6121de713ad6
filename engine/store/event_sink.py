"""`EventSink`: the writer thread's side. Everything that is queued becomes one transaction.

Errors are contained:

- temporary ones (a lock, a full disk): the batch is kept and retried with the next one, and
  waiting flushes fail;
- another engine took the session, or an event doesn't follow the last one: that session is *refused* from then on,
  while the others continue;
- the file was deleted, replaced, migrated or damaged: the writer ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import attrs

from engine.core.errors import SessionElsewhere, SessionLost, StoreError
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.value_base import Value
from engine.journal.codec import PRESENT, Schema, encode_event
from engine.journal.json_converter import TAGS
from engine.store.backend import EventRow, TableWriter, TransientStoreError, WriterConnection
from engine.store.leases import Lease, Owner, session_elsewhere
from engine.store.projection import SessionChange
from engine.store.store_figures import StoreFigures
from engine.store.write_commands import WriteCommand, take_lease

T = TypeVar("T")


@attrs.define(kw_only=True, eq=False, repr=False)
class EventSink:
    """Writes events and runs commands. Its public attributes are set here and read in the trio thread.

    Attributes:
        durable: the last event of each session that this store has made durable.
        refused: the sessions that are no longer written, and why.
        last_error: why the last attempt failed; None: it succeeded.
        unwritten: how many events and commands are in the backlog.
        figures: what it counts.
    """

    connection: WriterConnection
    owner: Owner
    schema: Schema = PRESENT
    figures: StoreFigures = attrs.field(factory=StoreFigures)
    durable: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    refused: dict[SessionId, Exception] = attrs.field(factory=dict[SessionId, Exception], init=False)
    last_error: StoreError | None = attrs.field(default=None, init=False)
    unwritten: int = attrs.field(default=0, init=False)
    _backlog: list[EventRow | WriteCommand] = attrs.field(factory=list["EventRow | WriteCommand"], init=False)
    _last: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    _number: int = attrs.field(default=0, init=False)
    _unconfirmed: _Attempt | None = attrs.field(default=None, init=False)
    # When watchers are to be notified of what was written a moment ago; None: they know of everything.
    _announce_at: float | None = attrs.field(default=None, init=False)

    def write(self, batch: Sequence[Durable | WriteCommand]) -> None:
        """Write *batch*, after the backlog. Raises `StoreError` for errors that end the writer."""
        if not batch:
            self._announce(())
            return
        # Encoded here, once and outside the transaction, which may be retried: a lock should be held as briefly as
        # possible.
        self._backlog += [item if isinstance(item, WriteCommand) else self._encode(item) for item in batch]
        self._run_with_retry(self._commit)

    def idle_seconds(self) -> float | None:
        """See `Sink`."""
        return None if self._announce_at is None else max(0.0, self._announce_at - time.monotonic())

    def close(self) -> None:
        """Try the backlog once more, release all leases, and close the connection."""
        try:
            if self._backlog:
                self._run_with_retry(self._commit)
            if self.last_error is None:
                self._run_with_retry(self._release_all)
        except StoreError as error:
            # Not raised, since the connection must be closed: a lease that remains will expire, and `unwritten` counts
            # the rest.
            self.last_error = error
        finally:
            self.connection.close()

    def is_lost(self, session_id: SessionId) -> bool:
        """Return whether a session is no longer written because another engine has it, or has gone on with it."""
        return isinstance(self.refused.get(session_id), (SessionElsewhere, SessionLost))

    def refusal(self, session_id: SessionId) -> StoreError:
        """Return a new error for the events of a refused session."""
        why = self.refused[session_id]
        kind = SessionLost if self.is_lost(session_id) else StoreError
        error = kind(f"nothing more of session {session_id} is written: {why}")
        error.__cause__ = why
        return error

    def _run_with_retry(self, work: Callable[[], None]) -> None:
        """Run *work*, and retry while the connection says so. Raises `StoreError` for errors that end the writer."""
        began = time.monotonic()
        try:
            while True:
                try:
                    work()
                except TransientStoreError as error:
                    self.last_error = error
                    # Not raised: the backlog stays, and is retried with the next batch.
                    if not self.connection.will_retry(error, began):
                        return
                else:
                    self.last_error = None
                    return
        except StoreError as error:
            self.last_error = error
            raise
        finally:
            self.unwritten = len(self._backlog)

    def _release_all(self) -> None:
        with self._transaction() as tables:
            tables.release_leases(self.owner)

    def _commit(self) -> None:
        self._resolve_unconfirmed()
        if not self._backlog:
            return
        # The results of the transaction are merged only after the commit, so that a failed one changes nothing here.
        attempt = _Attempt(self._number + 1, BatchTransaction(self.owner, self._last, self.refused), len(self._backlog))
        began = time.monotonic()
        with self._transaction() as tables:
            attempt.transaction.run(tables, self._backlog)
            # If the connection breaks from here on, it is unknown whether this was committed.
            self._unconfirmed = attempt
        self.figures.commit_seconds += time.monotonic() - began
        self.figures.commits += 1
        self._unconfirmed = None
        self._confirm(attempt)

    def _resolve_unconfirmed(self) -> None:
        """Determine whether an attempt whose connection broke was committed."""
        attempt = self._unconfirmed
        if attempt is not None:
            has_committed = self.connection.has_committed(attempt.number)
            self._unconfirmed = None
            if has_committed:
                self._confirm(attempt)

    def _confirm(self, attempt: _Attempt) -> None:
        """Take over the results of an attempt that was committed."""
        done, self._backlog = self._backlog[: attempt.count], self._backlog[attempt.count :]
        for item in done:
            if isinstance(item, WriteCommand):
                # A withdrawn one was skipped, although its place in the backlog is done.
                item.is_done = not item.is_withdrawn
        _merge(self._last, attempt.transaction.last)
        _merge(self.durable, attempt.transaction.written)
        _merge(self.refused, attempt.transaction.refused)
        self._announce([session_id for session_id, seq in attempt.transaction.written.items() if seq is not None])

    def _announce(self, session_ids: Sequence[SessionId]) -> None:
        wait = self.connection.announce(session_ids)
        self._announce_at = None if wait is None else time.monotonic() + wait

    def _transaction(self) -> AbstractContextManager[TableWriter]:
        self._number += 1
        return self.connection.transaction(self._number)

    def _encode(self, event: Durable) -> EventRow:
        tag = TAGS[type(event)]
        assert event.seq is not None  # `put` has checked
        try:
            if (why := invalid_id_reason(event.session_id)) is not None:
                raise ValueError(why)
            return EventRow(event, event.seq, tag, self.schema.version(tag), encode_event(event, schema=self.schema))
        except (TypeError, ValueError, RecursionError) as error:
            # The row carries the error to its place in the order, where it refuses only this session.
            return EventRow(event, event.seq, tag, 0, "", error)


@attrs.frozen(eq=False, repr=False)
class _Attempt(Value):
    """A transaction, and how many items of the backlog are in it."""

    number: int
    transaction: BatchTransaction
    count: int


@attrs.define(eq=False, repr=False)
class BatchTransaction:
    """One transaction; its results count once it is committed.

    Attributes:
        last: the last events, as looked up or written; None: no longer known.
        written: those it has written.
        refused: the sessions that are no longer written, and why; None: no longer refused.
    """

    owner: Owner
    _committed_last: Mapping[SessionId, int]
    _committed_refused: Mapping[SessionId, Exception]
    last: dict[SessionId, int | None] = attrs.field(factory=dict[SessionId, "int | None"], init=False)
    written: dict[SessionId, int | None] = attrs.field(factory=dict[SessionId, "int | None"], init=False)
    refused: dict[SessionId, Exception | None] = attrs.field(factory=dict[SessionId, "Exception | None"], init=False)
    _tables: TableWriter | None = attrs.field(default=None, init=False)

    @property
    def tables(self) -> TableWriter:
        """See `WriteTransaction`."""
        assert self._tables is not None  # set by `run`, which calls all other methods
        return self._tables

    def run(self, tables: TableWriter, backlog: Iterable[EventRow | WriteCommand]) -> None:
        """Process *backlog*, in order."""
        self._tables = tables
        rows: list[EventRow] = []
        for item in backlog:
            if isinstance(item, EventRow):
                rows.append(item)
            else:
                # Events that were queued before a command are written before it runs: a release follows its last
                # events.
                self._write(rows)
                rows = []
                if not item.is_withdrawn:
                    item.run(self)
        self._write(rows)

    def forget(self, session_id: SessionId, *, refused: bool) -> None:
        """See `WriteTransaction`."""
        self.last[session_id] = self.written[session_id] = None
        if refused:
            self.refused[session_id] = None

    def is_refused(self, session_id: SessionId) -> bool:
        """See `WriteTransaction`."""
        if session_id in self.refused:
            return self.refused[session_id] is not None
        return session_id in self._committed_refused

    def _write(self, rows: Sequence[EventRow]) -> None:
        """Write the events that are allowed and consecutive."""
        changes: dict[SessionId, SessionChange] = {}
        accepted: list[EventRow] = []
        leases = self._leases_of(rows)
        for row in rows:
            session_id = row.event.session_id
            change = changes.get(session_id)
            if change is None:
                if self.is_refused(session_id):
                    continue
                change = SessionChange.of(row.event, row.seq)
            if (error := self._rejection(row, leases, is_first=session_id not in changes)) is not None:
                self.refused[session_id] = error
                # Its earlier events in this batch are valid and stay. They are applied now, since `changes` starts
                # over.
                self._apply(accepted, changes)
                accepted, changes = [], {}
                continue
            changes[session_id] = change
            change.add(row.event, row.seq)
            self.last[session_id] = self.written[session_id] = row.seq
            accepted.append(row)
        self._apply(accepted, changes)

    def _apply(self, rows: Sequence[EventRow], changes: Mapping[SessionId, SessionChange]) -> None:
        if rows:
            self.tables.write(rows, tuple(changes.values()))

    def _leases_of(self, rows: Sequence[EventRow]) -> dict[SessionId, Lease]:
        """Return the leases of the sessions that are to be written."""
        session_ids = {row.event.session_id for row in rows if row.error is None}
        writable = [session_id for session_id in session_ids if not self.is_refused(session_id)]
        return dict(self.tables.leases_of(writable, self.owner)) if writable else {}

    def _rejection(self, row: EventRow, leases: dict[SessionId, Lease], *, is_first: bool) -> Exception | None:
        """Return why *row* may not be written; the lease is checked for the first row of a session."""
        session_id = row.event.session_id
        if row.error is not None:
            return row.error
        if is_first and (holder := self._claim(session_id, leases)) is not None:
            return holder
        last = self._last_seq(session_id)
        # A gap or a repetition means that another engine has written to the session. Never overwrite its events.
        if row.seq != last + 1:
            return SessionLost(
                f"event {row.seq} of session {session_id} can't follow {last}, the last one in the store: "
                "the session went on elsewhere, so open it again"
            )
        return None

    def _claim(self, session_id: SessionId, leases: dict[SessionId, Lease]) -> SessionElsewhere | None:
        """Claim the session if it isn't ours. Return None, or the error."""
        lease = leases.get(session_id)
        if self.owner.holds(lease):
            return None
        holder = take_lease(self.tables, self.owner, session_id, lease)
        if holder is not None:
            return session_elsewhere(session_id, holder)
        # Another engine may have appended while the session was not ours: look up its last event again.
        self.forget(session_id, refused=False)
        return None

    def _last_seq(self, session_id: SessionId) -> int:
        last = self.last[session_id] if session_id in self.last else self._committed_last.get(session_id)
        if last is None:
            last = self.tables.last_seq(session_id)
            self.last[session_id] = last
        return last


def _merge(target: dict[SessionId, T], updates: Mapping[SessionId, T | None]) -> None:
    for session_id, value in updates.items():
        if value is None:
            target.pop(session_id, None)
        else:
            target[session_id] = value


def invalid_id_reason(session_id: SessionId) -> str | None:
    """Return why databases can't store that id; None if they can."""
    if "\x00" in session_id:
        return "it holds a NUL"
    try:
        session_id.encode()
    except UnicodeEncodeError:
        return "it holds half a character"
    return None
