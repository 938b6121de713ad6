"""The facts of a failed request: by the host's codes first, by its wording last."""

from __future__ import annotations

import json

import pytest

from engine.core.errors import ErrorInfo
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.wire_format import HttpReply

OPTION = {"message": "Unsupported value", "code": "unsupported_value", "param": "reasoning.effort"}


def facts_of(status: int, error: object, **headers: str) -> ErrorInfo:
    body = json.dumps({"error": error}).encode()
    return http_failure("Host", HttpReply(status=status, headers=headers, body=body), 0.0).info


@pytest.mark.parametrize(
    ("status", "error", "info"),
    [
        (401, {"message": "no"}, ErrorInfo(code="key_rejected", http_status=401)),
        (403, {"message": "no"}, ErrorInfo(code="not_allowed", http_status=403)),
        (
            400,
            {"code": "unsupported_country_region_territory", "type": "forbidden", "message": "no"},
            ErrorInfo(code="not_allowed", http_status=400),
        ),
        (404, {"code": "model_not_found"}, ErrorInfo(code="model_not_found", http_status=404)),
        (400, OPTION, ErrorInfo(code="option_rejected", http_status=400, subject="reasoning.effort")),
        (
            400,
            {"message": "temperature: Extra inputs are not permitted"},
            ErrorInfo(code="option_rejected", http_status=400, subject="temperature"),
        ),
        (
            422,
            [{"loc": ["body", "top_k"], "msg": "extra fields not permitted"}],
            ErrorInfo(code="option_rejected", http_status=422, subject="top_k"),
        ),
        (400, {"message": "messages.0.content: required"}, ErrorInfo(code="request_rejected", http_status=400)),
        (400, {"message": "bad", "param": "tools[0].name"}, ErrorInfo(code="request_rejected", http_status=400)),
        (402, {"message": "pay"}, ErrorInfo(code="no_credit", http_status=402)),
        (429, {"code": "insufficient_quota"}, ErrorInfo(code="no_credit", http_status=429)),
        (429, {"message": "slow"}, ErrorInfo(code="rate_limited", http_status=429)),
        (529, {"message": "busy"}, ErrorInfo(code="overloaded", http_status=529)),
        (
            400,
            {"message": "prompt is too long: 212000 tokens > 200000 maximum"},
            ErrorInfo(code="too_long", http_status=400),
        ),
        (
            400,
            {"code": "context_length_exceeded", "message": "maximum context length is 8,192 tokens, you sent 9,001"},
            ErrorInfo(code="too_long", http_status=400, amount=9001, limit=8192),
        ),
    ],
)
def test_facts_of_an_error_response(status: int, error: object, info: ErrorInfo) -> None:
    assert facts_of(status, error) == info


def test_facts_have_the_request_id_of_header_or_body() -> None:
    assert facts_of(500, {"message": "x"}, **{"x-request-id": "req_1"}).request_id == "req_1"
    assert facts_of(500, {"message": "x", "request_id": "req_2"}).request_id == "req_2"
