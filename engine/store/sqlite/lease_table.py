"""The table `leases` in SQLite."""

from __future__ import annotations

import sqlite3
import time

import attrs

from engine.core.ids import SessionId
from engine.core.value_base import Value
from engine.store.leases import IDLE, Lease, Owner


@attrs.frozen(eq=False, repr=False)
class LeaseTable(Value):
    """Reads and writes leases. Each method blocks, for some microseconds."""

    _connection: sqlite3.Connection

    def get(self, session_id: SessionId) -> Lease | None:
        """Return the lease of a session."""
        row: tuple[str, str, str, int, int, float] | None = self._connection.execute(
            "SELECT owner, machine, host, pid, started, expires FROM leases WHERE session_id = ?", (session_id,)
        ).fetchone()
        return None if row is None else Lease(*row)

    def all(self) -> dict[SessionId, Lease]:
        """Return all leases."""
        rows: list[tuple[SessionId, str, str, str, int, int, float]] = self._connection.execute(
            "SELECT session_id, owner, machine, host, pid, started, expires FROM leases"
        ).fetchall()
        return {row[0]: Lease(*row[1:]) for row in rows}

    def take(self, owner: Owner, session_id: SessionId) -> None:
        """Write the lease of *owner* over any other."""
        self._connection.execute(
            "INSERT OR REPLACE INTO leases (session_id, owner, machine, host, pid, started, expires)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                session_id,
                owner.id,
                owner.machine,
                owner.host,
                owner.process.pid,
                owner.process.start_time,
                time.time() + owner.seconds,
            ),
        )

    def renew(self, owner: Owner) -> None:
        """Renew all leases of *owner*."""
        self._connection.execute(
            "UPDATE leases SET expires = ? WHERE owner = ?", (time.time() + owner.seconds, owner.id)
        )

    def make_idle(self, owner: Owner) -> None:
        """Make all leases of *owner* last as long as its process, until they are renewed."""
        self._connection.execute("UPDATE leases SET expires = ? WHERE owner = ?", (IDLE, owner.id))

    def release(self, owner: Owner, session_id: SessionId) -> None:
        """Delete the lease of a session if it belongs to *owner*."""
        self._connection.execute("DELETE FROM leases WHERE session_id = ? AND owner = ?", (session_id, owner.id))

    def release_all(self, owner: Owner) -> None:
        """Delete all leases of *owner*."""
        self._connection.execute("DELETE FROM leases WHERE owner = ?", (owner.id,))

    def delete_expired(self, owner: Owner) -> None:
        """Delete the leases of dead engines, as far as *owner* can tell."""
        expired = [(session_id,) for session_id, lease in self.all().items() if not owner.is_live(lease)]
        self._connection.executemany("DELETE FROM leases WHERE session_id = ?", expired)
