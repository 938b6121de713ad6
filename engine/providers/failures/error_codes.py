"""Hosts' error codes, and the engine's error for each.

Codes are compared without case and punctuation: `RateLimitReached`, `rate_limit_reached` and `RATE-LIMIT-REACHED` are
the same. A generic code (a request that is somehow invalid, a server that somehow failed) decides only if there is no
status and the wording matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    SignatureRejected,
)

ErrorKind = type[ProviderError]


def normalize(name: str) -> str:
    """Normalize a code for comparison; strip the namespace and URL of an AWS code."""
    name = name.rpartition("#")[2].partition(":")[0]
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_NAMES: Mapping[ErrorKind, str] = {
    AuthFailed: """
        authentication_error permission_error permission_denied permission_denied_error unauthorized unauthenticated
        invalid_api_key api_key_invalid api_key_expired incorrect_api_key_error invalid_authentication
        invalid_authentication_error invalid_access_token access_token_expired access_denied AccessDeniedException
        UnrecognizedClientException InvalidSignatureException ExpiredTokenException ExpiredToken
        MissingAuthenticationTokenException IncompleteSignatureException InvalidClientTokenId OptInRequired
        account_deactivated not_authorized forbidden model_access_denied API_KEY_SERVICE_BLOCKED SERVICE_DISABLED
    """,
    QuotaExhausted: """
        billing_error insufficient_quota insufficient_user_quota insufficient_balance insufficient_credits
        insufficient_credit insufficient_funds billing_hard_limit_reached billing_not_active billing_disabled
        payment_required arrearage exceeded_current_quota_error usage_not_included ServiceQuotaExceededException
        AllocationQuota.FreeTierOnly out_of_credits credits_exhausted reject_no_credit
    """,
    RateLimited: """
        rate_limit_error rate_limit_exceeded rate_limited rate_limit rate_limit_reached rate_limit_reached_error
        too_many_requests too_many_requests_error TooManyRequestsException ThrottlingException throttled throttling
        Throttling.RateQuota Throttling.AllocationQuota Throttling.BurstRate RequestLimitExceeded RESOURCE_EXHAUSTED
        limit_requests limit_tokens limit_burst_rate usage_limit_reached FreeUsageLimitError RATE_LIMIT_EXCEEDED
        concurrency_limit_exceeded
    """,
    Overloaded: """
        overloaded_error overloaded server_is_overloaded service_unavailable service_unavailable_error
        ServiceUnavailableException engine_overloaded_error engine_overloaded capacity_exceeded slow_down
        ModelNotReadyException ModelTimeoutException ModelStreamErrorException
        ModelErrorException conflict_error
    """,
    ContextOverflow: """
        context_length_exceeded context_length_exceeded_error model_context_window_exceeded context_window_exceeded
        context_window_exceeded_error context_limit_exceeded model_max_prompt_tokens_exceeded tokens_limit_reached
        exceed_context_size_error prompt_too_long too_many_prompt_tokens requested_too_many_tokens
        token_quantity_exceeded InvalidParameter.ContextLengthExceeded input_too_long
    """,
    ModelNotFound: """
        model_not_found model_not_found_error not_found_error not_found ResourceNotFoundException DeploymentNotFound
        model_not_exist model_not_available unknown_model model_not_supported invalid_model no_such_model resource_not_found_error
    """,
    ContentFiltered: """
        content_filter content_filtered content_policy_violation ResponsibleAIPolicyViolation DataInspectionFailed
        data_inspection_failed cyber_policy invalid_prompt moderation safety safety_check_failed prompt_blocked
    """,
    SignatureRejected: "invalid_encrypted_content invalid_signature invalid_thinking_signature",
}
# Z.ai's and Zhipu's numbers. (Without their 1300, which is Mistral's code for a rate limit.)
_ZAI: Mapping[ErrorKind, str] = {
    AuthFailed: "1110 1111 1112 1121 1220 1311",
    QuotaExhausted: "1113 1309 1314 1315",
    RateLimited: "1302 1303 1304 1305 1308 1310 1313 1316 1317 1318 1319 1320 1321",
    Overloaded: "1120 1230 1234 1312",
    ContextOverflow: "1261",
    ModelNotFound: "1211",
    ContentFiltered: "1301",
}
# MiniMax's, in `base_resp`, often with status 200.
_MINIMAX: Mapping[ErrorKind, str] = {
    AuthFailed: "1004 2049",
    QuotaExhausted: "1008",
    RateLimited: "1002 1039 1041 2045 2056",
    Overloaded: "1000 1001 1024 1033",
    ContentFiltered: "1026 1027",
}
_BASE_RESP = "base_resp "


def base_resp_code(number: int) -> str:
    """Return a code for MiniMax's *number*, which means something else at other hosts."""
    return f"{_BASE_RESP}{number}"


