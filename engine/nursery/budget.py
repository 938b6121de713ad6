"""Budgets: one hierarchical limit of steps, tokens and money, shared with sub-agents.

A charge is counted against the turn that makes it and against every turn above it. The turn whose limit is reached ends,
with its own reason; its descendants run inside it, so they end with it and give the same reason. Seconds are a deadline,
which `turn_supervisor` watches; here it is only kept.

Before each request an estimate of its prompt is checked, so what is spent exceeds a limit by one answer at most. Near the
limit, requests of several sub-agents go one after the other: together their answers could exceed it several times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, final

import attrs
import trio

from engine.core.errors import ErrorInfo
from engine.core.llm_types import RequestEstimate
from engine.core.messages import Usage
from engine.core.settings import Limits
from engine.core.value_base import Value

# The share of a limit at which the user gets a notice.
_NOTICE_SHARE: Final = 0.8

LimitReason = Literal["step_limit", "token_budget", "cost_limit", "deadline"]


@attrs.frozen(eq=False, repr=False)
class Exhausted(Value):
    """A limit was reached; `detail` says which, for a person.

    Attributes:
        amount: how much was used.
        limit: how much was allowed.
        need: what the prompt of the request takes that would exceed it; 0: it is used up.
    """

    reason: LimitReason
    detail: str
    # Not compared: the text says the same.
    amount: float = attrs.field(default=0.0, eq=False)
    limit: float = attrs.field(default=0.0, eq=False)
    need: float = attrs.field(default=0.0, eq=False)

    @property
    def info(self) -> ErrorInfo:
        """The facts for programs."""
        subject = f"{self.need:g}" if self.need else ""
        return ErrorInfo(code=self.reason, subject=subject, amount=self.amount, limit=self.limit)


@attrs.define(eq=False, repr=False)
class Budget:
    """What one turn and all turns below it have used.

    Attributes:
        limits: of this turn alone; those above apply as well.
        deadline: on trio's clock.
        end: ends the turn that owns this budget; set by its `TurnRun`.
        notify: tells the user that most of a limit is used; set by its `TurnRun`.
        is_detached: the turn runs in the background, outside of those above, so a limit of theirs must end it explicitly.
    """

    limits: Limits
    parent: Budget | None = None
    deadline: float = float("inf")
    end: Callable[[Exhausted], None] | None = None
    notify: Callable[[str], None] | None = None
    is_detached: bool = False
    steps: int = attrs.field(default=0, init=False)
    usage: Usage = attrs.field(factory=Usage, init=False)
    cost: float = attrs.field(default=0.0, init=False)
    exhausted: Exhausted | None = attrs.field(default=None, init=False)
    # The requests under way, and those that are answered and not charged yet, by what opened them.
    _open: dict[int, RequestEstimate] = attrs.field(factory=dict[int, RequestEstimate], init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _is_noticed: bool = attrs.field(default=False, init=False)

    def take_step(self) -> Exhausted | None:
        """Count one request, unless a limit of steps is used up already.

        Return what this turn must stop for. A limit further up is reported to its
        owner, whose end reaches this turn as a cancel. Not a checkpoint.
        """
        # Two passes: a step that one of the turns above refuses must be counted by none of them.
        for budget in self._upwards():
            limit = budget.limits.steps
            if limit is not None and budget.steps >= limit:
                budget._reached(Exhausted("step_limit", f"{limit} steps were used", limit, limit))
                return budget.exhausted
        for budget in self._upwards():
            budget.steps += 1
        return None

    @property
    def steps_left(self) -> int | None:
        """How many requests this turn's own limit still allows."""
        return None if self.limits.steps is None else self.limits.steps - self.steps

    @property
    def is_limited(self) -> bool:
        """Whether what requests take must be estimated: this turn or one above has a limit of tokens or money."""
        return any(budget.limits.tokens is not None or budget.limits.cost is not None for budget in self._upwards())

    def check_next(self, request: RequestEstimate) -> Exhausted | None:
        """Return what this turn must stop for instead of sending another request. Not a checkpoint."""
        own: Exhausted | None = None
        for budget in self._upwards():
            reached = budget._over_with(request)
            if reached is not None:
                budget._reached(reached)
                own = own or budget.exhausted
        self._end_detached(own)
        return own

    async def open_request(self, key: int, request: RequestEstimate) -> None:
        """Wait until a request may be sent, and count what it may take until it is charged.

        A checkpoint if it has to wait; if cancelled, it leaves no trace. If what others have spent by then leaves
        nothing, the turn whose limit that is ends, which cancels this.
        """
        while (full := next((budget for budget in self._upwards() if not budget._has_room(request)), None)) is not None:
            await full._changed.wait()
            self.check_next(request)
        for budget in self._upwards():
            budget._open[key] = request

    def note_answer(self, key: int, usage: Usage, cost: float) -> None:
        """Count what an open request has taken, now that its answer is over. Not a checkpoint."""
        self._update(key, RequestEstimate(tokens=usage.total, cost=cost))

    def _update(self, key: int, request: RequestEstimate | None) -> None:
        for budget in self._upwards():
            if budget._open.pop(key, None) is not None:
                if request is not None:
                    budget._open[key] = request
                budget._changed.set()
                budget._changed = trio.Event()

    def charge(self, usage: Usage, cost: float, key: int = 0) -> Exhausted | None:
        """Count what a request used; return what this turn must stop for. Not a checkpoint.

        *key*: what opened it, if it was opened.
        """
        self._update(key, None)
        # Afterwards, so the last request may exceed the limit: its usage is known only when it is paid for.
        own: Exhausted | None = None
        # No early return: the request is paid for, so every turn counts it, also behind one that is exhausted.
        for budget in self._upwards():
            budget.usage += usage
            budget.cost += cost
            reached = budget._over()
            if reached is not None:
                budget._reached(reached)
                own = own or budget.exhausted
            else:
                budget._note_share()
        self._end_detached(own)
        return own

    def _end_detached(self, exhausted: Exhausted | None) -> None:
        # The cancel of a turn above does not reach what runs in the engine's nursery.
        for budget in self._upwards() if exhausted is not None else ():
            if budget.is_detached and exhausted is not None:
                budget._reached(exhausted)

    def ancestor_exhausted(self) -> Exhausted | None:
        """Return the limit of a turn above that has ended this one."""
        return next((b.exhausted for b in self._upwards() if b is not self and b.exhausted is not None), None)

    def expire(self) -> Exhausted:
        """Note that the deadline has passed, and return the limit that counts."""
        seconds = self.limits.seconds or 0.0
        self.exhausted = self.exhausted or Exhausted("deadline", f"{seconds:g} s have passed", seconds, seconds)
        return self.exhausted

    def _over(self) -> Exhausted | None:
        limits = self.limits
        # Reached is over: a budget that is just used up leaves nothing for another request.
        if limits.tokens is not None and self.usage.total >= limits.tokens:
            used = self.usage.total
            return Exhausted("token_budget", f"{used} of {limits.tokens} tokens were used", used, limits.tokens)
        if limits.cost is not None and self.cost >= limits.cost:
            detail = f"{self.cost:.4f} of {limits.cost:.4f} were spent"
            return Exhausted("cost_limit", detail, self.cost, limits.cost)
        return None

    def _over_with(self, request: RequestEstimate) -> Exhausted | None:
        """Return the limit that another request would exceed by its prompt alone."""
        limits = self.limits
        used = self.usage.total + sum(one.tokens for one in self._open.values())
        if limits.tokens is not None and used + request.tokens >= limits.tokens:
            detail = f"{used} of {limits.tokens} tokens were used, and the next prompt has about {request.tokens}"
            return Exhausted("token_budget", detail, used, limits.tokens, request.tokens)
        spent = self.cost + sum(one.cost for one in self._open.values())
        if limits.cost is not None and spent + request.cost >= limits.cost:
            detail = f"{spent:.4f} of {limits.cost:.4f} were spent, and the next prompt costs about {request.cost:.4f}"
            return Exhausted("cost_limit", detail, spent, limits.cost, request.cost)
        return None

    def _has_room(self, request: RequestEstimate) -> bool:
        """Return whether a request keeps the limits even if all others get the longest answer."""
        running = [one for one in self._open.values() if one.answer_tokens]
        if not running:
            return True
        limits, every = self.limits, self._open.values()
        tokens = self.usage.total + request.tokens + sum(one.tokens + one.answer_tokens for one in every)
        cost = self.cost + request.cost + sum(one.cost + one.answer_cost for one in every)
        return (limits.tokens is None or tokens < limits.tokens) and (limits.cost is None or cost < limits.cost)

    def _note_share(self) -> None:
        """Tell the user once that most of a limit is used."""
        if self._is_noticed or self.notify is None:
            return
        limits = self.limits
        if limits.cost and self.cost >= _NOTICE_SHARE * limits.cost:
            self._is_noticed = True
            # Two digits would show a limit of cents as nothing.
            digits = 2 if limits.cost >= 1 else 4
            self.notify(f"${self.cost:.{digits}f} of ${limits.cost:.{digits}f} spent")
        elif limits.tokens and self.usage.total >= _NOTICE_SHARE * limits.tokens:
            self._is_noticed = True
            self.notify(f"{self.usage.total:,} of {limits.tokens:,} tokens used")

    def _reached(self, exhausted: Exhausted) -> None:
        # The first limit wins, as the first cause of an end does: a turn that ends still spends a little.
        if self.exhausted is None:
            self.exhausted = exhausted
            if self.end is not None:
                self.end(exhausted)

    def _upwards(self) -> list[Budget]:
        chain: list[Budget] = [self]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        return chain


