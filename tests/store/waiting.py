"""A flush that waits, while the loop goes on: shown without a clock, since machines stand still at times."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from engine.core.events import Durable
from engine.core.protocols import Store

# Of a store whose flush is to wait. Longer than any machine stands still, and over before the test's own time is up.
PATIENCE = 30.0
_BEATS = 20


@asynccontextmanager
async def waiting_flush(store: Store, event: Durable) -> AsyncGenerator[None]:
    """Put *event* and flush it in a task, which waits when the block begins, and has succeeded when it ends.

    The block has to remove what the flush waits for. A flush that stopped the loop would keep it from doing so, and
    fail when the store's patience is over.
    """
    is_flushed = False

    async def flush() -> None:
        nonlocal is_flushed
        await store.flushed(event.session_id, event.seq or 0)
        is_flushed = True

    store.put(event)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flush)
        for _ in range(_BEATS):
            await trio.sleep(0.01)
        assert not is_flushed
        yield
    assert is_flushed
