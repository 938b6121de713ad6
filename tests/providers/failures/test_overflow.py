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
from engine.providers.failures.error_body import stream_failure
from engine.providers.failures.http_failure import http_failure
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
    "llama.cpp, no shift": HostReply("llama.cpp", 500, openai("context shift is disabled", type="server_error")),
    "gateway, context size": HostReply("gateway", 400, openai("Input exceeds the context size (8192).")),
    "Databricks": HostReply("Databricks", 400, {"message": "Input length 41000 exceeds maximum sequence length 32768"}),
    "TensorRT-LLM, length": HostReply(
        "Triton",
        500,
        {"error": "Encountered error for requestId 7: Prompt length (41000) exceeds maximum input length"},
    ),
    "Chinese gateway": HostReply("gateway", 400, openai("输入长度超过模型上下文限制")),
    "Chinese gateway, too long": HostReply("gateway", 400, openai("上下文长度超限")),
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
    "LM Studio, first tokens": HostReply(
        "LM Studio",
        400,
        {
            "error": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with"
            " context length of only 7866 tokens, which is not enough. Try to load the model with a larger context length,"
            " or provide a shorter input"
        },
    ),
    "LM Studio, MLX": HostReply("LM Studio", 500, {"error": "Context size has been exceeded."}),
    "LM Studio, mid-generation": HostReply(
        "LM Studio",
        400,
        {
            "error": "Reached context length of 4096 tokens with model (arch: qwen2) that does not currently support"
            " mid-generation context overflow."
        },
    ),
    "LM Studio, n_keep": HostReply(
        "LM Studio", 400, {"error": "Cannot truncate prompt with n_keep (9261) >= n_ctx (8192)"}
    ),
    "llama-cpp-python": HostReply(
        "llama.cpp", 400, openai("Requested tokens (4221) exceed context window of 2048", type="internal_server_error")
    ),
    "llama.cpp, numbers": HostReply(
        "llama.cpp",
        400,
        openai("request (481909 tokens) exceeds the available context size (32768 tokens), try increasing it"),
    ),
    "vLLM, decoder prompt": HostReply(
        "vLLM",
        400,
        openai("The decoder prompt (length 5951) is longer than the maximum model length of 4096. Make sure"),
    ),
    "SGLang": HostReply(
        "SGLang", 400, openai("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).")
    ),
    "SGLang, requested": HostReply(
        "SGLang",
        400,
        openai(
            "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested 40000."
        ),
    ),
    "TensorRT-LLM": HostReply(
        "NIM", 400, openai("The sum of prompt length (9000), max_tokens (512) should not exceed max_seq_len (8192)")
    ),
    "SiliconFlow": HostReply(
        "SiliconFlow",
        400,
        {"code": 20015, "message": "length of prompt_tokens (9000) must be less than max_seq_len (8192)."},
    ),
    "TabbyAPI": HostReply("TabbyAPI", 400, "Prompt length 9000 is greater than max_seq_len 8192"),
    "LMDeploy": HostReply("LMDeploy", 400, openai("the input length 9000 exceeds session_len 8192")),
    "Cloudflare": HostReply(
        "Cloudflare Workers AI",
        413,
        {
            "errors": [
                {
                    "message": "AiError: The estimated number of input and maximum output tokens (9000) exceeded this model"
                    " context window limit (7968 tokens).",
                    "code": 5021,
                }
            ]
        },
    ),
    "DeepInfra": HostReply(
        "DeepInfra", 500, {"error": {"message": "Requested input length 99009 exceeds maximum input length 8192"}}
    ),
    "Bedrock Nova": HostReply(
        "AWS Bedrock",
        400,
        {"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input."},
        VALIDATION,
    ),
    "Bedrock Nova, in short": HostReply(
        "AWS Bedrock", 400, {"message": "The number of input tokens exceeds maximum length."}, VALIDATION
    ),
    "Perplexity, code": HostReply(
        "Perplexity", 400, {"error": {"message": "No.", "type": "too_many_prompt_tokens", "code": 400}}
    ),
    "Perplexity": HostReply("Perplexity", 400, {"error": {"message": "User input tokens exceeds 127072 tokens"}}),
    "Perplexity, messages": HostReply(
        "Perplexity", 400, {"error": {"message": "The total length of all messages is too long."}}
    ),
    "Perplexity, with the answer": HostReply(
        "OpenRouter",
        400,
        openai(
            "Requested 115120 to generate tokens, following a prompt of length 40055, which exceeds the max limit of"
            " 128000 tokens."
        ),
    ),
    "OpenAI, configured": HostReply(
        "Azure OpenAI", 400, openai("Input tokens exceed the configured limit of 192000 tokens.")
    ),
    "Volcano Ark": HostReply(
        "Volcano Ark",
        400,
        {
            "error": {
                "code": "InvalidParameter",
                "message": "Total tokens of image and text exceed max message tokens. Request id: 0217",
                "type": "BadRequest",
            }
        },
    ),
    "watsonx": HostReply(
        "IBM watsonx",
        400,
        {
            "errors": [
                {
                    "code": "invalid_input_argument",
                    "message": "Invalid input argument for Model 'meta-llama/llama-2-70b-chat': the number of input tokens"
                    " 4098 cannot exceed the total tokens limit 4096 for this model",
                }
            ],
            "status_code": 400,
        },
    ),
    "watsonx, code": HostReply("IBM watsonx", 400, {"errors": [{"code": "token_quantity_exceeded", "message": "No."}]}),
    "Hugging Face, at most": HostReply(
        "Hugging Face router",
        422,
        {"error": "Input validation error: `inputs` must have at most 4096 tokens. Given: 5000"},
    ),
    "Ollama, input": HostReply("Ollama", 400, {"error": "the input length exceeds the context length"}),
    "Ollama, input, shorter": HostReply("Ollama", 500, {"error": "input length exceeds maximum context length"}),
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


