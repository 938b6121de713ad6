"""Locks by name, for what all sessions of one engine share: a file that two of them edit, say."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

import attrs
import trio


@attrs.define(eq=False, repr=False)
class Locks:
    """Makes a lock when its name is first used, and drops it when no task holds it or waits for it."""

    _locks: WeakValueDictionary[str, trio.Lock] = attrs.field(factory=WeakValueDictionary[str, trio.Lock], init=False)

    @asynccontextmanager
    async def hold(self, *names: str) -> AsyncGenerator[None]:
        """Hold the locks of these names, first come, first served. Entering is a checkpoint; a cancel leaves none held.

        They are always taken in the same order, so that two tasks which need the same locks can't deadlock. The caller
        must hold none of them already.
        """
        async with AsyncExitStack() as held:
            for name in sorted(set(names)):
                await held.enter_async_context(self._locks.setdefault(name, trio.Lock()))
            yield

    def __len__(self) -> int:
        """Return how many are held or waited for."""
        return len(self._locks)
