"""What the command and its Ray client process say to each other: a line of JSON for each message. Pure."""

from __future__ import annotations

import json
from typing import Final, Literal, cast

import attrs

from engine.core.value_base import Value

# Why a cluster can't be used. missing: Ray is not installed. empty: no machine of it has room for an attempt.
RefusalKind = Literal["missing", "unreachable", "token", "version", "empty", "failed"]
# Why a task has no result. worker: its process or its machine has died. memory: it was killed for want of memory.
LossKind = Literal["worker", "memory", "cancelled", "failed"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConnectOrder(Value):
    """Connect to a cluster, and compare the versions on its machines.

    Attributes:
        address: the cluster's; empty: that of the environment or of this machine, or else a new one.
        function: what runs in workers, as `module:function`: it takes a text and returns one.
        version: the engine's, which all machines must have.
        cpus: what each attempt takes; so is `memory`, in bytes, which 0 leaves out.
        stop_seconds: how long attempts may take to end after a cancel.
    """

    address: str
    function: str
    version: str
    cpus: float
    memory: int
    stop_seconds: float


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SubmitOrder(Value):
    """Run an attempt. *key* names it in later messages."""

    key: str
    work: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CancelOrder(Value):
    """Cancel an attempt; *is_forced*: kill its worker."""

    key: str
    is_forced: bool


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MachineOrder(Value):
    """Run another function on a machine, alongside its other work; the result is not awaited.

    Attributes:
        machine: its id; empty: on all of them.
        function: as `module:function`: it takes a text.
    """

    machine: str
    function: str
    work: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClusterConnected(Value):
    """The cluster is there, and its machines fit.

    Attributes:
        slots: how many attempts it can run at once.
        machines: how many of its machines can run one.
    """

    slots: int
    machines: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClusterRefused(Value):
    """The cluster can't be used."""

    kind: RefusalKind
    message: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClusterCapacity(Value):
    """The cluster can run that many attempts at once from now on."""

    slots: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkEnded(Value):
    """An attempt is over."""

    key: str
    result: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class WorkMissing(Value):
    """An attempt has no result."""

    key: str
    kind: LossKind
    message: str


ClientOrder = ConnectOrder | SubmitOrder | CancelOrder | MachineOrder
ClientReply = ClusterConnected | ClusterRefused | ClusterCapacity | WorkEnded | WorkMissing
_KINDS: Final = {
    kind.__name__: kind
    for kind in (
        ConnectOrder,
        SubmitOrder,
        CancelOrder,
        MachineOrder,
        ClusterConnected,
        ClusterRefused,
        ClusterCapacity,
        WorkEnded,
        WorkMissing,
    )
}


def encode_line(message: ClientOrder | ClientReply) -> bytes:
    """Return a message as a line, with its end."""
    return json.dumps([type(message).__name__, attrs.asdict(message)]).encode() + b"\n"


def decode_line(line: bytes) -> ClientOrder | ClientReply | None:
    """Return the message of a line; None: it is none, but something that a library has printed."""
    try:
        name, fields = cast("tuple[str, dict[str, object]]", json.loads(line))
        kind = _KINDS[name]
        return kind(**fields)  # type: ignore[arg-type]  # both ends are of one version
    except (ValueError, TypeError, KeyError):
        return None
