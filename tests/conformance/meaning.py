"""The meaning of recordings, derived from their README alone, without the engine."""

from __future__ import annotations

import json
import re
from typing import Any

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
from engine.core.messages import FinishReason, Usage
from tests.conformance.cases import Case

# An error's meaning, and the classes that may stand for it: of a request that is too large in its media, or holds
# reasoning that the host no longer knows, the engine knows better what to do about it.
_CLASSES: dict[str, tuple[type[ProviderError], ...]] = {
    "auth": (AuthFailed,),
    "billing": (QuotaExhausted,),
    "content_filter": (ContentFiltered,),
    "invalid_request": (InvalidRequest, MediaTooLarge, SignatureRejected),
    "not_found": (ModelNotFound,),
    "overflow": (ContextOverflow,),
    "overloaded": (Overloaded,),
    "rate_limit": (RateLimited,),
    "server_error": (Overloaded,),
}
_HOPEFUL = {"overloaded", "server_error"}
_HOPELESS = {"auth", "billing", "content_filter", "not_found", "overflow"}

# Reasons that can't be mistaken, as hosts write them (lower case).
_REASONS: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_ENDS = {"stop", "end_turn", "stop_sequence", "complete", "completed", "eos"}
_CALLS = {"tool_calls", "tool_use", "tool_call", "function_call"}


def check_meaning(error: ProviderError | None, meaning: str) -> None:
    """Compare an error's class and whether the same request is worth another try."""
    assert type(error) in _CLASSES[meaning]
    assert error is not None
    assert not (meaning in _HOPELESS and error.retryable)
    assert error.retryable or meaning not in _HOPEFUL


def usage_of(case: Case) -> Usage:
    """Return the usage of a case by the table of the README: `input` without what a cache had to do with, `output` with thinking."""
    raw = {name: count or 0 for name, count in (case.expected["usage"] or {}).items()}
    if not any(raw.values()):
        return Usage()
    given = case.expected["usage_raw"] or {}
    inputs, output = raw["input"], raw["output"]
    match case.exchange.protocol, case.exchange.host:
        case (("anthropic-messages" | "bedrock-converse"), _):
            cached = 0
        case "gemini", _:
            cached = raw["cache_read"]
            inputs += given.get("toolUsePromptTokenCount") or 0
            output += raw["reasoning"]
        case "openai-chat", "xai":
            cached = raw["cache_read"] + raw["cache_write"]
            output += raw["reasoning"]
        case "openai-chat", "azure" if "grok" in case.model:
            cached = 0
        case _:
            cached = raw["cache_read"] + raw["cache_write"]
    return Usage(
        input=max(0, inputs - cached),
        output=output,
        cache_read=raw["cache_read"],
        cache_write=raw["cache_write"],
        reasoning=raw["reasoning"],
    )


def reasons_of(case: Case) -> set[FinishReason]:
    """Return the reasons to stop that are right for a case; empty: the recording does not say enough."""
    raw = (case.expected["finish_reason_raw"] or "").lower()
    if case.extra.get("refusal"):
        return {"refusal"}
    if raw in _REASONS:
        return {_REASONS[raw]}
    if raw in _ENDS | _CALLS:
        return {"calls"} if case.expected["tool_calls"] else {"stop", "calls"} if raw in _CALLS else {"stop"}
    return set()


def as_far_as_it_goes(text: str) -> Any:
    """Return the JSON value that *text*, cut off somewhere, had got to: what is not whole at its end is dropped."""
    for end in range(len(text), 0, -1):
        try:
            return json.loads(text[:end] + _closers(text[:end]))
        except ValueError:
            continue
    return {}


def _closers(text: str) -> str:
    """Return the brackets that are open at the end of *text*."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    stack: list[str] = []
    for character in outside:
        if character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]" and stack:
            stack.pop()
    return "".join(reversed(stack))


def strings_of(value: object) -> list[str]:
    """Return all strings in a JSON value, keys apart."""
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for inner in values for text in strings_of(inner)]
