"""Leases: which engine has which session open, as rows that are renewed while it lives.

    nobody's ──claim, or the first event──► ours ──beat──► ours
       ▲                                     │
       └── released, or the engine has died, or its last beat is too long ago

A lease is looked at in the very transaction that writes events, so who has lost one can
write nothing more, however late it finds out. An engine that was killed on this machine
is known to be dead at once, by its process number and start time; of one on another
machine, or in another container, only silence tells.
"""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import time
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import SessionElsewhere
from engine.core.ids import SessionId
from engine.process.procfs import Stray, boot_id, identify, is_alive

SECONDS: Final = 60.0
# Beats of one lease: some may be late.
BEATS: Final = 4


def _this_machine() -> str:
    """Return what names the processes among which a number means one process; empty if that can't be told."""
    boot = boot_id()
    try:
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}" if boot else ""
    except OSError:
        return ""


def _myself() -> Stray:
    return identify(os.getpid())


@attrs.frozen
class Lease:
    """Who has a session open, and until when, in seconds since the epoch."""

    owner: str
    machine: str
    host: str
    pid: int
    started: int
    expires: float


@attrs.frozen(kw_only=True)
class Owner:
    """A store that is open: what it writes into its leases. All methods block, for some microseconds."""

    id: str = attrs.field(factory=lambda: secrets.token_hex(8))
    machine: str = attrs.field(factory=_this_machine)
    host: str = attrs.field(factory=socket.gethostname)
    process: Stray = attrs.field(factory=_myself)
    seconds: float = SECONDS

    def holds(self, lease: Lease | None) -> bool:
        """Tell whether the lease is its own: true until another has taken it, be it expired."""
        return lease is not None and lease.owner == self.id

    def may_take(self, lease: Lease | None) -> bool:
        """Tell whether nobody has the session open."""
        return lease is None or not self.is_live(lease)

    def is_live(self, lease: Lease) -> bool:
        """Tell whether an engine that lives has the session open."""
        if lease.owner == self.id:
            return True
        if lease.expires <= time.time():
            return False
        return not lease.machine or lease.machine != self.machine or is_alive(Stray(lease.pid, lease.started))

    def take(self, connection: sqlite3.Connection, session_id: SessionId) -> None:
        """Write its lease over whatever is there."""
        connection.execute(
            "INSERT OR REPLACE INTO leases (session_id, owner, machine, host, pid, started, expires)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                session_id,
                self.id,
                self.machine,
                self.host,
                self.process.pid,
                self.process.start_time,
                time.time() + self.seconds,
            ),
        )

    def renew(self, connection: sqlite3.Connection) -> None:
        """Renew all its leases."""
        connection.execute("UPDATE leases SET expires = ? WHERE owner = ?", (time.time() + self.seconds, self.id))

    def release(self, connection: sqlite3.Connection, session_id: SessionId) -> None:
        """Give a lease back, if it is its own."""
        connection.execute("DELETE FROM leases WHERE session_id = ? AND owner = ?", (session_id, self.id))

    def release_all(self, connection: sqlite3.Connection) -> None:
        """Give all its leases back."""
        connection.execute("DELETE FROM leases WHERE owner = ?", (self.id,))


def lease_of(connection: sqlite3.Connection, session_id: SessionId) -> Lease | None:
    """Return the lease of a session."""
    row: tuple[str, str, str, int, int, float] | None = connection.execute(
        "SELECT owner, machine, host, pid, started, expires FROM leases WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if row is None else Lease(*row)


def leases(connection: sqlite3.Connection) -> dict[SessionId, Lease]:
    """Return all leases."""
    rows: list[tuple[SessionId, str, str, str, int, int, float]] = connection.execute(
        "SELECT session_id, owner, machine, host, pid, started, expires FROM leases"
    ).fetchall()
    return {row[0]: Lease(*row[1:]) for row in rows}


def elsewhere(session_id: SessionId, lease: Lease) -> SessionElsewhere:
    """Return the error that says who has it."""
    return SessionElsewhere(session_id, host=lease.host, pid=lease.pid, until=lease.expires)
