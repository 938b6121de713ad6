"""The methods of the protocol that change something: what they do to an engine. No transport, no connection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast, final

import attrs
import trio

from engine.control.engine_reads import EngineReads, Handler, row_of
from engine.control.protocol import answer_methods as an
from engine.control.protocol import server_methods as sv
from engine.control.protocol import session_methods as se
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.recent_keys import KEPT_SECONDS, KeyedCall, RecentKeys
from engine.control.protocol.wire_converter import BadParams, Params, write_value
from engine.control.turn_actions import TurnActions, settings_with
from engine.control.uploads import Uploads
from engine.core.errors import SessionNotFound
from engine.core.foreign_calls import call_foreign
from engine.core.ids import SessionId
from engine.session.engine import engine_runtime
from engine.store.store_protocols import Retention

if TYPE_CHECKING:
    from engine.session.engine import Engine
    from engine.session.session import Session

# Their keys are input ids, which the journal keeps.
_KEYED_BY_JOURNAL: Final = frozenset({"prompt", "queue", "steer"})


@attrs.define(eq=False)
class _Running:
    """A keyed request that is being run."""

    over: trio.Event = attrs.field(factory=trio.Event)
    error: Exception | None = None


@final
class EngineChanges:
    """Runs the methods that change something."""

    def __init__(self, engine: Engine, reads: EngineReads, uploads: Uploads) -> None:
        """Change an open engine."""
        self._engine = engine
        self._reads = reads
        self._runtime = engine_runtime(engine)
        self.turns: TurnActions = TurnActions(engine, reads, uploads)
        self._running: dict[KeyedCall, _Running] = {}

    def handlers(self, by: str = "", keys: RecentKeys | None = None) -> Mapping[str, Handler]:
        """Return the methods by name. *by* names the client, in events; *keys* are those of its token."""
        own_keys = RecentKeys() if keys is None else keys
        return {
            **self.turns.handlers(by),
            "session.create": cast("Handler", partial(self.create, keys=own_keys)),
            "session.rename": cast("Handler", self.rename),
            "session.fork": cast("Handler", partial(self.fork, keys=own_keys)),
            "session.delete": cast("Handler", self.delete),
            "session.close": cast("Handler", self.close),
            "undo": cast("Handler", self.undo),
            "redo": cast("Handler", self.redo),
            "rewind": cast("Handler", self.rewind),
            "restore": cast("Handler", self.restore),
            "compact.undo": cast("Handler", self.undo_compaction),
            "model.set": cast("Handler", partial(self.set_model, by=by)),
            "session.configure": cast("Handler", partial(self.configure, by=by)),
        }

    async def run(self, method: str, params: Params, keys: RecentKeys, by: str = "") -> object:
        """Run a method of `handlers`, once for each key. A checkpoint.

        A keyed request is run by the engine, not by this task: a client whose connection was lost repeats it, and must
        not find half of it. So cancelling this only ends the wait.
        """
        key = cast("str | None", getattr(params, "key", None))
        if key is None or method in _KEYED_BY_JOURNAL:
            return await self.handlers(by, keys)[method](params)
        while True:
            self._runtime.services.tasks.check_open()
            call, is_first = keys.begin(method, key, write_value(params), self._runtime.setup.clock.now())
            if call.result is not None:
                return call.result
            if is_first:
                self._running[call] = _Running()
                work = partial(self._run_keyed, method, params, keys, call, by)
                self._runtime.services.tasks.start(work, name=f"{method} {key}")
            running = self._running[call]
            await running.over.wait()
            # Who repeats a request that has failed tries it again.
            if is_first and running.error is not None:
                raise running.error

    async def _run_keyed(self, method: str, params: Params, keys: RecentKeys, call: KeyedCall, by: str) -> None:
        running = self._running[call]
        try:
            call.result = await self.handlers(by, keys)[method](params)
        except Exception as error:  # noqa: BLE001  # raised by `run`, in the task of the request
            running.error = error
        finally:
            if call.result is None:
                keys.fail(method, str(getattr(params, "key", "")))
            del self._running[call]
            running.over.set()

    # -- sessions ----------------------------------------------------------------------------

    async def create(self, params: se.SessionCreateParams, keys: RecentKeys) -> se.SessionCreateResult:
        """Make a session, or find the one that was made under the key. A checkpoint."""
        session = await self._engine.create_session(
            session_id=await self._id_of("session.create", params.key, keys),
            cwd=params.cwd,
            model=params.model,
            agent=params.agent,
            settings=None
            if params.settings is None
            else settings_with(self._runtime.setup.defaults.settings, params.settings),
        )
        # Not again, if the request is repeated after a restart.
        if params.title is not None and not session.state.titled_by:
            await session.rename(params.title)
        return await self._created(session)

    async def fork(self, params: se.SessionForkParams, keys: RecentKeys) -> se.SessionCreateResult:
        """Make a session that begins with the history of another, or find it by the key. A checkpoint."""
        fork_id = await self._id_of("session.fork", params.key, keys)
        session = await self._engine.fork_session(
            params.session_id, at=params.at, model=params.model, agent=params.agent, fork_id=fork_id
        )
        return await self._created(session)

    async def _id_of(self, method: str, key: str, keys: RecentKeys) -> str:
        """Return the id of the session that is made under a key, or was within the last hour. A checkpoint."""
        now = self._runtime.setup.clock.now()
        present, before = keys.session_ids(method, key, now)
        try:
            earlier = await self._reads.record(before)
        except SessionNotFound:
            return present
        return before if now - earlier.events[0].time < KEPT_SECONDS else present

    async def _created(self, session: Session) -> se.SessionCreateResult:
        row = row_of(await self._reads.record(session.id))
        return se.SessionCreateResult(row=row, seq=row.seq)

    async def rename(self, params: se.SessionRenameParams) -> se.SeqResult:
        """Set the title. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        await session.rename(params.title)
        return se.SeqResult(seq=session.state.seq)

    async def delete(self, params: se.SessionDeleteParams) -> se.SessionDeleteResult:
        """Remove a session for good. A checkpoint."""
        if params.confirm != params.session_id:
            raise BadParams("confirm", "expected the id of the session to delete")
        store = self._runtime.services.store.store
        if not isinstance(store, Retention):
            raise Refusal("unsupported", "this engine's store removes no sessions")
        await self._engine.close_session(params.session_id)
        ids = await call_foreign("the store", store.delete, SessionId(params.session_id))
        if not ids:
            raise SessionNotFound(f"there is no session {params.session_id!r}")
        for session_id in ids:
            # Who watches the list has seen it close before it was removed.
            self._runtime.services.changes.note(session_id)
        return se.SessionDeleteResult(ids=tuple(ids))

    async def close(self, params: se.SessionParams) -> se.SessionCloseResult:
        """Close a session. A checkpoint."""
        return se.SessionCloseResult(released=await self._engine.close_session(params.session_id))

    async def configure(self, params: se.SessionConfigureParams, by: str = "") -> se.SeqResult:
        """Use another permission profile. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        await self._engine.use_profile(session, params.profile, by=by)
        return se.SeqResult(seq=session.state.seq)

    async def set_model(self, params: sv.ModelSetParams, by: str = "") -> se.SeqResult:
        """Use another model. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        await session.switch_model(params.model, by=by)
        return se.SeqResult(seq=session.state.seq)

    # -- files and history -------------------------------------------------------------------

    async def undo(self, params: an.UndoParams) -> an.UndoResult:
        """Undo the newest turn. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        undone = await session.files.undo(force=params.force)
        return an.UndoResult(
            turn_id=undone.turn_id,
            inputs=undone.inputs,
            files=undone.files,
            left=undone.left,
            remarks=(*((undone.note,) if undone.note else ()), *undone.remarks),
            seq=session.state.seq,
        )

    async def redo(self, params: an.UndoParams) -> an.UndoResult:
        """Redo what was undone or rewound last. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        redone = await session.files.redo(force=params.force)
        remarks = (redone.note,) if redone.note else ()
        return an.UndoResult(turn_id=redone.turn_id, files=redone.files, remarks=remarks, seq=session.state.seq)

    async def rewind(self, params: an.RewindParams) -> an.UndoResult:
        """Undo a turn and all later ones. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        rewound = await session.files.rewind(params.turn_id, scope=params.scope, force=params.force)
        return an.UndoResult(
            turn_id=rewound.turns[-1],
            turns=rewound.turns,
            inputs=rewound.inputs,
            files=rewound.files,
            left=rewound.left,
            remarks=rewound.remarks,
            seq=session.state.seq,
        )

    async def restore(self, params: an.RestoreParams) -> an.RestoreResult:
        """Restore files. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        paths = await session.files.restore(params.paths, turn_id=params.turn_id, force=params.force)
        return an.RestoreResult(paths=paths)

    async def undo_compaction(self, params: se.SessionParams) -> se.SeqResult:
        """Restore the history from before the last summary. A checkpoint."""
        session = await self._engine.open_session(params.session_id)
        await session.context.undo_compaction()
        return se.SeqResult(seq=session.state.seq)
