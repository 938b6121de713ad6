from __future__ import annotations

import json

import pytest

from engine.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    MediaTooLarge,
    Overloaded,
    ProviderError,
    RateLimited,
    SignatureRejected,
)
from engine.providers.anthropic_errors import failure
from engine.providers.failures import retry_after, timestamp
from engine.providers.wire import HttpReply

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


def read(status: int, kind: str = "", message: str = "", **headers: str) -> ProviderError:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return failure(
        HttpReply(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}, body=body), NOW
    )


INVALID = "invalid_request_error"


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected", "retryable"),
    [
        (400, INVALID, "prompt is too long: 208310 tokens > 200000 maximum", ContextOverflow, False),
        (400, INVALID, "input length and `max_tokens` exceed context limit: 1 + 2 > 3", ContextOverflow, False),
        (400, INVALID, "messages.1.content.0: Invalid `signature` in `thinking` block", SignatureRejected, False),
        (
            400,
            INVALID,
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified",
            SignatureRejected,
            False,
        ),
        (400, INVALID, "Output blocked by content filtering policy", ContentFiltered, False),
        (
            400,
            INVALID,
            "messages.0.content.1.image: image exceeds 5 MB maximum: 6 bytes > 5 bytes",
            MediaTooLarge,
            False,
        ),
        (400, INVALID, "A maximum of 100 PDF pages may be provided.", MediaTooLarge, False),
        (
            400,
            INVALID,
            "max_tokens: 99 > 64, which is the maximum allowed number of output tokens",
            ProviderError,
            False,
        ),
        (400, INVALID, "file has 500 lines and 529 words", ProviderError, False),
        (400, INVALID, "Your credit balance is too low to access the Anthropic API.", ProviderError, False),
        (401, "authentication_error", "invalid x-api-key", AuthFailed, False),
        (403, "permission_error", "no", AuthFailed, False),
        (404, "not_found_error", "model: claude-sonet-4-5", ProviderError, False),
        (408, "", "", Overloaded, True),
        (413, "request_too_large", "Request exceeds the maximum allowed number of bytes.", MediaTooLarge, False),
        (413, "request_too_large", "Request exceeds the maximum size", ContextOverflow, False),
        (413, "", "prompt is too long: image", ContextOverflow, False),
        (429, "rate_limit_error", "Please reduce the prompt length", RateLimited, True),
        (500, "api_error", "Internal server error", Overloaded, True),
        (503, "", "", Overloaded, True),
        (529, "overloaded_error", "Overloaded", Overloaded, True),
        (500, INVALID, "prompt is too long: 2 tokens > 1 maximum", ContextOverflow, False),
        (418, "teapot_error", "short and stout", ProviderError, False),
    ],
)
def test_status_and_type_first_then_the_wording(
    status: int, kind: str, message: str, expected: type[ProviderError], retryable: bool
) -> None:
    error = read(status, kind, message)
    assert type(error) is expected
    assert (error.retryable, error.status) == (retryable, status)
    assert message in str(error)
    assert f"HTTP {status}" in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"[]", b'"x"', b'{"error": "x"}', b"\xff", b"[" * 100_000])
def test_a_body_that_says_nothing(body: bytes) -> None:
    error = failure(HttpReply(status=502, headers={}, body=body), NOW)
    assert type(error) is Overloaded
    assert str(error) == "Anthropic: no reason given (HTTP 502)"


def test_a_long_text_is_cut_and_put_in_one_line() -> None:
    text = str(read(400, INVALID, "a\n\nb" + "x" * 10_000))
    assert text.startswith("Anthropic: a bx")
    assert len(text) < 700


def test_the_host_may_forbid_a_retry() -> None:
    assert not read(529, "overloaded_error", x_should_retry="false").retryable
    assert not read(400, INVALID, x_should_retry="true").retryable  # we know better


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "2", "retry-after-ms": "soon"}, 2.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 -0000"}, 60.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:12:20 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Tue, 99 Nov 2023 22:12:20 GMT"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_when_a_limit_is_lifted() -> None:
    assert read(429, retry_after="60").reset_at == NOW + 60
    limits = {
        "anthropic_ratelimit_requests_remaining": "0",
        "anthropic_ratelimit_requests_reset": "2023-11-14T22:15:20Z",
        "anthropic_ratelimit_tokens_remaining": "0",
        "anthropic_ratelimit_tokens_reset": "2023-11-14T22:18:20Z",
        "anthropic_ratelimit_input_tokens_remaining": "5",
        "anthropic_ratelimit_input_tokens_reset": "2030-01-01T00:00:00Z",
    }
    assert read(429, **limits).reset_at == NOW + 300
    assert read(429, anthropic_ratelimit_unified_reset="1700000042").reset_at == NOW + 42
    assert read(429).reset_at is None
    assert read(429).retry_after is None


@pytest.mark.parametrize("value", ["soon", "2023-99-01", ""])
def test_a_time_that_is_none(value: str) -> None:
    assert timestamp(value) is None
