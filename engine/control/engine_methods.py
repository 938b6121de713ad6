"""`EngineMethods`: every method of the protocol over an engine, and where subscriptions begin."""

from __future__ import annotations

import secrets
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import trio

from engine.control.control_methods import Caller, Followed
from engine.control.engine_changes import EngineChanges
from engine.control.engine_lookups import EngineLookups
from engine.control.engine_reads import EngineReads, SessionRecord, head_of, status_of
from engine.control.protocol.recent_keys import RecentKeys
from engine.control.protocol.server_methods import ServerStatusResult
from engine.control.protocol.watch_methods import (
    FamilySnapshot,
    SessionSnapshot,
    SnapshotParams,
    SubscribeParams,
    SubscribeResult,
    WatchParams,
)
from engine.control.protocol.wire_converter import Params
from engine.control.session_export import Format, export_session
from engine.control.session_list import SessionListWatch
from engine.control.uploads import Uploads
from engine.core.errors import EngineError, RequestNotFound
from engine.core.ids import CallId, RequestId, SessionId, TurnId
from engine.core.messages import Transcript
from engine.journal.cursors import follow
from engine.journal.position import Position, decode_position, encode_position
from engine.journal.state import Resync, SessionState, copy_with
from engine.session.answer_delivery import check_unanswered
from engine.session.engine import engine_runtime
from engine.session.turn_start import cancel_turn

if TYPE_CHECKING:
    from engine.journal.cursors import Cursor
    from engine.journal.log import JournalEntry
    from engine.session.engine import Engine
    from engine.session.session_watch import Watch

# How long a watched session may be open here before its subscribers get live events.
_LOOK_AGAIN: Final = 0.5


@final
class EngineMethods:
    """The methods that are not about connections.

    Attributes:
        epoch: the life of the engine's store.
        uploads: what clients have sent ahead.
    """

    def __init__(self, engine: Engine) -> None:
        """Serve an open engine."""
        self._engine = engine
        self._runtime = engine_runtime(engine)
        self._reads = EngineReads(engine)
        self._lookups = EngineLookups(engine, self._reads)
        self.uploads: Uploads = Uploads(now=trio.current_time, random=secrets.token_bytes)
        self._changes = EngineChanges(engine, self._reads, self.uploads)
        self._keys: dict[str, RecentKeys] = {}
        self.epoch: str = self._runtime.services.store.store.epoch

    async def run(self, method: str, params: Params, caller: Caller) -> object:
        """Return the result that the method's row names. A checkpoint. Raises errors of the engine and `Refusal`."""
        if isinstance(params, SnapshotParams):
            return await self._snapshot(params)
        handler = self._reads.handlers.get(method) or self._lookups.handlers.get(method)
        if handler is not None:
            return await handler(params)
        keys = self._keys.setdefault(caller.login.name, RecentKeys())
        return await self._changes.run(method, params, keys, caller.name)

    async def follow(self, params: SubscribeParams, caller: Caller) -> Followed:  # all may read
        """Return what a subscription is made of. A checkpoint. Raises errors of the engine."""
        record = await self._reads.record(params.session_id)
        begin = None if params.at == "now" else 0
        after = begin if params.after is None else decode_position(params.after)
        head = head_of(record)
        if record.live is not None:
            cursor = follow(record.live.journal, after)
            return Followed(cursor, SubscribeResult(sub="", head=head, mode="live"), family_snapshot)
        source = _StoredSource(self, SessionId(params.session_id), *self._stored_begin(record, after))
        return Followed(source, SubscribeResult(sub="", head=head, mode="stored"), family_snapshot)

    def _stored_begin(self, record: SessionRecord, after: Position | int | None) -> tuple[int, Resync | None]:
        """Return after which event a cursor over a stored session begins, and the snapshot before that, if it needs one."""
        state = record.state
        if after is None:
            return state.seq, None
        seq = after if isinstance(after, int) else after.seq
        is_foreign = isinstance(after, Position) and (
            after.epoch != self.epoch or after.session_id not in {"", state.session_id}
        )
        if is_foreign or not 0 <= seq <= state.seq:
            return state.seq, self._stored_resync(state)
        return seq, None

    def _stored_resync(self, state: SessionState) -> Resync:
        position = Position(session_id=state.session_id, epoch=self.epoch, seq=state.seq)
        return Resync(session_id=state.session_id, epoch=self.epoch, seq=state.seq, state=state, position=position)

    async def _snapshot(self, params: SnapshotParams) -> FamilySnapshot:
        record = await self._reads.record(params.session_id)
        if record.live is not None:
            return family_snapshot(follow(record.live.journal).snapshot(), tail=params.tail)
        return family_snapshot(self._stored_resync(record.state), tail=params.tail)

    async def export(self, session_id: str, form: Format) -> str:
        """Return a session as a document. A checkpoint. Raises errors of the engine."""
        return await export_session(self._engine, session_id, form)

    def watch(self, params: WatchParams) -> SessionListWatch:
        """Return a watched list of sessions. Not a checkpoint."""
        return SessionListWatch(self._engine, self._reads, params)

    def status(self) -> ServerStatusResult:
        """Return what the engine does; the server knows the rest. Not a checkpoint."""
        roots = [live for live in self._runtime.sessions.by_id.values() if len(live.journal.path) == 1]
        asked = [event.time for live in roots for event in live.questions.events]
        return ServerStatusResult(
            sessions=Counter(status_of(live.journal.state, "here") for live in roots),
            questions=len(asked),
            waiting_since=min(asked, default=None),
            connections=0,
            draining=False,
        )

    def check_asked(self, request_id: RequestId) -> None:
        """Raise `AlreadyAnswered`, or `RequestNotFound`, unless the question is open. Not a checkpoint."""
        roots = [live for live in self._runtime.sessions.by_id.values() if len(live.journal.path) == 1]
        if any(event.request_id == request_id for live in roots for event in live.questions.events):
            return
        for live in roots:
            check_unanswered(live, request_id)
        raise RequestNotFound(f"no open question has the id {request_id!r}")

    def is_running(self, session_id: SessionId, turn_id: TurnId) -> bool:
        """Return whether the turn runs. Not a checkpoint."""
        live = self._runtime.sessions.by_id.get(session_id)
        return live is not None and live.active is not None and live.active.journal.turn_id == turn_id

    def cancel_turn(self, session_id: SessionId, turn_id: TurnId, *, by: str) -> None:
        """Cancel the turn, if it runs. Not a checkpoint."""
        if self.is_running(session_id, turn_id):
            # The engine may be closing, which ends the turn, too.
            with suppress(EngineError):
                cancel_turn(self._runtime.sessions.by_id[session_id], turn_id, by)

    def watch_stored(self, session_id: SessionId, seq: int) -> Watch:
        """Return the durable events of a session that is not open here. Raises `ConfigError`."""
        return self._engine.watch_session(session_id, after=seq)

    def live_cursor(self, session_id: SessionId, seq: int) -> Cursor | None:
        """Return a cursor over a session that is open here; None: it is not."""
        live = self._runtime.sessions.by_id.get(session_id)
        return (
            None if live is None else follow(live.journal, Position(epoch=self.epoch, seq=seq, session_id=session_id))
        )


