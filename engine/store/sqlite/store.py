"""`SqliteStore`: the journal in one SQLite file, written by one thread, read by a few.

    put ──► Writer ──► EventSink ──► events, lists, search: one transaction for all that is queued
    load, list_sessions, search, open ──► threads with connections of their own

`flushed` promises that the event survives a kill and a power cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeVar

import attrs
import trio

from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.journal.codec import PRESENT, Schema
from engine.store.backend import TableReader
from engine.store.database import DatabaseStore
from engine.store.event_sink import EventSink
from engine.store.leases import LEASE_SECONDS, Owner
from engine.store.sqlite.connections import Connections
from engine.store.sqlite.file_location import JournalMode, default_path
from engine.store.sqlite.filesystem import MOUNTS
from engine.store.sqlite.idle_leases import IdleLeases
from engine.store.sqlite.open_file import FileOpening
from engine.store.sqlite.table_reader import SqliteTableReader
from engine.store.sqlite.writer_connection import SqliteWriterConnection

T = TypeVar("T")

# The wait for another process's lock. A flush that takes longer fails.
LOCK_TIMEOUT: Final = 5.0
WATCH_SECONDS: Final = 0.25


async def open_sqlite_store(
    path: str | os.PathLike[str] | None = None,
    *,
    lock_timeout: float = LOCK_TIMEOUT,
    lease_seconds: float = LEASE_SECONDS,
    schema: Schema = PRESENT,
    mounts: Path = MOUNTS,
    only_reads: bool = False,
) -> SqliteStore:
    """Open a store's file, creating it if needed. Always a checkpoint; if cancelled, it is closed again.

    Args:
        path: the file; by default the user's. `:memory:`: in memory, for tests.
        lock_timeout: seconds to wait for another process's lock.
        lease_seconds: after how long without a sign of life an engine loses its sessions.
        schema: the versions of events, and the upcasters for older ones.
        mounts: the file in which the system lists its mounts; for tests.
        only_reads: nothing will be written. A file that can't be written is no error then: it is read into memory.

    Raises:
        StoreMismatch: the file is another program's, or a newer engine's; it is left unchanged.
        StoreCorrupt: the file is damaged.
        StoreError: it can't be read or written.
    """
    opening = FileOpening(
        default_path() if path is None else Path(path), lock_timeout, mounts, Owner(seconds=lease_seconds), only_reads
    )
    try:
        connections, connection, damaged = await to_thread(opening.run)
    except BaseException:  # re-raised: in the main task it may be KeyboardInterrupt, too
        opening.abandon()
        raise
    writer = SqliteWriterConnection(connections=connections, connection=connection)
    sink = EventSink(connection=writer, owner=opening.owner, schema=schema)
    return SqliteStore(
        path=connections.path, mode=connections.mode, damaged=tuple(damaged), sink=sink, connections=connections
    )


@attrs.define(kw_only=True, eq=False, repr=False)
class SqliteStore(DatabaseStore):
    """A store in a file; `engine.store.store_protocols` describes what it can do. Made by `open_sqlite_store`.

    For one `trio.run`.

    Attributes:
        path: the file, or `:memory:`.
        mode: SQLite's journal mode: `"wal"`, or `"truncate"` on a file system that other machines may share.
        damaged: the sessions that had gaps when the file was opened; only these can't be loaded.
        epoch: identifies this opening; a cursor from an earlier one must resync.
    """

    watch_seconds: ClassVar[float] = WATCH_SECONDS
    path: str
    mode: JournalMode
    damaged: Sequence[SessionId]
    _connections: Connections = attrs.field(alias="connections")

    async def _read(self, work: Callable[[TableReader], T]) -> T:
        return await self._connections.read(lambda connection: work(SqliteTableReader(connection)))

    def _close_readers(self) -> None:
        self._connections.close()

    def _idle_leases(self) -> IdleLeases | None:
        # With a WAL, which is in shared memory, all engines are on this machine: most can see whether our process lives.
        return IdleLeases() if self.mode == "wal" and self._sink.owner.machine else None

    def _next_change(self, session_id: SessionId) -> trio.Event:
        # A file sends no notifications; `wait_for_events` polls.
        return trio.Event()
