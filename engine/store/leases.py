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
import time
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import SessionElsewhere
from engine.core.ids import SessionId
from engine.process.procfs import Stray, boot_id, identify, is_alive

LEASE_SECONDS: Final = 60.0
# Beats of one lease: some may be late.
RENEWALS_PER_LEASE: Final = 4


def _this_machine() -> str:
    """Return what names the processes among which a number means one process; empty if that can't be told."""
    boot = boot_id()
    try:
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}" if boot else ""
    except OSError:
        return ""


def _this_process() -> Stray:
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
    process: Stray = attrs.field(factory=_this_process)
    seconds: float = LEASE_SECONDS

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


def session_elsewhere(session_id: SessionId, lease: Lease) -> SessionElsewhere:
    """Return the error that says who has it."""
    return SessionElsewhere(session_id, host=lease.host, pid=lease.pid, until=lease.expires)
