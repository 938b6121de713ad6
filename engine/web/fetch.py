"""Fetch from the web: one GET, or one request to a configured service, over httpx and within limits.

`fetch` follows URLs that anyone may have written, so it checks where they lead:

- A name is looked up once; if any of its addresses is refused (see `Guard`), so is the URL. The connection goes to one
  of the judged addresses, with the name in the Host header and in TLS. Without a second look-up, the name's owner can't
  answer it differently (DNS rebinding). The peer's address is checked once more when the connection is established: it
  must not be this machine's.
- Redirects are followed on the same host. A redirect to another host is reported, not followed: the permission was for
  the first host.
- If the environment sets a proxy for the URL, the proxy looks the name up, and its result is unknown to us. Then an IP
  address in the URL is judged, and the name if it resolves here; the rest is up to the proxy.

It sends no cookies and no credentials. A cancel closes the socket synchronously: httpx would await in its clean-up.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import urljoin
from urllib.request import getproxies, proxy_bypass

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.web.address_guard import MAX_REDIRECTS, AddressRefused, Guard, Target, literal, parse_url
from engine.web.page_content import too_large, unpacked

if TYPE_CHECKING:
    import ssl

    import httpx

USER_AGENT: Final = f"nursery-engine/{__version__}"
# For each address, so that one that does not answer leaves time for the next.
_CONNECT_SECONDS: Final = 10.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@attrs.frozen(kw_only=True)
class FetchReply:
    """A complete response.

    Attributes:
        url: the last URL requested.
        status: the HTTP status.
        reason: its reason phrase.
        content_type: the header.
        location: where a redirect leads; empty if it isn't one.
        body: decompressed.
    """

    url: str
    status: int
    reason: str
    content_type: str
    location: str
    body: bytes


async def fetch(url: str, *, guard: Guard, limit: int, accept: str) -> FetchReply:
    """Return the response to *url*, or a redirect to another host, which is not followed. A checkpoint.

    Raises `ToolError` if it is refused or fails. It has no timeout of its own. If cancelled, the socket is closed.
    """
    target = parse_url(url)
    question = _Question(method="GET", headers={"accept": accept})
    for _ in range(MAX_REDIRECTS + 1):
        proxy = _proxy_for(target)
        addresses = await _resolve(target, guard, is_proxied=bool(proxy))
        way = _Way(target=target, addresses=addresses, proxy=proxy, guard=guard)
        reply = await _send(way, question, limit)
        if not reply.location:
            return reply
        following = _parse_redirect(reply)
        if following.host != target.host:
            # Checked now, so that a redirect into the private network is refused instead of offered to the model.
            await _resolve(following, guard, is_proxied=bool(_proxy_for(following)))
            return attrs.evolve(reply, location=following.url)
        target = following
    raise ToolError(f"It redirects more than {MAX_REDIRECTS} times, the last time to {target.url}.")


async def ask(method: str, url: str, headers: Mapping[str, str], body: bytes, *, limit: int) -> FetchReply:
    """Send a request to a service that the user has configured, at any address. A checkpoint; raises as `fetch`."""
    target = parse_url(url)
    # A proxy elsewhere can't reach a service on this machine.
    proxy = "" if target.host in {"localhost", "127.0.0.1", "::1"} else _proxy_for(target)
    way = _Way(target=target, addresses=(target.host,), proxy=proxy, guard=None)
    return await _send(way, _Question(method=method, headers=headers, body=body), limit)


def _parse_redirect(reply: FetchReply) -> Target:
    try:
        return parse_url(urljoin(reply.url, reply.location))
    except (ToolError, ValueError) as error:
        raise ToolError(f"{reply.url} redirects to what can't be fetched: {error}.") from error


# -- where to --------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Way:
    """The route to a host.

    Attributes:
        target: the host and what to request from it.
        addresses: what to connect to, in this order; with a proxy, none.
        proxy: its URL; empty: none.
        guard: judges the peer's address; None: any peer is allowed.
    """

    target: Target
    addresses: tuple[str, ...]
    proxy: str
    guard: Guard | None


@attrs.frozen(kw_only=True)
class _Question:
    """A request without its URL."""

    method: str
    headers: Mapping[str, str] = attrs.field(repr=False)  # a key may be among them
    body: bytes = b""


def _proxy_for(target: Target) -> str:
    """Return the proxy that the environment names for *target*; empty: none."""
    # The standard library's rules for NO_PROXY, so that curl, pip and we agree.
    if proxy_bypass(target.authority):
        return ""
    proxies = getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all") or ""
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


async def _resolve(target: Target, guard: Guard, *, is_proxied: bool) -> tuple[str, ...]:
    """Resolve a host. Raises `ToolError` if one of its addresses is refused, or it has none."""
    if literal(target.host) is not None:
        guard.check(target.host, target.host)
        await trio.lowlevel.checkpoint()
        return (target.host,)
    try:
        resolved = await trio.socket.getaddrinfo(target.host, target.port, type=trio.socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if is_proxied:  # only the proxy can resolve it
            return ()
        raise ToolError(f"The host {target.host} can't be found: {_words(error)}.") from error
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in resolved))
    # All of them: a host with one public and one private address is a way around the check.
    for address in addresses:
        guard.check(target.host, address)
    return addresses


class _Connected(Protocol):
    """A socket that is connected."""

    def getpeername(self) -> Sequence[object]: ...
    def getsockname(self) -> Sequence[object]: ...


def check_peer(guard: Guard, host: str, connected: _Connected) -> None:
    """Raise `AddressRefused` if the peer of a connection is refused, or is this machine under any of its addresses."""
    there, here = str(connected.getpeername()[0]), str(connected.getsockname()[0])
    guard.check(host, there)
    # Equal ends: the machine's public address, which no table of private networks contains.
    if there == here and not guard.allows(there):
        raise AddressRefused(f"{host} ({there}) is this machine")


# -- one request -----------------------------------------------------------------------------------


class _NetworkStream(Protocol):
    """A connection, as httpcore exposes it."""

    def get_extra_info(self, info: str) -> object: ...


@attrs.define(eq=False)
class _Socket:
    """The socket of a request: judged once it is connected, closed in any case."""

    way: _Way
    opened: trio.socket.SocketType | None = attrs.field(default=None, init=False)

    async def note(self, event: str, info: Mapping[str, object]) -> None:
        """Watch httpcore's trace events for the connection. Not a checkpoint; httpcore requires an async function."""
        if not event.endswith("connect_tcp.complete"):
            return
        stream = cast("_NetworkStream", info["return_value"])
        self.opened = cast("trio.socket.SocketType", stream.get_extra_info("socket"))
        # Here, before any byte is sent. The peer of a proxied connection is the proxy, which the user chose.
        if self.way.guard is not None and not self.way.proxy:
            check_peer(self.way.guard, self.way.target.host, self.opened)

    def close(self) -> None:
        """Close it if it was opened. Not a checkpoint."""
        if self.opened is not None:
            self.opened.close()


