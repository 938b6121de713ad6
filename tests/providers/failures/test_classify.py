"""Classification of error reports: code and status first, wording last."""

from __future__ import annotations

import pytest

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    MediaTooLarge,
    ModelNotFound,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    SignatureRejected,
)
from engine.providers.failures.classify import ErrorReport, classify, one_line
from engine.providers.failures.error_codes import kind_of, most_specific, normalize

INVALID = "invalid_request_error"


def read(status: int | None, word: str = "", message: str = "", host: str = "Anthropic") -> ProviderError:
    return classify(ErrorReport(host=host, status=status, codes=(word,) if word else (), message=message))


@pytest.mark.parametrize(
    ("status", "word", "message", "expected"),
    [
        # The host's own word decides, under whatever status.
        (400, "invalid_api_key", "", AuthFailed),
        (400, "API_KEY_INVALID", "", AuthFailed),
        (500, "UnrecognizedClientException", "", AuthFailed),
        (429, "insufficient_quota", "You exceeded your current quota", QuotaExhausted),
        (400, "Arrearage", "", QuotaExhausted),
        (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", RateLimited),
        (413, "rate_limit_exceeded", "prompt is too long", RateLimited),
        (400, "Throttling.RateQuota", "", RateLimited),
        (429, "engine_overloaded_error", "", Overloaded),
        (404, "context_length_exceeded", "", ContextOverflow),
        (400, "model_not_found", "", ModelNotFound),
        (400, "content_policy_violation", "", ContentFiltered),
        (500, "content_filter", "", ContentFiltered),
        (400, "invalid_encrypted_content", "", SignatureRejected),
        # A word that is used for anything does not.
        (401, "api_error", "", AuthFailed),
        (503, INVALID, "", Overloaded),
        (404, INVALID, "", ModelNotFound),
        # Then the status.
        (401, "", "prompt is too long", AuthFailed),
        (402, "", "", QuotaExhausted),
        (403, "", "", AuthFailed),
        (404, "", "", ModelNotFound),
        (410, "", "this model was shut down", ModelNotFound),
        (408, "", "", Overloaded),
        (409, "", "", Overloaded),
        (424, "", "", Overloaded),
        (425, "", "", Overloaded),
        (429, "", "", RateLimited),
        (500, "", "", Overloaded),
        (503, "", "", Overloaded),
        (524, "", "", Overloaded),
        (529, "", "", Overloaded),
        (400, "", "", InvalidRequest),
        (422, "", "", InvalidRequest),
        (415, "", "", InvalidRequest),
        (418, "teapot_error", "short and stout", ProviderError),
        # Then the wording, where a status stands for several things.
        (400, INVALID, "prompt is too long: 208310 tokens > 200000 maximum", ContextOverflow),
        (500, "", "the request exceeds the available context size", ContextOverflow),
        (400, INVALID, "messages.1.content.0: Invalid `signature` in `thinking` block", SignatureRejected),
        (400, INVALID, "`thinking` blocks in the latest assistant message cannot be modified", SignatureRejected),
        (400, "INVALID_ARGUMENT", "Corrupted thought signature.", SignatureRejected),
        (400, "INVALID_ARGUMENT", "Thought signature is not valid", SignatureRejected),
        (400, INVALID, "Item 'rs_1' of type 'reasoning' was provided without its required item.", SignatureRejected),
        (400, INVALID, "The encrypted content gAAA...c90= could not be verified.", SignatureRejected),
        (400, INVALID, "Function call is missing a thought_signature", InvalidRequest),
        (400, INVALID, "Output blocked by content filtering policy", ContentFiltered),
        (403, "", "Content violates usage guidelines. Failed check: SAFETY_CHECK", ContentFiltered),
        (403, "", "model x requires moderation and your input was flagged", ContentFiltered),
        (500, "", "content filter: the prompt was flagged", ContentFiltered),
        (403, "", "Your newly created team doesn't have any credits yet.", QuotaExhausted),
        (403, "", "You have exceeded a secondary rate limit", RateLimited),
        (400, INVALID, "Your credit balance is too low to access the API.", QuotaExhausted),
        (429, "", "used all available credits or reached its monthly spending limit", QuotaExhausted),
        (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", QuotaExhausted),
        (429, "rate_limit_exceeded", "Need more tokens? Upgrade at example.com/settings/billing", RateLimited),
        (400, "", "Incorrect API key provided. You can obtain one from the console", AuthFailed),
        (400, "", "API key not valid. Please pass a valid API key.", AuthFailed),
        (400, "", "The provided model identifier is invalid.", ModelNotFound),
        (400, "", "The requested model 'gpt-9' does not exist.", ModelNotFound),
        (400, INVALID, "Model Not Exist", ModelNotFound),
        (400, "", "Could not resolve the foundation model from the provided model identifier.", ModelNotFound),
        (400, "", "gpt-9 is not a valid model ID", ModelNotFound),
        (400, INVALID, "image exceeds 5 MB maximum: 6 bytes > 5 bytes", MediaTooLarge),
        (400, INVALID, "too many images", MediaTooLarge),
        (400, INVALID, "Expected a base64 data URL: see file-search#supported-files", InvalidRequest),
        (400, INVALID, "The file type you uploaded is not supported.", InvalidRequest),
        # A number in a text is no status.
        (400, INVALID, "file has 500 lines and 529 words, 429 of them long", InvalidRequest),
        (400, INVALID, "max_tokens: 503 > 502", InvalidRequest),
    ],
)
def test_code_and_status_first_then_the_wording(
    status: int, word: str, message: str, expected: type[ProviderError]
) -> None:
    error = read(status, word, message)
    assert type(error) is expected
    assert error.retryable == (expected in {Overloaded, RateLimited})
    assert error.status == status
    assert message in str(error)
    assert f"HTTP {status}" in str(error)


@pytest.mark.parametrize(
    ("word", "message", "expected", "retryable"),
    [
        ("overloaded_error", "Overloaded", Overloaded, True),
        ("server_error", "", Overloaded, True),
        ("rate_limit_exceeded", "", RateLimited, True),
        ("", "the server had an error processing your request", Overloaded, True),
        ("", "", Overloaded, True),
        ("never_heard_of_it", "", ProviderError, True),
        (INVALID, "bad input", InvalidRequest, False),
        (INVALID, "prompt is too long", ContextOverflow, False),
        ("ValidationException", "", InvalidRequest, False),
        ("", "Rate limit reached", RateLimited, True),
    ],
)
def test_in_the_middle_of_an_answer(word: str, message: str, expected: type[ProviderError], retryable: bool) -> None:
    """There is no status. What is not the request's fault is the host's."""
    error = read(None, word, message)
    assert (type(error), error.retryable, error.status) == (expected, retryable, None)


@pytest.mark.parametrize(
    ("number", "expected", "retryable"),
    [
        ("1113", QuotaExhausted, False),
        ("1211", ModelNotFound, False),
        ("1261", ContextOverflow, False),
        ("1301", ContentFiltered, False),
        ("1302", RateLimited, True),
        ("1305", RateLimited, True),
        ("1304", RateLimited, False),
        ("1308", RateLimited, False),
        ("1310", RateLimited, False),
        ("1312", Overloaded, True),
        ("1300", RateLimited, True),  # Mistral's
        ("1214", RateLimited, True),  # unknown: the status decides
    ],
)
def test_numbers_of_a_host_s_own(number: str, expected: type[ProviderError], retryable: bool) -> None:
    error = read(429, number, "")
    assert (type(error), error.retryable) == (expected, retryable)


def test_same_code_differs_between_hosts() -> None:
    assert type(read(429, "insufficient_quota", host="OpenAI")) is QuotaExhausted
    assert type(read(429, "insufficient_quota", host="Alibaba Cloud (Qwen)")) is RateLimited
    assert type(read(400, "invalid_api_key", host="Alibaba Cloud (Qwen)")) is AuthFailed


@pytest.mark.parametrize("name", ["RateLimitReached", "rate_limit_reached", "RATE-LIMIT-REACHED"])
def test_names_are_compared_without_case_and_punctuation(name: str) -> None:
    assert kind_of([name], "") is RateLimited


def test_an_aws_name_is_compared_without_its_namespace() -> None:
    assert (
        normalize("com.amazon.coral.service#ThrottlingException:http://internal.amazon.com/") == "throttlingexception"
    )


def test_first_informative_text_is_shown() -> None:
    assert most_specific(["odd", "rate_limited", "invalid_api_key"]) == "rate_limited"
    assert most_specific(["odd", "even"]) == "odd"
    assert most_specific([]) == ""


# -- may it be sent again? -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "word", "message", "wait", "retryable"),
    [
        (429, "rate_limit_exceeded", "Request too large for gpt-4o: Limit 30000, Requested 31538.", None, False),
        (429, "rate_limit_exceeded", "Request too large for gpt-4o. Try again in 2s", 2.0, False),
        (429, "", "Rate limit exceeded: free-models-per-day. Add 10 credits", None, False),
        (429, "ThrottlingException", "Too many tokens per day, please wait before trying again.", None, False),
        (429, "", "you have reached your weekly usage limit", None, False),
        (429, "", "tokens per day (TPD): Limit 100000. Please try again in 9m38s.", 578.0, True),  # as long as it says
        (429, "", "tokens per minute", None, True),
        (429, "usage_limit_reached", "The usage limit has been reached", 13_872.0, False),
    ],
)
def test_a_limit_that_no_waiting_lifts(
    status: int, word: str, message: str, wait: float | None, retryable: bool
) -> None:
    report = ErrorReport(host="a host", status=status, codes=(word,), message=message, retry_after=wait)
    error = classify(report)
    assert (type(error), error.retryable, error.retry_after) == (RateLimited, retryable, wait)


@pytest.mark.parametrize(
    ("status", "words", "retryable"),
    [
        (529, None, True),
        (529, True, True),
        (529, False, False),
        (429, False, False),
        (418, None, False),
        (418, True, True),
        (400, True, False),  # we know better
        (401, True, False),
        (402, True, False),
    ],
)
def test_retry_hints_of_the_host(status: int, words: bool | None, retryable: bool) -> None:
    assert classify(ErrorReport(host="a host", status=status, should_retry=words)).retryable == retryable


def test_model_mistakes_may_be_retried() -> None:
    """Groq refuses the model's own malformed call with a 400: asked again, it may do better."""
    report = ErrorReport(host="Groq", status=400, codes=("tool_use_failed", INVALID), message="no tool called")
    assert type(classify(report)) is InvalidRequest
    assert classify(report).retryable


def test_money_that_is_on_its_way() -> None:
    """OpenRouter's budget of requests under way is a 402 which says when to come back."""
    assert type(classify(ErrorReport(host="OpenRouter", status=402, retry_after=3.0))) is RateLimited
    assert type(classify(ErrorReport(host="OpenRouter", status=402))) is QuotaExhausted


def test_an_error_keeps_its_facts() -> None:
    report = ErrorReport(host="a host", status=429, message="slow down", retry_after=2.0, reset_at=99.0)
    error = classify(report)
    assert (error.status, error.retry_after, error.reset_at) == (429, 2.0, 99.0)
    assert str(error) == "a host: slow down (HTTP 429)"


# -- the text ------------------------------------------------------------------------------


def test_a_long_text_is_truncated_to_one_line() -> None:
    assert one_line("a\n\nb\tc") == "a b c"
    assert one_line("word " * 120) == ("word " * 120).strip()
    long = one_line("word " * 1_000)
    assert len(long) < 610
    assert long.endswith("word …")


def test_words_are_never_cut() -> None:
    """A key that was cut in two would be found no more by what hides keys."""
    key = "sk-" + "x" * 60
    for before in range(500, 620):
        shown = one_line("y" * before + " " + key + " " + "z" * 500)
        assert key in shown or "sk-" not in shown
    assert one_line("x" * 10_000) == "…"


def test_error_without_text() -> None:
    assert str(read(502)) == "Anthropic: no reason given (HTTP 502)"
    assert str(read(None)) == "Anthropic: no reason given (during the response)"
