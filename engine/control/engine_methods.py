"""`EngineMethods`: every method of the protocol over an engine, and where subscriptions begin."""

from __future__ import annotations

import secrets
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, final

import trio

from engine.control.control_methods import Caller, Followed
from engine.control.engine_changes import EngineChanges
from engine.control.engine_lookups import EngineLookups
from engine.control.engine_reads import EngineReads, first_that_fit, head_of, status_of
from engine.control.event_source import SessionSource, stored_resync
from engine.control.protocol.error_kinds import Refusal
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
from engine.control.protocol.wire_converter import Params, write_value
from engine.control.service.server_discovery import server_of_process
from engine.control.session_export import Format, export_session
from engine.control.session_list import SessionListWatch
from engine.control.session_media import Media, find_media, state_with_references, with_references
from engine.control.uploads import Uploads
from engine.core.errors import (
    EngineError,
    MessageNotFound,
    RequestNotFound,
    SessionBusy,
    SessionElsewhere,
    TurnOver,
    TurnParked,
)
from engine.core.ids import CallId, RequestId, SessionId, TurnId
from engine.core.messages import Transcript
from engine.core.threads import to_thread
from engine.journal.cursors import follow
from engine.journal.json_converter import TAGS
from engine.journal.position import Position, decode_position, encode_position
from engine.journal.state import Resync, SessionState, copy_with
from engine.session.answer_delivery import check_unanswered
from engine.session.engine import engine_runtime
from engine.session.turn_start import cancel_turn
from engine.store.store_protocols import Catalogue, ReportsHealth, Watching

