"""`LeasedPace`: a pace that several processes share. Each leases a block of permits for some seconds.

Once a second it reports what has happened, and how many permits it needs, to an office that all of them share: rows of a
database, or an actor. No request asks for itself. What a process that was killed had leased is free again when the lease
ends, by the office's clock.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from math import inf
from typing import Final, Protocol, final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.value_base import Value
from engine.pace.lane import Lane, PaceLimits
from engine.pace.minute_window import MinuteWindow
from engine.pace.pace_port import LaneStatus, PaceKey, Permit, PermitOutcome

LEASE_SECONDS: Final = 10.0
# Seconds between two exchanges with the office.
INTERVAL: Final = 1.0
# The longest interval while the office can't be reached.
_LONGEST_INTERVAL: Final = 5.0
# Seconds for which a process that sends nothing keeps a permit: a session's next step comes soon.
_IDLE_SECONDS: Final = 10.0
# One permit in so many is spare: a request that comes between two exchanges need not wait for the next.
_SPARE: Final = 5


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LaneReport(Value):
    """What a process reports of one lane.

    Attributes:
        held: the permits that it may use until it has an answer: they can't be taken back.
        need: the permits that it could use.
        answered: the requests that were answered, while all permits were taken.
        is_rate_limited: whether the host has refused one (429).
        wait: seconds for which the host wants no request; 0: it does not say.
        reserve: the share of the limits that it leaves to others.
        requests_minute: the limit that its user has set for all who share it; None: none. So is `tokens_minute`.
    """

    key: PaceKey
    held: int
    need: int
    answered: int = 0
    is_rate_limited: bool = False
    wait: float = 0.0
    reserve: float = 0.0
    requests_minute: int | None = None
    tokens_minute: int | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LaneGrant(Value):
    """What a process may do in one lane for the next `LEASE_SECONDS`.

    Attributes:
        permits: how many requests it may have under way. If more are, they end as they do, and no new one begins.
        limit: how many all of them may have under way.
        cooldown: seconds for which the host wants no request.
        sharers: how many processes share the limits.
        requests_minute: the limit for all of them; None: there is none. So is `tokens_minute`.
    """

    key: PaceKey
    permits: int
    limit: float
    cooldown: float = 0.0
    sharers: int = 1
    requests_minute: int | None = None
    tokens_minute: int | None = None


class PermitOffice(Protocol):
    """What grants the permits of all processes that share it; see `SharedLimits`."""

    async def exchange(self, owner: str, reports: Sequence[LaneReport]) -> Sequence[LaneGrant]:
        """Take in what the process *owner* reports, and return what it may do. A checkpoint. Raises what it likes."""
        ...

    async def aclose(self) -> None:
        """Close the connection. `exchange` may be called again, and opens another."""
        ...


@attrs.define(eq=False)
class _News:
    """What has happened in a lane since the last exchange."""

    answered: int = 0
    is_rate_limited: bool = False
    cooldown_until: float = -inf
    limit: float = 0.0
    is_leased: bool = False


@final
class LeasedPace:
    """See the module. For one Trio run."""

    def __init__(
        self,
        office: PermitOffice,
        *,
        reserve: float = 0.0,
        requests_minute: int | None = None,
        tokens_minute: int | None = None,
    ) -> None:
        """Make one; see `PaceLimits`. Raises `ConfigError`."""
        self._office = office
        self._limits = PaceLimits(reserve=reserve, requests_minute=requests_minute, tokens_minute=tokens_minute)
        self._owner = f"pace_{secrets.token_hex(8)}"
        self._lanes: dict[Lane, _News] = {}
        self._by_key: dict[PaceKey, Lane] = {}
        self._changed = trio.Event()
        self._is_urgent = False
        self._next_at = -inf
        self._interval = INTERVAL
        self._serving = trio.Lock()

    async def acquire(
        self, key: PaceKey, *, tokens: Callable[[], int], longest: float, notify: Callable[[str], None]
    ) -> Permit:
        """See `Pace`."""
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = Lane(key=key, on_outcome=self._note_outcome, on_wait=self._note_wait)
            self._lanes[lane] = _News()
            # Until the office answers: the user's own limits.
            self._use_limits(lane, self._limits.requests_minute, self._limits.tokens_minute, 1)
        return await lane.acquire(tokens, longest, notify)

    def status(self) -> tuple[LaneStatus, ...]:
        """Return what goes on at each host. Not a checkpoint."""
        return tuple(lane.status(news.limit) for lane, news in self._lanes.items())

    def _note_outcome(self, lane: Lane, outcome: PermitOutcome, answers: int) -> None:
        """Learn from how a request has ended. Not a checkpoint."""
        news = self._lanes[lane]
        if outcome.wait:
            news.cooldown_until = max(news.cooldown_until, trio.current_time() + outcome.wait)
        news.answered += answers
        if outcome.kind == "rate_limited" and not news.is_rate_limited:
            news.is_rate_limited = True
            # The others are to learn of it within a second, and their own interval is as long.
            self._is_urgent = True
            self._changed.set()

    def _note_wait(self, lane: Lane) -> None:
        """Ask for permits, if there are none. Not a checkpoint."""
        if not lane.permits or lane.usable_until <= trio.current_time():
            self._changed.set()

    async def serve(self) -> None:
        """Exchange reports for permits until cancelled. See `ServedPace`."""
        # Several engines may share it, and each of them serves it: one is enough.
        async with self._serving:
            while True:
                await self._wait_until_due()
                await self._exchange()

    async def aclose(self) -> None:
        """Give the permits back, and close the connection. A checkpoint; if it fails, they end with the lease.

        It may be used again.
        """
        with ErrorBoundary():
            leased = [lane for lane, news in self._lanes.items() if news.is_leased]
            for lane in leased:
                lane.permits = 0
            if leased:
                await self._office.exchange(self._owner, [self._report(lane, need=lane.in_flight) for lane in leased])
                for lane in leased:
                    self._lanes[lane].is_leased = False
        with ErrorBoundary():
            await self._office.aclose()

    # -- when to ask ------------------------------------------------------------------------------

    async def _wait_until_due(self) -> None:
        while (due := self._due_at()) > trio.current_time():
            with trio.move_on_at(due):
                await self._changed.wait()
            self._changed = trio.Event()
        await trio.lowlevel.checkpoint()

    def _due_at(self) -> float:
        """Return when the next exchange is due; inf: nothing has to be reported."""
        if self._is_urgent:
            # One ahead of its time, which `_exchange` makes up for: on average, there is one in a second.
            return self._next_at - INTERVAL
        now = trio.current_time()
        is_needed = any(news.is_leased or lane.waiting or self._need(lane, now) for lane, news in self._lanes.items())
        return self._next_at if is_needed else inf

    def _need(self, lane: Lane, now: float) -> int:
        busy = lane.in_flight + lane.waiting
        if busy or now < lane.used_at + _IDLE_SECONDS:
            return busy + max(1, busy // _SPARE)
        return 0

    # -- an exchange ------------------------------------------------------------------------------

    @enable_ki_protection
    async def _exchange(self) -> None:
        """Report, and take the permits. Always a checkpoint. If cancelled, the report is kept for the next one."""
        sent_at = trio.current_time()
        self._is_urgent = False
        self._next_at = max(self._next_at, sent_at) + self._interval
        lanes = [
            lane for lane, news in self._lanes.items() if news.is_leased or lane.waiting or self._need(lane, sent_at)
        ]
        reports = [self._report(lane, need=self._need(lane, sent_at)) for lane in lanes]
        reported = [attrs.evolve(self._lanes[lane]) for lane in lanes]
        for lane, report in zip(lanes, reports, strict=True):
            # Until the answer is here no more than this may be used: the office may give away the rest.
            lane.permits = min(lane.permits, report.held)
        with ErrorBoundary() as boundary:
            grants = {grant.key: grant for grant in await self._office.exchange(self._owner, reports)}
            for lane, report, old in zip(lanes, reports, reported, strict=True):
                self._take(lane, report, old, grants[lane.key], sent_at)
        self._interval = INTERVAL
        if boundary.error is not None:
            # What was leased may be used until the lease ends. The report is repeated.
            self._interval = min(2 * self._interval, _LONGEST_INTERVAL)
            for lane in lanes:
                lane.unusable_reason = f"waiting for permits, which can't be had: {describe(boundary.error)}"

    def _report(self, lane: Lane, *, need: int) -> LaneReport:
        news, spare = self._lanes[lane], max(0, need - lane.in_flight - lane.waiting)
        return LaneReport(
            key=lane.key,
            held=max(lane.in_flight, min(lane.permits, lane.in_flight + spare)),
            need=need,
            answered=news.answered,
            is_rate_limited=news.is_rate_limited,
            wait=max(0.0, news.cooldown_until - trio.current_time()),
            reserve=self._limits.reserve,
            requests_minute=self._limits.requests_minute,
            tokens_minute=self._limits.tokens_minute,
        )

    def _take(self, lane: Lane, report: LaneReport, old: _News, grant: LaneGrant, sent_at: float) -> None:
        news = self._lanes[lane]
        news.answered -= old.answered
        if old.is_rate_limited and not self._is_urgent:
            news.is_rate_limited = False
        news.limit = grant.limit
        news.is_leased = bool(report.need or report.held)
        lane.permits = grant.permits
        # From when it was sent: the office's own time for it ends later.
        lane.usable_until = sent_at + LEASE_SECONDS
        self._use_limits(lane, grant.requests_minute, grant.tokens_minute, grant.sharers)
        if grant.cooldown:
            lane.pause(grant.cooldown)
        lane.wake_first()

    def _use_limits(self, lane: Lane, requests: int | None, tokens: int | None, sharers: int) -> None:
        """Use a share of the limits for each minute, the same for all."""
        share = (1.0 - self._limits.reserve) / sharers
        lane.requests = _window(lane.requests, requests, share)
        lane.tokens = _window(lane.tokens, tokens, share)


def _window(window: MinuteWindow | None, limit: int | None, share: float) -> MinuteWindow | None:
    if limit is None:
        return None
    if window is None:
        return MinuteWindow(limit * share)
    window.limit = limit * share
    return window
