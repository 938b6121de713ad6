"""`Lane`: the requests to one model at one host, in the order in which they came.

Only the first of those who wait looks whether it may go, and only a running task takes a permit: nothing is handed to a
task that may have been cancelled since, so no cancel can lose a permit.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf
from typing import Final, final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError, ErrorInfo, RateLimited
from engine.core.value_base import Value
from engine.pace.adaptive_limit import PAUSE
from engine.pace.minute_window import MinuteWindow
from engine.pace.pace_port import LaneStatus, PaceKey, PermitOutcome

# Seconds. One header that was misread must not keep a fleet from a host for a year.
LONGEST_WAIT: Final = 3_600.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PaceLimits(Value):
    """What a user limits.

    Attributes:
        reserve: the share of the host's limits that is left to others, from 0 to less than 1.
        requests_minute: the requests in any minute; None: no such limit.
        tokens_minute: the tokens in any minute, of prompts and answers, cached ones included; None: no such limit.
    """

    reserve: float = 0.0
    requests_minute: int | None = None
    tokens_minute: int | None = None

    def __attrs_post_init__(self) -> None:
        if not 0.0 <= self.reserve < 1.0:
            raise ConfigError(f"the reserve of a pace is a share from 0 to less than 1, not {self.reserve!r}")
        for name in ("requests_minute", "tokens_minute"):
            value = getattr(self, name)
            if value is not None and not value >= 1:
                raise ConfigError(f"{name} of a pace must be a whole number above 0, not {value!r}")

    def window(self, limit: int | None) -> MinuteWindow | None:
        """Return the window for one of the limits, less the reserve; None if there is no such limit."""
        return None if limit is None else MinuteWindow(limit * (1.0 - self.reserve))


@attrs.frozen(eq=False, repr=False)
class _Obstacle(Value):
    """Why a request can't go, and in how many seconds to look again."""

    reason: str
    seconds: float = inf
    cooldown: float = 0.0


@attrs.define(eq=False, repr=False)
class _Waiter:
    changed: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, repr=False, kw_only=True)