if TYPE_CHECKING:
    from engine.session.engine import Engine


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

    @property
    def capabilities(self) -> Mapping[str, object]:
        """What depends on the engine's store and tools, and not on the version, by name. A client hides what is missing."""
        store = self._runtime.services.store.store
        has = {
            "undo": self._runtime.setup.snapshots is not None,
            "search": isinstance(store, Catalogue),
            "fleet": isinstance(store, Watching),
            "batch": True,
            "upload": True,
            "upload_pieces": True,
            "metrics": True,
        }
        return {name: True for name, is_there in has.items() if is_there}

    async def run(self, method: str, params: Params, caller: Caller) -> object:
        """Return the result that the method's row names. A checkpoint. Raises errors of the engine and `Refusal`."""
        if isinstance(params, SnapshotParams):
            return await self._snapshot(params)
        handler = self._reads.handlers.get(method) or self._lookups.handlers.get(method)
        if handler is not None:
            return await handler(params)
        keys = self._keys.setdefault(caller.login.name, RecentKeys(caller.login.name))
        try:
            return await self._changes.run(method, params, keys, caller.name)
        except (SessionBusy, TurnOver, TurnParked) as error:
            raise self._refusal(error, params) from error
        except SessionElsewhere as error:
            elsewhere = error
        try:
            # Not in the handler: a cancel while the server is looked up would hide what failed.
            if url := await self._server_of(elsewhere):
                elsewhere.url = url
            raise elsewhere
        finally:
            del elsewhere  # it holds this frame

    async def _server_of(self, error: SessionElsewhere) -> str | None:
        """Return the address of the engine that has a session open, if it serves the same store. A checkpoint."""
        place = self._runtime.setup.place
        if error.host != socket.gethostname() or not isinstance(place, str):
            return None
        return await to_thread(server_of_process, place, error.pid)

    def _refusal(self, error: EngineError, params: Params) -> Refusal:
        """Return *error* with the turn that is in the way: a client then knows what to wait for, or to cancel."""
        live = self._runtime.sessions.by_id.get(SessionId(getattr(params, "session_id", "")))
        # As clients see it: the end of a turn that is not in the store yet is not in there.
        state = None if live is None else live.journal.snapshot()
        turn_id = None if state is None or state.turn is None else state.turn.turn_id
        name = type(error).__name__
        if isinstance(error, TurnOver):
            return Refusal("conflict", str(error), error=name, current=turn_id)
        if isinstance(error, TurnParked):
            return Refusal("parked", str(error), error=name, turn_id=turn_id)
        status = None if state is None else TAGS[type(state.status)]
        return Refusal("busy", str(error), error=name, turn_id=turn_id, status=status)

    async def follow(self, params: SubscribeParams, caller: Caller) -> Followed:  # all may read
        """Return what a subscription is made of. A checkpoint. Raises errors of the engine."""
        record = await self._reads.record(params.session_id)
        begin = None if params.at == "now" else 0
        after = begin if params.after is None else decode_position(params.after)
        source = SessionSource(self._engine, self._reads, record, self.epoch, after)
        result = SubscribeResult(sub="", head=head_of(record), mode=record.mode)
        reason = self._resync_reason(after) if isinstance(after, Position) else ""
        return Followed(source, result, family_snapshot, reason)

    def _resync_reason(self, position: Position) -> str:
        """Return why a client would be sent a snapshot that comes with *position*."""
        if position.epoch == self.epoch:
            return "position"
        return "epoch" if position.epoch else "damaged"

    async def _snapshot(self, params: SnapshotParams) -> FamilySnapshot:
        record = await self._reads.record(params.session_id)
        if record.live is not None:
            resync = follow(record.live.journal).snapshot()
        else:
            resync = stored_resync(record, self.epoch)
        return family_snapshot(resync, tail=params.tail)

    async def export(self, session_id: str, form: Format) -> str:
        """Return a session as a document. A checkpoint. Raises errors of the engine."""
        return await export_session(self._engine, session_id, form)

    async def message(self, session_id: str, message_id: str) -> str:
        """Return one message as JSON text. A checkpoint. Raises errors of the engine."""
        record = await self._reads.record(session_id)
        for message in reversed(record.state.transcript):
            if message.id == message_id:
                return write_value(with_references(message, record.state.session_id))
        raise MessageNotFound(f"session {session_id} has no message {message_id!r}")

    async def media(self, session_id: str, media_id: str) -> Media:
        """Return an image or a file of a session. A checkpoint. Raises errors of the engine, `Refusal`."""
        record = await self._reads.record(session_id)
        media = await to_thread(find_media, record.events, media_id)
        if media is None:
            raise Refusal("not_found", f"session {session_id} has no media {media_id}", what="media")
        return media

    def watch(self, params: WatchParams) -> SessionListWatch:
        """Return a watched list of sessions. Not a checkpoint."""
        return SessionListWatch(self._engine, self._reads, params)

    def status(self) -> ServerStatusResult:
        """Return what the engine does; the server knows the rest, and asks for the questions. Not a checkpoint."""
        roots = [live for live in self._runtime.sessions.by_id.values() if len(live.journal.path) == 1]
        return ServerStatusResult(
            sessions=Counter(status_of(live.journal.state, is_parked=live.active is None) for live in roots),
            questions=0,
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

    def is_ready(self) -> bool:
        """Return whether the engine is open, and its store can be written. Not a checkpoint."""
        store = self._runtime.services.store.store
        return not self._engine.is_closed and not (isinstance(store, ReportsHealth) and store.health().failure)

    @property
    def is_closed(self) -> bool:
        """Whether the engine is closed."""
        return self._engine.is_closed

    def is_working(self) -> bool:
        """Return whether a turn runs, or files are being restored. Not a checkpoint."""
        return any(live.active is not None or live.is_reverting for live in self._runtime.sessions.by_id.values())

    def is_session_working(self, session_id: SessionId) -> bool:
        """Return whether a turn runs in a session. Not a checkpoint."""
        live = self._runtime.sessions.by_id.get(session_id)
        return live is not None and live.active is not None

    async def release_idle(self) -> None:
        """Close the sessions in which no turn runs, so that other engines can open them. A checkpoint."""
        await trio.lowlevel.checkpoint()
        for session_id, live in tuple(self._runtime.sessions.by_id.items()):
            if live.active is None and not live.is_reverting and not live.journal.is_attached:
                # Something may have begun in it meanwhile, or its hooks or the store failed: then it stays, or has been reported.
                with suppress(EngineError):
                    await self._engine.close_session(session_id)

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


def family_snapshot(resync: Resync, *, tail: int = 50) -> FamilySnapshot:
    """Return *resync* as clients get it: with the newest messages of the session, and no other transcript.

    At most *tail* messages, and so many of them as one message of the protocol has room for.
    """
    assert resync.position is not None  # it comes from a cursor of this engine
    transcript = resync.state.transcript
    newest_first = reversed(transcript[-tail:] if tail else ())
    short = first_that_fit(with_references(message, resync.session_id) for message in newest_first)
    messages = tuple(reversed(short))
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
        state=copy_with(state_with_references(state), transcript=Transcript()),
        messages=messages,
        depth=depth,
        call_id=call_id,
    )