# Wordings that no row is about, and the refusals that a host sends for anything else.
UNKNOWN_WORDINGS = (
    "",
    "Your request is too large: 210000 tokens, limit 200000",
    "prompt length exceeds the limit of this deployment",
    "The conversation is longer than the context of this model",
    "Total token count 140211 is over the allowed 131072",
    "too much context: shorten the prompt",
    "tokens in prompt: 140211; maximum: 131072",
    "Sequence of 140211 tokens can't be processed, the limit is 131072",
    "Prompt tokens (140211) must be fewer than 131072",
    "The messages exceed the context of the model",
    "input_too_long: reduce the input",
    "maximum sequence length of 4096 tokens exceeded",
)
ORDINARY_REFUSALS = (
    "Invalid value: 'foo'. Supported values are: 'auto', 'none' and 'required'.",
    "Unknown parameter: 'reasoning_effort'.",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
    "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    "max_tokens must be greater than thinking.budget_tokens",
    "thinking.budget_tokens: Input should be greater than or equal to 1024",
    "messages.1.content: Input should be a valid list",
    "messages: roles must alternate between user and assistant",
    "messages: at least one message is required",
    "messages.3: all messages must have non-empty content except for the optional final assistant message",
    "messages.5: tool_use ids were found without tool_result blocks immediately after: toolu_01.",
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
    "Invalid 'messages[2].content': string too long. Expected a string with maximum length 1048576.",
    "Invalid 'tools[0].function.name': string does not match pattern. Expected a string matching '^[a-zA-Z0-9_-]+$'.",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 130.",
    "Invalid schema for function 'edit': In context=(), 'required' is required to be supplied.",
    "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' must be false.",
    "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12.",
    "tool_choice: Thinking may not be enabled when tool_choice forces tool use.",
    "Function calling is not enabled for this model",
    "this model does not support tools",
    "auto tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
    "Function name 'a b' must be between 1 and 64 characters long",
    "a maximum of 4 blocks with cache_control may be provided. Found 5.",
    "cache_control ttl '1h' must not come after ttl '5m'",
    "Expected `thinking` or `redacted_thinking`, but found `text`.",
    "temperature: range: 0..1",
    "`temperature` may only be set to 1 when thinking is enabled.",
    "top_p must be in (0, 1], got 2",
    "`top_k` must be unset when thinking is enabled",
    "stop sequences: at most 4 are allowed",
    "stop: too many stop sequences (max 4)",
    "logit_bias: token ids must be in the vocabulary",
    "Could not process image",
    "The image was specified using the image/jpeg media type, but the image appears to be a image/png image",
    "image exceeds 5 MB maximum: 6120412 bytes > 5242880 bytes",
    "Invalid base64 image_url.",
    "messages.0.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size",
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
    "Please ensure that the number of function response parts is equal to the number of function call parts.",
    "GenerateContentRequest.contents: contents is not specified",
    "* GenerateContentRequest.tools[0].function_declarations[3].parameters: schema is too deep",
    "Unable to submit request because it must have a text parameter.",
    "User location is not supported for the API use.",
    "Developer instruction is not enabled for models/gemma-3",
    "Budget 0 is invalid. This model only works in thinking mode.",
    "The thinking budget 64000 is invalid. Please choose a value between 128 and 32768.",
    "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    "No tool call found for function call output with call_id call_1.",
    "Previous response with id 'resp_1' not found.",
    "Invalid 'input[3].id': 'abc'. Expected an ID that begins with 'fc'.",
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.",
    "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    "Tool call id was abc but must be a-z, A-Z, 0-9, with a length of 9.",
    "Assistant message must have either content or tool_calls, but not none.",
    "the messages parameter is illegal. Please check the documentation.",
    "tokenizer has no chat template: apply_chat_template cannot be used",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "Failed to parse tool call arguments as JSON",
    "Unrecognized request argument supplied: stream_options",
    "Unrecognized token 'data': was expecting JSON",
    "Invalid JSON: EOF while parsing a string at line 1 column 40211",
    "invalid character in request body",
    "n must be 1",
    "The model `foo` requires a different endpoint",
    "prompt_cache_key: string too long. Maximum length is 64.",
    "metadata: value exceeds the maximum length of 512 characters",
    "user: expected at most 64 characters",
    "json_schema: total length of property names exceeds 15000",
    "The access token has an invalid length",
    "This organization must be verified to stream this model",
    "on-demand throughput isn't supported. Retry your request with the ID or ARN of an inference profile",
    "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    "The text field in the ContentBlock object is blank. Add text to the text field, and try again.",
    "A conversation must start with a user message. Try again with a conversation that starts with a user message.",
    "The model returned the following errors: messages: final assistant content cannot end with trailing whitespace",
    "This model doesn't support the stopSequences field. Remove stopSequences and try again.",
    "The encoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "Prompt contains a video that is longer than 60 minutes",
    "Your request was rejected as a result of our safety system.",
    "The message history is not valid: two results for one call",
    "The sequence of messages is wrong: after a call comes its result",
)


@pytest.mark.parametrize("message", UNKNOWN_WORDINGS)
def test_unknown_wording_for_a_large_request(message: str) -> None:
    body = json.dumps(openai(message)).encode() if message else b""
    small, large = (
        http_failure("gateway", HttpReply(status=400, headers={}, body=body, is_large=is_large), 0)
        for is_large in (False, True)
    )
    assert type(large) is ContextOverflow
    assert type(small) in {InvalidRequest, ContextOverflow}


def test_false_alarms_of_large_requests() -> None:
    """One in a hundred may be taken for an overflow: it costs a summary, after which the refusal is seen."""
    alarms = [
        message
        for message in ORDINARY_REFUSALS
        if type(
            http_failure(
                "gateway",
                HttpReply(status=400, headers={}, body=json.dumps(openai(message)).encode(), is_large=True),
                0,
            )
        )
        is ContextOverflow
    ]
    assert len(alarms) <= len(ORDINARY_REFUSALS) / 100, alarms


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
