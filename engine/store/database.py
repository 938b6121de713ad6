"""`DatabaseStore`: a store on tables, in any database. This is the turn's side, where nothing waits for a disk.

put ──► Writer ──► EventSink ──► WriterConnection: one transaction for all that is queued
load, list_sessions, search, open ──► threads with connections of their own
"""

from __future__ import annotations

import secrets
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import StoreError
from engine.core.events import Delta, Durable
from engine.core.ids import PartId, SessionId
from engine.journal.state import SessionState
from engine.store.backend import TableReader
from engine.store.decode_rows import fold_version
from engine.store.event_sink import invalid_id_reason
from engine.store.heartbeat import Heartbeat
from engine.store.idle_sessions import IdleSessions
from engine.store.lazy_events import StoredSession
from engine.store.leases import RENEWALS_PER_LEASE
from engine.store.open_work import OpenWork
from engine.store.session_writes import SessionWrites
from engine.store.store_protocols import StoreHealth
from engine.store.table_queries import TableQueries
from engine.store.write_commands import (
    ClaimSession,
    DeleteDrafts,
    DeleteSession,
    ReclaimSpace,
    ReleaseSession,
    RenewLeases,
    RetryPending,
    SaveDraft,
    SaveState,
    WriteCommand,
)
from engine.store.writer_thread import WriteFailed, Writer, WriterUnusable

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 10.0

# A state is saved again after this many events, once the session has also grown by a quarter. So a long session, whose
# state is large, is saved more rarely, and the sum of what is written stays proportional to the events.
_SAVE_STATE_AFTER: Final = 2_000
_SAVE_STATE_GROWTH: Final = 4
# Sessions deleted in one transaction: other engines wait for its lock.
_PRUNE_BATCH: Final = 20
# How often a watcher polls in the end, for a session in which nothing happens.
_RARELY: Final = 2.0


