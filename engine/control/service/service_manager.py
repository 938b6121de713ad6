"""What a service manager such as systemd passes to a server, and what the server reports: sockets, readiness, signs of life.

The protocols are those of `sd_listen_fds` and `sd_notify`; both are environment variables and a datagram socket.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final, Self, final

import attrs
import trio

from engine.core.errors import ConfigError

_FIRST: Final = 3
_MOST_SOCKETS: Final = 64
_VARIABLES: Final = (
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PIDFDID",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
)


@final
@attrs.frozen(kw_only=True)
class ServiceManager:
    """What a service manager has passed.

    Attributes:
        sockets: the names and descriptors of the sockets that it has opened.
        address: of the socket that takes messages; empty: there is none.
        watchdog: within how many seconds a sign of life must come; None: none is expected.
    """

    sockets: tuple[tuple[str, int], ...] = ()
    address: str = ""
    watchdog: float | None = None

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Self:
        """Return what *environment* says, and remove it from there: it is not meant for child processes.

        Not a checkpoint. Raises `ConfigError`.
        """
        values = {name: environment.pop(name, "") for name in _VARIABLES}
        own = str(os.getpid())
        sockets: tuple[tuple[str, int], ...] = ()
        # Variables that were inherited from another process that was started this way are not for us.
        if values["LISTEN_PID"] == own:
            count = _number(values["LISTEN_FDS"], "LISTEN_FDS")
            if count > _MOST_SOCKETS:
                raise ConfigError(f"LISTEN_FDS names {count} sockets, more than {_MOST_SOCKETS}")
            names = values["LISTEN_FDNAMES"].split(":") if values["LISTEN_FDNAMES"] else []
            sockets = tuple(
                (names[number] if number < len(names) else _usual_name(_FIRST + number), _FIRST + number)
                for number in range(count)
            )
        watchdog = None
        if values["WATCHDOG_USEC"] and values["WATCHDOG_PID"] in {"", own}:
            watchdog = _number(values["WATCHDOG_USEC"], "WATCHDOG_USEC") / 1e6
        return cls(sockets=sockets, address=values["NOTIFY_SOCKET"], watchdog=watchdog)

    def notify(self, *lines: str) -> None:
        """Send a message, such as `READY=1`. Not a checkpoint; a manager that does not listen is none."""
        if not self.address:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            # Not waited for: a manager with a full queue must not stop the server.
            sender.setblocking(False)  # noqa: FBT003  # has no names
            sender.sendto("\n".join(lines).encode(), address)

    async def keep_alive(self) -> None:
        """Send signs of life as long as the event loop runs. A checkpoint; it ends at once if none is expected."""
        if self.watchdog is None:
            await trio.lowlevel.checkpoint()
            return
        while True:
            self.notify("WATCHDOG=1")
            await trio.sleep(self.watchdog / 2)


def _usual_name(descriptor: int) -> str:
    """Return the name of a socket for which the manager gives none."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as made:
            return "control" if made.family == socket.AF_UNIX else "http"
    except OSError:
        return "http"  # `ListeningSockets.adopt` says what is wrong


def _number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ConfigError(f"{name} is not a number: {text!r}")
    return int(text)
