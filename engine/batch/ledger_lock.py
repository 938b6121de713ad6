"""The lock of a ledger: one runner at a time writes it.

The kernel's lock ends with the process, however that ends. File systems on the network may not share it between hosts, so
the file is also a lease: it names its runner, who touches it, and one of another host holds it for a minute after that.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import attrs
import trio

from engine.core.errors import ConfigError, StoreError
from engine.core.threads import to_thread

LEASE_SECONDS: Final = 60.0
_RENEWALS: Final = 4


@attrs.define(eq=False, repr=False)
class LedgerLock:
    """A lock that is held."""

    _path: Path
    _descriptor: int

    @classmethod
    def take(cls, path: Path) -> LedgerLock:
        """Take the lock. It blocks, for a moment. Raises `ConfigError` if another runner holds it, `StoreError`."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _busy(path, _holder(descriptor)) from None
            holder = _holder(descriptor)
            if holder.get("host", socket.gethostname()) != socket.gethostname() and _is_fresh(path):
                raise _busy(path, holder)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise StoreError(f"{path}: {error.strerror or error}") from error
        except ConfigError:
            os.close(descriptor)
            raise
        return cls(path, descriptor)

    async def renew(self) -> None:
        """Touch the file, until cancelled. Always a checkpoint."""
        while True:
            await trio.sleep(LEASE_SECONDS / _RENEWALS)
            with suppress(OSError):
                await to_thread(os.utime, self._path)

    def close(self) -> None:
        """Release it. It blocks, for a moment."""
        # The file stays: removing it would let two runners lock two files of one name.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _holder(descriptor: int) -> dict[str, object]:
    """Return what the file says about its runner; nothing if it is not held."""
    try:
        document: object = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return cast("dict[str, object]", document) if isinstance(document, dict) else {}


def _is_fresh(path: Path) -> bool:
    """Tell whether the file was touched within the lease, by the clock of its file system."""
    probe = path.with_name(f"{path.name}.{os.getpid()}")
    probe.touch()
    try:
        return probe.stat().st_mtime - path.stat().st_mtime < LEASE_SECONDS
    finally:
        probe.unlink()


def _busy(path: Path, holder: dict[str, object]) -> ConfigError:
    who = f" (process {holder['pid']} on {holder.get('host')})" if "pid" in holder else ""
    return ConfigError(
        f"another runner{who} is at work on {path.parent}\nNext: wait for its end, or choose another --results-dir"
    )
