"""Budgets: one hierarchical limit of steps, tokens and money, shared with sub-agents.

A charge is counted against the turn that makes it and against every turn above it. The turn whose limit is reached ends,
with its own reason; its descendants run inside it, so they end with it and give the same reason. Seconds are a deadline,
which `turn_supervisor` watches; here it is only kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import attrs

from engine.core.errors import ErrorInfo
from engine.core.messages import Usage
from engine.core.settings import Limits
from engine.core.value_base import Value

LimitReason = Literal["step_limit", "token_budget", "cost_limit", "deadline"]


@attrs.frozen(eq=False, repr=False)
class Exhausted(Value):
    """A limit was reached; `detail` says which, for a person.

    Attributes:
        amount: how much was used.
        limit: how much was allowed.
    """

    reason: LimitReason
    detail: str
    # Not compared: the text says the same.
    amount: float = attrs.field(default=0.0, eq=False)
    limit: float = attrs.field(default=0.0, eq=False)

    @property
    def info(self) -> ErrorInfo:
        """The facts for programs."""
        return ErrorInfo(code=self.reason, amount=self.amount, limit=self.limit)


@attrs.define(eq=False, repr=False)
class Budget:
    """What one turn and all turns below it have used.

    Attributes:
        limits: of this turn alone; those above apply as well.
        deadline: on trio's clock.
        end: ends the turn that owns this budget; set by its `TurnRun`.
        is_detached: the turn runs in the background, outside of those above, so a limit of theirs must end it explicitly.
    """

    limits: Limits
    parent: Budget | None = None
    deadline: float = float("inf")
    end: Callable[[Exhausted], None] | None = None
    is_detached: bool = False
    steps: int = attrs.field(default=0, init=False)
    usage: Usage = attrs.field(factory=Usage, init=False)
    cost: float = attrs.field(default=0.0, init=False)
    exhausted: Exhausted | None = attrs.field(default=None, init=False)

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

    def charge(self, usage: Usage, cost: float) -> Exhausted | None:
        """Count what a request used; return what this turn must stop for. Not a checkpoint."""
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
        if own is not None:
            # The cancel of a turn above does not reach what runs in the engine's nursery.
            for budget in self._upwards():
                if budget.is_detached:
                    budget._reached(own)
        return own

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
