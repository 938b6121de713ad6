"""Context overflows as every host reports them, and errors that only look like one."""

from __future__ import annotations

import json

import attrs
import pytest

from engine.core.errors import (
    ContextOverflow,
    InvalidRequest,
    MediaTooLarge,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
)
from engine.providers.failures.error_body import http_failure, stream_failure
from engine.providers.failures.overflow import OVERFLOW, is_overflow, other_cause
from engine.providers.wire.wire_format import HttpReply


@attrs.frozen
class HostReply:
    """What a host answers: its name, a status, a body (JSON, or text as it is), headers."""

    host: str
    status: int
    body: object = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def error(self) -> ProviderError:
        body = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return http_failure(self.host, HttpReply(status=self.status, headers=dict(self.headers), body=body.encode()), 0)


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def openai(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None} | more}


def google(message: str, status: str = "INVALID_ARGUMENT", code: int = 400) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "status": status}}


VALIDATION = (("x-amzn-errortype", "ValidationException:http://internal.amazon.com/coral/"),)
THROTTLING = (("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/coral/"),)

ROWS = {
    "Anthropic": HostReply("Anthropic", 400, anthropic("prompt is too long: 210000 tokens > 200000 maximum")),
    "Anthropic, too large": HostReply(
        "Anthropic", 413, anthropic("Request exceeds the maximum size", "request_too_large")
    ),
    "Anthropic, too large, no type": HostReply("Anthropic", 413, anthropic("request_too_large", "")),
    "Anthropic, with the answer": HostReply(
        "Anthropic", 400, anthropic("input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000")
    ),
    "Bedrock": HostReply("AWS Bedrock", 400, {"message": "Input is too long for requested model."}, VALIDATION),
    "Bedrock, Message": HostReply("AWS Bedrock", 400, {"Message": "Input is too long for requested model."}),
    "Bedrock, Cohere": HostReply(
        "AWS Bedrock",
        400,
        {"message": "Too many input tokens. Max input tokens: 8192, request input token count: 9000"},
    ),
    "OpenAI": HostReply(
        "OpenAI", 400, openai("Your input exceeds the context window of this model. Please adjust it.")
    ),
    "OpenAI, code": HostReply("OpenAI", 400, openai("So it goes.", code="context_length_exceeded")),
    "Azure, code": HostReply("Azure OpenAI", 400, {"error": {"code": "ContextLengthExceeded", "message": "No."}}),
    "LiteLLM": HostReply(
        "LiteLLM",
        400,
        openai("litellm.BadRequestError: 9000 tokens exceeds the model's maximum context length of 8192 tokens"),
    ),
    "like OpenAI": HostReply(
        "vLLM", 400, openai("Input length (265330) exceeds model's maximum context length (262144).")
    ),
    "Gemini": HostReply(
        "Google Gemini",
        400,
        google("The input token count (2845475) exceeds the maximum number of tokens allowed (1048576)."),
    ),
    "Vertex, an array": HostReply(
        "Google Vertex AI", 400, [google("The input token count (12) exceeds the maximum number (11).")]
    ),
    "gateway, more than max": HostReply("gateway", 400, openai("tokens in request more than max tokens allowed")),
    "gateway, allowed input": HostReply(
        "gateway", 400, openai("Input length 131393 exceeds the maximum allowed input length of 131040 tokens.")
    ),
    "gateway, longer than": HostReply(
        "gateway", 400, openai("The input (516368 tokens) is longer than the model's context length (262144 tokens).")
    ),
    "xAI": HostReply(
        "xAI",
        400,
        {
            "code": "invalid-argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
        },
    ),
    "Groq": HostReply(
        "Groq", 400, openai("Please reduce the length of the messages or completion.", code="context_length_exceeded")
    ),
    "Groq, no code": HostReply("Groq", 400, openai("Please reduce the length of the messages or completion.")),
    "OpenRouter": HostReply(
        "OpenRouter",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens",
                "code": 400,
            }
        },
    ),
    "OpenRouter, upstream": HostReply(
        "OpenRouter",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "provider_name": "Anthropic",
                    "raw": json.dumps(anthropic("prompt is too long: 2 tokens > 1 maximum")),
                },
            }
        },
    ),
    "DeepSeek": HostReply(
        "DeepSeek",
        400,
        openai(
            "This model's maximum context length is 65536 tokens. However, you requested 69648 tokens",
            code="invalid_request_error",
        ),
        (("content-type", "application/octet-stream"),),
    ),
    "vLLM": HostReply(
        "vLLM",
        400,
        {
            "object": "error",
            "message": "the model's context length is only 1024 tokens",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "vLLM, input length": HostReply(
        "vLLM", 400, openai("The input length 9000 exceeds the served model's context length 8192")
    ),
    "GitHub Copilot": HostReply(
        "GitHub Copilot",
        400,
        {"error": {"message": "prompt token count of 146270 exceeds the limit of 128000", "code": ""}},
    ),
    "GitHub Copilot, code": HostReply(
        "GitHub Copilot", 400, {"error": {"message": "too much", "code": "model_max_prompt_tokens_exceeded"}}
    ),
    "GitHub Copilot, in short": HostReply(
        "GitHub Copilot", 400, {"error": {"message": "130,000 exceeds the limit of 128,000"}}
    ),
    "GitHub Models": HostReply(
        "GitHub Models",
        413,
        {
            "error": {
                "code": "tokens_limit_reached",
                "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            }
        },
    ),
    "llama.cpp": HostReply(
        "llama.cpp",
        500,
        openai("the request exceeds the available context size. try increasing it", type="server_error", code=500),
    ),
    "llama.cpp, type": HostReply(
        "llama.cpp", 400, {"error": {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_ctx": 4096}}
    ),
    "LM Studio": HostReply(
        "LM Studio",
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
    ),
    "MiniMax": HostReply(
        "MiniMax",
        400,
        {
            "type": "error",
            "error": {
                "type": "bad_request_error",
                "message": "invalid params, context window exceeds limit (2013)",
                "http_code": "400",
            },
        },
    ),
    "MiniMax, base_resp": HostReply(
        "MiniMax",
        200,
        {"base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"}},
    ),
    "Moonshot": HostReply(
        "Moonshot", 400, openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)")
    ),
    "Ollama": HostReply("Ollama", 400, {"error": "prompt too long; exceeded max context length by 1119 tokens"}),
    "Ollama, without max": HostReply("Ollama", 400, {"error": "prompt too long; exceeded context length by 1 tokens"}),
    "Mistral": HostReply(
        "Mistral",
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
    ),
    "local server": HostReply(
        "vLLM", 400, openai("Prompt has 5,958,968 tokens, but the configured context size is 256,000 tokens")
    ),
    "Z.ai": HostReply("Z.ai", 400, openai("model_context_window_exceeded")),
    "Z.ai, code": HostReply("Z.ai", 400, {"error": {"code": "1261", "message": "Prompt 超长"}}),
    "Alibaba": HostReply(
        "Alibaba Cloud (Qwen)",
        400,
        {"code": "InvalidParameter", "message": "Range of input length should be [1, 30720]"},
    ),
    "Hugging Face": HostReply(
        "Hugging Face router",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
            "error_type": "validation",
        },
    ),
    "Cohere": HostReply(
        "Cohere",
        400,
        {
            "message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354.",
            "id": "1",
        },
    ),
    "any host, space": HostReply("gateway", 400, openai("Context length exceeded")),
    "any host, underscore": HostReply("gateway", 422, "context_length_exceeded"),
    "any host, entity": HostReply(
        "gateway", 413, "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>"
    ),
    "any host, tokens": HostReply("gateway", 400, openai("Too many tokens")),
    "any host, limit": HostReply("gateway", 400, openai("Token limit exceeded")),
    "Cerebras, 400 and nothing": HostReply("Cerebras", 400),
    "Cerebras, 413 and nothing": HostReply("Cerebras", 413),
    "Mistral, 400 and nothing": HostReply("Mistral", 400),
    "Mistral, 413 and nothing": HostReply("Mistral", 413),
    "a gateway before Cerebras": HostReply("gateway", 500, openai("400 status code (no body)", type="server_error")),
    "a gateway before Mistral": HostReply("gateway", 502, "413 (no body)"),
    "413 and nothing": HostReply("any host", 413),
}


@pytest.mark.parametrize("words", ROWS.values(), ids=ROWS)
def test_too_long_a_request(words: HostReply) -> None:
    error = words.error
    assert type(error) is ContextOverflow
    assert not error.retryable


def test_every_pattern_is_some_host_s() -> None:
    """A row that nothing here needs is one that nobody knows."""
    messages = [str(words.error) for words in ROWS.values()]
    messages = [message.partition(": ")[2] for message in messages]
    in_streams = ["Token limit reached (HTTP 400)", "input token length too long", "Prompt exceeds max length"]
    unused = [row.pattern for _, row in OVERFLOW if not any(map(row.search, [*messages, *in_streams]))]
    assert unused == []


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "No."},
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "context_length_exceeded"}}},
        {"__type": "validationException", "message": "Input is too long for requested model."},
        {"error": {"code": 400, "message": "Token limit reached"}, "choices": []},
        {"message": "Input token length too long"},
        {"code": "1261", "message": "Prompt exceeds max length"},
        {"type": "request_too_large", "message": "Request exceeds the maximum size"},
        "prompt is too long",
    ],
)
def test_too_long_a_request_that_is_noticed_late(error: object) -> None:
    assert type(stream_failure("a host", error)) is ContextOverflow


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (HostReply("gateway", 400, "Throttling error: Too many tokens, please wait before trying again."), RateLimited),
        (
            HostReply("AWS Bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, THROTTLING),
            RateLimited,
        ),
        (
            HostReply("AWS Bedrock", 400, {"message": "Too many tokens, please wait before trying again."}, THROTTLING),
            RateLimited,
        ),
        (HostReply("gateway", 400, "Service unavailable: too many tokens in the queue"), Overloaded),
        (HostReply("gateway", 503, "Service unavailable: prompt is too long to be queued"), Overloaded),
        (HostReply("gateway", 400, openai("Rate limit reached: too many tokens")), RateLimited),
        (HostReply("gateway", 413, openai("rate-limited: Request Entity Too Large")), RateLimited),
        (HostReply("gateway", 400, openai("Too many requests, too many tokens")), RateLimited),
        (HostReply("Anthropic", 429, anthropic("Please reduce the prompt length", "rate_limit_error")), RateLimited),
        (HostReply("Cerebras", 429, "Tokens per minute limit exceeded - too many tokens processed."), RateLimited),
        (
            HostReply(
                "Groq",
                413,
                openai(
                    "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 14810, please reduce your message size",
                    type="tokens",
                    code="rate_limit_exceeded",
                ),
            ),
            RateLimited,
        ),
    ],
)
def test_tokens_per_minute_are_no_overflow(words: HostReply, expected: type[ProviderError]) -> None:
    assert type(words.error) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            HostReply(
                "Anthropic", 413, anthropic("Request exceeds the maximum allowed number of bytes.", "request_too_large")
            ),
            MediaTooLarge,
        ),
        (HostReply("Anthropic", 413, anthropic("image exceeds the maximum size", "request_too_large")), MediaTooLarge),
        (
            HostReply(
                "Anthropic", 400, anthropic("messages.0.content.1.image: image exceeds 5 MB maximum: 6 bytes > 5 bytes")
            ),
            MediaTooLarge,
        ),
        (HostReply("Anthropic", 400, anthropic("A maximum of 100 PDF pages may be provided.")), MediaTooLarge),
        (
            HostReply("Google Gemini", 400, google("Request payload size exceeds the limit: 20971520 bytes.")),
            MediaTooLarge,
        ),
        (HostReply("gateway", 413, "Payload too large: 33 MB"), MediaTooLarge),
        (HostReply("gateway", 400, openai("image of 9000000 exceeds the limit of 5000000")), MediaTooLarge),
    ],
)
def test_too_large_because_of_what_is_attached(words: HostReply, expected: type[ProviderError]) -> None:
    assert type(words.error) is expected


