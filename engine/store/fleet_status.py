"""What a database knows of the engines that share it: values, and the protocol of a store that can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs

from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EngineStatus(Value):
    """An engine that has the store open, by what it has written.

    Attributes:
        owner: names it in leases.
        host: its machine.
        pid: its process there.
        version: of the engine.
        opened: seconds since it opened the store.
        silent: seconds since its last transaction.
        leases: how many sessions and tasks it holds.
        figures: what it has counted (see `StoreFigures`), some seconds ago; empty: nothing yet.
    """

    owner: str
    host: str
    pid: int
    version: str
    opened: float
    silent: float
    leases: int
    figures: Mapping[str, float]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FleetStatus(Value):
    """How the engines of a database do. All of it is of one tenant, except permits and connections.

    Attributes:
        engines: the others that have the store open, the oldest first.
        sessions: root sessions by state: `idle`, `busy`, `waiting` for an answer, `interrupted`: their engine is gone.
        leases: of sessions: `held` and `expired`.
        tasks: those that have not ended: `waiting` and `running`.
        queue_age: seconds since the oldest task that waits was added; None: none waits.
        outcomes: how tasks ended in the last hour.
        permits: for requests to models' hosts, of all who share an account: `held`, `denied` for now, and how many `cooldowns`
            of hosts there are.
        connections: to this database: `engines` (of this role), `all`, and the `limit` of the server.
        notification_seconds: how long a notification took now; None: none came.
        notification_queue: how full the server's queue of notifications is, from 0 to 1.
    """

    engines: Sequence[EngineStatus]
    sessions: Mapping[str, int]
    leases: Mapping[str, int]
    tasks: Mapping[str, int]
    queue_age: float | None
    outcomes: Mapping[str, int]
    permits: Mapping[str, int]
    connections: Mapping[str, int]
    notification_seconds: float | None
    notification_queue: float


@runtime_checkable
class ReportsFleet(Protocol):
    """A store that several engines share."""

    async def fleet_status(self) -> FleetStatus:
        """Return how they do. A checkpoint. Raises `StoreError`."""
        ...
