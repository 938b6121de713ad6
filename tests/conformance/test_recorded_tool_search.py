"""Recorded searches for tools that the client runs (OpenAI Responses): read as calls, and sent back as they were recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.openai_responses.wire import wire
from tests.conformance.answers import sort_events
from tests.conformance.cases import Case, parameters

pytestmark = pytest.mark.conformance

Json = dict[str, Any]
SERVER = "exchange rates"
WIRE = wire(attrs.evolve(quirks_of(BY_NAME["openai"], "gpt-5.4"), schema="plain"))


def answers_a_search(path: Path) -> bool:
    items = ((json.loads(path.read_text())["request"]["body"] or {}).get("input")) or []
    return any(isinstance(each, dict) and each.get("execution") == "client" for each in items)


@pytest.mark.parametrize("path", parameters(answers_a_search))
def test_search_goes_back_as_recorded(path: Path) -> None:
    recorded: Json = json.loads(path.read_text())["request"]["body"]
    call, output = (item for item in recorded["input"] if item.get("execution") == "client")
    sent = json.loads(bytes(WIRE.encoder().encode(request_like(recorded, call, output))))
    _, ours, answer = sent["input"]
    assert ours == {name: value for name, value in call.items() if name != "id"}
    [namespace] = answer.pop("tools")
    functions = output.pop("tools")
    assert answer == output
    assert namespace == {
        "type": "namespace",
        "name": "exchange_rates",
        "description": "The tools of exchange_rates.",
        # All our tools are sent so: foreign schemas are not of the strict kind.
        "tools": [function | {"strict": False} for function in functions],
    }
    [search] = [tool for tool in recorded["tools"] if tool["type"] == "tool_search"]
    assert sent["tools"] == [search]


@pytest.mark.parametrize("path", parameters(answers_a_search))
def test_recorded_search_is_a_call(path: Path) -> None:
    recorded: Json = json.loads(path.read_text())["request"]["body"]
    call, output = (item for item in recorded["input"] if item.get("execution") == "client")
    before = Case.read(path.with_name(path.name.replace("-1.request", "-0.request")))
    request = request_like(recorded, call, output)
    for offered, kinds in ((request, ["call"]), (attrs.evolve(request, tools=()), ["provider"])):
        decoder = WIRE.decoder(before.exchange.content_type, offered)
        assert decoder is not None
        events = decoder.feed(before.exchange.body)
        while more := decoder.close():
            events += more
        answer = sort_events(events)
        assert [part.kind for part in answer.parts] == kinds
        assert answer.finished is not None
        assert answer.finished.reason == ("calls" if kinds == ["call"] else "stop")
        if kinds == ["call"]:
            [part] = answer.parts
            assert (part.tool, part.provider_id, part.complete) == ("tool_search", call["call_id"], True)
            assert json.loads(part.text) == call["arguments"]


def request_like(recorded: Json, call: Json, output: Json) -> ModelRequest:
    """Return our request where the model has searched, and the search has found what was recorded."""
    [search] = [tool for tool in recorded["tools"] if tool["type"] == "tool_search"]
    listed = ToolSchema(name="tool_search", description=search["description"], schema=json.dumps(search["parameters"]))
    deferred = [
        ToolSchema(
            name=tool["name"],
            description=tool["description"],
            schema=json.dumps(tool["parameters"]),
            deferred=True,
            server=SERVER,
        )
        for tool in output["tools"]
    ]
    call_id = CallId(call["call_id"])
    searched = CallPart(
        id=PartId("c"), call_id=call_id, tool="tool_search", arguments=json.dumps(call["arguments"]), complete=True
    )
    found = Settlement(status="completed", text="found", tools=tuple(tool.name for tool in deferred))
    return ModelRequest(
        model="openai/gpt-5.4",
        system="",
        transcript=Transcript(
            [
                UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("p"), text="hi"),)),
                AssistantMessage(id=MessageId("a"), parts=(searched,), model="openai/gpt-5.4"),
                ResultsMessage(
                    id=MessageId("r"), results=(CallResult(call_id=call_id, tool="tool_search", settlement=found),)
                ),
            ]
        ),
        tools=(listed, *deferred),
    )
