"""The store in memory: a list of events per session."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from engine.core.events import Durable
from engine.core.ids import SessionId

# SQLite's name for it, used in place of a file's path.
MEMORY: Final = ":memory:"


@attrs.define(eq=False, repr=False)
class MemoryStore:
    """Keeps the events of all sessions in memory. Engines may share it one after the other."""

    epoch: str = attrs.field(factory=lambda: secrets.token_hex(8))
    _events: dict[SessionId, list[Durable]] = attrs.field(factory=dict[SessionId, list[Durable]], init=False)

    def put(self, event: Durable) -> None:
        """Store *event*. Not a checkpoint."""
        self._events.setdefault(event.session_id, []).append(event)

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        """Return at once: what was put can't get more durable. Always a checkpoint."""
        await trio.lowlevel.checkpoint()

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        """Return the events of a session. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return tuple(self._events.get(session_id, ()))

    async def aclose(self) -> None:
        """Do nothing. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
