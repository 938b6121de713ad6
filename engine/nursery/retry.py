"""Whether a failed request is sent again, and when: pure functions, with budgets (T23)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal

import attrs

from engine.compaction.token_estimate import CERTAIN
from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    ErrorInfo,
    MediaTooLarge,
    ProviderError,
    RateLimited,
    SignatureRejected,
    StreamTimeout,
)
from engine.core.llm_types import ModelInfo
from engine.core.messages import FinishReason, Usage
from engine.core.settings import RetryPolicy
from engine.core.value_base import Value

DOUBLINGS = 60  # enough to turn a nanosecond into years; without a cap the power would overflow a float
# Seconds. Without a floor the jitter may draw nearly nothing several times in a row, and all retries are spent at once.
SHORTEST = 0.1

_INTERNAL_ERROR = 500
# The same internal error may come so often again before it counts as the answer to this request.
_MOST_REPEATS = 1
_ID = r"[\w-]*\d[\w-]*"

FailureKind = Literal[
    "overflow", "media", "auth", "filtered", "signature", "oversized", "rate_limited", "transient", "fatal"
]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Failure(Value):
    """Why a request failed, as a value.

    Attributes:
        kind: classified by what may help: a smaller request, another model, a wait, nothing.
        message: for a person.
        wait: seconds that the host asked for.
        reset_at: when a rate limit is lifted, as Unix time.
        is_final: the limit will not be lifted within a reasonable wait, as with a monthly quota.
        is_internal_error: the host failed by itself (HTTP 500), which may be because of this request.
        info: what failed, as facts.
        silent: seconds that the host was silent before this.
    """

    kind: FailureKind
    message: str
    wait: float | None = None
    reset_at: float | None = None
    is_final: bool = False
    is_internal_error: bool = False
    info: ErrorInfo | None = None
    silent: float = 0.0


@attrs.frozen(eq=False, repr=False)
class RetryBudget(Value):
    """What was spent on retries: attempts of this step, seconds of this turn.

    Attributes:
        last_error: the message of the last failure, if it was an internal error of the host; without ids and times.
        repeats: how often that message has come again.
        silent: seconds without an answer so far, in silence and in delays; starts over with each answer.
    """

    attempts_made: int = 0
    waited: float = 0.0
    last_error: str = ""
    repeats: int = 0
    silent: float = 0.0

    def after(self, failure: Failure, delay: float) -> RetryBudget:
        """Return the budget once *failure* is retried, after *delay* seconds."""
        spent = RetryBudget(self.attempts_made + 1, self.waited + delay, silent=self.silent + failure.silent + delay)
        if not failure.is_internal_error:
            return spent
        message = _without_ids(failure.message)
        repeats = self.repeats + 1 if message == self.last_error else 0
        return attrs.evolve(spent, last_error=message, repeats=repeats)


def _without_ids(message: str) -> str:
    """Return a message without what differs in each response: the request's id, a time, a process."""
    return re.sub(_ID, "#", message)


def failure_of(error: ProviderError, model: ModelInfo | None = None) -> Failure:
    """Classify *error* by its type; *model* is the one that was asked."""
    kind = _kind(error)
    # By type only: the text of a host's message changes without notice, and was classified where it came in.
    return Failure(
        kind=kind,
        message=str(error),
        wait=error.retry_after,
        reset_at=error.reset_at,
        is_final=kind == "rate_limited" and not error.retryable,
        is_internal_error=error.status == _INTERNAL_ERROR,
        info=_facts(error.info, model),
        silent=error.seconds if isinstance(error, StreamTimeout) else 0.0,
    )


def _facts(info: ErrorInfo, model: ModelInfo | None) -> ErrorInfo:
    """Return *info* with the model and its host, which the code that raised the error may not know."""
    if model is None:
        return info
    return attrs.evolve(info, host=info.host or model.host, model=info.model or model.name)


