"""`SessionSource`: a session's events for one subscriber, wherever the session is open, and however often it is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import trio

from engine.control.engine_reads import EngineReads, SessionRecord, head_of, questions_of
from engine.core.errors import ConfigError, EngineError, JournalCorrupt, StoreError
from engine.core.ids import SessionId
from engine.journal.cursors import follow
from engine.journal.position import Position
from engine.journal.state import Resync
from engine.session.engine import engine_runtime

if TYPE_CHECKING:
    from engine.control.protocol.session_methods import SessionHead
    from engine.journal.cursors import Cursor
    from engine.journal.log import JournalEntry
    from engine.session.engine import Engine
    from engine.session.session_watch import Watch
    from engine.store.store_protocols import Holder

# Of no epoch, so a cursor there begins with a snapshot.
_FOREIGN: Final = Position(epoch="", seq=0)
# Between two looks at who has a session open that is not open here: the end of an engine is no event.
_HOLDER_SECONDS: Final = 2.0


@final
class SessionSource:
    """Events from the journal while the session is open in this engine, else the durable ones from the store."""

    def __init__(
        self, engine: Engine, reads: EngineReads, record: SessionRecord, epoch: str, after: int | Position | None
    ) -> None:
        """Begin after a number or a position, or with what happens from now on. Not a checkpoint.

        From a position of another epoch or session, or of a future, the first thing is one `Resync`. Raises
        `ConfigError` if the session is not open here and the store can't be watched.
        """
        self._engine = engine
        self._runtime = engine_runtime(engine)
        self._reads = reads
        self._id: SessionId = record.state.session_id
        self._epoch = epoch
        self._watch: Watch | None = None
        self._cursor: Cursor | None = None
        self._must_resync = False
        # Of the store, not taken yet.
        self._next: JournalEntry | Resync | None = None
        # As clients know it, and what is true now, if that is not what follows from the events that they get.
        self._holder: Holder = record.holder
        self._head: SessionHead | None = None
        self._next_look = trio.current_time() + _HOLDER_SECONDS
        self._position = self._at(record.state.seq)
        if record.live is not None:
            self._cursor = follow(record.live.journal, after)
            return
        if isinstance(after, int):
            self._position = self._at(after)
        elif after is not None and self._is_of_record(after, record):
            self._position = after
        else:
            self._must_resync = after is not None
        self._watch = engine.watch_session(self._id, after=self._position.seq)

    def _at(self, seq: int) -> Position:
        return Position(epoch=self._epoch, seq=seq, session_id=self._id)

    def _is_of_record(self, position: Position, record: SessionRecord) -> bool:
        is_ours = position.epoch == self._epoch and position.session_id in {"", self._id}
        return is_ours and 0 <= position.seq <= record.state.seq

    @property
    def position(self) -> Position:
        """Where it is."""
        return self._position if self._cursor is None else self._cursor.position

    async def wait(self, *, durable: bool = False) -> bool:
        """Wait until there is an event, or one of the record, or a head; return True. False: the engine has closed.

        A checkpoint; nothing is taken. Raises `JournalCorrupt`, `StoreError`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while self._next is None and self._head is None:
            if self._cursor is None:
                if not await self._look_into_store():
                    return False
            elif await self._cursor.wait(durable=durable):
                return True
            elif self._engine.is_closed:
                return False
            else:
                # Only the session was closed: whichever engine opens it again, its events continue from here.
                self._position, self._cursor, self._watch = self._cursor.position, None, None
                self._next_look = trio.current_time()
        return True

    async def _look_into_store(self) -> bool:
        """Wait for an event of the store, or until the session is open here; return whether there can be one."""
        # Before the look: a session that is opened between the two would be missed.
        change = self._runtime.services.changes.next_change(self._id)
        live = self._runtime.sessions.by_id.get(self._id)
        if live is not None and not live.journal.is_closed:
            self._holder = "here"
            # Its own snapshot, if there has to be one: only that knows how much of the open parts is in it.
            self._cursor = follow(live.journal, _FOREIGN if self._must_resync else self._position)
            self._must_resync = False
            return True
        if self._must_resync:
            record = await self._reads.record(self._id)
            if record.live is None or record.live.journal.is_closed:
                self._next = stored_resync(record, self._epoch)
                self._must_resync, self._watch = False, None
            return True
        if self._watch is None:
            try:
                self._watch = self._engine.watch_session(self._id, after=self._position.seq)
            except ConfigError:
                return False  # a host's own store: it can't be watched
        self._next = await self._next_stored(self._watch, change)
        return self._next is not None or not self._engine.is_closed

    async def _wait_for_holder(self) -> None:
        """Wait until an engine has left or opened the session, whose events have come; read its head. A checkpoint.

        It ends, too, when there are events to be read first. If cancelled, it is looked at again next time.
        """
        while True:
            await trio.sleep_until(self._next_look)
            # What can't be read now: the watch says why, if that lasts.
            with suppress(EngineError):
                if await self._reads.holder(self._id) != self._holder:
                    record = await self._reads.record(self._id)
                    if record.state.seq > self._position.seq:
                        return
                    # A session without a turn that was closed here is as it was.
                    if record.live is None and (record.is_parked or self._holder != "here"):
                        self._head = head_of(record)
                    self._holder = record.holder
            self._next_look = trio.current_time() + _HOLDER_SECONDS
            if self._head is not None:
                return

    async def _next_stored(self, watch: Watch, change: trio.Event) -> JournalEntry | None:
        """Return the next event that another engine records. A checkpoint.

        None: the session has changed in this one, or another one has opened or left it. Raises `JournalCorrupt`, `StoreError`.
        """
        found: JournalEntry | None = None
        failure: StoreError | JournalCorrupt | None = None
        async with trio.open_nursery() as nursery:

            async def end_after(wait: Callable[[], Awaitable[None]]) -> None:
                await wait()
                nursery.cancel_scope.cancel(reason="the session has changed")

            nursery.start_soon(end_after, change.wait)
            nursery.start_soon(end_after, self._wait_for_holder)
            try:
                found = await watch.__anext__()
            except (StoreError, JournalCorrupt) as error:
                # Not raised here: it would become an exception group.
                failure = error
            nursery.cancel_scope.cancel(reason="the session has changed elsewhere")
        # The store is closed before the connections are: those end with the code that says to come back.
        if failure is not None and not (isinstance(failure, StoreError) and self._engine.is_closed):
            raise failure
        return found

    def has_next(self, *, durable: bool = False) -> bool:
        """Return whether there is an event now, or one of the record. Not a checkpoint."""
        if self._next is not None or self._head is not None:
            return True
        return self._cursor is not None and self._cursor.has_next(durable=durable)

    def merge(self) -> int:
        """Merge the deltas that are waiting, where that loses nothing; return how many. Not a checkpoint."""
        return 0 if self._cursor is None else self._cursor.merge()

    def take_head(self) -> SessionHead | None:
        """Return what is true now, once, if that has changed without an event. Not a checkpoint."""
        head, self._head = self._head, None
        return head

    def try_next(self) -> JournalEntry | Resync | None:
        """Return the next event if there is one now. Not a checkpoint."""
        if self._next is None:
            return None if self._cursor is None else self._cursor.try_next()
        event, self._next = self._next, None
        self._position = self._at(event.seq or self._position.seq)
        return event


def stored_resync(record: SessionRecord, epoch: str) -> Resync:
    """Return what a cursor would begin with, of a session that is not open here."""
    return Resync(
        session_id=record.state.session_id,
        epoch=epoch,
        seq=record.state.seq,
        state=record.state,
        descendants=tuple(each.member for each in record.below),
        open_questions=questions_of(record),
        position=Position(session_id=record.state.session_id, epoch=epoch, seq=record.state.seq),
    )
