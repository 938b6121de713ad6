"""Leases: which engine has which session open, as rows that the engine renews while it runs.

    free ──claim, or the first event──► ours ──renew──► ours ──nothing runs──► ours, idle
       ▲                                     │  ▲                               │  │
       │                                     │  └─────── the next event ────────┘  │
       └── released, or the engine died, or its last renewal is too old            │
       └── released, or the engine died, or is stopped ────────────────────────────┘

The transaction that writes events checks the lease too, so an engine that lost its lease can
write nothing more, even if it notices much later. An engine that was killed on this machine is
recognised as dead at once, by its process number and start time; one on another machine,
or in another container, only by the expired lease. An idle lease has no time: it is held
against engines that see its process, as long as that runs, and is free for all others.
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
from engine.core.value_base import Value
from engine.process.procfs import ProcessId, boot_id, identify, is_alive, is_stopped

LEASE_SECONDS: Final = 60.0
# Renewals per lease period, since some may be late.
RENEWALS_PER_LEASE: Final = 4
# In place of a time: nothing runs in the session, and its engine renews nothing.
IDLE: Final = 0.0


def _this_machine() -> str:
    """Identify the boot and PID namespace in which a process number is unique; empty if unknown."""
    boot = boot_id()
    try:
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}" if boot else ""
    except OSError:
        return ""


def _this_process() -> ProcessId:
    return identify(os.getpid())


@attrs.frozen(eq=False, repr=False)
class Lease(Value):
    """The engine that has a session open, and until when, in seconds since the epoch; or `IDLE`."""

    owner: str
    machine: str
    host: str
    pid: int
    started: int
    expires: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Owner(Value):
    """An open store, as its leases identify it. All methods block, for some microseconds."""

    id: str = attrs.field(factory=lambda: secrets.token_hex(8))
    machine: str = attrs.field(factory=_this_machine)
    host: str = attrs.field(factory=socket.gethostname)
    process: ProcessId = attrs.field(factory=_this_process)
    seconds: float = LEASE_SECONDS

    def holds(self, lease: Lease | None) -> bool:
        """Return whether it holds the lease. It holds even an expired one, until another engine takes it."""
        return lease is not None and lease.owner == self.id

    def may_take(self, lease: Lease | None) -> bool:
        """Return whether no live engine has the session open."""
        return lease is None or not self.is_live(lease)

    def is_live(self, lease: Lease) -> bool:
        """Return whether a live engine has the session open."""
        if lease.owner == self.id:
            return True
        process = ProcessId(lease.pid, lease.started)
        # We can see only whether processes of this machine, boot and PID namespace are alive. Any other engine counts
        # as alive until its lease expires.
        is_visible = bool(lease.machine) and lease.machine == self.machine
        if lease.expires == IDLE:
            # One that was stopped with Ctrl-Z does not hold its session for ever.
            return is_visible and is_alive(process) and not is_stopped(process.pid)
        return lease.expires > time.time() and (not is_visible or is_alive(process))


def session_elsewhere(session_id: SessionId, lease: Lease) -> SessionElsewhere:
    """Build the error that names the engine which has the session open."""
    return SessionElsewhere(session_id, host=lease.host, pid=lease.pid, until=lease.expires)
