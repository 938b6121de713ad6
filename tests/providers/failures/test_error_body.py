"""Error responses in every format."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
)
from engine.providers.failures.error_body import stream_failure
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.wire_format import HttpReply

NOW = 1_700_000_000.0


def refused(status: int, body: object = b"", headers: dict[str, str] | None = None) -> ProviderError:
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return http_failure("Host", HttpReply(status=status, headers=headers or {}, body=data), NOW)


FORMS: dict[str, tuple[int, object, dict[str, str], type[ProviderError], str]] = {
    "Anthropic": (
        404,
        {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "1"},
        {},
        ModelNotFound,
        "Host: model: x (HTTP 404, not_found_error)",
    ),
    "OpenAI": (
        401,
        {"error": {"message": "Wrong key.", "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}},
        {},
        AuthFailed,
        "Host: Wrong key. (HTTP 401, invalid_api_key)",
    ),
    "OpenAI, bare": (
        400,
        {"object": "error", "message": "No.", "type": "BadRequestError", "param": None, "code": 400},
        {},
        InvalidRequest,
        "Host: No. (HTTP 400, BadRequestError)",
    ),
    "Azure, numbers as text": (
        429,
        {"error": {"code": "429", "message": "Slow down."}},
        {},
        RateLimited,
        "Host: Slow down. (HTTP 429)",
    ),
    "Azure, inner error": (
        400,
        {
            "error": {
                "message": "It was filtered.",
                "type": None,
                "code": "odd",
                "status": 400,
                "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {}}},
            }
        },
        {},
        ContentFiltered,
        "Host: It was filtered. (HTTP 400, ResponsibleAIPolicyViolation)",
    ),
    "Azure, under a 200": (
        200,
        {"error": {"code": "content_filter", "message": "It was filtered.", "status": 400}},
        {},
        ContentFiltered,
        "Host: It was filtered. (HTTP 400, content_filter)",
    ),
    "xAI": (
        400,
        {"code": "invalid-argument", "error": "Incorrect API key provided."},
        {},
        AuthFailed,
        "Host: Incorrect API key provided. (HTTP 400, invalid-argument)",
    ),
    "xAI, a sentence for a code": (
        403,
        {"code": "The caller does not have permission", "error": "Your team doesn't have any credits"},
        {},
        QuotaExhausted,
        "Host: Your team doesn't have any credits (HTTP 403)",
    ),
    "Mistral, detail": (401, {"detail": "Invalid API Key"}, {}, AuthFailed, "Host: Invalid API Key (HTTP 401)"),
    "Mistral, object": (
        429,
        {"object": "error", "message": "Too fast", "type": "rate_limited", "param": None, "code": "1300"},
        {},
        RateLimited,
        "Host: Too fast (HTTP 429, rate_limited)",
    ),
    "Mistral, validation": (
        422,
        {
            "detail": [
                {"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required", "input": {"a": "secret"}},
                {"type": "extra_forbidden", "loc": ["body", "foo"], "msg": "Extra inputs are not permitted"},
            ]
        },
        {},
        InvalidRequest,
        "Host: body.messages.0: Field required: body.foo: Extra inputs are not permitted (HTTP 422)",
    ),
    "Mistral, validation in a message": (
        422,
        {"object": "error", "message": {"detail": [{"loc": ["body"], "msg": "Bad"}]}, "type": "invalid_request_error"},
        {},
        InvalidRequest,
        "Host: body: Bad (HTTP 422, invalid_request_error)",
    ),
    "Cohere": (
        401,
        {"id": "1", "message": "Incorrect API key provided: ***"},
        {},
        AuthFailed,
        "Host: Incorrect API key provided: *** (HTTP 401)",
    ),
    "OpenRouter, upstream's text": (
        429,
        {
            "error": {
                "message": "Provider returned error",
                "code": 429,
                "metadata": {"raw": "x is busy", "provider_name": "P"},
            }
        },
        {},
        RateLimited,
        "Host: Provider returned error: x is busy (HTTP 429)",
    ),
    "OpenRouter, upstream's JSON": (
        502,
        {
            "error": {
                "message": "Provider returned error",
                "code": 502,
                "metadata": {"raw": '{"error":{"message":"No more money","type":"insufficient_quota"}}'},
            }
        },
        {},
        QuotaExhausted,
        "Host: Provider returned error: No more money (HTTP 502, insufficient_quota)",
    ),
    "Z.ai": (
        429,
        {"error": {"code": "1113", "message": "请充值"}},
        {},
        QuotaExhausted,
        "Host: 请充值 (HTTP 429, 1113)",
    ),
    "Google": (
        400,
        {
            "error": {
                "code": 400,
                "message": "API key not valid.",
                "status": "INVALID_ARGUMENT",
                "details": [
                    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
                    {"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "message": "API key not valid."},
                ],
            }
        },
        {},
        AuthFailed,
        "Host: API key not valid. (HTTP 400, API_KEY_INVALID)",
    ),
    "Google, an array": (
        503,
        [{"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}],
        {},
        Overloaded,
        "Host: Overloaded. (HTTP 503, UNAVAILABLE)",
    ),
    "Bedrock, header": (
        400,
        {"message": "Too many tokens"},
        {"x-amzn-errortype": "ThrottlingException:http://internal.amazon.com/coral/"},
        RateLimited,
        "Host: Too many tokens (HTTP 400, ThrottlingException)",
    ),
    "Bedrock, __type": (
        400,
        {"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "No access"},
        {},
        AuthFailed,
        "Host: No access (HTTP 400, com.amazon.coral.service#AccessDeniedException)",
    ),
    "Ollama": (404, {"error": "model 'x' not found"}, {}, ModelNotFound, "Host: model 'x' not found (HTTP 404)"),
    "Hugging Face, a list": (
        422,
        {"error": ["Error in `a`: no", "Error in `b`: no"], "error_type": "validation"},
        {},
        InvalidRequest,
        "Host: Error in `a`: no; Error in `b`: no (HTTP 422, validation)",
    ),
    "MiniMax, under a 200": (
        200,
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        {},
        QuotaExhausted,
        "Host: insufficient balance (base_resp 1008)",
    ),
    "anything under a 200": (
        200,
        {"error": {"message": "it broke"}},
        {},
        Overloaded,
        "Host: it broke (during the response)",
    ),
    "OAuth": (
        400,
        {"error": "invalid_grant", "error_description": "Token has been revoked."},
        {},
        InvalidRequest,
        "Host: Token has been revoked. (HTTP 400, invalid_grant)",
    ),
    "problem+json": (
        404,
        {"type": "urn:nim:missing", "title": "Not Found", "status": 404, "detail": "no such function"},
        {},
        ModelNotFound,
        "Host: no such function (HTTP 404, urn:nim:missing)",
    ),
    "a complaint in a complaint": (
        500,
        {
            "error": {
                "message": '{"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}',
                "code": 500,
            }
        },
        {},
        RateLimited,
        "Host: slow (HTTP 500, RESOURCE_EXHAUSTED)",
    ),
    "what only looks like JSON": (
        400,
        {"error": {"message": "{x} is bad"}},
        {},
        InvalidRequest,
        "Host: {x} is bad (HTTP 400)",
    ),
    "deeper than anybody goes": (
        500,
        {"error": {"error": {"error": {"error": {"error": {"error": {"error": {"error": {"message": "deep"}}}}}}}}},
        {},
        Overloaded,
        "Host: no reason given (HTTP 500)",
    ),
    "a stream instead of a document": (
        400,
        'event: error\ndata: {"error": {"message": "too late", "code": "context_length_exceeded"}}\n\n',
        {},
        ContextOverflow,
        "Host: too late (HTTP 400, context_length_exceeded)",
    ),
    "lines of JSON": (500, '{"error": "it broke"}\n{"done": true}\n', {}, Overloaded, "Host: it broke (HTTP 500)"),
    "text": (504, "upstream request timeout\n", {}, Overloaded, "Host: upstream request timeout (HTTP 504)"),
    "a JSON string": (503, '"down for the night"', {}, Overloaded, "Host: down for the night (HTTP 503)"),
    "a page": (
        502,
        "<!DOCTYPE html>\n<html><head><TITLE>502 Bad\n Gateway &amp; co</TITLE></head><body>" + "x" * 9_000 + "</body>",
        {},
        Overloaded,
        'Host: a web page instead of a response: "502 Bad Gateway & co" (HTTP 502)',
    ),
    "a page with a heading": (
        403,
        "<html><body><h1 class='a'>Access <b>denied</b></h1>\nRay ID: 529</body></html>",
        {},
        AuthFailed,
        'Host: a web page instead of a response: "Access denied" (HTTP 403)',
    ),
    "a page without a title": (
        404,
        "<html>500</html>",
        {},
        ModelNotFound,
        "Host: a web page instead of a response (HTTP 404)",
    ),
    "a page that begins headings and ends none": (
        502,
        b"<h1>" * 16_000,
        {},
        Overloaded,
        "Host: a web page instead of a response (HTTP 502)",
    ),
    "nothing": (500, b"", {}, Overloaded, "Host: no reason given (HTTP 500)"),
    "bytes": (502, b"\x1f\x8b\x08\x00\xff\xfe", {}, Overloaded, "Host: no reason given (HTTP 502)"),
    "an empty object": (400, {}, {}, InvalidRequest, "Host: no reason given (HTTP 400)"),
    "an empty list": (502, [], {}, Overloaded, "Host: no reason given (HTTP 502)"),
    "JSON that was cut": (400, '{"error": {"message": "aaa', {}, InvalidRequest, "Host: no reason given (HTTP 400)"),
    "too deep": (502, b"[" * 100_000, {}, Overloaded, "Host: no reason given (HTTP 502)"),
}


@pytest.mark.parametrize(("status", "body", "headers", "expected", "message"), FORMS.values(), ids=FORMS)
def test_a_refusal(
    status: int, body: object, headers: dict[str, str], expected: type[ProviderError], message: str
) -> None:
    error = refused(status, body, headers)
    assert type(error) is expected
    assert str(error) == message


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, Overloaded, "Host: Overloaded (overloaded_error)"),
        (
            {"type": "error", "code": "server_is_overloaded", "message": "busy", "param": None, "sequence_number": 2},
            Overloaded,
            "Host: busy (server_is_overloaded)",
        ),
        (
            {"type": "error", "error": {"code": "server_is_overloaded", "message": "busy", "type": "odd"}},
            Overloaded,
            "Host: busy (server_is_overloaded)",
        ),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "insufficient_quota", "message": "pay"},
                    "metadata": {},
                },
            },
            QuotaExhausted,
            "Host: pay (insufficient_quota)",
        ),
        (
            {"id": "1", "error": {"code": 429, "message": "slow"}, "choices": [{"finish_reason": "error"}]},
            RateLimited,
            "Host: slow (HTTP 429)",
        ),
        ({"message": "no tool", "code": "odd", "status_code": 400}, InvalidRequest, "Host: no tool (HTTP 400, odd)"),
        ({"message": "down", "code": 502}, Overloaded, "Host: down (HTTP 502)"),
        ({"__type": "throttlingException", "message": "slow"}, RateLimited, "Host: slow (throttlingException)"),
        ({"type": "error", "message": "busy"}, Overloaded, "Host: busy (during the response)"),
        ("it broke", Overloaded, "Host: it broke (during the response)"),
        (None, Overloaded, "Host: no reason given (during the response)"),
    ],
)
def test_in_the_middle_of_an_answer(error: object, expected: type[ProviderError], message: str) -> None:
    failure = stream_failure("Host", error)
    assert type(failure) is expected
    assert str(failure) == message


def test_the_innermost_knows_best() -> None:
    inner = {"error": {"code": "insufficient_quota", "message": "pay"}}
    outer = {"error": {"code": "rate_limit_exceeded", "message": "slow", "metadata": {"raw": json.dumps(inner)}}}
    assert type(refused(429, outer)) is QuotaExhausted
    assert str(refused(429, outer)) == "Host: slow: pay (HTTP 429, insufficient_quota)"


def test_an_explicit_status_wins() -> None:
    assert stream_failure("Host", {"code": 502}, 424).status == 424


# -- times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "headers", "wait", "reset_at"),
    [
        ({}, {"retry-after": "2"}, 2.0, NOW + 2),
        ({}, {"retry-after": "1", "retry-after-ms": "0"}, 1.0, NOW + 1),
        ({"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34.4s"}]}}, {}, 34.4, NOW + 34.4),
        ({"error": {"message": "Please try again in 11.5s."}}, {}, 11.5, NOW + 11.5),
        ({"error": {"message": "Please try again in 9s."}}, {"retry-after": "2"}, 2.0, NOW + 2),
        ({"error": {"type": "usage_limit_reached", "resets_at": NOW + 50, "resets_in_seconds": 50}}, {}, 50.0, NOW + 50),
        ({"error": {"resets_at": NOW + 50}}, {}, None, NOW + 50),
        ({"error": {"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000060000"}}}}, {}, None, NOW + 60),
        ({"error": {"metadata": {"headers": {"X-RateLimit-Remaining": None, "X-RateLimit-Reset": []}}}}, {}, None, None),
        ({"error": {"code": "1308", "message": "It will reset at 2023-11-15 06:14:20"}}, {}, None, NOW + 60),
        ({"error": {"code": "odd", "message": "It will reset at 2023-11-15 06:14:20"}}, {}, None, None),
        ({}, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, None, NOW + 360),
        ({}, {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "6m0s"}, None, None),
        ({}, {"retry-after": "Tue, 14 Nov 2023 22:12:20 GMT"}, None, None),
        ({"error": {"retry_after": True, "resets_at": False}}, {}, None, None),
        ({}, {}, None, None),
    ],
)  # fmt: skip
def test_when_to_come_back(body: object, headers: dict[str, str], wait: float | None, reset_at: float | None) -> None:
    error = refused(429, body, headers)
    assert type(error) is RateLimited
    assert (error.retry_after, error.reset_at) == (wait, reset_at)


@pytest.mark.parametrize(
    ("error", "wait", "reset_at"),
    [
        ({"code": "rate_limit_exceeded", "message": "Please try again in 11.054s."}, 11.054, None),
        ({"type": "usage_limit_reached", "resets_at": NOW}, None, NOW),
        ({"code": 429, "metadata": {"headers": {"X-RateLimit-Remaining": 0, "X-RateLimit-Reset": 1_700_000_060_000}}}, None, NOW + 60),
        ({"code": 429, "metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60"}}}, None, None),
    ],
)  # fmt: skip
def test_a_retry_delay_during_the_response(error: object, wait: float | None, reset_at: float | None) -> None:
    failure = stream_failure("Host", error)
    assert (failure.retry_after, failure.reset_at) == (wait, reset_at)


def test_daily_limit_is_not_awaited() -> None:
    google = {
        "error": {
            "code": 429,
            "message": "You exceeded your current quota.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                {"retryDelay": "34s"},  # the host itself does not know
            ],
        }
    }
    openrouter = {"error": {"code": 429, "message": "no", "metadata": {"limit_source": "openrouter_free_tier_daily"}}}
    minute = {"error": {"details": [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}]}}
    assert [refused(429, body).retryable for body in (google, openrouter, minute)] == [False, False, True]


@pytest.mark.parametrize(("message", "retryable"), [("true", True), ("false", False), ("perhaps", True)])
def test_the_host_may_forbid_a_retry(message: str, retryable: bool) -> None:
    assert refused(529, {}, {"x-should-retry": message}).retryable == retryable


def test_long_message_is_truncated_between_words() -> None:
    """What is cut at its length would be seen if most of it is space."""
    key = "sk-" + "x" * 60
    for before in range(3_900, 4_010):
        shown = str(refused(400, " " * 10 + "why" + " " * before + key))
        assert key in shown or "sk-" not in shown
        assert "why" in shown


# -- anything --------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "status", "details", "metadata", "raw", "detail", "headers"]
            )
            | st.sampled_from(
                ["loc", "msg", "violations", "base_resp", "status_code", "status_msg", "retryDelay", "resets_at"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(status=st.integers(200, 599), document=JSON, body=st.binary(max_size=60), as_text=st.booleans())
def test_foreign_input_never_raises(status: int, document: object, body: bytes, as_text: bool) -> None:
    error = refused(status, json.dumps(document) if as_text else body)
    assert str(error).startswith("Host: ")
    assert "\n" not in str(error)
    assert str(stream_failure("Host", document)).startswith("Host: ")


@pytest.mark.parametrize(
    "page",
    [b"<h1>" * 16_000, b"<h1 " * 16_000, b"<title>" + b"<" * 64_000 + b"</title>", b"<title>" + b"<b>" * 20_000],
    ids=["headings", "unfinished", "brackets", "tags"],
)
def test_huge_page_is_fast(page: bytes) -> None:
    """It is read in the event loop."""
    began = time.process_time()
    refused(502, page, {})
    assert time.process_time() - began < 3
