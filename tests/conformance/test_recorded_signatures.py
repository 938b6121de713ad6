"""Recorded Gemini answers, sent back: each signature returns on its part, and nothing else is lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelRequest
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers.gemini.encode import encoder
from engine.providers.gemini.wire import wire
from engine.providers.wire.quirks import Quirks
from tests.conformance.answers import Part, sort_events
from tests.conformance.cases import Case, parameters

pytestmark = pytest.mark.conformance

Json = dict[str, Any]


def is_gemini_answer(path: Path) -> bool:
    record = json.loads(path.read_text())
    return bool(record["protocol"] == "gemini" and record["response"]["status"] == 200)


@pytest.mark.parametrize("path", parameters(is_gemini_answer))
def test_an_answer_goes_back_unchanged(path: Path) -> None:
    case = Case.read(path)
    decoder = wire(Quirks()).decoder(case.exchange.content_type)
    assert decoder is not None
    events = decoder.feed(case.exchange.body)
    while more := decoder.close():
        events += more
    calls = [(call["name"], call["arguments"]) for call in case.expected["tool_calls"]]
    received = [part for event in events_in(case.exchange.body.decode()) for part in parts_in(event)]
    assert sent_back(sort_events(events).parts) == joined(received, calls)


def events_in(body: str) -> list[Json]:
    """Return the events of a recorded body, whatever its framing."""
    if body.lstrip().startswith(("[", "{")):
        document = json.loads(body)
        return document if isinstance(document, list) else [document]
    return [json.loads(line.removeprefix("data:")) for line in body.splitlines() if line.startswith("data:")]


def parts_in(event: Json) -> list[Json]:
    candidates = event.get("candidates") or [{}]
    parts: list[Json] = candidates[0].get("content", {}).get("parts", [])
    return parts


def joined(parts: Sequence[Json], calls: Sequence[tuple[str, Json]]) -> list[Json]:
    """Return the parts with unsigned texts joined, calls whole and unsigned thoughts left out."""
    out: list[Json] = []
    left = list(calls)
    for part in parts:
        if part.get("thought") or part == {"text": ""}:
            assert "thoughtSignature" not in part
        elif "functionCall" in part:
            if part["functionCall"].get("name"):  # else more of the call before it
                name, arguments = left.pop(0)
                signature = {"thoughtSignature": part["thoughtSignature"]} if "thoughtSignature" in part else {}
                out.append({"functionCall": {"name": name, "args": arguments}} | signature)
        elif out and part.keys() == {"text"} == out[-1].keys():
            out[-1] = {"text": out[-1]["text"] + part["text"]}
        else:
            out.append(part)
    return out


def sent_back(parts: Sequence[Part]) -> list[Json]:
    """Return the model's parts in the next request, given the parts that a turn made of the answer."""
    answer = AssistantMessage(id=MessageId("a"), parts=tuple(map(transcript_part, parts)), model="google/m")
    hello = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("p"), text="hi"),))
    request = ModelRequest(model="google/m", system="", transcript=Transcript([hello, answer, hello]))
    contents: list[Json] = json.loads(bytes(encoder(Quirks()).encode(request)))["contents"]
    sent = [part for content in contents if content["role"] == "model" for part in content["parts"]]
    for part in sent:
        part.get("functionCall", {}).pop("id", None)
    return sent


def transcript_part(part: Part) -> AssistantPart:
    part_id = PartId("p")
    match part.kind:
        case "text":
            return TextPart(id=part_id, text=part.text)
        case "reasoning":
            return ReasoningPart(id=part_id, text=part.text, signature=part.signature, model="google/m")
        case "call":
            call_id = CallId(f"call{part.provider_id}")
            return CallPart(id=part_id, call_id=call_id, tool=part.tool, arguments=part.text, complete=part.complete)
        case _:
            return ProviderPart(id=part_id, kind=part.item, data=part.text, model="google/m")
