"""Addresses on the web: what a URL names, and which addresses must not be connected to.

Anyone can write a page, and with it the URLs that a model takes from it (server-side request forgery). Such a URL must
not reach what only this machine, its network or its cloud can reach. A name proves nothing, since its owner points it
at any address, so addresses are judged after the look-up: see `engine.web.fetch`.
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
from engine.core.lazy import regex
from engine.core.value_base import Value

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

# As long as most servers accept; a longer one carries data, and the model has to repeat it.
MAX_URL_CHARS: Final = 8_192
# Browsers allow about 20; pages that are worth reading need one or two.
MAX_REDIRECTS: Final = 5
# With underscores, which DNS allows and real hosts have.
_NAME: Final = regex(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
# A host whose last label is a number is an IPv4 address to every client, or an error: never a name.
_ENDS_IN_NUMBER: Final = regex(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
_PORTS: Final = {"http": 80, "https": 443}

# From IANA's registries of special-purpose addresses. Not the standard library's `is_global`: its tables change with
# the patch level of the Python that runs us.
_CLOSED_V4: Final[tuple[tuple[IPv4Network, str], ...]] = tuple(
    (IPv4Network(block), kind)
    for block, kind in (
        ("0.0.0.0/8", "this machine's"),
        # "This network": Linux connects 0.0.0.0 to the machine itself.
        ("10.0.0.0/8", "a private"),
        ("100.64.0.0/10", "a provider's internal"),
        ("127.0.0.0/8", "a loopback"),
        # Azure's platform services, at an address that looks public.
        ("168.63.129.16/32", "a cloud's internal"),
        # Link-local, where the metadata services of AWS, GCP and others hand out credentials.
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
        # Local translation (RFC 8215): leads into private IPv4 networks.
        ("64:ff9b:1::/48", "a private"),
        ("fc00::/7", "a private"),
        ("fe80::/10", "a link-local"),
        ("fec0::/10", "a private"),
        ("ff00::/8", "a multicast"),
        # Protocol assignments, Teredo among them, which wraps IPv4 addresses.
        ("2001::/23", "a reserved"),
        ("2001:db8::/32", "a reserved"),
        ("3fff::/20", "a reserved"),
    )
)
# IPv6 networks whose addresses contain an IPv4 address; that one is judged.
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Target(Value):
    """The host and path that a URL names, normalised so that equal targets are equal.

    Attributes:
        url: without its fragment.
        scheme: `http` or `https`.
        host: in ASCII and lower case, without a dot at its end; an IP address in its usual spelling.
        port: the scheme's default if the URL has none.
        path: path and query, as they are sent.
    """

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str) -> Target:
    """Parse a URL. Raises `ToolError` for anything but a plain http(s) URL; its message does not repeat the URL.

    Parsers disagree on odd URLs, and a check with one parser is bypassed through another. So all code goes by this
    result.
    """
    import httpx

    if len(text) > MAX_URL_CHARS:
        raise ToolError(f"it has {len(text):,} characters; the limit is {MAX_URL_CHARS:,}")
    # Browsers read a backslash as a slash, httpx doesn't; line breaks could smuggle a header.
    if not text.isprintable() or any(character.isspace() or character == "\\" for character in text):
        raise ToolError("it holds blanks, backslashes or characters that can't be seen")
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise ToolError("it must begin with https:// or http://")
    # Before parsing: `https://good.example@evil.example/` looks like the wrong host to people and to some parsers.
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
    # "localhost." with the dot of the DNS root is the same host, and would pass a comparison.
    host = host.lower().removesuffix(".")
    if ":" in host:
        address = IPv6Address(host)
        # fe80::1%eth0 names a network interface of this machine.
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


class AddressRefused(ToolError):
    """An address may not be connected to. The message is for a model.

    Attributes:
        objection: the reason alone, for people.
    """

    def __init__(self, objection: str) -> None:
        super().__init__(
            f"Refused: {objection}. Only what is on the public internet is fetched; don't try to get around it."
        )
        self.objection = objection


@attrs.frozen(eq=False, repr=False)
class Guard(Value):
    """Decides which addresses may be connected to.

    Attributes:
        allowed: networks that may be connected to although they are not public.
    """

    allowed: tuple[IpNetwork, ...] = ()

    @classmethod
    def of(cls, allowed: Iterable[str]) -> Guard:
        """Make a guard that also allows these addresses and networks. Raises `ConfigError` if one is invalid."""
        if isinstance(allowed, str):
            raise ConfigError(f"the private addresses to allow are several texts, not one: {allowed!r}")
        try:
            return cls(tuple(ip_network(block) for block in allowed))
        except ValueError as error:
            raise ConfigError(f"allow_private takes IP addresses and networks such as 127.0.0.0/8: {error}") from error

    def allows(self, address: str) -> bool:
        """Return whether *address* is allowed by name, even if it is private."""
        parsed = ip_address(address.partition("%")[0])
        return any(parsed in network for network in self.allowed)

    def objection(self, address: IpAddress) -> str:
        """Return why *address* is not allowed, such as "a private address"; empty if it is."""
        if any(address in network for network in self.allowed):
            return ""
        inner = _inside(address)
        if inner is not None:
            # ::ffff:127.0.0.1 is 127.0.0.1: judge where the packets would go.
            return self.objection(inner)
        closed = _CLOSED_V4 if isinstance(address, IPv4Address) else _CLOSED_V6
        for network, kind in closed:
            if address in network:
                return f"{kind} address"
        return "" if isinstance(address, IPv4Address) or address in _WORLD_V6 else "a reserved address"

    def check(self, host: str, address: str) -> None:
        """Raise `AddressRefused` if *host*, which was found at *address*, may not be connected to."""
        objection = self.objection(ip_address(address.partition("%")[0]))
        if objection:
            resolved = "" if host == address else f" ({address})"
            raise AddressRefused(f"{host}{resolved} is {objection}")


def _inside(address: IpAddress) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, if it wraps one."""
    if isinstance(address, IPv4Address):
        return None
    if address in _MAPPED or address in _TRANSLATED:
        return IPv4Address(address.packed[-4:])
    return IPv4Address(address.packed[2:6]) if address in _SIX_TO_FOUR else None


def literal(host: str) -> str | None:
    """Return *host* if it is an IP address; None if it is a name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def host_of(base_url: str) -> str:
    """Return the host of a configured URL, for messages."""
    return urlsplit(base_url).hostname or base_url