@attrs.define(kw_only=True, eq=False, repr=False)
class DatabaseStore(TableQueries):
    """The base of all stores that use tables. It belongs to one `trio.run`.

    Attributes:
        watch_seconds: how often a watcher polls at first, if no notification comes.
        epoch: identifies this opening; a cursor from an earlier one must resync.
        idle_seconds: after so long without an event, the lease of a session in which nothing runs is released; None: never.
    """

    watch_seconds: ClassVar[float]
    _idle_seconds: float | None = attrs.field(default=None, alias="idle_seconds")
    epoch: str = attrs.field(factory=lambda: secrets.token_hex(8), init=False)
    _writer: Writer[Durable | WriteCommand] = attrs.field(init=False)
    _heartbeat: Heartbeat = attrs.field(init=False)
    _session_writes: dict[SessionId, SessionWrites] = attrs.field(factory=dict[SessionId, SessionWrites], init=False)
    _claimed: set[SessionId] = attrs.field(factory=set[SessionId], init=False)
    _saved_states: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    _last_ticket: int = attrs.field(default=0, init=False)
    _last_renewal: int = attrs.field(default=0, init=False)
    _idle: IdleSessions = attrs.field(init=False)
    _work: OpenWork = attrs.field(factory=OpenWork, init=False)
    # Ends the renewing of leases; None: they are renewed.
    _idling: WriteCommand | None = attrs.field(default=None, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._idle = IdleSessions(self._idle_seconds)
        self._writer = Writer(self._sink, name="engine store")
        self._heartbeat = Heartbeat(weakref.ref(self), self._sink.owner.seconds / RENEWALS_PER_LEASE)

    # -- what differs between databases ---------------------------------------------

    @abstractmethod
    async def _read(self, work: Callable[[TableReader], T]) -> T:
        """Run *work* in a thread. Always a checkpoint; if cancelled, the thread is abandoned. Raises `StoreError`."""

    @abstractmethod
    def _close_readers(self) -> None:
        """Start closing everything but the writer. Not a checkpoint."""

    def _idle_leases(self) -> WriteCommand | None:
        """Return what makes the leases last without being renewed; None: nothing can. Not a checkpoint."""
        return None

    @abstractmethod
    def _next_change(self, session_id: SessionId) -> trio.Event:
        """Return an event that is set when another engine appends to the session, if the database notifies. Not a checkpoint."""

    # -- the port -------------------------------------------------------------------------

    @enable_ki_protection
    def put(self, event: Durable) -> None:
        """Queue *event* to be written, in order. Never blocks, never a checkpoint.

        Raises `StoreError` if the store, or this session, can't be written any more.
        """
        if event.seq is None:
            raise StoreError(f"an event of session {event.session_id} has no number: it is not durable")
        if event.session_id in self._sink.refused:
            raise self._sink.refusal(event.session_id)
        self._work.note(event)
        self._idle.note_use(event.session_id)
        self._renew_from_now_on()
        ticket = self._last_ticket = self._writer.put(event)
        puts = self._session_writes.get(event.session_id)
        if puts is None:
            puts = self._session_writes[event.session_id] = SessionWrites(event.seq, event.seq)
            self._claimed.add(event.session_id)
        puts.add(event.seq, ticket, self._writer.durable)

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        """Wait until everything up to *seq* is durable. Always a checkpoint; if cancelled, it is still written.

        Raises `StoreError`, at the latest some time after the lock timeout. After a temporary error the events are
        retried with the next ones, so a later flush may succeed.
        """
        puts = self._session_writes.get(session_id)
        if puts is None or seq < puts.first:
            await self._wait_for(0)
            return
        if seq > puts.last and session_id in self._sink.refused:
            raise self._sink.refusal(session_id)
        if seq > puts.last:
            raise StoreError(f"event {seq} of session {session_id} was never put; the last one was {puts.last}")
        ticket = puts.ticket(seq)
        # If the writer has handled it before and it is still not durable, its transaction failed and the event waits in
        # the backlog for the next batch. There may be none, so an empty one makes the writer try again.
        was_handled = ticket <= self._writer.durable
        began = trio.current_time()
        await self._wait_for(ticket)
        self._sink.figures.note_flush(trio.current_time() - began)
        if not self._is_durable(session_id, seq) and was_handled and session_id not in self._sink.refused:
            await self._wait_for(self._enqueue(RetryPending()))
        if not self._is_durable(session_id, seq):
            raise self._write_error(session_id)
        puts.forget(self._writer.durable)

    def health(self) -> StoreHealth:
        """Return how writing goes. Not a checkpoint."""
        sink = self._sink
        figures = sink.figures
        return StoreHealth(commits=figures.commits, seconds=figures.commit_seconds, failure=sink.last_error)

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        """Return a session's events, including those still queued; none if there is no such session.

        Always a checkpoint.

        If cancelled, the reading thread is abandoned. Raises `JournalCorrupt`, `StoreError`.
        """
        check_id(session_id)
        await self._wait_written(session_id)
        return await self._read(lambda tables: tables.load(session_id, self._sink.schema))

    async def aclose(self) -> None:
        """Write what is queued, release all sessions, and close. Always a checkpoint, idempotent.

        If cancelled, the writer's thread does it a little later. Raises `StoreError` if something could not be written
        within `CLOSE_TIMEOUT`.
        """
        if self._is_closed:
            await trio.lowlevel.checkpoint()
            return
        self._is_closed = True
        self._heartbeat.stop()
        # Before the writer: the thread that closes the last connection checkpoints the WAL, and that should be the
        # writer.
        self._close_readers()
        in_time = await self._writer.aclose(CLOSE_TIMEOUT)
        if not in_time or self._sink.unwritten:
            raise StoreError(
                f"the store {self._sink.connection.name} could not be written to its end: {self._close_error()}",
                is_full=self._is_full,
            )

    # -- importing, retention --------------------------------------------------------------

    async def import_sessions(self, journals: Sequence[Sequence[Durable]]) -> None:
        """See `Importing`. A checkpoint; if cancelled, all or none are imported."""
        from engine.store.import_command import ImportSessions

        order = ImportSessions([journal for journal in journals if journal], self._sink.schema)
        await self._run_commands([order])
        if order.error is not None:
            raise order.error

    async def delete(self, session_id: SessionId) -> Sequence[SessionId]:
        """See `Retention`. A checkpoint; if cancelled, all or none are deleted."""
        check_id(session_id)
        order = DeleteSession(session_id)
        await self._run_commands([order])
        if order.error is not None:
            raise order.error
        await self._reclaim_space()
        return order.deleted

    async def prune(self, *, older_than: float, keep: int = 0) -> Sequence[SessionId]:
        """See `Retention`. A checkpoint."""
        roots = await self._read(lambda tables: tables.inactive_trees(older_than, keep))
        deleted: list[SessionId] = []
        for start in range(0, len(roots), _PRUNE_BATCH):
            orders = [DeleteSession(root, quiet_since=older_than) for root in roots[start : start + _PRUNE_BATCH]]
            await self._run_commands(orders)
            deleted += [session_id for order in orders for session_id in order.deleted]
        if deleted:
            await self._reclaim_space()
        return deleted

    # -- leases ---------------------------------------------------------------------------

    async def claim(self, session_id: SessionId) -> None:
        """See `Leasing`. A checkpoint."""
        check_id(session_id)
        order = ClaimSession(session_id)
        was_held = session_id in self._claimed
        try:
            self._renew_from_now_on()
            await self._run_commands([order])
            if order.error is not None:
                raise order.error
        except BaseException:  # re-raised: the writer may have taken the lease anyway
            if not was_held:
                self.release(session_id)
            raise
        self._claimed.add(session_id)
        self._idle.note_use(session_id)
        self._heartbeat.start()  # it may have paused, since nothing was claimed
        self._session_writes.pop(session_id, None)

    @enable_ki_protection
    def release(self, session_id: SessionId) -> None:
        """See `Leasing`. Never blocks, not a checkpoint."""
        self._claimed.discard(session_id)
        self._idle.forget(session_id)
        self._work.forget(session_id)
        puts = self._session_writes.get(session_id)
        if puts is not None:
            puts.forget(self._writer.durable)
            if not puts.tickets:  # otherwise a task may still wait for them
                del self._session_writes[session_id]
        self._saved_states.pop(session_id, None)
        try:
            check_id(session_id)
            self._enqueue(ReleaseSession(session_id))
        except StoreError:
            # The writer has ended, and the lease will expire; or the id is invalid, and there never was a lease.
            return

    async def released(self) -> None:
        """See `Releasing`. Always a checkpoint."""
        await self._wait_for(self._last_ticket)

    def renew_leases(self) -> None:
        """Renew the leases; retry what could not be written. Not a checkpoint. See `Heartbeat`."""
        if self._last_renewal > self._writer.durable:
            return
        for session_id in () if self._sink.unwritten else self._idle.due(self._work):
            # To renew its lease for days would be work for nothing.
            self.release(session_id)
            self._idle.note_release(session_id)
        has_work = bool(self._sink.unwritten) or not self._work.is_none()
        is_idle = not self._claimed or (self._idling is not None and self._idling.is_done)
        if is_idle and not has_work:
            # Until the next event: no thread runs, and nothing wakes this process.
            self._heartbeat.pause()
            return
        self._idling = None if has_work else self._idle_leases()
        try:
            self._last_renewal = self._enqueue(self._idling or RenewLeases())
        except StoreError:
            self._heartbeat.stop()

    def _renew_from_now_on(self) -> None:
        """Renew the leases regularly: something happens. Not a checkpoint. Raises `StoreError`."""
        if self._idling is not None:
            # At once, before what happens: until then the leases do not hold against engines that can't see this process.
            self._idling = None
            self._last_renewal = self._enqueue(RenewLeases())
        self._heartbeat.start()

    # -- watching, caching --------------------------------------------------------------

    async def wait_for_events(self, session_id: SessionId, after: int) -> Sequence[Durable]:
        """See `Watching`. Always a checkpoint."""
        check_id(session_id)
        seconds = self.watch_seconds
        while True:
            # Before the read: a change that comes between the two would be missed.
            news = self._next_change(session_id)
            events = await self._read(lambda tables: tables.load(session_id, self._sink.schema, after=after))
            if events:
                return events
            with trio.move_on_after(seconds):
                await news.wait()
            # Where nothing has happened for a while, nothing may happen for long.
            seconds = max(seconds, min(2 * seconds, _RARELY))

    async def open_session(self, session_id: SessionId) -> StoredSession | None:
        """See `StateCaching`. A checkpoint; if cancelled, the thread that reads is abandoned."""
        check_id(session_id)
        await self._wait_written(session_id)
        opened = await self._read(lambda tables: tables.open_session(session_id, self._sink.schema))
        if opened is None:
            return None
        stored, self._saved_states[session_id] = opened
        self.save_state(stored.state)
        return stored

    @enable_ki_protection
    def save_state(self, state: SessionState) -> None:
        """See `StateCaching`. Never blocks, not a checkpoint."""
        last_saved = self._saved_states.get(state.session_id, 0)
        if state.seq - last_saved < max(_SAVE_STATE_AFTER, state.seq // _SAVE_STATE_GROWTH):
            return
        self._saved_states[state.session_id] = state.seq
        try:
            self._enqueue(SaveState(state, fold_version()))
        except StoreError:
            # It is only a cache; if the store has failed, the next `put` raises.
            return

    # -- drafts -----------------------------------------------------------------------------

    def save_draft(self, delta: Delta) -> None:
        """See `DraftStore`. Never blocks, not a checkpoint. Raises `StoreError` if nothing more is written."""
        check_id(delta.session_id)
        self._enqueue(SaveDraft(delta))

    def delete_drafts(self, session_id: SessionId, part_id: PartId) -> None:
        """See `DraftStore`. Never blocks, not a checkpoint. Raises `StoreError` if nothing more is written."""
        check_id(session_id)
        self._enqueue(DeleteDrafts(session_id, part_id))

    async def drafts(self, session_id: SessionId) -> Sequence[Delta]:
        """See `DraftStore`. Always a checkpoint; if cancelled, the thread that reads is abandoned."""
        check_id(session_id)
        return await self._query(lambda tables: tables.drafts(session_id, self._sink.schema))

    # -- waiting for the writer -------------------------------------------------------------

    async def _query(self, work: Callable[[TableReader], T]) -> T:
        await self._wait_for(self._last_ticket)
        return await self._read(work)

    def _enqueue(self, order: WriteCommand) -> int:
        """Queue a command and return its ticket. Raises `StoreError`."""
        self._last_ticket = self._writer.put(order)
        return self._last_ticket

    async def _wait_for(self, ticket: int) -> None:
        """Wait until the writer has processed *ticket*, successfully or not. Always a checkpoint.

        Raises `StoreError`.
        """
        await self._writer.flushed(ticket)

    async def _run_commands(self, orders: Sequence[WriteCommand]) -> None:
        """Run *orders*. A checkpoint. Raises `StoreError` if they failed; then, or if cancelled, they won't run later."""
        ticket = 0
        try:
            for order in orders:
                ticket = self._enqueue(order)
            await self._wait_for(ticket)
            if not all(order.is_done for order in orders):
                raise self._sink.last_error or StoreError(
                    f"the store {self._sink.connection.name} did not run a command"
                )
        except BaseException:  # re-raised: a command that no task waits for must not run later
            for order in orders:
                order.is_withdrawn = True
            raise

    async def _reclaim_space(self) -> None:
        """Free the space of deleted sessions, a part in each transaction. A checkpoint. Raises `StoreError`."""
        order = ReclaimSpace()
        await self._run_commands([order])
        while order.has_more:
            order = ReclaimSpace()
            await self._run_commands([order])

    async def _wait_written(self, session_id: SessionId) -> None:
        """Wait until a session's queued events can be read. Always a checkpoint. Raises `StoreError`."""
        puts = self._session_writes.get(session_id)
        if puts is None or session_id in self._sink.refused:
            await trio.lowlevel.checkpoint()
        else:
            await self.flushed(session_id, puts.last)

    def _is_durable(self, session_id: SessionId, seq: int) -> bool:
        return self._sink.durable.get(session_id, 0) >= seq

    def _close_error(self) -> str:
        if self._sink.last_error is not None:
            return str(self._sink.last_error)
        try:
            # The writer's own error says more than "too slow", and putting something brings it up.
            self._writer.put(RetryPending())
        except WriteFailed as error:
            return str(error)
        except WriterUnusable:
            return f"it takes longer than {CLOSE_TIMEOUT:g} s"
        return "its writer is gone"

    def _write_error(self, session_id: SessionId) -> StoreError:
        if session_id in self._sink.refused:
            return self._sink.refusal(session_id)
        # A new one for each caller: one exception raised in many tasks would collect all their tracebacks.
        return StoreError(
            str(self._sink.last_error or f"the store {self._sink.connection.name} has not written the event"),
            is_full=self._is_full,
        )

    @property
    def _is_full(self) -> bool:
        error = self._sink.last_error
        return isinstance(error, StoreError) and error.is_full


def check_id(session_id: SessionId) -> None:
    """Raise `StoreError` for an id that no database accepts, before the writer gets it."""
    if (why := invalid_id_reason(session_id)) is not None:
        raise StoreError(f"there is no session {session_id!r}: {why}")
