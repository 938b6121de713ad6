"""The context keeper that leaves the transcript alone."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from engine.messages import Message
from engine.ports import ContextView


@attrs.frozen
class NoKeeper:
    """Prunes, collapses and compacts nothing; an overflow then ends the turn with `prompt_too_long`."""

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    def wants_compaction(self, view: ContextView) -> bool:
        """Return False."""
        return False

    async def compact(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Return None. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return None

    def is_blocked(self, view: ContextView) -> bool:
        """Return False."""
        return False
