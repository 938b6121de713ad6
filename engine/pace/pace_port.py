"""The port through which each request takes a permit, and its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import attrs

from engine.core.value_base import Value


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PaceKey(Value):
    """Whose limits a request counts against. Hosts have limits for each model and each account.

    Attributes:
        host: the host's name.
        model: the model, as a user writes it.
        account: a hash of the address and the key (`ModelInfo.account`).
    """

    host: str
    model: str
    account: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermitOutcome(Value):
    """How a request has ended.

    Attributes:
        kind: "rate_limited" (HTTP 429) shrinks the limit, "answered" lets it grow; the others do neither.
        wait: seconds for which the host wants no request; 0: it does not say.
        tokens: what the request has taken; 0: not known.
    """

    kind: Literal["answered", "rate_limited", "failed", "cancelled"]
    wait: float = 0.0
    tokens: int = 0


class Permit(Protocol):
    """The permission for one request that is under way."""

    def release(self, outcome: PermitOutcome) -> None:
        """Give it back, once the request is over. Not a checkpoint; a second call does nothing."""
        ...


class Pace(Protocol):
    """Decides when requests may be sent."""

    async def acquire(
        self, key: PaceKey, *, tokens: Callable[[], int], longest: float, notify: Callable[[str], None]
    ) -> Permit:
        """Wait until a request may be sent, and return its permit. A checkpoint if it has to wait.

        If cancelled, nothing is taken. Raises `RateLimited` if the host wants no request for longer than *longest*
        seconds: then the turn decides, as when the host itself says so.

        Args:
            key: whose limits it counts against.
            tokens: estimates its prompt; called only where tokens are limited.
            longest: see above.
            notify: called once with the reason, if the request has to wait.
        """
        ...


@runtime_checkable
class ServedPace(Pace, Protocol):
    """A pace with background work while an engine is open."""

    async def serve(self) -> None:
        """Work until cancelled. Must raise no ordinary exception."""
        ...

    async def aclose(self) -> None:
        """Give back what is left."""
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LaneStatus(Value):
    """The requests to one model at one host, for displays.

    Attributes:
        limit: how many may be under way for all who share it.
        permits: how many of them are for this process.
        in_flight: how many are under way in this process.
        waiting: how many wait in this process.
        cooldown: seconds until the host accepts requests again.
        rate_limits: how many were refused in this process, with 429.
    """

    key: PaceKey
    limit: float
    permits: int
    in_flight: int
    waiting: int
    cooldown: float
    rate_limits: int
