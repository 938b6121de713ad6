"""`PaceConnection`: the connection on which an engine leases permits for requests to model hosts. It blocks: for threads."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict, cast

import attrs

from engine.store.backend import TransientStoreError
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect
from engine.store.postgres.error_mapping import map_errors
from engine.store.postgres.schema import migrate

# Seconds to wait for another thread, which a cancelled task has left behind.
_BUSY_SECONDS: Final = 1.0


class PermitRow(TypedDict):
    """What `exchange_permits` returns for each report."""

    host: str
    model: str
    key_hash: str
    permits: int
    in_flight_limit: float
    cooldown: float
    sharers: int
    requests_minute: int | None
    tokens_minute: int | None


@attrs.define(eq=False, repr=False)
class PaceConnection:
    """Opened when it is first used, and again after it broke."""

    _address: Address
    _connection: Connection | None = attrs.field(default=None, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def exchange(self, owner: str, reports: Sequence[Mapping[str, object]]) -> list[PermitRow]:
        """Report for *owner*, and return its permits: one statement. It blocks. Raises `StoreError`."""
        if not self._lock.acquire(timeout=_BUSY_SECONDS):
            raise TransientStoreError(f"the store {self._address.name} has not answered the last statement yet")
        try:
            with map_errors(self._address):
                try:
                    return self._exchange(owner, reports)
                except BaseException:  # re-raised: the next exchange begins with a new connection
                    self._drop()
                    raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close it; it blocks while it is used."""
        with self._lock:
            self._drop()

    def _exchange(self, owner: str, reports: Sequence[Mapping[str, object]]) -> list[PermitRow]:
        if self._connection is None:
            self._connection = connect(self._address)
            # The engine's sessions may be in another store.
            migrate(self._connection, self._address)
        row = self._connection.execute(_EXCHANGE, (owner, json.dumps(reports))).fetchone()
        return [] if row is None else cast("list[PermitRow]", row[0])

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


_EXCHANGE: Final = "SELECT exchange_permits(%s, %s::jsonb, now())"
