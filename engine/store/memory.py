"""The store in memory: a list of events per session."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from engine.core.events import Durable
from engine.core.ids import SessionId

# Named as SQLite names it, in the place of a file's path.
MEMORY: Final = ":memory:"


@attrs.define(eq=False)
class MemoryStore:
    """Keeps the events of all sessions in memory. May be shared by engines that follow one another."""

    epoch: str = attrs.field(factory=lambda: secrets.token_hex(8))
    _events: dict[SessionId, list[Durable]] = attrs.field(factory=dict[SessionId, list[Durable]], init=False)

    def put(self, event: Durable) -> None:
        """Keep *event*. Not a checkpoint."""
        self._events.setdefault(event.session_id, []).append(event)

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        """Return: what was put is as durable as it gets. Always a checkpoint."""
        await trio.lowlevel.checkpoint()

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        """Return the events of a session. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return tuple(self._events.get(session_id, ()))

    async def aclose(self) -> None:
        """Do nothing. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
