"""Whether a failed request is sent again, and when: pure, with budgets (T23)."""

from __future__ import annotations

import math
from typing import Literal

import attrs

from engine.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    MediaTooLarge,
    ProviderError,
    RateLimited,
    SignatureRejected,
)
from engine.settings import RetryPolicy

DOUBLINGS = 60  # by then a wait of a nanosecond has become the longest

FailureKind = Literal["overflow", "media", "auth", "filtered", "signature", "rate_limited", "transient", "fatal"]


@attrs.frozen(kw_only=True)
class Failure:
    """What became of a request that failed, as a value.

    Attributes:
        kind: what may help against it.
        message: for a person.
        wait: seconds that the host asked for.
        reset_at: when a rate limit is lifted.
    """

    kind: FailureKind
    message: str
    wait: float | None = None
    reset_at: float | None = None


@attrs.frozen
class RetryBudget:
    """What is left for retries: attempts of this step, seconds of this turn."""

    attempts_made: int = 0
    waited: float = 0.0


def failure_of(error: ProviderError) -> Failure:
    """Classify *error* by its type."""
    return Failure(kind=_kind(error), message=str(error), wait=error.retry_after, reset_at=error.reset_at)


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

    *fraction*, from 0 to 1, is the jitter: a wait of ours is drawn from all of its
    range; one that the host asked for is kept.
    """
    if failure.kind not in {"transient", "rate_limited"} or budget.attempts_made >= policy.attempts:
        return None
    if failure.wait is not None and not math.isnan(failure.wait):
        delay = max(0.0, failure.wait)
        if delay > policy.longest:
            return None
    else:
        doubled = policy.base * 2.0 ** min(budget.attempts_made, DOUBLINGS)
        delay = min(policy.longest, doubled) * (0.5 + fraction / 2)
    if budget.waited + delay > policy.total:
        return None
    return delay
