"""Recorded requests of other clients, read as transcripts and encoded by the engine, mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from engine.core.messages import AssistantMessage
from tests.conformance.cases import ABSENT, WIRE, name_of
from tests.conformance.requests.bedrock import ConverseRequest
from tests.conformance.requests.cohere import CohereRequest
from tests.conformance.requests.gemini import GeminiRequest
from tests.conformance.requests.openai_chat import ChatRequest
from tests.conformance.requests.openai_responses import ResponsesRequest
from tests.conformance.requests.request_reader import RequestReader
from tests.conformance.requests.vertex_anthropic import VertexAnthropicRequest

pytestmark = pytest.mark.conformance

# By protocol; a body without the member named here holds no conversation.
READERS: Mapping[str, tuple[str, type[RequestReader]]] = {
    "bedrock-converse": ("messages", ConverseRequest),
    "cohere-v2": ("messages", CohereRequest),
    "gemini": ("contents", GeminiRequest),
    "openai-chat": ("messages", ChatRequest),
    "groq-chat": ("messages", ChatRequest),
    "mistral-chat": ("messages", ChatRequest),
    "openai-responses": ("input", ResponsesRequest),
    "anthropic-messages vertex-anthropic": ("messages", VertexAnthropicRequest),
}


def parameters() -> list[Any]:
    """Return a parameter for each recorded request that a reader can read; a skipped one if there are none."""
    actual: list[Any] = []
    for path in sorted(WIRE.glob("*/*.request.json")):
        record = json.loads(path.read_text())
        protocol = record["protocol"]
        member, reader = READERS.get(protocol) or READERS.get(f"{protocol} {record['host']}") or ("", None)
        if reader is not None and (record["request"]["body"] or {}).get(member):
            actual.append(pytest.param(record, reader, id=name_of(path)))
    return actual or [pytest.param(None, None, marks=ABSENT)]


@pytest.mark.parametrize(("record", "reader"), parameters())
def test_a_recorded_request_means_the_same(record: dict[str, Any], reader: type[RequestReader]) -> None:
    """What a transcript cannot hold is left out of the comparison, and named by a skip once the rest agrees."""
    if reason := reader.skip_reason(record["request"]["body"]):
        pytest.skip(reason)
    reading = reader(record)
    request = reading.request()
    if not reading.messages or isinstance(reading.messages[-1], AssistantMessage):
        pytest.skip("ends with the model's own message: no transcript does")
    ours = json.loads(bytes(reading.encoder().encode(request)))
    assert reading.meaning(ours) == reading.meaning(reading.left)
    reading.check_path(request)
    if reading.omitted:
        pytest.skip(f"agrees, except for what no transcript holds: {', '.join(sorted(reading.omitted))}")
