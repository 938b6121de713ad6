"""Settings: one immutable record; a turn takes a snapshot and keeps it."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.errors import ConfigError

Headless = Literal["wait", "deny"]


def _at_least(minimum: float, value: float | None, name: str) -> None:
    if value is not None and value < minimum:
        raise ConfigError(f"{name} must be at least {minimum:g}, not {value!r}")


@attrs.frozen(kw_only=True)
class Limits:
    """What one turn, with all its sub-agents, may use up. None: no limit.

    Attributes:
        steps: provider requests.
        tokens: input and output together.
        cost: money, in the unit of the model's prices.
        seconds: time from the start of the turn to its end.
    """

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __attrs_post_init__(self) -> None:
        _at_least(1, self.steps, "limits.steps")
        _at_least(1, self.tokens, "limits.tokens")
        _at_least(0, self.cost, "limits.cost")
        _at_least(0, self.seconds, "limits.seconds")


@attrs.frozen(kw_only=True)
class Timeouts:
    """How long a model's host may be silent, in seconds."""

    headers: float = 120.0
    idle: float = 120.0
    total: float = 3600.0

    def __attrs_post_init__(self) -> None:
        for name in ("headers", "idle", "total"):
            _at_least(0.001, getattr(self, name), f"timeouts.{name}")


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """When a failed request is sent again.

    Attributes:
        attempts: retries of one step at most.
        base: the first wait; it doubles with each retry.
        longest: the longest single wait; a host that asks for more ends the turn.
        total: all waits of one turn together.
    """

    attempts: int = 5
    base: float = 2.0
    longest: float = 60.0
    total: float = 300.0

    def __attrs_post_init__(self) -> None:
        for name in ("attempts", "base", "longest", "total"):
            _at_least(0, getattr(self, name), f"retry.{name}")


@attrs.frozen(kw_only=True)
class Settings:
    """All that shapes a turn, apart from its model and tools.

    Attributes:
        limits: budgets, shared with sub-agents.
        timeouts: of the model's host.
        retry: of failed requests.
        wrap_up: spend the last step of a step limit on an answer without tools.
        parallel: calls that may run at once, if all of them are safe together.
        chain: a failed call of a chained tool stops the ones queued after it.
        output_cap: tokens one answer may have; raised once to `output_cap_raised`.
        output_cap_raised: see there.
        output_recoveries: how often a cut answer is continued.
        token_target: keep the model at work until so many output tokens (C9).
        stop_hook_limit: how often a stop hook may send the model back.
        hook_timeout: seconds that one hook may take.
        headless: what becomes of a question when nobody is there to answer.
        question_timeout: seconds after which an open question counts as rejected.
        auto_compact: let the context keeper make room when the window is full.
        durable_within: seconds that the store has before a turn ends without it.
        system: the system prompt.
    """

    limits: Limits = attrs.field(factory=Limits)
    timeouts: Timeouts = attrs.field(factory=Timeouts)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)
    wrap_up: bool = True
    parallel: int = 10
    chain: bool = False
    output_cap: int = 8_192
    output_cap_raised: int = 65_536
    output_recoveries: int = 3
    token_target: int | None = None
    stop_hook_limit: int = 3
    hook_timeout: float = 30.0
    headless: Headless = "wait"
    question_timeout: float | None = None
    auto_compact: bool = True
    durable_within: float = 5.0
    system: str = ""

    def __attrs_post_init__(self) -> None:
        for name in ("parallel", "output_cap", "output_cap_raised", "token_target", "stop_hook_limit"):
            _at_least(1, getattr(self, name), name)
        _at_least(0, self.output_recoveries, "output_recoveries")
        for name in ("hook_timeout", "question_timeout", "durable_within"):
            _at_least(0.001, getattr(self, name), name)
        if self.headless not in {"wait", "deny"}:
            raise ConfigError(f"headless must be 'wait' or 'deny', not {self.headless!r}")
