"""`Watch`: the events of a session that may be open in another engine, as they reach the store."""

from __future__ import annotations

from collections import deque
from typing import final

import attrs
import trio

from engine.core.errors import ConfigError
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.protocols import Store
from engine.store.store_protocols import Watching


@final
@attrs.define(eq=False)
class Watch:
    """The durable events of one session of any engine: `async for event in watch`. The iteration never ends by itself.

    Events of sub-agents are not among them; `SessionCreated.parent_id` connects the sessions.
    """

    _store: Watching
    _session_id: SessionId
    _seq: int
    _waiting: deque[Durable] = attrs.field(factory=deque[Durable], init=False)

    @classmethod
    def of(cls, store: Store, session_id: SessionId, after: int) -> Watch:
        """Return a watch of a session in *store*. Raises `ConfigError` if the store can't be watched."""
        if not isinstance(store, Watching):
            raise ConfigError(
                "this store can't be watched: open_engine(store=…) takes the path of a file, or the URL of a database"
            )
        return cls(store, session_id, after)

    def __aiter__(self) -> Watch:
        """Return itself."""
        return self

    async def __anext__(self) -> Durable:
        """Return the next event. Always a checkpoint; if cancelled, it is returned next time.

        Raises `JournalCorrupt`, `StoreError`.
        """
        if self._waiting:
            # Otherwise a watcher that reads a long session from its start would block the event loop.
            await trio.lowlevel.checkpoint()
        else:
            self._waiting.extend(await self._store.wait_for_events(self._session_id, self._seq))
        event = self._waiting.popleft()
        assert event.seq is not None
        self._seq = event.seq
        return event

    @property
    def seq(self) -> int:
        """The number of the event returned last, to continue from later."""
        return self._seq
