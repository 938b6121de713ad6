"""Limits the requests to each host: how many at once, and which goes first.

A host may accept only so many requests at once, over all sessions of an engine. And where several requests begin with the
same long prefix (sub-agents of one turn, say), the first one writes the host's cache and the others read it, if they wait
until its answer has begun. Sent all at once, each would pay for the whole prefix.

Where the engine has a pace, a request takes its permit last, and how the request ends goes back with the permit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import attrs
import trio

from engine.core.errors import ProviderError, RateLimited
from engine.core.exception_groups import first_of
from engine.core.llm_types import ModelInfo, ModelRequest

if TYPE_CHECKING:
    from engine.pace.pace_port import Pace, Permit, PermitOutcome

# Characters. Below this no host caches anything: 1,024 tokens are the least that any of them asks for.
LONG_PREFIX: Final = 4_096
# Seconds. Longer than a slow host needs to begin; from then on waiting costs more than the cache is worth.
STAGGER: Final = 10.0
# Seconds for which hosts keep a cache, from its last use.
WARM: Final = 300.0

Notify = Callable[[str, str], None]


@attrs.define(eq=False, repr=False)
class _Prefix:
    """The requests that begin with the same text.

    Attributes:
        leader: the request that went first and is not answered yet.
        warm_until: until then the host has them in its cache.
        changed: set when the leader's answer has begun, or it is gone.
    """

    leader: Passage | None = None
    warm_until: float = float("-inf")
    changed: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, repr=False)
class Traffic:
    """All requests of one engine.

    Attributes:
        pace: lets each request go when its host has room for it; None: they go at once.
        now: returns the time since the epoch.
    """

    pace: Pace | None = None
    now: Callable[[], float] = time.time
    _places: dict[str, trio.CapacityLimiter] = attrs.field(factory=dict[str, trio.CapacityLimiter], init=False)
    _prefixes: dict[object, _Prefix] = attrs.field(factory=dict[object, _Prefix], init=False)

    def passage(
        self,
        info: ModelInfo,
        request: ModelRequest,
        notify: Notify,
        *,
        longest: float = inf,
        tokens: Callable[[], int] | None = None,
    ) -> Passage:
        """Return the passage of *request*, to be entered; *notify* gets a code and a text if it has to wait.

        For the pace: *longest* is how long the request may wait for a host that wants none, *tokens* estimates its prompt.
        """
        return Passage(self, info, request, notify, longest, tokens)

    def places(self, info: ModelInfo) -> trio.CapacityLimiter | None:
        """Return the places at the model's host; None if there is no limit."""
        if info.parallel is None:
            return None
        places = self._places.setdefault(info.host or info.name, trio.CapacityLimiter(info.parallel))
        # Two configurations may name the same host with different limits: the one that was used last counts.
        places.total_tokens = info.parallel
        return places

    def prefix(self, request: ModelRequest) -> _Prefix | None:
        """Return the requests that share the prefix of *request*; None if it is too short to be cached."""
        size = len(request.system) + sum(
            len(tool.schema) + len(tool.description) for tool in request.tools if not tool.deferred
        )
        if size < LONG_PREFIX or request.options.cache == "off":
            return None
        key = (request.model, request.system, request.tools, request.output_schema)
        if key not in self._prefixes:
            # Each holds a whole system prompt, so the cold ones go as soon as there is another one.
            now = trio.current_time()
            for old, prefix in list(self._prefixes.items()):
                if prefix.leader is None and prefix.warm_until < now:
                    del self._prefixes[old]
        return self._prefixes.setdefault(key, _Prefix())


