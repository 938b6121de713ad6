"""`Acceptor`: accepted connections, of the network and of the Unix socket, and how many of them there may be."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, final

import trio

from engine.control.credentials import Login, Peer
from engine.control.server import ControlServer
from engine.control.service.listening_sockets import ListeningSockets
from engine.control.service.tls_files import TlsFiles
from engine.control.transport.access import AllowedAddresses
from engine.control.transport.http_connection import Handler, HttpConnection
from engine.control.transport.line_transport import LineTransport
from engine.control.transport.metered_stream import MeteredStream

OWNER: Final = Login("owner", "full")
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_REFUSAL_SECONDS: Final = 2.0
_REQUEST_BYTES: Final = 64 * 1024
# Connections that are being refused with an answer. Beyond that they get none.
_MOST_REFUSALS: Final = 64


@final
class Acceptor:
    """Serves accepted connections.

    Attributes:
        open: how many there are.
    """

    def __init__(
        self,
        server: ControlServer,
        answers: Callable[[Peer], Handler],
        allowed: AllowedAddresses,
        *,
        most: int,
        tls: ssl.SSLContext | TlsFiles | None = None,
    ) -> None:
        """Make it.

        Args:
            server: what it serves.
            answers: returns what answers the requests of a connection, from its peer.
            allowed: under which names.
            most: how many connections there may be. Those of the Unix socket are let in as long as there are not so many of
                them alone; and those that have shown no credential are a quarter of them at most.
            tls: encrypts those of the network.
        """
        self.open: int = 0
        self._local = 0  # of them, those of the Unix socket
        # Those that had shown no credential when it was looked last, the oldest first.
        self._strangers: dict[Peer, trio.CancelScope] = {}
        self._most_strangers = max(1, most // 4)
        self._server = server
        self._answers = answers
        self._allowed = allowed
        self._most = most
        self._tls = tls
        self._refusing = 0
        self._accepting = trio.CancelScope()

    async def run(self, sockets: ListeningSockets, handlers: trio.Nursery) -> None:
        """Accept connections until `stop`; each is served in *handlers*. A checkpoint. The sockets are closed then."""
        with self._accepting:
            async with trio.open_nursery() as nursery:
                for serve, listeners in ((self._serve_http, sockets.http), (self._serve_local, sockets.control)):
                    # None of a server that has no Unix socket; Trio refuses an empty list.
                    for listener in listeners:
                        nursery.start_soon(partial(trio.serve_listeners, serve, [listener], handler_nursery=handlers))
        await trio.lowlevel.checkpoint()

    def stop(self) -> None:
        """Accept nothing more; connections that were accepted stay. Not a checkpoint."""
        self._accepting.cancel(reason="the server accepts no more connections")

    async def _serve_http(self, accepted: trio.SocketStream) -> None:
        """Serve a connection of the network. A checkpoint."""
        stream = self._encrypted(accepted)
        if self.open >= self._most or self._server.load.is_short_of_memory:
            await self._refuse(stream, _FULL)
            return
        self.open += 1
        self._make_room()
        peer = Peer(_address(accepted))
        scope = self._strangers[peer] = trio.CancelScope()
        try:
            with scope:
                metered = MeteredStream(stream, self._count)
                await HttpConnection(metered, self._allowed, self._answers(peer)).serve()
        except Exception as error:  # noqa: BLE001  # a fault ends one connection, and neither the server nor its host
            self._server.incident(error)
        finally:
            self._strangers.pop(peer, None)
            self.open -= 1

    def _make_room(self) -> None:
        """End the oldest connection that has shown no credential, if there are too many. Not a checkpoint.

        They take the place of each other, and not of those who have a token.
        """
        if len(self._strangers) >= self._most_strangers:
            self._strangers = {peer: scope for peer, scope in self._strangers.items() if not peer.is_known}
        if len(self._strangers) >= self._most_strangers:
            oldest = next(iter(self._strangers))
            self._server.note_refusal("full")
            self._strangers.pop(oldest).cancel(reason="too many connections have shown no credential")

    async def _serve_local(self, stream: trio.SocketStream) -> None:
        """Serve a connection of the Unix socket, if it is ours. A checkpoint."""
        if peer_uid(stream.socket) != os.geteuid():
            self._server.note_refusal("user")
            await trio.aclose_forcefully(stream)
            return
        # Neither strangers at the port nor a lack of memory keep the owner from cancelling what runs.
        if self._local >= self._most:
            await self._refuse(stream, b"")
            return
        self.open += 1
        self._local += 1
        try:
            metered = MeteredStream(stream, self._count)
            transport = LineTransport(metered, message_bytes=self._server.limits.message_bytes)
            await self._server.run_connection(transport, OWNER, kind="unix")
        except Exception as error:  # noqa: BLE001  # as above
            self._server.incident(error)
        finally:
            self.open -= 1
            self._local -= 1

    def _encrypted(self, accepted: trio.SocketStream) -> trio.abc.Stream:
        context = self._tls.context if isinstance(self._tls, TlsFiles) else self._tls
        return (
            accepted if context is None else trio.SSLStream(accepted, context, server_side=True, https_compatible=True)
        )

    async def _refuse(self, stream: trio.abc.Stream, answer: bytes) -> None:
        """Close a connection that is one too many. A checkpoint."""
        self._server.note_refusal("full")
        self._refusing += 1
        try:
            if answer and self._refusing <= _MOST_REFUSALS:
                with trio.move_on_after(_REFUSAL_SECONDS), suppress(trio.BrokenResourceError):
                    await stream.send_all(answer)
                    # Closing with a request unread would reset the connection, and the answer would be lost.
                    await stream.receive_some(_REQUEST_BYTES)
        finally:
            self._refusing -= 1
            await trio.aclose_forcefully(stream)

    def _count(self, direction: str, size: int) -> None:
        self._server.metrics.add("engine_control_bytes_total", direction, value=size)


def _address(accepted: trio.SocketStream) -> str:
    """Return the address of the other side, for counting failed logins."""
    try:
        return str(accepted.socket.getpeername()[0])
    except OSError:
        return ""  # it has gone already


def peer_uid(connected: trio.socket.SocketType) -> int:
    """Return the user at the other end of a Unix socket."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid)
    # macOS: nobody else can reach the socket, whose folder is ours alone.
    return os.geteuid()
