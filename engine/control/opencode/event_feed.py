"""`EventFeed`: the events of all sessions of an engine, as one stream for a client of opencode's API.

The `id:` of each event says where the client is in each session, so that it misses nothing and gets nothing twice when it
comes back with `Last-Event-ID`. There is no queue: events wait in the journals while the client does not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from engine.control.engine_reads import EngineReads, row_of
from engine.control.opencode.documents import Document, deleted_session, milliseconds, session_document
from engine.control.opencode.session_messages import SessionMessages
from engine.control.transport.http_connection import SendPiece
from engine.core.errors import EngineError, SessionNotFound
from engine.core.events import ModelSwitched, SessionCreated, SessionTitled, TurnEnded
from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.journal.cursors import follow
from engine.journal.json_text import to_json_text
from engine.journal.log import JournalEntry
from engine.journal.lookup import undecoded_events
from engine.journal.position import Position, decode_position, encode_position
from engine.journal.state import Resync
from engine.session.engine import engine_runtime

if TYPE_CHECKING:
    from engine.session.engine import Engine
    from engine.session.live_session import LiveSession

_HEARTBEAT: Final = 10.0
# Milliseconds after which a client comes back.
_RETRY: Final = b"retry: 1000\n\n"
# Events in one piece that is sent.
_AT_ONCE: Final = 128
# Of an id: a head of HTTP has room for it.
_LONGEST_ID: Final = 4_000
_ID: Final = re.compile(r"([0-9]{1,15})((?:~[\w-]{1,4096}\.[0-9]{1,9})*)", re.ASCII)
_OF_SESSION: Final = (SessionCreated, SessionTitled, ModelSwitched, TurnEnded)


@attrs.frozen
class _Place:
    """Where a client is in a session and its sub-agents: after *position*, and some documents of the next event."""

    position: Position
    skip: int = 0


@attrs.define(eq=False)
class _Places:
    """Where a client is in all sessions, those where it was last at the end; since *time* in all others."""

    time: float
    of: dict[SessionId, _Place] = attrs.field(factory=dict[SessionId, _Place])
    _texts: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str])

    @classmethod
    def read(cls, text: str, now: float) -> _Places:
        """Return what an id says; from one that is damaged, what happens from now on."""
        matched = _ID.fullmatch(text)
        places = cls(now if matched is None else int(matched[1]) / 1000)
        for each in matched[2].split("~")[1:] if matched is not None else ():
            name, _, skip = each.partition(".")
            position = decode_position(name)
            places.set(position, int(skip))
        return places

    def set(self, position: Position, skip: int = 0) -> None:
        """Note where the client is in a session. Not a checkpoint."""
        self._texts.pop(position.session_id, None)
        self.of[position.session_id] = _Place(position, skip)
        self._texts[position.session_id] = f"{encode_position(position)}.{skip}"

    def forget(self, session_id: SessionId) -> None:
        """Note that a session is no more. Not a checkpoint."""
        self.of.pop(session_id, None)
        self._texts.pop(session_id, None)

    @property
    def id(self) -> str:
        """The places as text, of as many sessions as there is room for."""
        kept: list[str] = []
        for text in reversed(self._texts.values()):
            if sum(map(len, kept)) + len(text) > _LONGEST_ID:
                break
            kept.append(text)
        return "~".join((str(milliseconds(self.time)), *reversed(kept)))


@final
class EventFeed:
    """A stream for one client; `write` runs it.

    Attributes:
        scope: cancelled to end it.
    """

    def __init__(
        self, engine: Engine, reads: EngineReads, directory: str | None, last_id: str, *, may_open: bool
    ) -> None:
        """Make it.

        Args:
            engine: whose sessions.
            reads: reads those that are not open.
            directory: where they work; None: anywhere.
            last_id: that of the last event that the client has got; empty: from now on.
            may_open: sessions in which the client has missed something are opened for it.
        """
        self.scope: trio.CancelScope = trio.CancelScope()
        self._engine = engine
        self._runtime = engine_runtime(engine)
        self._reads = reads
        self._directory = directory
        self._may_open = may_open
        self._places = _Places.read(last_id, self._runtime.setup.clock.now())
        self._followed: set[SessionId] = set()
        self._sending = trio.StrictFIFOLock()
        self._send: SendPiece | None = None
        self._failure: Exception | None = None

    async def write(self, send: SendPiece) -> None:
        """Send events until the engine closes. A checkpoint. Raises what *send* does for a lost client, and `EngineError`."""
        self._send = send
        with self.scope:
            await send(_RETRY)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                async with trio.open_nursery() as followers:
                    await self._watch(followers)
                nursery.cancel_scope.cancel(reason="the engine has closed")
        if self._failure is not None:
            # Raised here: a nursery would put it into a group.
            raise self._failure

    async def tell(self, name: str, **properties: str) -> None:
        """Send an event that is of no session. A checkpoint."""
        await self._send_all([_FeedEvent("evt_0", {"type": name, "properties": {**properties}})])

    async def _beat(self) -> None:
        await self.tell("server.connected")
        while True:
            await trio.sleep(_HEARTBEAT)
            await self.tell("server.heartbeat")

    # -- sessions ----------------------------------------------------------------------------

    async def _watch(self, followers: trio.Nursery) -> None:
        """Follow each session from when something happens in it. A checkpoint."""
        changes = self._engine.watch_sessions()
        for session_id in self._places.of:
            followers.start_soon(self._open_if_missed, session_id)
        # Those of the client's id, too: one may have been deleted while it was away.
        changed = frozenset((*self._runtime.sessions.by_id, *self._places.of))
        while True:
            for session_id in changed:
                live = self._runtime.sessions.by_id.get(session_id)
                root = session_id if live is None else live.journal.path[0]
                if live is None:
                    await self._tell_if_deleted(session_id)
                elif root not in self._followed and self._is_shown(root):
                    self._followed.add(root)
                    followers.start_soon(self._follow, root)
            try:
                changed = await changes.__anext__()
            except StopAsyncIteration:
                return

    def _is_shown(self, root: SessionId) -> bool:
        live = self._runtime.sessions.by_id.get(root)
        return live is not None and self._directory in {None, live.journal.state.context.cwd}

    async def _open_if_missed(self, session_id: SessionId) -> None:
        """Open a session that has gone on while the client was away, and was closed, as by the end of a server. A checkpoint."""
        place = self._places.of.get(session_id)
        if place is None or not self._may_open or session_id in self._runtime.sessions.by_id:
            await trio.lowlevel.checkpoint()
            return
        with suppress(EngineError):  # it can't be read or opened now, and a request for it says why
            record = await self._reads.record(session_id)
            if place.position.epoch == self._runtime.services.store.store.epoch:
                has_missed = len(record.events) > place.position.seq
            else:
                has_missed = bool(record.events) and record.events[-1].time >= self._places.time
            if has_missed and record.holder == "nobody":
                # A turn that the end of the server has interrupted is ended by that.
                await self._engine.open_session(session_id)

    async def _tell_if_deleted(self, session_id: SessionId) -> None:
        try:
            await self._reads.record(session_id)
        except SessionNotFound:
            self._places.forget(session_id)
            deleted: Document = {"sessionID": session_id, "info": deleted_session(session_id)}
            await self._send_all(
                [_FeedEvent(f"evt_{session_id}_end", {"type": "session.deleted", "properties": deleted})]
            )
        except EngineError:
            pass  # it can't be read now, and a request for it says why

    async def _follow(self, root: SessionId) -> None:
        """Send the events of a session for as long as it is open here. A checkpoint."""
        try:
            # Again if it was closed and opened while its last events were sent.
            while (live := self._runtime.sessions.by_id.get(root)) is not None and not live.journal.is_closed:
                await self._follow_journal(live)
        except EngineError as error:
            self._fail(error)
        finally:
            self._followed.discard(root)

    async def _follow_journal(self, live: LiveSession) -> None:
        place = self._places.of.get(live.id)
        if place is None or place.position.epoch != self._runtime.services.store.store.epoch:
            place = None
        after = self._seq_before(live) if place is None else place.position
        cursor, views = follow(live.journal, after), _SessionsOfTree(self._reads, is_new=place is None)
        skip = 0 if place is None else place.skip
        if place is None:
            await self._send_all(_numbered(live.id, await views.open(live.id, cursor.position.seq), cursor.position))
        while await cursor.wait():
            cursor.merge()
            events: list[_FeedEvent] = []
            while len(events) < _AT_ONCE:
                before, entry = cursor.position, cursor.try_next()
                if entry is None:
                    break
                documents = await views.take(entry)
                events += _numbered(_name(entry, before), documents, cursor.position, before)[skip:]
                skip = 0
            await self._send_all(events)

    def _seq_before(self, live: LiveSession) -> int:
        """Return the last event of a session before the time of the client's id."""
        events = undecoded_events(live.journal)
        while events and events[-1].time >= self._places.time:
            events.pop()
        return len(events)

    # -- out ---------------------------------------------------------------------------------

    async def _send_all(self, events: Sequence[_FeedEvent]) -> None:
        """Send events, and nothing between them. A checkpoint."""
        async with self._sending:
            pieces: list[str] = []
            for each in events:
                if each.position is not None:
                    self._places.set(each.position, each.skip)
                text = to_json_text({"id": each.name, **each.document})
                pieces.append(f"id: {self._places.id}\ndata: {text}\n\n")
            assert self._send is not None
            try:
                await self._send("".join(pieces).encode())
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self.scope.cancel(reason="the stream can't continue")