@pytest.mark.parametrize(
    "words",
    [
        HostReply(
            "Groq",
            400,
            "max_tokens must be less than or equal to 16384, the maximum value for max_tokens is less than the context_window for this model",
        ),
        HostReply(
            "OpenAI",
            400,
            openai(
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
                param="max_tokens",
            ),
        ),
        HostReply(
            "Anthropic", 400, anthropic("max_tokens: 99 > 64, which is the maximum allowed number of output tokens")
        ),
        HostReply(
            "OpenAI",
            400,
            openai("Invalid 'tools': array too long. Expected an array with maximum length 128, but got 130."),
        ),
        HostReply(
            "OpenAI", 400, openai("Invalid 'tools[0].function.name': string too long. Expected maximum length 64.")
        ),
        HostReply("gateway", 400, openai("number of tools 130 exceeds the limit of 128")),
        HostReply("gateway", 400, openai("the description exceeds the limit of 1,024 characters")),
        HostReply("gateway", 400, openai("the body exceeds the limit of 32 MB")),
        HostReply("OpenAI", 400, openai("file has 500 lines and 413 words (no body)")),
        HostReply("OpenAI", 400, openai("the context length parameter is unknown")),
        HostReply("OpenAI", 400),
        HostReply("Cerebras", 400, openai("temperature must be a number")),
        HostReply("Mistral", 422),
        HostReply("OpenAI", 400, "4000 (no body)"),
    ],
)
def test_other_limits_are_no_overflow(words: HostReply) -> None:
    assert type(words.error) is InvalidRequest


def test_token_limit_of_a_key_is_quota() -> None:
    words = HostReply(
        "OpenRouter",
        403,
        openai("Prompt tokens limit exceeded: 230799 > 91442. Create a key with a higher monthly limit"),
    )
    assert type(words.error) is QuotaExhausted


@pytest.mark.parametrize(
    ("message", "about"),
    [
        ("Throttling error: too many tokens", "rate"),
        ("it met a rate limit: too many tokens", "rate"),
        ("rate-limited: too many tokens", "rate"),
        ("Too many requests: too many tokens", "rate"),
        ("Service unavailable: too many tokens", "busy"),
        ("the separate limit: too many tokens", None),
        ("a throttling error: too many tokens", None),
        ("the service unavailable: too many tokens", None),
    ],
)
def test_other_errors_are_no_overflow(message: str, about: str | None) -> None:
    assert other_cause(message) == about
    assert is_overflow(message) == (about is None)
