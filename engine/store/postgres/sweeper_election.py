"""`SweeperElection`: one engine of a fleet looks after the sessions of those that have died.

Each tenant's stores have one of their own. It is the one whose connection holds an advisory lock. PostgreSQL releases that when the connection ends, however the
engine does, and another engine gets it at its next attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from engine.core.ids import SessionId
from engine.store.leases import Lease, Owner
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, PostgresReaders
from engine.store.postgres.schema import advisory_lock_key
from engine.store.postgres.table_writer import leases_in
from engine.store.store_protocols import AbandonedSession

# So many at a time: what is left comes with the next look.
_MOST: Final = 1_000


@attrs.define(eq=False)
class SweeperElection:
    """Whether this engine is the one, and what it has to look after."""

    _address: Address
    # The connection that holds the lock. Readers have others, which the pool may close at any time.
    _holders: PostgresReaders = attrs.field(init=False)
    _holder: Connection | None = attrs.field(default=None, init=False)
    _is_elected: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._holders = PostgresReaders(address=self._address)

    async def find(self, readers: PostgresReaders, owner: Owner) -> Sequence[AbandonedSession] | None:
        """Return what `Sweeping.abandoned_sessions` returns. Always a checkpoint. Raises `StoreError`."""
        # First through a connection that is there anyway: most engines of a fleet ask in vain.
        if not self._is_elected and not await readers.read(self._may_try):
            return None
        self._is_elected = False
        found = await self._holders.read(lambda connection: self._find(connection, owner))
        self._is_elected = found is not None
        if found is None:
            self._holders.drop_idle()
        return found

    def close(self) -> None:
        """Let another engine be elected. It blocks for a moment."""
        self._holders.close()

    # -- in a thread --------------------------------------------------------------------------

    def _may_try(self, connection: Connection) -> bool:
        """Return whether no engine holds the lock now."""
        # Of the transaction, which is over at once.
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (self._key,)).fetchone()
        return row is not None and bool(row[0])

    def _find(self, connection: Connection, owner: Owner) -> Sequence[AbandonedSession] | None:
        if connection is not self._holder:
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,)).fetchone()
            if row is None or not row[0]:
                return None
            self._holder = connection
        values = {"tenant": self._address.tenant, "owner": owner.id, "machine": owner.machine, "most": _MOST}
        rows = connection.execute(_ABANDONED, values).fetchall()
        leases = leases_in(row[:7] for row in rows)
        return [
            _session(row[0], leases[row[0]], root_id, cwd)
            for row in rows
            for root_id, cwd in (row[7:],)
            if not owner.is_live(leases[row[0]])
        ]

    @property
    def _key(self) -> int:
        return advisory_lock_key(self._address, "sweeper")


def _session(session_id: SessionId, lease: Lease, root_id: SessionId, cwd: str) -> AbandonedSession:
    return AbandonedSession(id=session_id, root_id=root_id, cwd=cwd, host=lease.host, pid=lease.pid)


# From the leases, which are few: each is one open session. A closed session has none.
_ABANDONED: Final = """
SELECT leases.session_id, leases.owner, leases.machine, leases.host, leases.pid, leases.started,
    extract(epoch FROM leases.expires - clock_timestamp())::double precision, sessions.root_id, sessions.cwd
FROM leases JOIN sessions ON sessions.tenant = leases.tenant AND sessions.id = leases.session_id
WHERE leases.tenant = %(tenant)s AND sessions.is_busy AND leases.owner <> %(owner)s
    AND (leases.expires < clock_timestamp() OR leases.machine = %(machine)s)
ORDER BY leases.expires LIMIT %(most)s
"""
