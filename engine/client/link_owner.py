"""`LinkOwner`: what the handles to sessions need of their client."""

from __future__ import annotations

from typing import Protocol

from engine.client.server_link import ServerLink
from engine.control.protocol.handshake import HelloResult
from engine.control.protocol.wire_converter import Params
from engine.control.transport.message_transport import TransportClosed


class LinkOwner(Protocol):
    """A client."""

    name: str
    healed: int
    unknown_events: int
    has_new_server: bool

    @property
    def is_online(self) -> bool:
        """Whether there is a connection now."""
        ...

    @property
    def server(self) -> HelloResult:
        """What the server has said of itself when the last connection began."""
        ...

    @property
    def end(self) -> TransportClosed:
        """How the last connection ended."""
        ...

    async def wait_online(self) -> ServerLink:
        """Wait until there is a connection, and return it. Raises what ends all attempts to connect."""
        ...

    async def send(self, method: str, params: Params, *, attempts: list[None] | None = None) -> object:
        """Make a request, again after a lost connection where that is safe. *attempts* gets an item for each."""
        ...
