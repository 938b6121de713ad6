"""The sockets at which a server listens: its own, or those that a service manager or a predecessor has opened."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, final

import attrs
import trio

from engine.core.errors import ConfigError

_BACKLOG: Final = 1024
# In /proc/net/tcp: where a line has what, and the state of a socket that listens.
_ADDRESS, _STATE, _INODE, _LISTENS = 1, 3, 9, "0A"


@final
@attrs.define
class ListeningSockets:
    """What a server listens at.

    Attributes:
        http: of the network: HTTP and WebSockets.
        control: Unix sockets: lines.
        is_inherited: another process has opened some of them, and keeps them open.
        own_path: of the Unix socket, if this server has made it, and removes it.
    """

    http: list[trio.SocketListener] = attrs.field(factory=list[trio.SocketListener])
    control: list[trio.SocketListener] = attrs.field(factory=list[trio.SocketListener])
    is_inherited: bool = False
    own_path: Path | None = None

    @classmethod
    def adopt(cls, named: Iterable[tuple[str, int]]) -> Self:
        """Return the sockets with these names, `http` and `control`, and descriptors, which it owns from now on.

        Raises:
            ConfigError: one is not what its name says; all are closed.
        """
        sockets = cls(is_inherited=True)
        pending = list(named)
        try:
            while pending:
                name, descriptor = pending.pop(0)
                made = _adopt(name, descriptor)
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
                (sockets.control if made.family == socket.AF_UNIX else sockets.http).append(listener)
        except ConfigError:
            sockets.close()
            for _, descriptor in pending:
                os.close(descriptor)
            raise
        return sockets

    async def complete(self, host: str, port: int, path: Path | None, *, preferred: int = 0) -> None:
        """Open what is missing. A checkpoint. If it raises, or is cancelled, `close` closes the rest.

        Args:
            host: the address to listen at.
            port: 0: a free one.
            path: of the Unix socket; None: there is none.
            preferred: which port to take if any will do, and this one is free; 0: none in particular.

        Raises:
            ConfigError: it can't listen there.
        """
        if not self.http and not port and preferred:
            with suppress(ConfigError):
                self.http = await _open_http(host, preferred)
        if not self.http:
            self.http = await _open_http(host, port)
        if not self.control and path is not None:
            self.control = [open_control(path)]
            self.own_path = path

    @property
    def named(self) -> list[tuple[str, int]]:
        """Their names and descriptors, for a successor."""
        kinds = (("http", self.http), ("control", self.control))
        return [(kind, each.socket.fileno()) for kind, every in kinds for each in every]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The hosts and the ports of the network."""
        names = (each.socket.getsockname() for each in self.http)
        return [(str(host), int(port)) for host, port, *_ in names]

    @property
    def address(self) -> tuple[str, int]:
        """The first of them, which is in the link and the record."""
        return self.addresses[0]

    @property
    def control_path(self) -> str:
        """The path of the Unix socket; empty: there is none."""
        return os.fsdecode(self.control[0].socket.getsockname()) if self.control else ""

    def close(self) -> None:
        """Close them. Not a checkpoint."""
        if self.own_path is not None:
            with suppress(OSError):
                self.own_path.unlink(missing_ok=True)
        for each in (*self.http, *self.control):
            each.socket.close()


def _adopt(name: str, descriptor: int) -> socket.socket:
    """Return the socket of *descriptor*, which is closed if it is not a listening one. Raises `ConfigError`."""
    os.set_inheritable(descriptor, False)  # noqa: FBT003  # has no names
    problem = ""
    try:
        made = socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise ConfigError(f"the inherited descriptor {name!r} is no socket") from None
    is_listening = made.type == socket.SOCK_STREAM and made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    families = {"http": (socket.AF_INET, socket.AF_INET6), "control": (socket.AF_UNIX,)}.get(name)
    if families is None:
        problem = "is not known: a socket is called http or control"
    elif not is_listening:
        problem = "is not a stream socket that listens"
    elif made.family not in families:
        problem = f"is of the family {made.family.name}, not of {' or '.join(each.name for each in families)}"
    if problem:
        made.close()
        raise ConfigError(f"the inherited socket {name!r} {problem}")
    return made


async def _open_http(host: str, port: int) -> list[trio.SocketListener]:
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=_BACKLOG)
    except OSError as error:
        failure = error
    holder = await trio.to_thread.run_sync(port_holder, port) if port else ""
    reason = f"{failure.strerror or failure}" + (f"; {holder} listens there" if holder else "")
    raise ConfigError(f"the server can't listen at {host}, port {port}: {reason}") from failure


def open_control(path: Path) -> trio.SocketListener:
    """Listen at *path*, in a folder that is ours alone, and locked: so whatever is there was left by a dead server."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        made.bind(os.fspath(path))
        path.chmod(0o600)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise ConfigError(f"the server can't listen at {path}: {error.strerror or error}") from error
    return trio.SocketListener(trio.socket.from_stdlib_socket(made))


def port_holder(port: int) -> str:
    """Return the name and the id of a process of ours that listens at *port*; empty: it can't be found. It blocks."""
    inodes: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            lines = [line.split() for line in Path(table).read_text("ascii").splitlines()[1:]]
            listening = [line for line in lines if line[_STATE] == _LISTENS]
            inodes |= {f"socket:[{line[_INODE]}]" for line in listening if line[_ADDRESS].endswith(f":{port:04X}")}
    if not inodes:
        return ""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with suppress(OSError):  # it is not ours, or has gone
                if any(os.readlink(each) in inodes for each in (process / "fd").iterdir()):  # noqa: PTH115  # no path
                    return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return ""
