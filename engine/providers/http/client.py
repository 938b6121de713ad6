"""httpx, as it is put to use here: proxies, authorities, connections, and what its errors mean."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, final

import httpx

from engine.core.errors import ConfigError, ConnectionBroken, ProviderError, ProviderProtocolError
from engine.providers.http.chunk_buffer import ChunkMerger
from engine.providers.http.endpoint import Endpoint

# Between two steps a tool may run for long; a host closes sooner if it likes.
_KEEPALIVE = 300.0
_PASSWORD = re.compile(r"://[^/@\s]*@")


def new_client(endpoint: Endpoint, connect_timeout: float) -> httpx.AsyncClient:
    """Return a client for requests to *endpoint*; raise `ConfigError` if the environment's settings don't work.

    It never tries again, and has no time limit but that of connecting.
    """
    try:
        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=connect_timeout),
            # Each turn has a connection of its own; waiting for a free one would be
            # a limit that nobody set.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEEPALIVE),
            # A proxy is for hosts elsewhere: it could not find the one on this machine.
            trust_env=not endpoint.is_loopback,
            verify=_ssl_context(endpoint),
        )
    except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
        reason = _PASSWORD.sub("://[secret]@", str(error))
        if isinstance(error, OSError):  # it does not say which file
            reason += " (SSL_CERT_FILE, SSL_CERT_DIR)"
        raise ConfigError(f"the environment's proxy or certificate settings don't work: {reason}") from None


def _ssl_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Return whom to trust: the authorities that the environment names, else the usual ones."""
    if endpoint.is_plain:  # no certificates are needed, and loading them takes a while: trust nobody
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if file is folder is None:
        return httpx.create_ssl_context()
    return ssl.create_default_context(cafile=file, capath=folder)


@contextmanager
def translate_errors(endpoint: Endpoint) -> Generator[None]:
    """Rename httpx's errors, and keep the key out of ours.

    `from None` where the original may quote a header, the key among them.
    """
    try:
        yield
    except ProviderError as error:
        endpoint.redact_error(error)
        raise
    except httpx.TimeoutException as error:
        raise ConnectionBroken(f"{endpoint.host} did not take the connection in time", retryable=True) from error
    except httpx.LocalProtocolError:
        raise ProviderProtocolError(f"the request to {endpoint.host} is no valid HTTP") from None
    except (httpx.TransportError, httpx.DecodingError) as error:
        reason = endpoint.redact(_reason_of(error))
        # What fails now for these will fail in a minute.
        is_untrusted = "CERTIFICATE_VERIFY_FAILED" in reason
        if is_untrusted:
            reason += ": an authority of your own is named by SSL_CERT_FILE or SSL_CERT_DIR"
        retryable = not (is_untrusted or reason.startswith("407"))
        raise ConnectionBroken(f"the connection to {endpoint.host} failed: {reason}", retryable=retryable) from error


def _reason_of(error: BaseException) -> str:
    """Return the first words of an error and those it came of; under trio httpx's own has none."""
    current: BaseException | None = error
    while current is not None:
        if words := str(current):
            return words
        current = current.__cause__ or current.__context__
    return type(error).__name__


@final
class ConnectionGuard:
    """Takes care of the socket that a request opens.

    httpcore drops it open, for the garbage collector to find, when it is cancelled
    in the middle of a TLS handshake.
    """

    def __init__(self) -> None:
        self._opened: _NetworkStream | None = None

    async def on_trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of what httpcore reports. Not a checkpoint; it has to be async all the same."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            stream: _NetworkStream = info["return_value"]
            self._opened = self._opened or stream
            _merge_chunks(stream)

    async def aclose(self) -> None:
        """Close the socket, if there is one. Closed twice, it stays closed."""
        if self._opened is not None:
            await self._opened.aclose()


class _NetworkStream(Protocol):
    """The bytes of a connection, as httpcore has them."""

    read: Callable[[int, float | None], Awaitable[bytes]]
    write: Callable[[bytes, float | None], Awaitable[None]]

    async def aclose(self) -> None: ...


def _merge_chunks(stream: _NetworkStream) -> None:
    """Let all that has come of an answer be read at once: one HTTP chunk after the other takes httpx long."""
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

    with suppress(AttributeError):  # one that lets nothing be put in its place is read as it is
        stream.read, stream.write = read, write