@final
@attrs.define(eq=False, repr=False, kw_only=True)
class SpendingLimit:
    """A limit of money and tokens for many turns together: of a batch, say. Engines of one Trio run may share it.

    Each turn is counted with its sub-agents. When a request would exceed it, the turn ends with `cost_limit` or
    `token_budget`, and so does each other one before its next request. So it is exceeded by no more than one request of
    each turn that runs.

    Attributes:
        cost: money, in the unit of the models' prices; None: no limit.
        tokens: input and output together; None: no limit.
        spent: the money that was used before, as in an earlier run of the same batch.
        used: the tokens that were used before.
    """

    cost: float | None = None
    tokens: int | None = None
    spent: float = 0.0
    used: Usage = attrs.field(factory=Usage)
    _budget: Budget = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # Raises `ConfigError` for a limit that is none.
        self._budget = Budget(limits=Limits(cost=self.cost, tokens=self.tokens))
        self.add(self.used, self.spent)

    @property
    def total_cost(self) -> float:
        """The money that has been used by now."""
        return self._budget.cost

    @property
    def total_usage(self) -> Usage:
        """The tokens that have been used by now."""
        return self._budget.usage

    @property
    def reached(self) -> str:
        """Which limit was reached, for a person; empty: none. Then no turn should be started."""
        return "" if self._budget.exhausted is None else self._budget.exhausted.detail

    def add(self, usage: Usage, cost: float) -> None:
        """Count what something else than a turn has used. Not a checkpoint."""
        self._budget.charge(usage, cost)

    def turn_budget(self, limits: Limits, deadline: float) -> Budget:
        """Return the budget of a turn below this limit. For the engine. Not a checkpoint."""
        return Budget(limits=limits, parent=self._budget, deadline=deadline, is_detached=True)
