"""What a host's refusal makes of a turn, from its bytes to the stop reason, on a virtual clock (T23)."""

from __future__ import annotations

import json

import pytest
import trio
from trio.testing import MockClock

from engine.core.events import RetryScheduled, StopReason, TurnEnded
from engine.core.llm_types import ModelInfo
from engine.session.turn import Turn
from engine.testing import ScriptedProvider, done, text
from engine.testing.script import Answer, HttpFailure
from tests.support.world import Seen, about, world

DONE: Answer = [*text("Done."), *done()]


def refusal(status: int, body: object = None, **headers: str) -> Answer:
    """Header names have `_` for `-`."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return [HttpFailure(status, json.dumps(body or {}), pairs)]


def error(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


GOOGLE = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "34.4s"}]}}


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (refusal(429, retry_after="2"), 2),
        (refusal(429, retry_after="2", retry_after_ms="1500"), 1.5),
        (refusal(429, retry_after="Thu, 01 Jan 1970 00:00:30 GMT"), 30),
        (refusal(429, GOOGLE), 34.4),
        (refusal(429, error("Please try again in 11.5s.")), 11.5),
        (refusal(429, x_ratelimit_remaining_tokens="0", x_ratelimit_reset_tokens="12.5s"), 12.5),
        (refusal(503, retry_after="7"), 7),
        # Nothing was asked, or what is past: two seconds, the first wait of ours.
        (refusal(429), 2),
        (refusal(429, retry_after="Wed, 31 Dec 1969 23:00:00 GMT"), 2),
        (refusal(429, retry_after="0"), 2),
        (refusal(429, x_ratelimit_remaining_tokens="5", x_ratelimit_reset_tokens="12.5s"), 2),
        (refusal(500, error("it broke")), 2),
    ],
)
async def test_t23_waits_as_requested_and_continues(autojump_clock: MockClock, answer: Answer, seconds: float) -> None:
    async with world(answer, DONE) as w:
        played = await w.play()
    assert (played.stop_reason, played.reasons) == ("completed", ["provider_retry"])
    assert autojump_clock.current_time() == about(seconds)


@pytest.mark.parametrize(
    ("answer", "reset_at"),
    [
        (refusal(429, retry_after="3600"), 3600),
        (refusal(429, x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="6m0s"), 360),
        (refusal(429, anthropic_ratelimit_tokens_remaining="0", anthropic_ratelimit_tokens_reset="1970-01-01T00:05:00Z"), 300),
        (refusal(429, error("Please try again in 1h2m3s.", code="rate_limit_exceeded")), 3723),
        (refusal(429, error("no", type="usage_limit_reached", resets_in_seconds=10)), 10),
        (refusal(429, retry_after="5", x_should_retry="false"), 5),
        (refusal(429, error("Rate limit exceeded: free-models-per-day")), None),
        (refusal(413, error("Request too large: Limit 6000, Requested 7000", code="rate_limit_exceeded")), None),
    ],
)  # fmt: skip
async def test_t23_limit_without_hope_ends_the_turn(
    autojump_clock: MockClock, answer: Answer, reset_at: float | None
) -> None:
    async with world(answer, DONE) as w:
        played = await w.play()
        assert (played.stop_reason, played.reasons) == ("rate_limited", [])
        assert played.result.reset_at == (None if reset_at is None else about(reset_at))
        assert autojump_clock.current_time() == 0
        await w.goes_on()


@pytest.mark.parametrize(
    ("answer", "stop_reason"),
    [
        (refusal(400, error("file has 500 lines, and 429 of them are odd")), "provider_error"),
        (refusal(402), "provider_error"),
        (refusal(429, error("pay", code="insufficient_quota")), "provider_error"),
        (refusal(404, error("model: gpt-9")), "provider_error"),
        (refusal(529, x_should_retry="false"), "provider_error"),
        (refusal(401, x_should_retry="true"), "auth_failed"),
        (refusal(500, error("it was flagged", code="content_filter")), "content_filter"),
        (refusal(400, error("prompt is too long")), "prompt_too_long"),
    ],
)
async def test_t23_permanent_limit_is_not_retried(
    autojump_clock: MockClock, answer: Answer, stop_reason: StopReason
) -> None:
    async with world(answer, DONE) as w:
        played = await w.play()
        assert (played.stop_reason, played.reasons, len(w.requests)) == (stop_reason, [], 1)
        assert "Scripted: " in played.result.detail
        await w.goes_on()


async def test_t23_six_failures_are_five_retries(autojump_clock: MockClock) -> None:
    async with world(refusal(503), repeat=True) as w:
        played = await w.play()
        assert played.reasons == ["provider_retry"] * 5
        assert (played.stop_reason, len(w.requests)) == ("provider_error", 6)
        assert len(played.all(TurnEnded)) == 1
        assert autojump_clock.current_time() == about(2 + 4 + 8 + 16 + 32)


async def test_t23_cancel_ends_the_wait(autojump_clock: MockClock) -> None:
    async def cancel(turn: Turn, event: Seen) -> None:
        if isinstance(event, RetryScheduled):
            await trio.sleep(3)
            turn.cancel()

    async with world(refusal(429, retry_after="50"), DONE) as w:
        played = await w.play(react=cancel)
        assert (played.stop_reason, played.result.during) == ("aborted", "waiting")
        assert autojump_clock.current_time() == about(3)


async def test_t23_model_mistake_is_retried(autojump_clock: MockClock) -> None:
    slip = refusal(400, error("no tool called", type="invalid_request_error", code="tool_use_failed"))
    async with world(slip, DONE) as w:
        played = await w.play()
    assert (played.stop_reason, played.reasons) == ("completed", ["provider_retry"])


@pytest.mark.parametrize("answer", [refusal(402), refusal(404), refusal(400), refusal(429, retry_after="3600")])
async def test_t23_next_model_may_lack_nothing(autojump_clock: MockClock, answer: Answer) -> None:
    other = ScriptedProvider([DONE], info=ModelInfo(name="scripted/other"))
    async with world(answer, models=[other]) as w:
        played = await w.play()
    assert (played.stop_reason, played.reasons) == ("completed", ["model_fallback"])
    assert autojump_clock.current_time() == 0
