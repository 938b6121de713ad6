"""The session of an attempt: a new one, or the one of an earlier attempt that did not come to its end.

Nothing is done twice: a session whose turn has ended is only looked at, and one with saved steps goes on after the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import attrs

from engine.batch.attempt_outcome import AttemptFailed, is_final
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_task import short_hash
from engine.core.errors import SessionNotFound
from engine.core.events import CallSettled, TurnEnded
from engine.core.messages import AssistantMessage, Usage
from engine.core.settings import Settings
from engine.core.value_base import Value
from engine.journal.state import SessionState
from engine.session.engine import Engine
from engine.session.session import Session

# begun: it has saved steps. ended: its turn has a result. empty: there is nothing in it that would be done twice.
Progress = Literal["empty", "begun", "ended"]

# A runner that is killed before the first step leaves an empty session; this often, something else is wrong.
_MAX_EMPTY: Final = 64


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttemptSession(Value):
    """An open session for an attempt.

    Attributes:
        session: its handle.
        progress: how far it is.
        is_own: it is this attempt's, not that of one that has a row.
        denied: how many calls were denied in it before.
    """

    session: Session
    progress: Progress
    is_own: bool = True
    denied: int = 0

    def spent(self, attempt: Attempt) -> tuple[Usage, float, int]:
        """Return the tokens, the cost and the steps of its turns, without what earlier rows have of them."""
        results = [event.result for event in self.session.events() if isinstance(event, TurnEnded)]
        usage, cost = sum((result.usage for result in results), Usage()), sum(result.cost for result in results)
        if not self.is_own:
            usage, cost = _difference(usage, attempt.recorded), max(0.0, cost - attempt.recorded_cost)
        return usage, cost, sum(result.steps for result in results)


async def find_session(eng: Engine, attempt: Attempt, settings: Settings) -> AttemptSession | None:
    """Open the session that the attempt continues; None: there is none. Always a checkpoint.

    Raises what `Engine.open_session` does.
    """
    if attempt.fresh:
        return None
    # A runner that was killed has left no row of its attempt, but may have left a session.
    for name in (attempt.session, *session_ids(attempt)):
        if not name:
            continue
        is_own = name != attempt.session
        try:
            session = await eng.open_session(
                name, settings=settings, model=attempt.task.model or None, agent=attempt.task.agent or None
            )
        except SessionNotFound:
            if is_own:
                return None
            continue
        progress = progress_of(session.state)
        if progress != "empty":
            denied = sum(
                isinstance(event, CallSettled) and event.settlement.status == "denied" for event in session.events()
            )
            return AttemptSession(session=session, progress=progress, is_own=is_own, denied=denied if is_own else 0)
        await eng.close_session(session.id)
    return None


async def create_session(eng: Engine, attempt: Attempt, settings: Settings, folder: str) -> AttemptSession:
    """Return a new session. Always a checkpoint. Raises what `Engine.create_session` does."""
    for name in session_ids(attempt):
        session = await eng.create_session(
            cwd=folder,
            settings=settings,
            model=attempt.task.model or None,
            agent=attempt.task.agent or None,
            session_id=name,
        )
        if not session.state.turns and session.state.turn is None:
            return AttemptSession(session=session, progress="empty")
        # A runner was killed before its first step, or everything is to start over.
        await eng.close_session(session.id)
    raise AttemptFailed("store", f"there are {_MAX_EMPTY} sessions of this attempt already")


def session_ids(attempt: Attempt) -> Iterator[str]:
    """Yield the ids that sessions of this attempt have, in the order in which they are used."""
    # The content of the task, too: what a killed runner has begun is of no use to a line that was changed since.
    name = short_hash("\0".join((attempt.task.id, attempt.task.hash, attempt.config_hash)))
    first = f"batch_{attempt.batch_id}_{name}_{attempt.number}"
    yield first
    for number in range(2, _MAX_EMPTY + 1):
        yield f"{first}_{number}"


def progress_of(state: SessionState) -> Progress:
    """Tell how far a session is."""
    if state.turn is None and state.last_result is not None and is_final(state.last_result):
        return "ended"
    if state.turn is not None or any(isinstance(message, AssistantMessage) for message in state.transcript):
        return "begun"
    return "empty"


def _difference(one: Usage, other: Usage) -> Usage:
    return Usage(**{name: max(0, getattr(one, name) - getattr(other, name)) for name in _USAGE})


_USAGE: Final = tuple(field.name for field in attrs.fields(Usage))
