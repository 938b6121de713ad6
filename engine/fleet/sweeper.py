"""`sweep`: what engines that have died leave in the database of a fleet.

One engine of those that sweep does it for all. It opens each session with an open turn whose lease is over: the calls of
that turn are settled, none is run again. Then it goes on with the turn, if that is marked `resume="auto"` and the session's
folder is on this machine, or ends it with a notice for its user.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
import trio

from engine.core.errors import ConfigError, SessionElsewhere, StoreError
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.foreign_calls import call_foreign
from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.fleet.recovery import take_over
from engine.journal.interrupted_turn import Takeover
from engine.session.engine import engine_runtime
from engine.store.store_protocols import AbandonedSession, Sweeping

if TYPE_CHECKING:
    from engine.session.engine import Engine
    from engine.session.turn import Turn

_log = logging.getLogger(__name__)

# Seconds between two looks: an engine of this machine that was killed is noticed that soon.
SWEEP_SECONDS: Final = 1.0
# So many turns of other engines go on here at once; the others wait.
MOST_TURNS: Final = 20
# Seconds until a session that could not be opened is tried again.
_LATER: Final = 60.0


async def sweep(eng: Engine, *, seconds: float = SWEEP_SECONDS, most_turns: int = MOST_TURNS) -> NoReturn:
    """Look after the sessions of engines that have died, until cancelled.

    Always a checkpoint. Turns that go on run in the engine's own nursery, and outlive this call. Errors are logged, and what
    failed is tried again later.

    Args:
        eng: an engine over a database. Engines of a fleet that share it may all sweep: one of them does at a time.
        seconds: between two looks.
        most_turns: how many turns go on here at once.

    Raises `ConfigError` if the store is none that engines of several machines share.
    """
    store = engine_runtime(eng).services.store.store
    if not isinstance(store, Sweeping):
        raise ConfigError(
            "only sessions in PostgreSQL can be looked after: open the engine with store='postgresql://…'"
        )
    async with trio.open_nursery() as nursery:
        sweeper = _Sweeper(eng, store, nursery, most_turns)
        while True:
            await sweeper.look()
            await trio.sleep(seconds)


@attrs.define(eq=False, repr=False)
class _Sweeper:
    """See `sweep`."""

    _engine: Engine
    _store: Sweeping
    _nursery: trio.Nursery
    _most_turns: int
    _running: int = attrs.field(default=0, init=False)
    _last_error: str = attrs.field(default="", init=False)
    # When a session that could not be opened may be tried again.
    _failed: dict[SessionId, float] = attrs.field(factory=dict[SessionId, float], init=False)

    async def look(self) -> None:
        """Look after what is abandoned now. Always a checkpoint."""
        abandoned = await self._find()
        now = trio.current_time()
        self._failed = {session_id: until for session_id, until in self._failed.items() if until > now}
        names = {session.id for session in abandoned}
        # A sub-agent is settled with the session above it. If its own turn is open after that, it comes next time.
        due = [
            session
            for session in abandoned
            if session.id not in self._failed and (session.root_id == session.id or session.root_id not in names)
        ]
        # Those for which there is no room now come next time, too.
        async with trio.open_nursery() as nursery:
            for session in due[: max(0, self._most_turns - self._running)]:
                nursery.start_soon(self._take_over, session)

    async def _find(self) -> Sequence[AbandonedSession]:
        """Return what is abandoned, if this engine looks after it. Always a checkpoint."""
        try:
            abandoned = await call_foreign("the store", self._store.abandoned_sessions)
        except StoreError as error:
            if str(error) != self._last_error:  # a database that is away would fill the log
                _log.warning("the sessions of other engines can't be looked after: %s", error)
            self._last_error = str(error)
            return ()
        self._last_error = ""
        return abandoned or ()

    async def _take_over(self, session: AbandonedSession) -> None:
        has_folder = await to_thread(Path(session.cwd).is_dir)
        takeover = Takeover(
            host=session.host,
            pid=session.pid,
            obstacle=None if has_folder else f"there is no folder {session.cwd} where it was taken over",
        )
        turn: Turn | None = None
        # What a host's functions raise, too: one session must not keep the others from being looked after.
        with ErrorBoundary() as boundary:
            turn = await take_over(self._engine, session.id, takeover)
        if boundary.error is not None and not isinstance(boundary.error, SessionElsewhere):
            _log.warning("session %s could not be taken over: %s", session.id, describe(boundary.error))
            self._failed[session.id] = trio.current_time() + _LATER
        if turn is None:
            await self._close(session.id)
            return
        self._running += 1
        self._nursery.start_soon(self._see_off, session.id, turn)

    async def _see_off(self, session_id: SessionId, turn: Turn) -> None:
        """Wait for the end of a turn, and close its session, so that any engine can open it. Always a checkpoint."""
        try:
            # It may be parked, as the engine closes.
            with ErrorBoundary():
                await turn.wait()
        finally:
            self._running -= 1
        await self._close(session_id)

    async def _close(self, session_id: SessionId) -> None:
        """Close a session, unless it is in use here. Always a checkpoint."""
        with ErrorBoundary() as boundary:
            await self._engine.close_session(session_id)
        if boundary.error is not None:
            _log.info("session %s stays open: %s", session_id, describe(boundary.error))
