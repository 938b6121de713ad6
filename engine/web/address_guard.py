"""Addresses on the web: what a URL names, and which addresses must not be connected to.

Anybody can write a page, and with it the URL that a model takes from it. It must
not lead to what only this machine, its network or its cloud can reach. A name is no
guide to that, so addresses are judged, after they were looked up: see `engine.web.fetch`.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs

from engine.core.errors import ConfigError, ToolError

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

MAX_URL_CHARS: Final = 8_192
MAX_REDIRECTS: Final = 5
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_ENDS_IN_NUMBER: Final = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
_PORTS: Final = {"http": 80, "https": 443}

# From IANA's registries of special-purpose addresses. Not `is_global` of the standard
# library: what it says depends on the patch level of the Python that runs us.
_CLOSED_V4: Final[tuple[tuple[IPv4Network, str], ...]] = tuple(
    (IPv4Network(block), kind)
    for block, kind in (
        ("0.0.0.0/8", "this machine's"),
        ("10.0.0.0/8", "a private"),
        ("100.64.0.0/10", "a provider's internal"),
        ("127.0.0.0/8", "a loopback"),
        ("168.63.129.16/32", "a cloud's internal"),
        ("169.254.0.0/16", "a link-local"),
        ("172.16.0.0/12", "a private"),
        ("192.0.0.0/24", "a reserved"),
        ("192.0.2.0/24", "a reserved"),
        ("192.88.99.0/24", "a reserved"),
        ("192.168.0.0/16", "a private"),
        ("198.18.0.0/15", "a reserved"),
        ("198.51.100.0/24", "a reserved"),
        ("203.0.113.0/24", "a reserved"),
        ("224.0.0.0/4", "a multicast"),
        ("240.0.0.0/4", "a reserved"),
    )
)
# In version 6 only 2000::/3 is allocated to the public, apart from these.
_WORLD_V6: Final = IPv6Network("2000::/3")
_CLOSED_V6: Final[tuple[tuple[IPv6Network, str], ...]] = tuple(
    (IPv6Network(block), kind)
    for block, kind in (
        ("::1/128", "a loopback"),
        ("::/96", "a reserved"),
        ("64:ff9b:1::/48", "a private"),
        ("fc00::/7", "a private"),
        ("fe80::/10", "a link-local"),
        ("fec0::/10", "a private"),
        ("ff00::/8", "a multicast"),
        ("2001::/23", "a reserved"),
        ("2001:db8::/32", "a reserved"),
        ("3fff::/20", "a reserved"),
    )
)
# An address of version 4 inside of one of version 6: where it begins.
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")


@attrs.frozen(kw_only=True)
class Target:
    """What a URL names, in one spelling for each thing.

    Attributes:
        url: without its fragment.
        scheme: `http` or `https`.
        host: in ASCII and lower case, without a dot at its end; an IP address in its usual spelling.
        port: the one of the scheme if the URL tells none.
        path: path and query, as they are sent.
    """

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str) -> Target:
    """Return what a URL names. Raises `ToolError` for what is no plain http(s) URL; its text is short, and not the URL.

    Whoever judges a URL and whoever connects must read it alike, so all go by what
    this returns.
    """
    import httpx

    if len(text) > MAX_URL_CHARS:
        raise ToolError(f"it has {len(text):,} characters; the limit is {MAX_URL_CHARS:,}")
    if not text.isprintable() or any(character.isspace() or character == "\\" for character in text):
        raise ToolError("it holds blanks, backslashes or characters that can't be seen")
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise ToolError("it must begin with https:// or http://")
    if "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        raise ToolError("it holds a user's name or password; none is sent")
    try:
        url = httpx.URL(text)
        host = _host(url.raw_host.decode("ascii"))
    except (httpx.InvalidURL, ValueError, UnicodeError) as error:
        raise ToolError(f"it is no URL ({str(error)[:60]})") from error
    port = _PORTS[scheme] if url.port is None else url.port
    if not 0 < port < 65_536:
        raise ToolError(f"there is no port {port}")
    target = Target(url="", scheme=scheme, host=host, port=port, path=url.raw_path.decode("ascii"))
    return attrs.evolve(target, url=f"{scheme}://{target.authority}{target.path}")


def _host(host: str) -> str:
    host = host.lower().removesuffix(".")
    if ":" in host:
        address = IPv6Address(host)
        if address.scope_id is not None:
            raise ValueError("a host of one network interface only")
        return str(address.ipv4_mapped or address)
    if _ENDS_IN_NUMBER.fullmatch(host):
        # All the ways to write an IPv4 address: 127.1, 0x7f.1, 2130706433, 0177.0.0.1.
        try:
            return str(IPv4Address(socket.inet_aton(host)))
        except OSError as error:
            raise ValueError(f"its host is no IP address: {host}") from error
    if not _NAME.fullmatch(host):
        raise ValueError(f"its host is no name: {host}" if host else "it has no host")
    return host


@attrs.frozen
class Guard:
    """Says which addresses may be connected to.

    Attributes:
        allowed: networks that are open although they are not the world's.
    """

    allowed: tuple[IpNetwork, ...] = ()

    @classmethod
    def of(cls, allowed: Iterable[str]) -> Guard:
        """Make a guard that allows these addresses and networks too. Raises `ConfigError` for what is none."""
        if isinstance(allowed, str):
            raise ConfigError(f"the private addresses to allow are several texts, not one: {allowed!r}")
        try:
            return cls(tuple(ip_network(block) for block in allowed))
        except ValueError as error:
            raise ConfigError(f"allow_private takes IP addresses and networks such as 127.0.0.0/8: {error}") from error

    def allows(self, address: str) -> bool:
        """Tell whether *address* is allowed by name, even if it is private."""
        parsed = ip_address(address.partition("%")[0])
        return any(parsed in network for network in self.allowed)

    def objection(self, address: IpAddress) -> str:
        """Return why *address* is closed: "a private address", say; empty if it is open."""
        if any(address in network for network in self.allowed):
            return ""
        inner = _inside(address)
        if inner is not None:
            return self.objection(inner)
        closed = _CLOSED_V4 if isinstance(address, IPv4Address) else _CLOSED_V6
        for network, kind in closed:
            if address in network:
                return f"{kind} address"
        return "" if isinstance(address, IPv4Address) or address in _WORLD_V6 else "a reserved address"

    def check(self, host: str, address: str) -> None:
        """Raise `ToolError` if *host*, which was found at *address*, may not be connected to."""
        objection = self.objection(ip_address(address.partition("%")[0]))
        if objection:
            resolved = "" if host == address else f" ({address})"
            raise ToolError(
                f"Refused: {host}{resolved} is {objection}. Only what is on the public internet is fetched; don't try to "
                "get around it."
            )


def _inside(address: IpAddress) -> IPv4Address | None:
    """Return the address of version 4 that one of version 6 stands for, if it does."""
    if isinstance(address, IPv4Address):
        return None
    if address in _MAPPED or address in _TRANSLATED:
        return IPv4Address(address.packed[-4:])
    return IPv4Address(address.packed[2:6]) if address in _SIX_TO_FOUR else None


def literal(host: str) -> str | None:
    """Return *host* if it is an IP address, not a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def host_of(base_url: str) -> str:
    """Return the host of a URL of ours, fit to be shown."""
    return urlsplit(base_url).hostname or base_url
