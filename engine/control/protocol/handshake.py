"""The first messages of a connection: versions, who is who, and what both sides can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import attrs

from engine.control.protocol.bounds import Name, ShortText, Text
from engine.control.protocol.wire_converter import Params

# "read" sees all; "answer" also answers questions and cancels turns; "full" may do everything.
Role = Literal["read", "answer", "full"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
# The versions that this engine speaks. Within one, changes only add.
LOWEST: Final = 1
HIGHEST: Final = 1


@attrs.frozen(kw_only=True)
class VersionRange(Params):
    """The versions of the protocol that one side speaks.

    Attributes:
        min: the lowest.
        max: the highest.
    """

    min: int
    max: int


@attrs.frozen(kw_only=True)
class ClientInfo(Params):
    """A client program.

    Attributes:
        name: what other clients are shown.
        version: its version.
        instance: a random text that stays the same for one installation. It is no credential.
    """

    name: Name
    version: ShortText = ""
    instance: ShortText = ""


@attrs.frozen(kw_only=True)
class HelloParams(Params):
    """The first request of a connection.

    Attributes:
        protocol: the versions that the client speaks.
        client: what the client is.
        capabilities: what it can do beyond the version, by name; unknown names are ignored.
        ticket: a ticket instead of a token, for browsers.
        role: less than the token gives.
    """

    protocol: VersionRange
    client: ClientInfo
    capabilities: Mapping[str, object] = attrs.field(factory=dict[str, object])
    ticket: Text | None = None
    role: Role | None = None


@attrs.frozen(kw_only=True)
class ServerInfo:
    """A server.

    Attributes:
        version: the engine's version.
        instance: a random text, new for each start.
        started: when it was started, in seconds since the epoch, like all times.
    """

    version: str
    instance: str
    started: float


@attrs.frozen(kw_only=True)
class WireLimits:
    """The server's limits.

    Attributes:
        message_bytes: the maximum size of a client's message.
        batch: the maximum number of messages in a batch.
        in_flight: how many requests of a connection may run at once.
        subscriptions: how many subscriptions a connection may have.
        upload_bytes: the maximum size of an upload.
    """

    message_bytes: int = 1 << 20
    batch: int = 32
    in_flight: int = 64
    subscriptions: int = 64
    upload_bytes: int = 32 << 20


@attrs.frozen(kw_only=True)
class HelloResult:
    """What a client has to know of its server.

    Attributes:
        protocol: the version that both speak from now on.
        server: which server this is.
        epoch: the life of the server's store; positions of another epoch are answered by a snapshot.
        time: the server's clock.
        role: what this connection may do.
        client_id: this connection's name in `clients` and in `by`.
        heartbeat: the longest time without a message from the server, in seconds.
        limits: the server's limits.
        schema: the SHA-256 digest of the schema.
        events: the types of events, with the version of each.
        capabilities: what the server can do, by name.
        deprecated: versions and methods that will be removed.
    """

    protocol: int
    server: ServerInfo
    epoch: str
    time: float
    role: Role
    client_id: str
    heartbeat: float
    limits: WireLimits = WireLimits()
    schema: str
    events: Mapping[str, int]
    capabilities: Mapping[str, object] = attrs.field(factory=dict[str, object])
    deprecated: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class PingParams(Params):
    """No parameters."""


@attrs.frozen(kw_only=True)
class PingResult:
    """The server's clock.

    Attributes:
        time: in seconds since the epoch.
    """

    time: float


def common_version(client: VersionRange) -> int | None:
    """Return the highest version that a client and this engine speak; None: there is none."""
    version = min(client.max, HIGHEST)
    return version if version >= max(client.min, LOWEST) else None


def lower_role(granted: Role, requested: Role | None) -> Role:
    """Return the role of a connection: what its token grants, or less if it wants less."""
    return granted if requested is None else ROLES[min(ROLES.index(granted), ROLES.index(requested))]


def may(role: Role, needed: Role) -> bool:
    """Return whether *role* includes *needed*."""
    return ROLES.index(role) >= ROLES.index(needed)