async def _send(way: _Way, question: _Question, limit: int) -> FetchReply:
    import httpx

    trust = await to_thread(_trusted, way.target.scheme, way.proxy)
    addresses = way.addresses if not way.proxy else (way.target.host,)
    for address in addresses:
        connection = _Socket(way)
        # The next address is tried only where no connection came about: a request must not be sent twice.
        try:
            request = _request(way, address, question, connection)
            response = await _transport(way.proxy, trust).handle_async_request(request)
            return await _reply(way.target, response, limit)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if address == addresses[-1]:
                raise ToolError(f"{way.target.host} can't be reached: {_words(error)}.") from error
        except httpx.HTTPError as error:
            raise ToolError(f"The connection to {way.target.host} failed: {_words(error)}.") from error
        finally:
            connection.close()
    raise ToolError(f"{way.target.host} has no address.")


def _transport(proxy: str, trust: ssl.SSLContext) -> httpx.AsyncHTTPTransport:
    import httpx

    try:
        return httpx.AsyncHTTPTransport(verify=trust, trust_env=False, proxy=proxy or None)
    except (ImportError, ValueError, httpx.InvalidURL):
        # `from None`: the proxy's address may contain a password.
        raise ToolError("The proxy that the environment names can't be used: its address is no good.") from None


def _request(way: _Way, address: str, question: _Question, connection: _Socket) -> httpx.Request:
    import httpx

    target = way.target
    return httpx.Request(
        question.method,
        httpx.URL(scheme=target.scheme, host=address, port=target.port, raw_path=target.path.encode("ascii")),
        headers={
            "host": target.authority,
            "user-agent": USER_AGENT,
            # One request per connection: nothing has to be kept, or closed later.
            "connection": "close",
            # What `unpacked` can decompress within the limit. httpx would decompress without one.
            "accept-encoding": "gzip, deflate",
            **question.headers,
        },
        content=question.body,
        extensions={
            "timeout": {"connect": _CONNECT_SECONDS},
            "trace": connection.note,
            "sni_hostname": target.host,  # the certificate must be the name's, not the address's
        },
    )


async def _reply(target: Target, response: httpx.Response, limit: int) -> FetchReply:
    headers: Mapping[str, str] = response.headers
    chunks = aiter(cast("httpx.AsyncByteStream", response.stream))
    location = headers.get("location", "") if response.status_code in _REDIRECTS else ""
    body = b"" if location else await _read(chunks, headers.get("content-length", ""), limit)
    if body is None:
        raise too_large(limit)
    if location:
        await _leave(chunks)
    return FetchReply(
        url=target.url,
        status=response.status_code,
        reason=_printable(response.reason_phrase),
        content_type=headers.get("content-type", ""),
        # Some servers don't escape blanks in it.
        location=location.replace(" ", "%20"),
        body=await to_thread(unpacked, body, headers.get("content-encoding", ""), limit),
    )


async def _read(chunks: AsyncIterator[bytes], announced: str, limit: int) -> bytes | None:
    """Return the body; None if it is, or is announced to be, larger than *limit*."""
    received = bytearray()
    # More than 18 digits need no conversion, which takes quadratic time in their number.
    is_too_large = announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > limit)
    while not is_too_large and (chunk := await anext(chunks, None)) is not None:
        received += chunk
        is_too_large = len(received) > limit
    if is_too_large:
        await _leave(chunks)
        return None
    return bytes(received)


async def _leave(chunks: AsyncIterator[bytes]) -> None:
    """Stop reading in the middle: a cancelled read unwinds httpx's chain of generators. A checkpoint."""
    with trio.CancelScope() as scope:
        scope.cancel(reason="the rest of the answer is not needed")
        while await anext(chunks, None) is not None:
            pass
    await trio.lowlevel.checkpoint()


def _words(error: BaseException) -> str:
    """Return the message of an error, or of its first cause that has one: under Trio httpx's own is empty."""
    cause: BaseException | None = error
    while cause is not None:
        if words := str(cause):
            return _printable(words)
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:200])


def _trusted(scheme: str, proxy: str) -> ssl.SSLContext:
    """Return the TLS trust store; an empty one for plain HTTP, since loading the authorities takes 20 ms and more."""
    import ssl

    import httpx

    if scheme == "http" and not proxy.startswith("https"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As curl and OpenSSL do; httpx reads these variables only with `trust_env`, which would also read .netrc.
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if file is folder is None:
        return httpx.create_ssl_context()
    return ssl.create_default_context(cafile=file, capath=folder)