def family_snapshot(resync: Resync, *, tail: int = 50) -> FamilySnapshot:
    """Return *resync* as clients get it: with the newest messages of the session, and no other transcript."""
    assert resync.position is not None  # it comes from a cursor of this engine
    transcript = resync.state.transcript
    messages = tuple(transcript[-tail:]) if tail else ()
    below = [_member(each.state, depth=each.depth, call_id=each.call_id) for each in resync.descendants]
    return FamilySnapshot(
        position=encode_position(resync.position),
        sessions=(_member(resync.state, depth=0), *below),
        asked=resync.open_questions,
        messages=messages,
        older=messages[0].id if messages and len(messages) < len(transcript) else None,
    )


def _member(state: SessionState, *, depth: int, call_id: CallId | None = None) -> SessionSnapshot:
    messages = len(state.transcript)
    return SessionSnapshot(
        state=copy_with(state, transcript=Transcript()), messages=messages, depth=depth, call_id=call_id
    )


@final
class _StoredSource:
    """The durable events of a session that is not open here, from the store; live, once it is open here."""

    def __init__(self, methods: EngineMethods, session_id: SessionId, seq: int, resync: Resync | None) -> None:
        self._methods = methods
        self._resync = resync
        self._session_id = session_id
        self._seq = seq
        self._watch = methods.watch_stored(session_id, seq)
        self._live: Cursor | None = None

    @property
    def position(self) -> Position:
        """Where it is."""
        if self._live is not None:
            return self._live.position
        return Position(epoch=self._methods.epoch, seq=self._seq, session_id=self._session_id)

    async def __anext__(self) -> JournalEntry | Resync:
        """Return the next event. A checkpoint; if cancelled, it is returned next time."""
        if self._resync is not None:
            await trio.lowlevel.checkpoint()
            resync, self._resync = self._resync, None
            return resync
        while self._live is None:
            with trio.move_on_after(_LOOK_AGAIN):
                event = await self._watch.__anext__()
                self._seq = self._watch.seq
                return event
            self._live = self._methods.live_cursor(self._session_id, self._seq)
        return await self._live.__anext__()

    def try_next(self) -> JournalEntry | Resync | None:
        """Return the next event if there is one now. Not a checkpoint."""
        return None if self._live is None else self._live.try_next()