class Lane:
    """See the module.

    Attributes:
        on_outcome: called when a request is over, with the answers that count for the limit: 1 if it was answered while all
            permits were taken.
        on_wait: called when a request has to wait.
        permits: how many requests may be under way.
        usable_until: when the permits end, unless they are renewed; on trio's clock, as all times here.
        cooldown_until: before that, no request may be sent.
        unusable_reason: why there are no permits any more.
        in_flight: how many requests are under way.
        rate_limits: how many were refused.
        used_at: when a request was under way last.
    """

    key: PaceKey
    on_outcome: Callable[[Lane, PermitOutcome, int], None]
    on_wait: Callable[[Lane], None]
    permits: int = 0
    usable_until: float = inf
    cooldown_until: float = -inf
    unusable_reason: str = "waiting for permits"
    requests: MinuteWindow | None = None
    tokens: MinuteWindow | None = None
    in_flight: int = attrs.field(default=0, init=False)
    rate_limits: int = attrs.field(default=0, init=False)
    used_at: float = attrs.field(default=-inf, init=False)
    _waiters: dict[_Waiter, None] = attrs.field(factory=dict[_Waiter, None], init=False)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiters)

    def status(self, limit: float) -> LaneStatus:
        """Return what a display shows. Not a checkpoint."""
        return LaneStatus(
            key=self.key,
            limit=limit,
            permits=self.permits,
            in_flight=self.in_flight,
            waiting=self.waiting,
            cooldown=max(0.0, self.cooldown_until - trio.current_time()),
            rate_limits=self.rate_limits,
        )

    @enable_ki_protection
    async def acquire(self, tokens: Callable[[], int], longest: float, notify: Callable[[str], None]) -> LanePermit:
        """See `Pace.acquire`."""
        estimate = tokens() if self.tokens is not None else 0
        waiter = _Waiter()
        self._waiters[waiter] = None
        is_reported = False
        try:
            while (obstacle := self._obstacle(waiter, estimate, longest)) is not None:
                if obstacle.cooldown:
                    raise self._refusal(obstacle)
                if not is_reported:
                    is_reported = True
                    notify(obstacle.reason)
                self.on_wait(self)
                with trio.move_on_after(obstacle.seconds):
                    await waiter.changed.wait()
                waiter.changed = trio.Event()
        finally:
            del self._waiters[waiter]
            # The next waiter looks for itself, also if this one is cancelled.
            self.wake_first()
        # No checkpoint since the look, so no other task can have taken it.
        now = trio.current_time()
        if self.requests is not None:
            self.requests.take(1, now)
        if self.tokens is not None:
            self.tokens.take(estimate, now)
        self.in_flight += 1
        self.used_at = now
        return LanePermit(self, estimate)

    def wake_first(self) -> None:
        """Let the first who waits look again: there may be a permit. Not a checkpoint."""
        for waiter in self._waiters:
            waiter.changed.set()
            return

    def pause(self, seconds: float) -> None:
        """Let no request be sent for so many seconds. Not a checkpoint."""
        until = trio.current_time() + seconds
        if until > self.cooldown_until:
            self.cooldown_until = until
            # All of them: for some it may be longer than they want to wait.
            for waiter in self._waiters:
                waiter.changed.set()

    def leave(self, estimate: int, outcome: PermitOutcome) -> None:
        """Take back the permit of a request that is over. Not a checkpoint."""
        now = trio.current_time()
        was_full = bool(self._waiters) or self.in_flight >= self.permits
        self.in_flight -= 1
        self.used_at = now
        if self.tokens is not None and outcome.tokens > estimate:
            self.tokens.take(outcome.tokens - estimate, now)
        if outcome.kind == "rate_limited":
            self.rate_limits += 1
        if outcome.wait > LONGEST_WAIT:
            outcome = attrs.evolve(outcome, wait=LONGEST_WAIT)
        if outcome.wait > 0:
            self.pause(outcome.wait)
        self.on_outcome(self, outcome, int(was_full and outcome.kind == "answered"))
        self.wake_first()

    def _obstacle(self, waiter: _Waiter, estimate: int, longest: float) -> _Obstacle | None:
        host, now = self.key.host or self.key.model, trio.current_time()
        cooldown = self.cooldown_until - now
        if cooldown > 0:
            reason = f"{host} accepts no requests for {ceil(cooldown)} s"
            # A pause of our own is nothing to give up for.
            return _Obstacle(reason, cooldown, cooldown if cooldown > max(longest, PAUSE) else 0.0)
        if next(iter(self._waiters)) is not waiter:
            return _Obstacle(f"waiting for a permit for {host}: {self.waiting - 1} requests wait before this one")
        if now >= self.usable_until:
            return _Obstacle(self.unusable_reason)
        if self.in_flight >= self.permits:
            return _Obstacle(
                f"waiting for a permit for {host}: {self.in_flight} requests are under way", self.usable_until - now
            )
        for window, amount, unit in ((self.requests, 1, "requests"), (self.tokens, estimate, "tokens")):
            if window is not None and (delay := window.delay(amount, now)) > 0:
                return _Obstacle(f"waiting for the minute's {unit} at {host}: {window.limit:g} are allowed", delay)
        return None

    def _refusal(self, obstacle: _Obstacle) -> RateLimited:
        info = ErrorInfo(code="rate_limited", host=self.key.host, model=self.key.model)
        return RateLimited(f"rate limited: {obstacle.reason}", retry_after=obstacle.cooldown, info=info)


@final
@attrs.define(eq=False, repr=False)
class LanePermit:
    """See `engine.pace.pace_port.Permit`."""

    _lane: Lane
    _estimate: int
    _is_released: bool = attrs.field(default=False, init=False)

    def release(self, outcome: PermitOutcome) -> None:
        """See `engine.pace.pace_port.Permit`."""
        if not self._is_released:
            self._is_released = True
            self._lane.leave(self._estimate, outcome)
