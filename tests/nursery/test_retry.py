"""Which failure is which, and when a request is sent again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import (
    AuthFailed,
    ConnectionBroken,
    ContentFiltered,
    ContextOverflow,
    ErrorInfo,
    InvalidRequest,
    MediaTooLarge,
    ModelNotFound,
    Overloaded,
    ProviderError,
    ProviderProtocolError,
    QuotaExhausted,
    RateLimited,
    SignatureRejected,
    StreamTimeout,
)
from engine.core.llm_types import ModelInfo
from engine.core.settings import RetryPolicy
from engine.nursery.retry import Failure, FailureKind, RetryBudget, failure_of, next_delay, timed

POLICY = RetryPolicy(attempts=5, base=2.0, longest=60.0, total=300.0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ContextOverflow("too long"), "overflow"),
        (MediaTooLarge("too big"), "media"),
        (AuthFailed("no"), "auth"),
        (ContentFiltered("no"), "filtered"),
        (SignatureRejected("no"), "signature"),
        (RateLimited("slow"), "rate_limited"),
        (RateLimited("slow", retryable=True), "rate_limited"),
        (ContextOverflow("too long", retryable=True), "overflow"),
        (QuotaExhausted("pay"), "fatal"),
        (ModelNotFound("who?"), "fatal"),
        (InvalidRequest("what?"), "fatal"),
        (InvalidRequest("the model's own slip", retryable=True), "transient"),
        (Overloaded("busy", retryable=True), "transient"),
        (ConnectionBroken("gone", retryable=True), "transient"),
        (StreamTimeout("idle", 120.0), "transient"),
        (ProviderError("odd", retryable=True), "transient"),
        (ProviderError("odd"), "fatal"),
        (ProviderProtocolError("odd"), "fatal"),
        (Overloaded("busy"), "fatal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_failures_are_recognised_by_type(error: ProviderError, kind: FailureKind) -> None:
    silent = error.seconds if isinstance(error, StreamTimeout) else 0.0
    assert failure_of(error) == Failure(kind=kind, message=str(error), info=error.info, silent=silent)


def test_failure_names_the_model_that_was_asked() -> None:
    model = ModelInfo(name="openai/gpt-6", host="openai")
    assert failure_of(AuthFailed("no", status=401), model).info == ErrorInfo(
        code="key_rejected", host="openai", model="openai/gpt-6", http_status=401
    )
    assert failure_of(StreamTimeout("idle", 90.0), model).info == ErrorInfo(
        code="silent", host="openai", model="openai/gpt-6", amount=90.0, limit=90.0
    )


def test_failure_keeps_the_hosts_message() -> None:
    error = RateLimited("slow down", status=429, retry_after=7.0, reset_at=99.0)
    assert failure_of(error) == Failure(
        kind="rate_limited", message="slow down", wait=7.0, reset_at=99.0, info=error.info
    )


def test_a_limit_that_no_waiting_lifts_is_final() -> None:
    error = RateLimited("until tomorrow", retryable=False, retry_after=1.0)
    failure = failure_of(error)
    assert failure == Failure(kind="rate_limited", message="until tomorrow", wait=1.0, is_final=True, info=error.info)
    assert next_delay(failure, RetryBudget(), POLICY, 0.5) is None


def limited(wait: float | None = None, reset_at: float | None = None) -> Failure:
    return Failure(kind="rate_limited", message="slow", wait=wait, reset_at=reset_at)


@pytest.mark.parametrize(
    ("failure", "both"),
    [
        (limited(wait=7.0), limited(wait=7.0, reset_at=107.0)),
        (limited(reset_at=130.0), limited(wait=30.0, reset_at=130.0)),
        (limited(wait=7.0, reset_at=130.0), limited(wait=7.0, reset_at=130.0)),
        (limited(reset_at=99.0), limited(reset_at=99.0)),
        (limited(), limited()),
        (Failure(kind="transient", message="", wait=7.0), Failure(kind="transient", message="", wait=7.0)),
    ],
)
def test_limit_has_both_times_if_reported(failure: Failure, both: Failure) -> None:
    assert timed(failure, 100.0) == both


@pytest.mark.parametrize("kind", ["overflow", "media", "auth", "filtered", "signature", "fatal"])
def test_permanent_failure_is_not_retried(kind: FailureKind) -> None:
    assert next_delay(Failure(kind=kind, message="", wait=1.0), RetryBudget(), POLICY, 0.5) is None


def busy(wait: float | None = None) -> Failure:
    return Failure(kind="transient", message="busy", wait=wait)


@pytest.mark.parametrize(
    ("made", "fraction", "delay"),
    [
        (0, 1.0, 2.0),
        (1, 1.0, 4.0),
        (2, 1.0, 8.0),
        (3, 1.0, 16.0),
        (4, 1.0, 32.0),
        (5, 1.0, None),
        (0, 0.5, 1.0),
        (4, 0.25, 8.0),
        (0, 0.0, 0.1),
        (4, 0.0, 0.1),
        (0, 0.01, 0.1),
    ],
)
def test_waits_double_with_full_jitter(made: int, fraction: float, delay: float | None) -> None:
    assert next_delay(busy(), RetryBudget(attempts_made=made), POLICY, fraction) == delay


def requests_until_given_up(*messages: str, status: int = 500) -> int:
    """How many requests are made of a host that answers with these errors."""
    budget = RetryBudget()
    for count, message in enumerate(messages, 1):
        failure = failure_of(Overloaded(message, retryable=True, status=status))
        delay = next_delay(failure, budget, POLICY, 1.0)
        if delay is None:
            return count
        budget = budget.after(failure, delay)
    return len(messages)


def test_same_internal_error_is_final() -> None:
    assert requests_until_given_up(*["argument of type 'NoneType' is not iterable"] * 9) == 3
    assert requests_until_given_up("a", "b", "a", "b", "a", "b", "a") == 6
    assert requests_until_given_up("a", "b", "b", "b", "b") == 4
    assert requests_until_given_up(*["busy"] * 9, status=503) == 6


def test_internal_error_is_the_same_under_another_id() -> None:
    by_id = [f"it broke. Include the request ID req_{number:032x} in your message" for number in range(1, 9)]
    by_time = [f"worker-{number} died at 12:00:0{number}" for number in range(1, 9)]
    assert [requests_until_given_up(*messages) for messages in (by_id, by_time)] == [3, 3]


@pytest.mark.parametrize(
    ("wait", "waited", "delay"),
    [
        (7.0, 0.0, 7.0),
        (0.006, 0.0, 0.1),
        (0.0, 0.0, 2.0),
        (60.0, 0.0, 60.0),
        (60.1, 0.0, None),
        (7.0, 293.0, 7.0),
        (7.0, 293.1, None),
        (math.inf, 0.0, None),
        (-3.0, 0.0, 2.0),
        (math.nan, 0.0, 2.0),
    ],
)
def test_requested_wait_is_kept_or_too_long(wait: float, waited: float, delay: float | None) -> None:
    """One in the past, none at all, and one that is no number are as if nothing had been said."""
    for failure in (busy(wait), Failure(kind="rate_limited", message="", wait=wait)):
        assert next_delay(failure, RetryBudget(waited=waited), POLICY, 1.0) == delay


@pytest.mark.parametrize(
    ("policy", "budget", "delay"),
    [
        (RetryPolicy(attempts=0), RetryBudget(), None),
        (RetryPolicy(longest=5.0), RetryBudget(attempts_made=3), 5.0),
        (RetryPolicy(total=1.9), RetryBudget(), None),
        (RetryPolicy(total=2.0), RetryBudget(), 2.0),
        (RetryPolicy(total=10.0), RetryBudget(waited=8.5), None),
        (RetryPolicy(base=0.0), RetryBudget(attempts_made=4), 0.0),
        (RetryPolicy(attempts=10_000, total=math.inf), RetryBudget(attempts_made=9_999), 60.0),
        (RetryPolicy(attempts=10_000, base=0.0), RetryBudget(attempts_made=9_999), 0.0),
        (RetryPolicy(attempts=99, base=math.inf, longest=math.inf, total=math.inf), RetryBudget(), math.inf),
        (RetryPolicy(longest=0.0), RetryBudget(), 0.0),
        (RetryPolicy(longest=0.05), RetryBudget(), 0.05),
        (RetryPolicy(base=0.01), RetryBudget(), 0.01),
        (RetryPolicy(silence=2.1), RetryBudget(), 2.0),
        (RetryPolicy(silence=2.0), RetryBudget(), None),
        (RetryPolicy(silence=9.0), RetryBudget(silent=7.5), None),
    ],
)
def test_policy_bounds_retries(policy: RetryPolicy, budget: RetryBudget, delay: float | None) -> None:
    assert next_delay(busy(), budget, policy, 1.0) == delay


POLICIES = st.builds(
    RetryPolicy,
    attempts=st.integers(0, 40),
    base=st.floats(0, 100),
    longest=st.floats(0, 100),
    total=st.floats(0, 1_000),
)


@given(
    policy=POLICIES,
    waits=st.lists(st.none() | st.floats(allow_nan=True), min_size=50, max_size=50),
    fraction=st.floats(0, 1),
)
def test_retries_end_within_their_budgets(policy: RetryPolicy, waits: list[float | None], fraction: float) -> None:
    budget = RetryBudget()
    for wait in waits:
        delay = next_delay(busy(wait), budget, policy, fraction)
        if delay is None:
            break
        assert 0 <= delay <= policy.longest
        budget = RetryBudget(budget.attempts_made + 1, budget.waited + delay)
    assert budget.attempts_made <= policy.attempts
    assert budget.waited <= policy.total
