"""What carries messages between a client and the server, one text at a time."""

from __future__ import annotations

from typing import Protocol


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

    async def receive(self) -> str:
        """Return the next message. A checkpoint; if cancelled, nothing is lost. Raises `TransportClosed`."""
        ...

    async def send(self, text: str, /) -> None:
        """Send a message. A checkpoint; cancelled in the middle, it is broken. Raises `TransportClosed`."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close it. A checkpoint, for two seconds at most."""
        ...
