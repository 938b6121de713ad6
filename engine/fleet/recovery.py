"""What an engine does with a session whose engine has died: it settles what was cut off, and may go on with the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trio.lowlevel import enable_ki_protection

from engine.core.events import TurnEnded
from engine.core.ids import MessageId, SessionId
from engine.journal.closing_events import closing_events
from engine.session.engine import engine_runtime
from engine.session.session_config import SessionOptions
from engine.session.stored_sessions import open_stored

if TYPE_CHECKING:
    from engine.journal.interrupted_turn import Takeover
    from engine.session.engine import Engine
    from engine.session.live_session import LiveSession
    from engine.session.turn import Turn


async def take_over(eng: Engine, session_id: SessionId, takeover: Takeover) -> Turn | None:
    """Open a session whose engine has died; return its turn if it goes on here, in the engine's nursery.

    Always a checkpoint. If cancelled, or if an error is raised, no turn goes on. The session stays open in this engine
    unless it could not be opened. Raises what `Engine.open_session` raises.
    """
    live, is_new = await open_stored(engine_runtime(eng), session_id, SessionOptions(), takeover=takeover)
    if not is_new:
        return None
    try:
        await live.own_hooks.run_start(live.deps.ids, "resumed", live.deps.models[0].info.name)
        # It is open by now: this returns its handle.
        session = await eng.open_session(session_id)
        turn = live.journal.state.turn
        if turn is None or turn.step is not None or live.active is not None:
            return None
        return eng.resume_turn(session)
    except BaseException:  # re-raised: a turn that no engine runs, and that waits for no answer, must not stay open
        _end_interrupted(live)
        raise


@enable_ki_protection
def _end_interrupted(live: LiveSession) -> None:
    """End a turn that was left open to be resumed, and was not. Not a checkpoint."""
    turn = live.journal.state.turn
    if turn is None or turn.step is not None or live.active is not None or live.journal.is_closed:
        return
    for event in closing_events(live.journal.state, MessageId(f"{turn.turn_id}_results")):
        assert isinstance(event, TurnEnded)  # its step was closed as the session was opened
        live.journal.append(event, turn_id=turn.turn_id)
