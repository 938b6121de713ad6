"""Which requests are served at all: by Host, Origin, Sec-Fetch-Site, method and content type, before anything else.

There are no cookies and no other credentials that a browser adds by itself, so a foreign page has nothing to borrow.
These checks stop it before a token is looked at: the page of another port, a name that was pointed at this machine (DNS
rebinding), a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

import attrs

from engine.control.transport.request_head import BadRequest, RequestHead

_METHODS: Final = frozenset({"GET", "HEAD", "POST"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# All addresses of a machine: where to listen, but no name of it. Programs of the machine itself reach it at another one.
WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # nothing is bound to them here
# The only address that takes something else than JSON.
UPLOADS: Final = "/v1/uploads"


@attrs.frozen
class AllowedAddresses:
    """The names by which the server may be addressed.

    Attributes:
        hosts: values of Host.
        origins: values of Origin.
        base: the path under which a proxy may pass requests on, without a slash at the end; mostly empty.
        methods: of HTTP that are answered there.
        untyped: whether a POST without a body needs no content type.
    """

    hosts: frozenset[str]
    origins: frozenset[str]
    base: str = ""
    methods: frozenset[str] = _METHODS
    untyped: bool = False

    @classmethod
    def on_port(cls, *ports: int, scheme: str = "http", names: Iterable[str] = ()) -> Self:
        """Return the names of the loopback at *ports*, and *names* at them."""
        own = (_bracketed(name.lower()) for name in names if name not in WILDCARDS)
        every = ("127.0.0.1", "localhost", "[::1]", *own)
        hosts = {f"{name}:{port}" for name in every for port in ports}
        if _DEFAULT_PORTS[scheme] in ports:
            hosts.update(every)
        return cls(frozenset(hosts), frozenset(f"{scheme}://{host}" for host in hosts))

    def and_url(self, url: str) -> Self:
        """Return these and the public address *url*, at which a proxy passes requests on.

        Raises:
            ValueError: it is no address of a server.
        """
        parts = urlsplit(url)
        default = _DEFAULT_PORTS.get(parts.scheme)
        # An empty name would be that of a request without a Host.
        if default is None or not parts.hostname or re.search(r"[@?#\s]", url):
            raise ValueError(f"not the address of a server: {url!r}")
        # Browsers leave the usual port out, other clients may name it.
        host = parts.netloc.lower().removesuffix(f":{default}")
        hosts = {host} if parts.port not in {None, default} else {host, f"{host}:{default}"}
        return attrs.evolve(
            self,
            hosts=self.hosts | hosts,
            origins=self.origins | {f"{parts.scheme}://{host}"},
            base=parts.path.rstrip("/"),
        )

    def and_origins(self, origins: Iterable[str]) -> Self:
        """Return these and *origins*: of a browser's extension, say. They are compared exactly."""
        return attrs.evolve(self, origins=self.origins | set(origins))


def check_access(head: RequestHead, allowed: AllowedAddresses) -> None:
    """Raise `BadRequest` if *head* may not be served."""
    if head.fields.get("host", "").lower() not in allowed.hosts:
        raise BadRequest(421, "this server is not known by that name")
    origin = head.fields.get("origin")
    if origin is not None and origin not in allowed.origins:
        raise BadRequest(403, "pages of other origins are refused")
    if not _is_from_here(head, origin, allowed):
        raise BadRequest(403, "requests of other sites are refused")
    if head.method not in allowed.methods:
        raise BadRequest(405, f"{head.method} is not supported")
    if head.method == "POST":
        _check_type(head, allowed)
    elif head.length:
        raise BadRequest(400, f"a body with {head.method}")


def _check_type(head: RequestHead, allowed: AllowedAddresses) -> None:
    """Raise `BadRequest` if a form can send the body, or a script of another origin without asking first."""
    if allowed.untyped and not head.length and "content-type" not in head.fields:
        return  # it says nothing: what stops another origin is its name, and that it has no token
    wanted = "application/octet-stream" if head.path == UPLOADS else "application/json"
    if head.fields.get("content-type", "").partition(";")[0].strip().lower() != wanted:
        raise BadRequest(415, f"send {wanted}")


def _is_from_here(head: RequestHead, origin: str | None, allowed: AllowedAddresses) -> bool:
    """Whether a browser says that the request comes from our page, or from a person who follows a link to it."""
    site = head.fields.get("sec-fetch-site")
    if site in {None, "same-origin", "none"} or origin in allowed.origins:
        return True
    # The page itself holds no data, so a link to it from elsewhere is harmless; but not in a frame.
    is_top = head.fields.get("sec-fetch-mode") == "navigate" and head.fields.get("sec-fetch-dest") in {None, "document"}
    return is_top and head.method == "GET" and head.path == "/"


def _bracketed(name: str) -> str:
    try:
        return f"[{name}]" if ip_address(name).version == 6 else name
    except ValueError:
        return name