@attrs.define(eq=False, repr=False)
class Passage:
    """One request's way to its host: `async with traffic.passage(...) as passage`.

    Attributes:
        used: the tokens that the request has taken so far, as its host counts.
    """

    _traffic: Traffic
    _info: ModelInfo
    _request: ModelRequest
    _notify: Notify
    _longest: float
    _tokens: Callable[[], int] | None
    used: int = attrs.field(default=0, init=False)
    _prefix: _Prefix | None = attrs.field(default=None, init=False)
    _places: trio.CapacityLimiter | None = attrs.field(default=None, init=False)
    _permit: Permit | None = attrs.field(default=None, init=False)

    async def __aenter__(self) -> Self:
        """Wait until the request may go. A checkpoint if it has to wait; if cancelled, it leaves no trace.

        Raises `RateLimited` if the engine's pace does: the host has said that it wants no request for long.
        """
        self._prefix = self._traffic.prefix(self._request)
        try:
            if self._prefix is not None:
                await self._wait_for_leader(self._prefix)
            await self._take_place(self._traffic.places(self._info))
            await self._take_permit(self._traffic.pace)
        except BaseException as error:
            # A cancel above all: `__aexit__` is not called then, and the place would stay taken.
            self._leave(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Make room for others. Not a checkpoint."""
        self._leave(error)

    def note_start(self) -> None:
        """Note that the answer has begun, so its prompt is in the host's cache. Not a checkpoint."""
        if self._prefix is not None:
            # Renewed by each batch: the cache is warm from its last use, and a long answer is one use.
            self._prefix.warm_until = trio.current_time() + WARM
            self._step_down(self._prefix)

    async def _wait_for_leader(self, prefix: _Prefix) -> None:
        until = trio.current_time() + STAGGER
        is_reported = False
        # A loop: when a leader fails before its answer, all who wait are woken, and the first of them leads.
        while prefix.leader is not None and prefix.warm_until < trio.current_time() < until:
            if not is_reported:
                is_reported = True
                self._notify("waiting_for_cache", "another request writes the cache that this one will read")
            with trio.move_on_at(until):
                await prefix.changed.wait()
        if prefix.leader is None and prefix.warm_until < trio.current_time():
            # No checkpoint since the look at `leader`, so no other request can have become one.
            prefix.leader = self
            prefix.changed = trio.Event()

    async def _take_place(self, places: trio.CapacityLimiter | None) -> None:
        if places is None:
            return
        # On behalf of the passage and not of the task, so that it does not matter which task leaves it.
        try:
            places.acquire_on_behalf_of_nowait(self)
        except trio.WouldBlock:
            host = self._info.host or self._info.name
            self._notify(
                "waiting_for_host", f"waiting for a place at {host}: {places.total_tokens:g} requests are under way"
            )
            await places.acquire_on_behalf_of(self)
        self._places = places

    async def _take_permit(self, pace: Pace | None) -> None:
        if pace is None:
            return
        # Imported here: most engines have no pace.
        from engine.pace.pace_port import PaceKey

        info = self._info
        self._permit = await pace.acquire(
            PaceKey(host=info.host, model=info.name, account=info.account),
            tokens=self._tokens or (lambda: 0),
            longest=self._longest,
            notify=lambda reason: self._notify("waiting_for_pace", reason),
        )

    def _leave(self, error: BaseException | None) -> None:
        # Idempotent: a request that fails leaves before its answer, others step down when the answer begins.
        if self._prefix is not None:
            self._step_down(self._prefix)
        if self._places is not None:
            self._places.release_on_behalf_of(self)
            self._places = None
        if self._permit is not None:
            self._permit.release(_outcome_of(error, self.used, self._traffic.now))
            self._permit = None

    def _step_down(self, prefix: _Prefix) -> None:
        if prefix.leader is self:
            prefix.leader = None
            prefix.changed.set()


def _outcome_of(error: BaseException | None, used: int, now: Callable[[], float]) -> PermitOutcome:
    """Return how a request has ended that left with *error*; None: it was answered."""
    from engine.pace.pace_port import PermitOutcome

    if error is None:
        return PermitOutcome(kind="answered", tokens=used)
    failure = first_of(error, ProviderError)
    if not isinstance(failure, ProviderError):
        # What is wrong with an answer, or with this engine, says nothing about the host's limits.
        is_cancelled = first_of(error, trio.Cancelled) is not None
        return PermitOutcome(kind="cancelled" if is_cancelled else "failed", tokens=used)
    wait = failure.retry_after
    if wait is None:
        wait = 0.0 if failure.reset_at is None else failure.reset_at - now()
    # A limit that no wait lifts is one of this request alone: it is too large, say.
    is_limit = isinstance(failure, RateLimited) and failure.retryable
    return PermitOutcome(kind="rate_limited" if is_limit else "failed", wait=wait if wait > 0 else 0.0, tokens=used)
