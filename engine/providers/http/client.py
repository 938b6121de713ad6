"""Configures httpx: proxies, certificates, connections, and the translation of its errors."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, final

import httpx
import trio

from engine.core.errors import ConfigError, ConnectionBroken, ErrorInfo, ProviderError, ProviderProtocolError
from engine.core.lazy import regex
from engine.providers.http.chunk_buffer import ChunkMerger
from engine.providers.http.endpoint import Endpoint

# A tool may run for long between two steps; the host may close sooner.
_KEEPALIVE = 300.0
_PASSWORD = regex(r"://[^/@\s]*@")


def new_client(endpoint: Endpoint, connect_timeout: float) -> httpx.AsyncClient:
    """Return a client for requests to *endpoint*; raise `ConfigError` for invalid proxy or certificate settings.

    It never retries, and has only a connect timeout.
    """
    try:
        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=connect_timeout),
            # Each turn has its own connection; a limit here would be one that no setting names.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEPALIVE),
            # A proxy cannot reach a host on this machine.
            trust_env=not endpoint.is_loopback,
            verify=_ssl_context(endpoint),
        )
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
        reason = _PASSWORD.sub("://[secret]@", str(error))
        if isinstance(error, OSError):  # it does not name the file
            reason += " (SSL_CERT_FILE, SSL_CERT_DIR)"
        raise ConfigError(f"invalid proxy or certificate settings in the environment: {reason}") from None


def _ssl_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Return a TLS context with the certificate authorities of the environment, else the default ones."""
    if endpoint.is_plain:  # no TLS: loading certificates would only take time
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if file is folder is None:
        return httpx.create_ssl_context()
    return ssl.create_default_context(cafile=file, capath=folder)


@contextmanager
def translate_errors(endpoint: Endpoint) -> Generator[None]:
    """Translate httpx's errors, and redact the key.

    `from None` where the original may quote a header, which may hold the key.
    """
    try:
        yield
    except ProviderError as error:
        endpoint.redact_error(error)
        raise
    except httpx.TimeoutException as error:
        raise ConnectionBroken(f"{endpoint.host} did not accept the connection in time", retryable=True) from error
    except httpx.LocalProtocolError:
        raise ProviderProtocolError(f"the request to {endpoint.host} is not valid HTTP") from None
    except UnicodeError as error:  # of Python's codec for names: `a..example`
        raise ConnectionBroken(
            f"{endpoint.host} is not a valid name of a server",
            info=ErrorInfo(code="name_not_found", subject=endpoint.host),
        ) from error
    except (httpx.TransportError, httpx.DecodingError) as error:
        # Imported here: hardly any request fails like this.
        from engine.providers.http.connection_cause import connection_cause

        reason = endpoint.redact(_reason_of(error))
        cause = connection_cause(error, endpoint, reason)
        if cause.info.code == "certificate_untrusted":
            reason += "; to use your own certificate authority, set SSL_CERT_FILE or SSL_CERT_DIR"
        raise ConnectionBroken(
            f"the connection to {endpoint.host} failed: {reason}", retryable=not cause.is_permanent, info=cause.info
        ) from error


def _reason_of(error: BaseException) -> str:
    """Return the first message in an error's chain: under trio, httpx's own error has none."""
    current: BaseException | None = error
    while current is not None:
        if words := str(current):
            return words
        current = current.__cause__ or current.__context__
    return type(error).__name__


@final
class ConnectionGuard:
    """Closes the socket that a request opens, and reports that the request is out.

    httpcore leaves it open, for the garbage collector, if it is cancelled during a TLS handshake.
    """

    def __init__(self, on_sent: Callable[[], object]) -> None:
        """*on_sent* is called while the model thinks: when a request is sent, and nothing has come yet."""
        self._opened: _NetworkStream | None = None
        self._on_sent = on_sent

    async def on_trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Handle a trace event of httpcore. A cancel point once a connection is made; never a schedule point."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            stream: _NetworkStream = info["return_value"]
            self._opened = self._opened or stream
            _merge_chunks(stream)
            # A little later, where httpcore locks the connection that it has just made, a cancel would leave it in the
            # pool for ever. There is no schedule point in between.
            await trio.lowlevel.checkpoint_if_cancelled()
        elif event.endswith("send_request_body.complete"):
            self._on_sent()

    async def aclose(self) -> None:
        """Close the socket, if there is one. Idempotent."""
        if self._opened is not None:
            await self._opened.aclose()


class _NetworkStream(Protocol):
    """A connection of httpcore."""

    read: Callable[[int, float | None], Awaitable[bytes]]
    write: Callable[[bytes, float | None], Awaitable[None]]

    async def aclose(self) -> None: ...


def _merge_chunks(stream: _NetworkStream) -> None:
    """Let *stream* return all received chunks at once: httpx is slow on single chunks."""
    merger = ChunkMerger()
    read_some, write_all = stream.read, stream.write

    async def read(max_bytes: int, timeout: float | None = None) -> bytes:
        while data := await read_some(max_bytes, timeout):
            if merged := merger.feed(data):
                return merged
        return b""

    async def write(buffer: bytes, timeout: float | None = None) -> None:
        merger.expect_answer()
        await write_all(buffer, timeout)

    with suppress(AttributeError):  # a stream with slots is read without merging
        stream.read, stream.write = read, write
