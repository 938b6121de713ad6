"""What carries messages between a client and the server, one text at a time."""

from __future__ import annotations

from typing import Final, Protocol

import trio

# A client that accepts nothing for so long is gone, or does not read.
STALL_SECONDS: Final = 30.0
STALLED: Final = 4408


class TransportClosed(Exception):  # an end, not a fault of ours
    """The connection is closed.

    Attributes:
        code: of WebSocket's (RFC 6455); 1006 if it ended without a close.
        reason: for a person.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        """Make it."""
        super().__init__(f"closed with {code}" + (f": {reason}" if reason else ""))
        self.code = code
        self.reason = reason


class MessageTransport(Protocol):
    """One task receives, any task sends."""

    async def receive(self) -> str | bytes:
        """Return the next message. A checkpoint; if cancelled, nothing is lost. Raises `TransportClosed`."""
        ...

    async def send(self, text: str, /) -> None:
        """Send a message. A checkpoint; cancelled in the middle, it is broken.

        Raises `TransportClosed`: with `STALLED` if the other side accepts nothing for half a minute.
        """
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close it. A checkpoint, for two seconds at most."""
        ...


async def send_piece(stream: trio.abc.SendStream, data: bytes | memoryview) -> None:
    """Send at most 64 KiB or so: the time for it is bounded, so a long message over a slow line is no stall.

    A checkpoint; cancelled in the middle, a part of it may have gone out. Raises `TransportClosed`.
    """
    with trio.move_on_after(STALL_SECONDS) as scope:
        try:
            await stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise TransportClosed(1006) from None
    if scope.cancelled_caught:
        raise TransportClosed(STALLED, "nothing was read for too long")
