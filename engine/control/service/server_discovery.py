"""Where the server of a store is: one for each store and user, in a folder that is theirs alone.

The folder holds `server.lock`, which a server keeps locked as long as it lives, and `server.json`, the `ServerRecord`.
The lock decides, not the process id in the record: the kernel frees it with the process, however that ends, and a process
id may belong to another process by now. The folder also holds the token and the Unix socket.

A client takes `find_server(server_folder(place))`, and connects to the socket, which needs no token of the same user. It need
not compare the `instance` in the answer to `hello`: another server that has started since at that path is that of this store.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar, cast, final
from urllib.parse import urlsplit

import attrs
import trio

from engine.control.protocol.handshake import VersionRange
from engine.control.service.private_files import is_private_folder, private_folder, read_private, write_private
from engine.core.errors import ConfigError

SOCKET_NAME: Final = "control.sock"
_RECORD: Final = "server.json"
_LOCK: Final = "server.lock"
_PORT: Final = "port"
_MOST_PORT: Final = 1 << 16
_CONNECT_SECONDS: Final = 1.0
# What another server may take from its lock to its record: it opens its store between the two.
_START_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.05
T = TypeVar("T")


@attrs.frozen(kw_only=True)
class ServerRecord:
    """A running server, as its file describes it. There is no secret in it.

    Attributes:
        pid: its process.
        started: when it was started, in seconds since the epoch.
        instance: a random text, new for each start: the same as in its answer to `hello`.
        version: the engine's version.
        protocol: the versions of the protocol that it speaks.
        url: its address.
        socket: the path of its Unix socket.
        store: the store that it serves, without a password.
    """

    pid: int
    started: float
    instance: str
    version: str
    protocol: VersionRange
    url: str
    socket: str
    store: str


class ServerRunning(ConfigError):  # what it is, to the one who wants to start another
    """A server is running already.

    Attributes:
        record: that server; None: it holds the lock, but does not say where it is.
    """

    def __init__(self, folder: Path, record: ServerRecord | None) -> None:
        """Make it."""
        where = "" if record is None else f": {record.url} (process {record.pid})"
        super().__init__(f"another server is running for {folder}{where}")
        self.record = record


def server_folder(place: str) -> Path:
    """Return the folder of the server for the store at *place*, which may be missing. It blocks."""
    from platformdirs import user_state_path

    digest = hashlib.sha256(os.fsencode(store_label(place))).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    is_used = Path(runtime).is_absolute() and _is_ours_alone(Path(runtime))
    parent = Path(runtime) / "engine" if is_used else user_state_path("engine", appauthor=False)
    return parent / digest


def _is_ours_alone(folder: Path) -> bool:
    """Return whether others can neither make nor rename anything in a folder. It blocks.

    The variable may be inherited from another user's session, or name a folder that all share: there, another user could
    put a folder in the place of ours.
    """
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def store_label(place: str) -> str:
    """Return the name of a store for people and for comparing: its real path, or its URL without a password."""
    if "://" in place:
        parts = urlsplit(place)
        user, at, host = parts.netloc.rpartition("@")
        # The query may hold a password too.
        return f"postgresql://{user.partition(':')[0]}{at}{host}{parts.path}"
    return place if place == ":memory:" else os.path.realpath(place)


def find_server(folder: Path) -> ServerRecord | None:
    """Return the server that listens in *folder*; None: there is none. It blocks, for about a second at most.

    The record of a server that was killed is removed.

    Raises:
        ConfigError: the folder or the file is not ours alone.
    """
    record = read_record(folder)
    if record is None or _listens(record.socket):
        return record
    with suppress(ServerRunning):  # it is about to end, or to be replaced
        lock = ServerLock.acquire(folder)
        try:
            current = read_record(folder)
            if current is not None and current.instance == record.instance:
                (folder / _RECORD).unlink(missing_ok=True)
        finally:
            lock.close()
    return None


def read_record(folder: Path) -> ServerRecord | None:
    """Return what the file in *folder* says, also of a server that was killed; None: there is none. It blocks.

    Raises:
        ConfigError: the folder or the file is not ours alone.
    """
    text = read_private(folder / _RECORD) if is_private_folder(folder) else None
    if text is None:
        return None
    try:
        return _decode(cast("object", json.loads(text)))
    except (ValueError, RecursionError):
        return None  # by an engine of another version: then the lock alone says whether a server runs


def server_of_process(place: str, pid: int) -> str | None:
    """Return the address of the server of the store at *place*, if it is process *pid* of this machine. It blocks."""
    with suppress(ConfigError):
        record = find_server(server_folder(place))
        return record.url if record is not None and record.pid == pid else None
    return None


def write_record(folder: Path, record: ServerRecord) -> None:
    """Say in *folder* where the server is; only for one that holds the lock. It blocks. Raises `ConfigError`."""
    write_private(folder / _RECORD, json.dumps(attrs.asdict(record), indent=1) + "\n", replace=True)
    write_private(folder / _PORT, f"{urlsplit(record.url).port}\n", replace=True)


def last_port(folder: Path) -> int:
    """Return the port of the server that was here last, where pages still look for it; 0: it is not known. It blocks."""
    with suppress(ConfigError, ValueError):
        port = int(read_private(folder / _PORT) or "")
        return port if 0 < port < _MOST_PORT else 0
    return 0


def remove_record(folder: Path, instance: str) -> None:
    """Remove the record of a server that ends, unless it is that of its successor. It blocks."""
    with suppress(ConfigError, OSError):
        record = read_record(folder)
        if record is not None and record.instance == instance:
            (folder / _RECORD).unlink(missing_ok=True)


@final
class ServerLock:
    """The lock on a folder: the process that holds it is its server. It ends with its processes, however they end."""

    def __init__(self, descriptor: int) -> None:
        """Make it of a descriptor that holds the lock, and that it closes."""
        self.descriptor: int = descriptor

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Take the lock. It blocks, but does not wait for other servers. Raises `ServerRunning`, `ConfigError`."""
        try:
            descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"{folder / _LOCK} can't be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ServerRunning(folder, None) from None
        except OSError as error:
            os.close(descriptor)
            raise ConfigError(f"{folder / _LOCK} can't be locked: {error.strerror}") from error
        return cls(descriptor)

    def close(self) -> None:
        """Give it up. A successor that was handed the lock keeps it, since its descriptor is a copy of this one."""
        os.close(self.descriptor)


