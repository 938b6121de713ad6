"""Why no connection was made: from the exceptions of the socket, of TLS and of a proxy, to facts."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import getproxies

import attrs

from engine.core.errors import ErrorCode, ErrorInfo
from engine.core.exception_groups import is_group
from engine.providers.http.endpoint import Endpoint

# OpenSSL's X509_V_ERR_* that mean: the chain does not end at an authority that is known here.
_UNTRUSTED = frozenset({2, 18, 19, 20, 21, 24, 27})
_EXPIRED = 10
_PROXY_LOGIN = re.compile(r"^407\b")
_DEEPEST = 12


@attrs.frozen
class ConnectionCause:
    """Why no connection was made.

    Attributes:
        info: the facts.
        is_permanent: a retry would fail in the same way.
    """

    info: ErrorInfo
    is_permanent: bool = False


def connection_cause(error: BaseException, endpoint: Endpoint, reason: str) -> ConnectionCause:
    """Return why the connection to *endpoint* failed with *error*; *reason* is its message."""
    if _PROXY_LOGIN.match(reason):
        return ConnectionCause(ErrorInfo(code="proxy_login", subject=_proxy_of(endpoint)), is_permanent=True)
    for cause in _chain(error, _DEEPEST):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ConnectionCause(ErrorInfo(code=_certificate_code(cause.verify_code)), is_permanent=True)
        if isinstance(cause, socket.gaierror):
            return ConnectionCause(ErrorInfo(code="name_not_found", subject=endpoint.host))
        if isinstance(cause, ConnectionRefusedError):
            return ConnectionCause(ErrorInfo(code="connection_refused", subject=_address(endpoint)))
    return ConnectionCause(ErrorInfo(code="connection_failed"))


def _certificate_code(verify_code: int) -> ErrorCode:
    if verify_code == _EXPIRED:
        return "certificate_expired"
    # A certificate for another name is neither: its message says what is wrong.
    return "certificate_untrusted" if verify_code in _UNTRUSTED else "connection_failed"


def _chain(error: BaseException | None, depth: int) -> Iterator[BaseException]:
    """Yield *error* and what caused it; trio groups the failures of several addresses."""
    while error is not None and depth:
        depth -= 1
        yield error
        if is_group(error):
            for member in error.exceptions:
                yield from _chain(member, depth)
        error = error.__cause__ or error.__context__


def _address(endpoint: Endpoint) -> str:
    parts = urlsplit(endpoint.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{parts.hostname}]:{port}" if ":" in (parts.hostname or "") else f"{parts.hostname}:{port}"


def _proxy_of(endpoint: Endpoint) -> str:
    """Return the proxy's address, without user and password; empty if it is unknown."""
    proxies = getproxies()
    url = proxies.get(urlsplit(endpoint.base_url).scheme) or proxies.get("all", "")
    return urlsplit(url if "://" in url else f"http://{url}").netloc.rpartition("@")[2] if url else ""
