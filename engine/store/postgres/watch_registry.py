"""Who watches what: rows with a time of expiry, so that only sessions with watchers are announced."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, cast

import attrs

from engine.core.ids import SessionId
from engine.store.postgres.table_writer import PostgresTableWriter
from engine.store.write_commands import WriteCommand, WriteTransaction

WATCH_EXPIRES: Final = 30.0
# Registered again by then, as long as it is watched.
_RENEWED_AFTER: Final = WATCH_EXPIRES / 3


@attrs.define(eq=False, repr=False)
class RegisterWatch(WriteCommand):
    """Registers that this store watches sessions, for some time."""

    session_ids: Sequence[SessionId]

    def run(self, at: WriteTransaction) -> None:
        """Register them."""
        cast("PostgresTableWriter", at.tables).watch(at.owner, self.session_ids, WATCH_EXPIRES)


@attrs.define(eq=False, repr=False)
class WatchRegistry:
    """When which session was registered. Nothing here is a checkpoint."""

    _registered: dict[SessionId, float] = attrs.field(factory=dict[SessionId, float], init=False)

    def is_registered(self, session_id: SessionId) -> bool:
        """Return whether its row has not expired."""
        return self._registered.get(session_id, -WATCH_EXPIRES) + WATCH_EXPIRES > time.monotonic()

    def renew(self, session_id: SessionId) -> RegisterWatch | None:
        """Return what registers a session, or renews its row; None: that is not due."""
        now = time.monotonic()
        if self._registered.get(session_id, -WATCH_EXPIRES) + _RENEWED_AFTER > now:
            return None
        self._registered = {each: at for each, at in self._registered.items() if at + WATCH_EXPIRES > now}
        self._registered[session_id] = now
        return RegisterWatch((session_id,))