@attrs.frozen
class _FeedEvent:
    """An event for the client, and where it is once it has got it; None: where it was."""

    name: str
    document: Document
    position: Position | None = None
    skip: int = 0


def _name(entry: JournalEntry | Resync, before: Position) -> str:
    """Return what names an event: the same one has the same name after a reconnect."""
    if entry.seq is not None:
        return f"{entry.session_id}_{entry.seq}"
    return f"{entry.session_id}_{before.seq}_{getattr(entry, 'offset', milliseconds(entry.time))}"


def _numbered(
    name: str, documents: Sequence[Document], after: Position, before: Position | None = None
) -> list[_FeedEvent]:
    """Return the documents of one event, each with where the client is after it."""
    last = len(documents) - 1
    return [
        _FeedEvent(
            f"evt_{name}_{number}",
            document,
            after if number == last else before,
            0 if number == last else number + 1,
        )
        for number, document in enumerate(documents)
    ]


@attrs.define(eq=False)
class _SessionsOfTree:
    """The messages of a session and its sub-agents, each from when the client gets its first event."""

    _reads: EngineReads
    # The client knows nothing of a turn that runs already.
    is_new: bool
    _of: dict[SessionId, SessionMessages] = attrs.field(factory=dict[SessionId, SessionMessages], init=False)

    async def open(self, session_id: SessionId, seq: int) -> list[Document]:
        """Return what a new client must know of a session before the events after *seq*. A checkpoint."""
        record = await self._reads.record(session_id)
        view = self._of[session_id] = SessionMessages(session_id)
        await to_thread(view.fold, record.events[:seq])
        return view.current() if self.is_new and view.status["type"] != "idle" else []

    async def take(self, entry: JournalEntry | Resync) -> list[Document]:
        """Return what the client is events of the next event. A checkpoint where the record has to be read."""
        documents: list[Document] = []
        if isinstance(entry, Resync):
            self._of.clear()
            self.is_new = True
            return await self.open(entry.session_id, entry.seq)
        if isinstance(entry, _OF_SESSION):
            info = session_document(row_of(await self._reads.record(entry.session_id)))
            name = "session.created" if isinstance(entry, SessionCreated) else "session.updated"
            documents.append({"type": name, "properties": {"sessionID": entry.session_id, "info": info}})
        if entry.session_id not in self._of:
            seq = getattr(entry, "after", None) if entry.seq is None else entry.seq - 1
            if seq is None:
                return []
            documents += await self.open(entry.session_id, seq)
        return documents + self._of[entry.session_id].take(entry)
