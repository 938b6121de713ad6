"""`PostgresStore`: the journals of a fleet of engines in one database, those of one tenant.

Opened by `engine.store.postgres.open.open_postgres_store`.

    put ──► Writer ──► EventSink ──► PostgresWriterConnection: one transaction for all that is queued, then a notification
    load, list_sessions, search, open ──► threads with connections of their own
    later ──► Listener: a thread that hears notifications

`flushed` promises the same durability as the database's commit.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

import attrs
import trio

from engine.config.store_config import StoreConfig
from engine.core.errors import StoreError
from engine.core.events import Delta, Durable
from engine.core.ids import SessionId
from engine.core.threads import in_background, to_thread
from engine.journal.codec import Schema
from engine.store.backend import TableReader
from engine.store.database import DatabaseStore, check_id
from engine.store.draft_pace import DraftPace
from engine.store.event_sink import EventSink
from engine.store.fleet_status import FleetStatus
from engine.store.leases import Owner
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, PostgresReaders, connect
from engine.store.postgres.error_mapping import map_errors
from engine.store.postgres.fleet_report import read_fleet_status
from engine.store.postgres.integrity import find_gaps_if_due
from engine.store.postgres.listener import NotificationListener
from engine.store.postgres.pooler_check import check_pooler
from engine.store.postgres.schema import migrate
from engine.store.postgres.stored_tasks import PostgresWorkQueue
from engine.store.postgres.sweeper_election import SweeperElection
from engine.store.postgres.table_reader import PostgresTableReader
from engine.store.postgres.task_table import TaskTable
from engine.store.postgres.watch_registry import WatchRegistry
from engine.store.postgres.writer_connection import PostgresWriterConnection, register_writer
from engine.store.store_figures import StoreFigures
from engine.store.store_protocols import AbandonedSession

T = TypeVar("T")

# Notifications may be lost, so watchers also poll.
WATCH_SECONDS: Final = 2.0


async def open_address(
    address: Address, *, lease_seconds: float, idle_seconds: float, schema: Schema, config: StoreConfig
) -> PostgresStore:
    """See `engine.store.postgres.open.open_postgres_store`. Always a checkpoint."""
    opening = _DatabaseOpening(address, Owner(seconds=lease_seconds), config.connections)
    try:
        opened = await to_thread(opening.run)
    except BaseException:  # re-raised: in the main task it may be KeyboardInterrupt, too
        opening.abandon()
        raise
    figures = StoreFigures()
    writer = PostgresWriterConnection(
        address=address,
        owner=opening.owner,
        connection=opened.connection,
        has_row_security=opened.has_row_security,
        figures=figures,
    )
    sink = EventSink(connection=writer, owner=opening.owner, schema=schema, figures=figures)
    return PostgresStore(
        address=address,
        damaged=opened.damaged,
        config=config,
        sink=sink,
        readers=PostgresReaders(address=address, max_readers=config.readers),
        idle_seconds=idle_seconds,
    )


@attrs.define(eq=False, kw_only=True)
class PostgresStore(DatabaseStore):
    """A store in a database; `engine.store.store_protocols` describes what it can do. For one `trio.run`.

    Attributes:
        address: of the database.
        config: how it shares the database with other engines.
        damaged: sessions that were found to have gaps when it was opened; they can't be loaded, the others can.
        epoch: of this opening, so a cursor from before must resync.
    """

    watch_seconds: ClassVar[float] = WATCH_SECONDS
    address: Address
    damaged: Sequence[SessionId]
    config: StoreConfig
    _readers: PostgresReaders = attrs.field(alias="readers")
    _listener: NotificationListener = attrs.field(init=False)
    _election: SweeperElection = attrs.field(init=False)
    # Weak references: an event lives as long as a task waits for it.
    _watched: weakref.WeakValueDictionary[str, trio.Event] = attrs.field(
        factory=weakref.WeakValueDictionary[str, trio.Event], init=False
    )
    _watches: WatchRegistry = attrs.field(factory=WatchRegistry, init=False)
    _draft_pace: DraftPace = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._listener = NotificationListener(weakref.ref(self), self.address)
        self._election = SweeperElection(self.address)
        self._draft_pace = DraftPace(self.config.drafts_per_second)

    async def abandoned_sessions(self) -> Sequence[AbandonedSession] | None:
        """See `Sweeping`. Always a checkpoint; if cancelled, the thread that reads is abandoned."""
        return await self._election.find(self._readers, self._sink.owner)

    def is_released(self, session_id: SessionId) -> bool:
        """See `ReleasingIdle`. Not a checkpoint."""
        return self._idle.is_released(session_id) or self._sink.is_lost(session_id)

    async def reclaim(self, session_id: SessionId, seq: int) -> bool:
        """See `ReleasingIdle`. Always a checkpoint."""
        is_lost = self._sink.is_lost(session_id)
        await self.claim(session_id)
        # Of a session that was lost, not all of what this engine has seen was written.
        return not is_lost and not await self._read(
            lambda tables: tables.load(session_id, self._sink.schema, after=seq)
        )

    # -- watching -------------------------------------------------------------------------

    async def wait_for_events(self, session_id: SessionId, after: int) -> Sequence[Durable]:
        """See `Watching`. Always a checkpoint."""
        check_id(session_id)
        while True:
            # Before the read: a change that comes between the two would be missed.
            news = self._next_change(session_id)
            events = await self._read(lambda tables: tables.load(session_id, self._sink.schema, after=after))
            if events:
                return events
            # What was written before the session was registered is not announced, so look once more.
            if not await self._register_watch(session_id):
                with trio.move_on_after(self.watch_seconds):
                    await news.wait()

    async def _register_watch(self, session_id: SessionId) -> bool:
        """Register that it is watched; return whether this is new. A checkpoint if so; if cancelled, it is registered."""
        is_new = not self._watches.is_registered(session_id)
        command = self._watches.renew(session_id)
        # The writer may have ended, or fail: then the watcher only polls.
        with contextlib.suppress(StoreError):
            if command is not None:
                ticket = self._enqueue(command)
                if is_new:
                    await self._wait_for(ticket)
        return is_new

    # -- the fleet ------------------------------------------------------------------------

    @property
    def tasks(self) -> PostgresWorkQueue:
        """The queue of tasks that workers take: see `HasTasks`."""
        return PostgresWorkQueue(
            owner=self._sink.owner,
            run=self._run_commands,
            enqueue=self._enqueue,
            keep=self._keep_lease,
            drop=self.release,
            read=self._read_tasks,
        )

    async def fleet_status(self) -> FleetStatus:
        """See `ReportsFleet`. Always a checkpoint."""
        tenant, owner = self.address.tenant, self._sink.owner.id
        return await self._readers.read(lambda connection: read_fleet_status(connection, tenant, owner))

    def _keep_lease(self, name: SessionId) -> None:
        self._claimed.add(name)
        self._heartbeat.start()  # it may have paused, since nothing was claimed

    async def _read_tasks(self, work: Callable[[TaskTable], T]) -> T:
        return await self._readers.read(lambda connection: work(TaskTable(connection, self.address.tenant)))

    def wake_watchers(self, session_ids: Sequence[str]) -> None:
        """Wake the watchers of those sessions; without ids, all watchers. See `NotificationListener`. Not a checkpoint."""
        for session_id in session_ids or tuple(self._watched):
            news = self._watched.pop(session_id, None)
            if news is not None:
                news.set()

    def _next_change(self, session_id: SessionId) -> trio.Event:
        if self.config.has_listener:
            self._listener.start()
        return self._watched.setdefault(session_id, trio.Event())

    async def _read(self, work: Callable[[TableReader], T]) -> T:
        return await self._readers.read(lambda connection: work(PostgresTableReader(connection, self.address.tenant)))

    # -- drafts ---------------------------------------------------------------------------

    def draft_interval(self) -> float:
        """See `PacedDrafts`. Not a checkpoint."""
        figures = self._sink.figures
        self._draft_pace.note_commits(figures.commits, figures.commit_seconds)
        return self._draft_pace.interval(time.monotonic())

    def save_draft(self, delta: Delta) -> None:
        """See `DraftStore`. Never blocks, not a checkpoint. Raises `StoreError` if nothing more is written."""
        self._draft_pace.note_draft(time.monotonic())
        super().save_draft(delta)

    def _close_readers(self) -> None:
        self._listener.stop()
        self._election.close()
        self._readers.close()


@attrs.frozen(eq=False)
class _OpenedDatabase:
    """A database that was opened: the writer's connection, and what was found out."""

    connection: Connection
    has_row_security: bool
    damaged: Sequence[SessionId]


@attrs.define(eq=False)
class _DatabaseOpening:
    """Opens the database in a thread, and closes it again if the caller was cancelled."""

    _address: Address
    owner: Owner
    _connections: int
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _opened: Connection | None = attrs.field(default=None, init=False)
    _is_abandoned: bool = attrs.field(default=False, init=False)

    def run(self) -> _OpenedDatabase:
        """Open it: in the thread."""
        with map_errors(self._address):
            connection = connect(self._address)
            try:
                check_pooler(connection, self._address, self._connections)
                migrate(connection, self._address)
                # This also tests whether the database is writable: a read-only one fails here instead of at the first
                # event.
                has_row_security = register_writer(connection, self._address.tenant, self.owner)
                damaged = find_gaps_if_due(connection, self._address)
            except BaseException:  # re-raised: so far only this frame can close the connection
                connection.close()
                raise
        with self._lock:
            self._opened = connection
            if self._is_abandoned:
                connection.close()
        return _OpenedDatabase(connection, has_row_security, damaged)

    def abandon(self) -> None:
        """Close what was opened, since the caller was cancelled. In the trio thread; not a checkpoint."""
        with self._lock:
            self._is_abandoned = True
            if self._opened is not None:
                in_background(self._opened.close)
