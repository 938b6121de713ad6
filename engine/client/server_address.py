"""Where a server is: its address, parsed; and how a connection to it is opened."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, final
from urllib.parse import urlsplit

import attrs
import trio

from engine.control.protocol.server_side import LARGEST_MESSAGE
from engine.control.transport.line_transport import LineTransport
from engine.control.transport.message_transport import MessageTransport
from engine.core.errors import ConfigError, ServerOffline

# A server that has accepted the connection answers at once.
CONNECT_SECONDS: Final = 10.0
# The largest message, and the frame around it.
MESSAGE_BYTES: Final = LARGEST_MESSAGE + 4096
_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}


class ServerAddress(Protocol):
    """Where a server is."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        ...

    def open(self) -> AbstractAsyncContextManager[MessageTransport]:
        """Open a connection for the length of a block. A checkpoint.

        Raises `ServerOffline` if there is no server or it can't be used now, `Unauthorized` if it refuses the token.
        """
        ...


@final
@attrs.frozen
class SocketPath:
    """The Unix socket of a server, which lets in who may open it."""

    path: Path

    def __str__(self) -> str:
        """Return it for messages."""
        return str(self.path)

    @property
    def is_local(self) -> bool:
        """True."""
        return True

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MessageTransport]:
        """Open a connection for the length of a block. A checkpoint. Raises `ServerOffline`."""
        try:
            stream = await trio.open_unix_socket(self.path)
        except (OSError, ValueError) as error:
            raise ServerOffline(f"no server answers at {self.path}: {_reason(error)}") from error
        # Without a farewell: the server sees the end of the stream.
        try:
            yield LineTransport(stream, message_bytes=MESSAGE_BYTES)
        finally:
            await trio.aclose_forcefully(stream)  # noqa: ASYNC102  # it does not wait


@final
@attrs.frozen
class WebSocketAddress:
    """The address of a server on the network.

    Attributes:
        host: its name or address.
        port: its port.
        path: where its base is, for a server behind a proxy: begins with a slash, and does not end with one.
        token: the credential; None: none is sent.
        tls: how it is encrypted; None: it is not.
    """

    host: str
    port: int
    path: str = ""
    token: str | None = attrs.field(default=None, repr=False)
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        """Return it for messages, without the token."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{shown}:{self.port}{self.path}"

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MessageTransport]:
        """Open a connection for the length of a block. A checkpoint. Raises `ServerOffline`, `Unauthorized`."""
        # Imported here: a client of the Unix socket needs no WebSocket.
        from engine.client.websocket_transport import WebSocketRequest, websocket

        shown = f"[{self.host}]" if ":" in self.host else self.host
        request = WebSocketRequest(
            host=f"{shown}:{self.port}",
            resource=f"{self.path}/v1/socket",
            token=self.token,
            message_bytes=MESSAGE_BYTES,
            where=str(self),
        )
        async with await self._connect() as stream, websocket(stream, request) as transport:
            yield transport

    async def _connect(self) -> trio.abc.Stream:
        try:
            with trio.fail_after(CONNECT_SECONDS):
                stream = await trio.open_tcp_stream(self.host, self.port)
        except (OSError, trio.TooSlowError) as error:
            raise ServerOffline(f"no server answers at {self}: {_reason(error)}") from error
        if self.tls is None:
            return stream
        return trio.SSLStream(stream, self.tls, server_hostname=self.host, https_compatible=True)


def parse_address(url: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> ServerAddress:
    """Return the address in *url*: `http://…`, `https://…`, `ws://…`, `wss://…`, or `unix:` with a path.

    Raises `ConfigError`.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "unix":
        path = Path(rest.removeprefix("//"))
        if not path.is_absolute():
            raise ConfigError(
                f"the address of a Unix socket has an absolute path, as in unix:/run/engine.sock, not {url!r}"
            )
        return SocketPath(path)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r} is not the address of a server: {error}") from error
    if scheme not in _PORTS or not host or parts.query or parts.username is not None:
        raise ConfigError(
            f"the address of a server begins with http://, https:// or unix:, not like {_scrubbed(url)!r}"
        )
    if parts.fragment:
        raise ConfigError("the link of a server is for a browser: a client needs its address and the token")
    is_encrypted = scheme in {"https", "wss"}
    return WebSocketAddress(
        host,
        _PORTS[scheme] if port is None else port,
        parts.path.rstrip("/"),
        token,
        (tls or ssl.create_default_context()) if is_encrypted else None,
    )


def _scrubbed(url: str) -> str:
    """Return the beginning of *url*: what follows may be a credential."""
    return url.partition("@")[2] or url[:80]


def _reason(error: Exception) -> str:
    """Return why it failed, for a person."""
    while error.__cause__ is not None and isinstance(error.__cause__, OSError):
        error = error.__cause__
    if isinstance(error, trio.TooSlowError):
        return f"nothing came for {CONNECT_SECONDS:g} seconds"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
