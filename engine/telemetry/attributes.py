"""From our values to attributes of spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.core.events import TurnEnded
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import FinishReason, Settlement, Usage
from engine.journal.closing_events import SUPERSEDED
from engine.telemetry import conventions as n

Value = str | int | float | bool | tuple[str, ...]

# Of what a host calls an answer.
_LONGEST_NAME: Final = 256
# The conventions' names of hosts, where they differ from ours.
_PROVIDERS: Final[Mapping[str, str]] = {
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


def provider_and_model(name: str) -> tuple[str, str]:
    """Return the provider and the model of a name such as `openai/gpt-5.6`, as the conventions name them."""
    host, _, model = name.partition("/")
    return (_PROVIDERS.get(host, host), model) if model else ("", name)


def of_request(info: ModelInfo, request: ModelRequest, names: n.Convention) -> dict[str, Value]:
    """Return the attributes of a request before its answer."""
    provider, model = provider_and_model(info.name)
    facts: dict[str, Value] = {
        n.OPERATION: n.CHAT,
        n.PROVIDER: provider,
        n.REQUEST_MODEL: model,
        n.MAX_TOKENS: request.max_output,
    }
    effort = request.options.effort or info.unasked_effort
    if names.reasoning_level and effort:
        facts[names.reasoning_level] = effort
    return facts


def of_usage(usage: Usage, cost: float, names: n.Convention) -> dict[str, Value]:
    """Return the attributes of tokens and their price; none if the host has counted nothing."""
    if not usage.total:
        return {}
    return {
        n.INPUT_TOKENS: usage.prompt,
        n.OUTPUT_TOKENS: usage.output,
        n.CACHE_READ: usage.cache_read,
        names.cache_write: usage.cache_write,
        n.REASONING_TOKENS: usage.reasoning,
        n.COST: cost,
    }


def of_finish(finish: FinishReason | None) -> dict[str, Value]:
    """Return the attribute of why the model stopped."""
    return {} if finish is None else {n.FINISH_REASONS: (finish,)}


def of_response(response_id: str, model: str) -> dict[str, Value]:
    """Return the attributes of what the host calls the answer, and the model that has written it; empty: it does not say."""
    named = {n.RESPONSE_ID: response_id[:_LONGEST_NAME], n.RESPONSE_MODEL: model[:_LONGEST_NAME]}
    return {name: value for name, value in named.items() if value}


def of_ended(event: TurnEnded, names: n.Convention) -> dict[str, Value]:
    """Return the attributes of a turn that is over."""
    result = event.result
    facts: dict[str, Value] = {
        **of_usage(result.usage, result.cost, names),
        n.STOP_REASON: result.stop_reason,
        n.STEPS: result.steps,
    }
    if event.ending is not None:
        facts[n.ENDING] = event.ending.cause
    return facts


def error_of_turn(event: TurnEnded, *, is_recovered: bool) -> str:
    """Return in one word why a turn was cut short; empty if it was not."""
    result = event.result
    if result.stop_reason == "completed":
        return ""
    if result.detail == SUPERSEDED:
        return "superseded"
    # Of a turn that a crash cut off, the record has the end, but no cause.
    if result.stop_reason == "aborted" and event.ending is None and is_recovered:
        return "crashed"
    return result.stop_reason


def error_of_call(settlement: Settlement) -> str:
    """Return in one word why a call has no result; empty if it has one."""
    match settlement.status:
        case "completed":
            return ""
        case "aborted":
            return settlement.reason or "aborted"
        case "denied":
            return "denied"
        case _:
            return "tool_error"