_KINDS: Mapping[str, ErrorKind] = {
    normalize(prefix + name): kind
    for table, prefix in ((_NAMES, ""), (_ZAI, ""), (_MINIMAX, _BASE_RESP))
    for kind, names in table.items()
    for name in names.split()
}
# Codes that mean something else at one host.
_HOST_KINDS: Mapping[str, Mapping[str, ErrorKind]] = {
    # Tokens per minute, although OpenAI uses this code and message for an empty account.
    "alibaba": {"insufficientquota": RateLimited},
}


def _normalized(names: str) -> frozenset[str]:
    return frozenset(map(normalize, names.split()))


# Generic codes.
_BUSY = _normalized("""
    api_error server_error internal_server_error internal_error internal internal_failure InternalServerException
    unavailable timeout_error timeout deadline_exceeded upstream_error
""")
_INVALID = _normalized("""
    invalid_request_error invalid_request invalid_argument invalid_parameter invalid_value bad_request
    bad_request_error ValidationException validation_error validation unprocessable_entity failed_precondition
    unsupported_value unsupported_parameter tool_use_failed
""")
_TOO_LARGE = _normalized("request_too_large payload_too_large request_entity_too_large")
# Limits per hours or days: waiting for minutes does not help.
_LASTING = _normalized("usage_limit_reached 1304 1308 1310 1313 1316 1317 1318 1319 1320 1321") | {
    normalize(base_resp_code(2056))
}
# The model's mistake: a retry may succeed.
_MODEL_ERRORS = _normalized("tool_use_failed")


def kind_of(codes: Iterable[str], host: str) -> ErrorKind | None:
    """Return the error for the first known code at *host*; None if none is known."""
    own = next((named for name, named in _HOST_KINDS.items() if host.casefold().startswith(name)), _KINDS)
    kinds = (own.get(word) or _KINDS.get(word) for word in map(normalize, codes))
    return next((kind for kind in kinds if kind is not None), None)


def most_specific(codes: Iterable[str]) -> str:
    """Return the first known code, else the first one; empty if there are none."""
    candidates = list(codes)
    return next((word for word in candidates if normalize(word) in _KINDS), candidates[0] if candidates else "")


def generic_kind_of(codes: Iterable[str]) -> ErrorKind | None:
    """Return the error for the first generic code; None if there is none."""
    for word in map(normalize, codes):
        if word in _BUSY:
            return Overloaded
        if word in _INVALID:
            return InvalidRequest
    return None


def is_too_large(codes: Iterable[str]) -> bool:
    """Return whether a code means that the request is too large, in bytes or in tokens."""
    return any(word in _TOO_LARGE for word in map(normalize, codes))


def is_lasting(codes: Iterable[str]) -> bool:
    """Return whether a code means a limit that is not lifted within minutes."""
    return any(word in _LASTING for word in map(normalize, codes))


def is_model_error(codes: Iterable[str]) -> bool:
    """Return whether a code blames the model's output, not the request."""
    return any(word in _MODEL_ERRORS for word in map(normalize, codes))
