"""When a server's certificate has expired: TLS itself reports only that it has."""

from __future__ import annotations

import re
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

import trio

from engine.providers.http.endpoint import Endpoint

_TIMEOUT = 5.0
# Two times in a row, as DER writes them: UTCTime (two digits of the year) or GeneralizedTime (four).
_TIME = rb"(?:\x17\x0d(\d{12})Z|\x18\x0f(\d{14})Z)"
_VALIDITY = re.compile(_TIME + _TIME)


async def certificate_expiry(endpoint: Endpoint) -> str:
    """Return the date on which the certificate of *endpoint* expired, `2026-11-19`; empty if it can't be read.

    A checkpoint; takes at most five seconds. Only the TLS handshake is made: nothing is sent over this connection,
    which is not verified. If cancelled, it is closed.
    """
    parts = urlsplit(endpoint.base_url)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    certificate = b""
    with trio.move_on_after(_TIMEOUT), suppress(OSError, trio.BrokenResourceError, ValueError):  # noqa: ASYNC912  # the connection is the cancel point
        stream = await trio.open_ssl_over_tcp_stream(parts.hostname or "", parts.port or 443, ssl_context=context)
        try:
            await stream.do_handshake()
            certificate = stream.getpeercert(binary_form=True) or b""
        finally:
            await trio.aclose_forcefully(stream)
    await trio.lowlevel.checkpoint()
    return end_of_validity(certificate)


def end_of_validity(certificate: bytes) -> str:
    """Return the last day of a certificate in DER, `2026-11-19`; empty if it has none."""
    match = _VALIDITY.search(certificate)
    if match is None:
        return ""
    short, full = match[3], match[4]
    # RFC 5280: two digits from 50 on are of the last century.
    digits = full.decode() if full else (b"19" if short >= b"50" else b"20").decode() + short.decode()
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}"
