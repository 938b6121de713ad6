"""`SessionStream`: a watched session, across lost connections."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeAlias, cast, final

import attrs
import trio

from engine.client.link_owner import LinkOwner
from engine.client.server_link import LinkLost, ServerLink, SubscriptionNote
from engine.client.session_mirror import SessionMirror, sequence_of
from engine.client.watch_items import Offline, Online
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.watch_methods import (
    EventsNote,
    FamilySnapshot,
    HeadNote,
    MessagesParams,
    MessagesResult,
    ResyncNote,
    SessionSnapshot,
    SubscribeParams,
    WireEvent,
)
from engine.control.protocol.wire_converter import Elided
from engine.control.transport.message_transport import TransportClosed
from engine.core.errors import CursorInUse, EngineError, MessageNotFound, SessionNotFound
from engine.core.ids import MessageId, SessionId
from engine.core.messages import Message, Transcript
from engine.journal.codec import Unknown
from engine.journal.state import Descendant, Resync, SessionState, copy_with

StreamItem: TypeAlias = WireEvent | SessionHead | Resync | Offline | Online
_Note: TypeAlias = SubscriptionNote | Offline | Online

# Messages of the server that wait to be iterated over, each of at most 256 KiB. With more, the subscription ends until
# they are taken: the server then keeps what is missed, and merges it.
MOST_NOTES: Final = 32
_PAGE: Final = 200
_NOWHERE: Final = ""


@final
class SessionStream:
    """A stream of what happens in a session: `async with session.watch() as stream: async for item in stream: …`.

    After a lost connection it continues where it was, by itself: no event is missed, and none comes twice. One that is not
    iterated over costs nothing: what it misses comes merged. Made by `RemoteSession.watch`.

    Attributes:
        position: where another stream can continue (`watch(after=…)`): after the last item, or before those items of one
            message of the server that have been yielded, if there are more of them.
    """

    def __init__(self, client: LinkOwner, params: SubscribeParams) -> None:
        """Make it; entering it subscribes."""
        self.position: str | None = params.after or None
        self._client = client
        self._params = params
        self._session_id = SessionId(params.session_id)
        self._mirror = SessionMirror(self._session_id)
        self._link: ServerLink | None = None
        self._sub: str | None = None
        # Where to subscribe next: after the last note that was received. None: as at first.
        self._received: str | None = None
        self._seq: int | None = None
        self._doubtful_seq: int | None = None
        self._notes: deque[_Note] = deque()
        self._current: _Note | None = None
        self._items: deque[StreamItem] = deque()
        self._failures = 0
        self._failure: EngineError | None = None
        self._is_offline = False
        self._is_in_use = False
        self._is_closed = False
        self._woken = trio.Event()

    async def __aenter__(self) -> Self:
        """Subscribe, unless the connection is lost at the moment. A checkpoint. Raises `SessionNotFound` and others.

        What is done inside of the block is seen as events: the snapshot that the stream begins with is taken before.
        """
        await self._subscribe()
        while self._params.after == _NOWHERE and self._received is None and self._sub is not None:
            await self._wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the subscription. Not a checkpoint: the server learns it a moment later."""
        self._is_closed = True
        self._leave()

    @property
    def state(self) -> SessionState | None:
        """The session's state after the last item; None: it is not known, since the stream began in its middle."""
        return self._mirror.states.get(self._session_id)

    @property
    def states(self) -> Mapping[SessionId, SessionState]:
        """The states of the session and of those of its sub-agents whose turn is open, as far as they are known."""
        return self._mirror.states

    def __aiter__(self) -> Self:
        """Return itself."""
        return self

    async def __anext__(self) -> StreamItem:
        """Return the next item. A checkpoint; if cancelled, it is returned next time.

        Raises `SessionNotFound` and what ends the client, such as `Unauthorized`.
        """
        if self._is_in_use:
            raise CursorInUse("another task iterates over this stream: watch the session a second time")
        self._is_in_use = True
        try:
            await trio.lowlevel.checkpoint()
            while not self._items:
                await self._fill()
        finally:
            self._is_in_use = False
        return self._take()

    # -- taking --------------------------------------------------------------------------------

    def _take(self) -> StreamItem:
        """Return the next item, and follow it. Not a checkpoint."""
        item = self._items.popleft()
        if isinstance(item, (SessionHead, Offline, Online)):
            return item
        if isinstance(item, Resync):
            self._mirror.reset(item)
            verdict = "ok"
        else:
            verdict = self._mirror.apply(item)
            self._client.unknown_events += isinstance(item, Unknown)
        if not self._items and isinstance(self._current, (EventsNote, ResyncNote)):
            self.position = _position_of(self._current)
        if verdict != "ok":
            self._client.healed += verdict == "broken"
            self._take_snapshot()
        return item

    async def _fill(self) -> None:
        """Do the next thing on the way to an item. A checkpoint."""
        if self._is_closed:
            raise StopAsyncIteration
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._notes:
            await self._open_note(self._notes[0])
        elif self._sub is None:
            await self._subscribe()
        else:
            await self._wait()

    async def _wait(self) -> None:
        """Wait for something to happen. A checkpoint."""
        self._woken = trio.Event()
        await self._woken.wait()

    async def _open_note(self, note: _Note) -> None:
        """Get the items of a note. A checkpoint for a snapshot; if cancelled, it is opened next time."""
        items: Sequence[StreamItem]
        match note:
            case HeadNote():
                items = [note.head]
            case EventsNote():
                items = note.events
            case ResyncNote():
                items = await self._whole(note.snapshot)
            case _:
                items = [note]
        # Meanwhile another snapshot may have been asked for, which has dropped this one.
        if self._notes and self._notes[0] is note:
            self._notes.popleft()
            self._current = note
            self._items.extend(items)
            if isinstance(note, EventsNote) and not items:
                self.position = note.position

    # -- subscribing ---------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        """Subscribe, from where it is. A checkpoint; if cancelled, it is tried again next time."""
        if not self._client.is_online and not self._is_offline:
            self.lost(self._client.end)
            return
        link = await self._client.wait_online()
        params = self._params
        if self._received is not None:
            params = attrs.evolve(params, after=self._received, at="now")
        try:
            await link.subscribe(params, self)
        except LinkLost:
            return
        except Refusal as refusal:
            if refusal.kind not in {"rate_limited", "overloaded"}:
                raise
            await trio.sleep(1)

    def _leave(self) -> None:
        """End the subscription. Not a checkpoint."""
        if self._sub is not None and self._link is not None:
            self._link.unsubscribe(self._sub)
        self._sub = self._link = None

    def _take_snapshot(self) -> None:
        """Begin again with a snapshot. Not a checkpoint."""
        self._leave()
        self._notes = deque(note for note in self._notes if isinstance(note, (Offline, Online)))
        self._items.clear()
        self._received, self._seq, self._doubtful_seq = _NOWHERE, None, None
        self._woken.set()

    # -- what a link calls ---------------------------------------------------------------------

    def subscribed(self, link: ServerLink, sub: str) -> None:
        """The subscription begins. Not a checkpoint."""
        self._link, self._sub = link, sub
        if self._is_offline:
            self._is_offline = False
            self._add(Online(is_new_server=self._client.has_new_server))
        self._woken.set()

    def receive(self, note: SubscriptionNote) -> None:
        """Take a notification. Not a checkpoint."""
        self._add(note)
        match note:
            case EventsNote():
                self._received = note.position
                self._note_sequence(note.events)
            case ResyncNote():
                self._received = note.snapshot.position
                self._seq = note.snapshot.sessions[0].state.seq
            case _:
                return
        self._failures, self._doubtful_seq = 0, None
        if len(self._notes) >= MOST_NOTES:
            # It goes on from there once they are taken.
            self._leave()

    def check_head(self, seq: int | None) -> None:
        """Compare the last event with the server's. Not a checkpoint."""
        if seq is None:
            # The session was closed there: it can still be watched, by another subscription.
            self._sub = self._link = None
            self._woken.set()
        elif self._seq in {None, seq}:
            self._doubtful_seq = None
        elif self._doubtful_seq == self._seq:
            # As at the last tick, and nothing has come since: so nothing was on its way.
            self._client.healed += 1
            self._take_snapshot()
        else:
            self._doubtful_seq = self._seq

    def damaged(self, error: EngineError) -> None:
        """A notification can't be read. Not a checkpoint."""
        self._failures += 1
        if self._failures > 1:
            # Not even a snapshot: it would come again and again.
            self._failure = error
        self._take_snapshot()

    def lost(self, end: TransportClosed) -> None:
        """The connection is lost. Not a checkpoint."""
        self._sub = self._link = None
        if not self._is_offline:
            self._is_offline = True
            self._add(Offline(code=end.code, reason=end.reason))

    def _add(self, note: _Note) -> None:
        self._notes.append(note)
        self._woken.set()

    def _note_sequence(self, events: Sequence[WireEvent]) -> None:
        for event in events:
            match event:
                case Elided():
                    continue
                case Unknown():
                    seq, session_id = sequence_of(event)
                case _:
                    seq, session_id = event.seq, event.session_id
            if session_id == self._session_id and seq is not None:
                self._seq = seq

    # -- snapshots -----------------------------------------------------------------------------

    async def _whole(self, snapshot: FamilySnapshot) -> Sequence[StreamItem]:
        """Return a snapshot with the transcripts, which the server sends in pages. A checkpoint."""
        await trio.lowlevel.checkpoint()
        root, *below = snapshot.sessions
        try:
            older = await self._messages(self._session_id, snapshot.older) if snapshot.older is not None else []
            state = copy_with(root.state, transcript=Transcript((*older, *snapshot.messages)))
            descendants = [await self._descendant(each) for each in below]
        except (MessageNotFound, SessionNotFound):
            # The history was replaced a moment ago.
            self._take_snapshot()
            return ()
        return [
            Resync(
                session_id=self._session_id,
                epoch=self._client.server.epoch,
                seq=state.seq,
                state=state,
                descendants=tuple(descendants),
                open_questions=snapshot.asked,
            )
        ]

    async def _descendant(self, snapshot: SessionSnapshot) -> Descendant:
        state = snapshot.state
        if snapshot.messages:
            # It may have gone on meanwhile; what came later follows as events.
            messages = (await self._messages(state.session_id, None))[: snapshot.messages]
            state = copy_with(state, transcript=Transcript(messages))
        return Descendant(state=state, depth=snapshot.depth, call_id=snapshot.call_id)

    async def _messages(self, session_id: SessionId, before: MessageId | None) -> list[Message]:
        """Return all messages before one; None: all. A checkpoint."""
        messages: list[Message] = []
        limit = _PAGE
        while True:
            params = MessagesParams(session_id=session_id, before=before, limit=limit)
            try:
                page = cast("MessagesResult", await self._client.send("messages", params))
            except Refusal as refusal:
                # Images make messages large.
                if refusal.kind != "too_large" or limit == 1:
                    raise
                limit = max(1, limit // 4)
                continue
            messages[:0] = page.messages
            if not page.more or not page.messages:
                return messages
            before = page.messages[0].id


def _position_of(note: EventsNote | ResyncNote) -> str:
    return note.position if isinstance(note, EventsNote) else note.snapshot.position