def timed(failure: Failure, now: float) -> Failure:
    """Return the failure of a rate limit with both times, the wait and its end, if the host gave one of them."""
    if failure.kind != "rate_limited":
        return failure
    if failure.reset_at is None:
        return failure if failure.wait is None else attrs.evolve(failure, reset_at=now + failure.wait)
    if failure.wait is None and failure.reset_at > now:
        return attrs.evolve(failure, wait=failure.reset_at - now)
    return failure


def silent_overflow(
    info: ModelInfo, usage: Usage, finish: FinishReason | None, detail: str, *, estimate: Callable[[], int]
) -> Failure | None:
    """Return that the window was too small although an answer came, or None (T23).

    Some hosts stop where the window ends. Some accept more than it holds, bill it, and answer from a part of it. *estimate*
    returns the size of the request by its text: a count that contradicts it proves nothing.
    """
    if finish == "overflow":
        word = f": {detail}" if detail else ""
        message = f"the answer reached the end of the model's window{word}"
        return Failure(kind="overflow", message=message, info=_overflow(info, None))
    prompt = usage.input + usage.cache_read + usage.cache_write
    if prompt <= info.context or not info.is_known:  # a window that was only assumed proves nothing
        return None
    if CERTAIN * estimate() <= info.context:
        return None
    message = f"the request had {prompt} tokens, and the window of {info.name} has {info.context}"
    message = f"{message}: its host took it all the same"
    return Failure(kind="overflow", message=message, info=_overflow(info, prompt))


def _overflow(model: ModelInfo, tokens: int | None) -> ErrorInfo:
    limit = model.context if model.is_known else None
    return ErrorInfo(code="too_long", host=model.host, model=model.name, amount=tokens, limit=limit)


def _kind(error: ProviderError) -> FailureKind:
    match error:
        case ContextOverflow():
            return "overflow"
        case MediaTooLarge():
            return "media"
        case AuthFailed():
            return "auth"
        case ContentFiltered():
            return "filtered"
        case SignatureRejected():
            return "signature"
        case RateLimited():
            return "rate_limited"
        case _:
            return "transient" if error.retryable else "fatal"


def next_delay(failure: Failure, budget: RetryBudget, policy: RetryPolicy, fraction: float) -> float | None:
    """Return how long to wait before the next attempt; None if there is to be none.

    *fraction*, from 0 to 1, is the jitter: a wait of ours is drawn from its whole range, so that clients which failed
    together don't come back together. A wait that the host asked for is kept as it is.
    """
    if failure.kind not in {"transient", "rate_limited"} or failure.is_final:
        # The same request would fail in the same way.
        return None
    if budget.attempts_made >= policy.attempts:
        return None
    if (
        failure.is_internal_error
        and _without_ids(failure.message) == budget.last_error
        and budget.repeats >= _MOST_REPEATS
    ):
        # Hosts answer 500 to what they can't read, too: then it comes back the same every time.
        return None
    delay = _requested_wait(failure, policy)
    if delay is None:
        most = min(policy.longest, policy.base * 2.0 ** min(budget.attempts_made, DOUBLINGS))
        delay = max(min(SHORTEST, most), most * fraction)
    if policy.silence is not None and budget.silent + failure.silent + delay >= policy.silence:
        return None
    # Not cut to the longest wait: a request that comes back before the host allows it only counts against the limit.
    return None if delay > policy.longest or budget.waited + delay > policy.total else delay


def patience(policy: RetryPolicy, budget: RetryBudget) -> float:
    """Return how long the host may be silent in the next attempt."""
    # Never nothing: an attempt that is made at all gets a moment.
    return math.inf if policy.silence is None else max(SHORTEST, policy.silence - budget.silent)


def _requested_wait(failure: Failure, policy: RetryPolicy) -> float | None:
    """Return the wait that the host asked for; None if it asked for none, or for one that is over."""
    # The number is parsed from a header, which may hold anything.
    if failure.wait is None or math.isnan(failure.wait) or failure.wait <= 0:
        return None
    return max(failure.wait, min(SHORTEST, policy.longest))