async def claim_folder(folder: Path) -> ServerLock:
    """Make *folder*, and take its lock. A checkpoint; if cancelled, the lock is free.

    Of two servers that start at the same moment, one gets it, and the other one waits until it is known where the first
    one is.

    Raises:
        ServerRunning: another server has it.
        ConfigError: the folder is not ours alone.
    """
    await _in_thread(lambda: private_folder(folder))
    with trio.move_on_after(_START_SECONDS):
        while True:
            try:
                return ServerLock.acquire(folder)
            except ServerRunning:
                record = await _in_thread(lambda: find_server(folder))
            if record is not None:
                raise ServerRunning(folder, record)
            await trio.sleep(_LOOK_SECONDS)
    raise ServerRunning(folder, None)


async def _in_thread(function: Callable[[], T]) -> T:
    # Short, and not to be left behind: the next one may look at the same files.
    return await trio.to_thread.run_sync(function)


def _listens(path: str) -> bool:
    """Return whether a process listens at a Unix socket. It blocks, for a second at most."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(path)
        except (BlockingIOError, TimeoutError):
            return True  # with more connections waiting than it takes at the moment
        except OSError:
            return False
    return True


def _decode(document: object) -> ServerRecord | None:
    """Return the record in *document*; None: it is none. Fields that are unknown are ignored."""
    fields = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    bounds = fields.get("protocol")
    versions = cast("dict[str, object]", bounds) if isinstance(bounds, dict) else {}
    pid, started, low, high = fields.get("pid"), fields.get("started"), versions.get("min"), versions.get("max")
    texts = [fields.get(name) for name in ("instance", "version", "url", "socket", "store")]
    if not (isinstance(pid, int) and isinstance(started, (int, float)) and math.isfinite(started)):
        return None
    if not (isinstance(low, int) and isinstance(high, int) and all(isinstance(each, str) for each in texts)):
        return None
    instance, version, url, path, store = cast("list[str]", texts)
    return ServerRecord(
        pid=pid,
        started=float(started),
        instance=instance,
        version=version,
        protocol=VersionRange(min=low, max=high),
        url=url,
        socket=path,
        store=store,
    )
