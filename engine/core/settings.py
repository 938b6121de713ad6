"""Settings: one immutable record; a turn takes a snapshot and keeps it."""

from __future__ import annotations

from typing import Literal, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.llm_types import ModelOptions
from engine.core.value_base import Value

Headless = Literal["wait", "deny", "rules"]
OnExhausted = Literal["stop", "ask"]
Resume = Literal["manual", "auto"]


def _number(name: str, value: object, minimum: float, *, whole: bool = False, optional: bool = False) -> None:
    """Raise `ConfigError` unless *value* is a number, and large enough; NaN is not."""
    if value is None and optional:
        return
    kind = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kind) or not value >= minimum:
        what = "a whole number" if whole else "a number"
        none = ", or None" if optional else ""
        raise ConfigError(f"{name} must be {what} of at least {minimum:g}{none}, not {value!r}")


def _instance(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ConfigError(f"{name} must be of type {kind.__name__}, not {value!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Limits(Value):
    """The budget of one turn with all its sub-agents. None: no limit.

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
        _number("limits.steps", self.steps, 1, whole=True, optional=True)
        _number("limits.tokens", self.tokens, 1, whole=True, optional=True)
        _number("limits.cost", self.cost, 0, optional=True)
        _number("limits.seconds", self.seconds, 0, optional=True)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Timeouts(Value):
    """The time limits for a model's host, in seconds."""

    headers: float = 120.0
    idle: float = 120.0
    total: float = 3600.0

    def __attrs_post_init__(self) -> None:
        for name in ("headers", "idle", "total"):
            _number(f"timeouts.{name}", getattr(self, name), 0.001)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AnswerLimits(Value):
    """How much one answer may hold; a host that sends more is cut off, and the turn ends.

    Attributes:
        chars: the characters of all its texts, thoughts and calls.
        call_chars: the characters of one call's arguments.
        calls: the number of calls.
    """

    chars: int = 4_000_000
    call_chars: int = 1_000_000
    calls: int = 256

    def __attrs_post_init__(self) -> None:
        for name in ("chars", "call_chars", "calls"):
            _number(f"answer.{name}", getattr(self, name), 1, whole=True)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RetryPolicy(Value):
    """How often, and after what delay, a failed request is retried.

    Attributes:
        attempts: the maximum number of retries in one step.
        base: the first delay; it doubles with each retry.
        longest: the longest single delay; if a host asks for more, the turn ends.
        total: the sum of all delays in one turn.
        silence: seconds without an answer over all attempts, delays included; None: no limit besides `Timeouts`.
    """

    attempts: int = 5
    base: float = 2.0
    longest: float = 60.0
    total: float = 300.0
    silence: float | None = None

    def __attrs_post_init__(self) -> None:
        _number("retry.attempts", self.attempts, 0, whole=True)
        for name in ("base", "longest", "total"):
            _number(f"retry.{name}", getattr(self, name), 0)
        _number("retry.silence", self.silence, 0, optional=True)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Settings(Value):
    """The settings of a turn, apart from its model and tools.

    Attributes:
        limits: budgets, shared with sub-agents.
        timeouts: the time limits for the model's host.
        retry: how failed requests are retried.
        answer: how much one answer may hold.
        wrap_up: spend the last step of a step limit on an answer without tools.
        parallel: how many calls may run at once, if they are safe to run together.
        chain: a failed call of a chained tool stops the ones queued after it.
        options: model options; they override the model's own.
        output_cap: the maximum tokens of one answer, unless an option sets it; raised once to `output_cap_raised`, if
            that is more.
        output_cap_raised: see `output_cap`.
        output_recoveries: how often an answer that was cut off is continued.
        token_target: continue the turn until the model has written this many output tokens (C9).
        stop_hook_limit: how often a stop hook may make the model continue.
        hook_timeout: seconds that one hook may take, unless it has a `timeout` of its own.
        headless: what happens to questions: they wait for an answer ("wait"), or are denied because there is no user
            ("deny"); with "rules", everything that no rule explicitly allows is denied, too.
        on_exhausted: what happens to a turn whose model can't be reached after all retries and fallbacks: it stops,
            or asks the user (`RecoveryAsked`).
        question_timeout: seconds after which an open question counts as rejected.
        auto_compact: let the context keeper make room when the window is full.
        auto_continue: how often a turn may continue by itself after its history was summarised.
        agent_depth: how many levels of sub-agents there may be below the user's session; 0: none.
        agents_at_once: the maximum number of concurrent sub-agents on each level below one session; others wait.
        wake_on_report: a background sub-agent that ends starts a turn with its report; else the report waits for the
            next turn.
        park: a turn in the engine's own nursery that only waits for an answer stays open when the engine closes, so
            that a later engine can continue it.
        resume: what an engine that looks after a fleet does with a turn whose engine has died: it continues it ("auto"),
            or settles it and leaves the rest to the user ("manual").
        durable_within: seconds that a turn's end waits for the store.
        eager_tokens: up to so many tokens, the tools of MCP servers and other sources are in each request; if they take
            more, the model searches for them. None: 4 % of the window, 10,000 at most.
        system: the system prompt.
    """

    limits: Limits = attrs.field(factory=Limits)
    timeouts: Timeouts = attrs.field(factory=Timeouts)
    retry: RetryPolicy = attrs.field(factory=RetryPolicy)
    answer: AnswerLimits = attrs.field(factory=AnswerLimits)
    wrap_up: bool = True
    parallel: int = 10
    chain: bool = False
    options: ModelOptions = ModelOptions()
    output_cap: int = 8_192
    output_cap_raised: int = 65_536
    output_recoveries: int = 3
    token_target: int | None = None
    stop_hook_limit: int = 3
    hook_timeout: float = 30.0
    headless: Headless = "wait"
    on_exhausted: OnExhausted = "stop"
    question_timeout: float | None = None
    auto_compact: bool = True
    auto_continue: int = 25
    agent_depth: int = 1
    agents_at_once: int = 4
    wake_on_report: bool = True
    park: bool = True
    resume: Resume = "manual"
    durable_within: float = 5.0
    eager_tokens: int | None = None
    system: str = ""

    def __attrs_post_init__(self) -> None:
        for name, kind in (
            ("limits", Limits),
            ("timeouts", Timeouts),
            ("retry", RetryPolicy),
            ("answer", AnswerLimits),
            ("options", ModelOptions),
            ("system", str),
        ):
            _instance(name, getattr(self, name), kind)
        for name in ("wrap_up", "chain", "auto_compact", "wake_on_report", "park"):
            _instance(name, getattr(self, name), bool)
        for name in ("parallel", "output_cap", "output_cap_raised", "stop_hook_limit", "agents_at_once"):
            _number(name, getattr(self, name), 1, whole=True)
        for name in ("output_recoveries", "auto_continue", "agent_depth"):
            _number(name, getattr(self, name), 0, whole=True)
        _number("eager_tokens", self.eager_tokens, 0, whole=True, optional=True)
        _number("token_target", self.token_target, 1, whole=True, optional=True)
        for name in ("hook_timeout", "durable_within"):
            _number(name, getattr(self, name), 0.001)
        _number("question_timeout", self.question_timeout, 0.001, optional=True)
        if self.headless not in get_args(Headless):
            raise ConfigError(f"headless must be 'wait', 'deny' or 'rules', not {self.headless!r}")
        if self.on_exhausted not in get_args(OnExhausted):
            raise ConfigError(f"on_exhausted must be 'stop' or 'ask', not {self.on_exhausted!r}")
        if self.resume not in get_args(Resume):
            raise ConfigError(f"resume must be 'manual' or 'auto', not {self.resume!r}")
