"""Token counts as no host should send them, which some do: they count as absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import pytest

from engine.core.llm_types import UsageReported
from engine.core.messages import Usage
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat

Json = dict[str, Any]


def anthropic(count: object) -> list[Json]:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    usage = {**dict.fromkeys(names, count), "output_tokens_details": {"thinking_tokens": count}}
    return [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def chat(count: object) -> list[Json]:
    usage = {
        "prompt_tokens": count,
        "completion_tokens": count,
        "prompt_tokens_details": {"cached_tokens": count, "cache_write_tokens": count},
        "completion_tokens_details": {"reasoning_tokens": count},
    }
    return [{"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}]


def responses(count: object) -> list[Json]:
    usage = {
        "input_tokens": count,
        "output_tokens": count,
        "input_tokens_details": {"cached_tokens": count, "cache_write_tokens": count},
        "output_tokens_details": {"reasoning_tokens": count},
    }
    return [{"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}}]


def gemini(count: object) -> list[Json]:
    names = ("promptTokenCount", "cachedContentTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount")
    usage = dict.fromkeys((*names, "candidatesTokenCount"), count)
    candidate = {"content": {"parts": [{"text": "hi"}], "role": "model"}, "index": 0, "finishReason": "STOP"}
    return [{"candidates": [candidate], "usageMetadata": usage}]


def cohere(count: object) -> list[Json]:
    usage = {
        "tokens": dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens"), count),
        "cached_tokens": count,
    }
    return [{"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}]


HOSTS = {
    "anthropic": anthropic,
    "openai_chat": chat,
    "openai_responses": responses,
    "gemini": gemini,
    "cohere": cohere,
}


@pytest.mark.parametrize("count", [-1, -5.0, None, "12", [], float("inf")])
@pytest.mark.parametrize("name", HOSTS)
def test_impossible_count_is_absent(name: str, count: object) -> None:
    wire = cast("Callable[[Quirks], WireFormat]", import_module(f"engine.providers.{name}.wire").wire)(Quirks())
    decoder = wire.decoder("text/event-stream")
    assert decoder is not None
    events = [
        b"event: %s\ndata: %s\n\n" % (str(event.get("type", "message")).encode(), json.dumps(event).encode())
        for event in HOSTS[name](count)
    ]
    out = [*decoder.feed(b"".join(events)), *decoder.feed(b"data: [DONE]\n\n"), *decoder.close()]
    assert all(event.usage == Usage() for event in out if isinstance(event, UsageReported))
