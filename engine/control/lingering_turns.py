"""`LingeringTurns`: turns that are cancelled once the client that has prompted them is gone for a while.

A client is a chain of connections: of the same token, and of the same installation (`client.instance`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, final

import attrs
import trio

from engine.core.ids import SessionId, TurnId

Chain: TypeAlias = tuple[str, str]
_MOST_KEPT: Final = 100


class Turns(Protocol):
    """What is needed of the engine."""

    def is_running(self, session_id: SessionId, turn_id: TurnId) -> bool:
        """Return whether the turn runs. Not a checkpoint."""
        ...

    def cancel_turn(self, session_id: SessionId, turn_id: TurnId, *, by: str) -> None:
        """Cancel the turn, if it runs. Not a checkpoint."""
        ...


@attrs.frozen
class _Turn:
    session_id: SessionId
    turn_id: TurnId
    linger: float
    by: str


@final
class LingeringTurns:
    """The turns of all clients."""

    def __init__(self, turns: Turns, start: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
        """Make it; *start* runs a task."""
        self._turns = turns
        self._start = start
        self._of: dict[Chain, list[_Turn]] = {}
        self._waiting: dict[Chain, trio.CancelScope] = {}

    def add(self, chain: Chain, session_id: SessionId, turn_id: TurnId, *, linger: float, by: str) -> None:
        """Note a turn that *chain* has prompted. Not a checkpoint."""
        turns = [each for each in self._of.get(chain, ()) if each.turn_id != turn_id]
        if len(turns) > _MOST_KEPT:
            turns = [each for each in turns if self._turns.is_running(each.session_id, each.turn_id)]
        self._of[chain] = [*turns, _Turn(session_id, turn_id, linger, by)]

    def note_return(self, chain: Chain) -> None:
        """Keep the turns of a client that has come back. Not a checkpoint."""
        scope = self._waiting.pop(chain, None)
        if scope is not None:
            scope.cancel(reason="the client has come back")

    def note_end(self, chain: Chain) -> None:
        """Note that the last connection of *chain* has ended. Not a checkpoint."""
        turns = self._of.get(chain, ())
        if not turns:
            return
        scope = self._waiting[chain] = trio.CancelScope()
        since = trio.current_time()

        async def wait() -> None:
            with scope:
                for turn in sorted(turns, key=lambda each: each.linger):
                    await trio.sleep_until(since + turn.linger)
                    self._turns.cancel_turn(turn.session_id, turn.turn_id, by=turn.by)
                # No checkpoint since: the client has not come back.
                self._waiting.pop(chain, None)
                self._of.pop(chain, None)

        self._start(wait)
