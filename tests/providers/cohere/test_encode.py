from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.ids import PartId
from engine.core.llm_types import Effort, ModelOptions, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    AssistantPart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    Transcript,
)
from engine.providers.cohere.encode import encoder
from engine.providers.cohere.wire import wire
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks
from tests.support import transcripts
from tests.support.transcripts import result, results, tool_call, user_message

MODEL = "cohere/command-a-plus-05-2026"
PNG = ImagePart(media_type="image/png", data="aGk=")
model_message = partial(transcripts.model_message, model=MODEL)
READ = ToolSchema(name="read", description="Read a file.", schema='{"type": "object"}')


def quirks(model: str = MODEL, **changes: Any) -> Quirks:
    return attrs.evolve(quirks_of(BY_NAME["cohere"], model.partition("/")[2]), **changes)


def thought(text: str = "hm", model: str = MODEL) -> ReasoningPart:
    return ReasoningPart(id=PartId("r"), text=text, model=model)


def planned(data: str) -> ProviderPart:
    return ProviderPart(id=PartId("p"), kind="tool_plan", data=data, model=MODEL)


def request(*messages: Message, **more: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": MODEL, "system": "", "tools": (READ,), **more}
    return ModelRequest(transcript=Transcript(messages), **fields)


def body(*messages: Message, own: Quirks | None = None, **more: Any) -> dict[str, Any]:
    requested = request(*messages, **more)
    encoded: dict[str, Any] = json.loads(bytes(encoder(own or quirks(requested.model)).encode(requested)))
    return encoded


def sent(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    actual: list[dict[str, Any]] = body(*messages, **more)["messages"]
    return actual


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


# -- the request as a whole ----------------------------------------------------------


def test_a_whole_request() -> None:
    assert body(user_message("hi"), system="be brief", max_output=100, options=ModelOptions(temperature=1.5)) == {
        "model": "command-a-plus-05-2026",
        "stream": True,
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}},
            }
        ],
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": [text("hi")]}],
        "max_tokens": 100,
        "temperature": 1.0,
    }
    assert wire(quirks()).path(request(user_message("hi"))) == "/v2/chat"


def test_no_tool_members_without_tools() -> None:
    assert body(user_message("hi"), tools=(), system="  ", tool_choice="required").keys() == {
        "model",
        "stream",
        "messages",
        "max_tokens",
    }


@pytest.mark.parametrize(("choice", "encoded_as"), [("auto", None), ("none", "NONE"), ("required", "REQUIRED")])
def test_tool_choice(choice: ToolChoice, encoded_as: str | None) -> None:
    assert body(user_message("hi"), tool_choice=choice).get("tool_choice") == encoded_as


def test_a_schema_of_the_answer_stands_alone() -> None:
    own = quirks(output="native")
    form = {"type": "json_object", "json_schema": {"type": "object"}}
    assert body(user_message("hi"), own=own, tools=(), output_schema='{"type": "object"}')["response_format"] == form
    assert "response_format" not in body(user_message("hi"), own=own, output_schema='{"type": "object"}')
    assert "response_format" not in body(user_message("hi"), tools=(), output_schema='{"type": "object"}')


@pytest.mark.parametrize("schema", ["{", "[]", "null", "{}"])
def test_a_bad_schema_is_named(schema: str) -> None:
    with pytest.raises(ConfigError, match="'grep'"):
        body(user_message("hi"), tools=(ToolSchema(name="grep", description="", schema=schema),))


@pytest.mark.parametrize(
    ("model", "effort", "max_output", "expected"),
    [
        (MODEL, None, 60_000, None),
        (MODEL, "none", 60_000, {"type": "disabled"}),
        (MODEL, "low", 60_000, {"type": "enabled", "token_budget": 4_096}),
        (MODEL, "high", 4_000, {"type": "enabled", "token_budget": 2_976}),
        (MODEL, "high", 1_000, None),
        ("cohere/command-a-03-2025", "high", 60_000, None),
    ],
)
def test_thinking(model: str, effort: Effort | None, max_output: int, expected: object) -> None:
    encoded = body(user_message("hi"), model=model, max_output=max_output, options=ModelOptions(effort=effort))
    assert encoded.get("thinking") == expected


def test_options_of_a_host_row() -> None:
    own = quirks(default_top_p=0.9, default_top_k=20, default_temperature=0.1, extra_body='{"safety_mode": "OFF"}')
    encoded = body(user_message("hi"), own=own)
    assert {name: encoded[name] for name in ("p", "k", "temperature", "safety_mode")} == {
        "p": 0.9,
        "k": 20,
        "temperature": 0.1,
        "safety_mode": "OFF",
    }


# -- messages ---------------------------------------------------------------------------


def test_users_in_a_row_are_one_message() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert sent(user_message("a"), user_message("b", PNG)) == [
        {"role": "user", "content": [text("a"), text("b"), image]}
    ]


def test_a_text_only_model_gets_a_note() -> None:
    (message,) = sent(user_message(PNG), model="cohere/command-a-03-2025")
    assert "image/png" in message["content"][0]["text"]


def test_calls_and_results() -> None:
    messages = sent(
        user_message("go"),
        model_message(planned('{"tool_plan": "I will read."}'), tool_call("c1"), tool_call("c2", "{}")),
        results(result("c2", "why", status="error"), result("c1", "one")),
        user_message("and?"),
        model_message("so"),
        user_message("bye"),
    )
    function = {"name": "read", "arguments": '{"path": "a"}'}
    assert messages == [
        {"role": "user", "content": [text("go")]},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"id": "c2", "type": "function", "function": function | {"arguments": "{}"}},
            ],
            "tool_plan": "I will read.",
        },
        reported("c1", content="one"),
        reported("c2", error="why"),
        {"role": "user", "content": [text("and?")]},
        {"role": "assistant", "content": [text("so")]},
        {"role": "user", "content": [text("bye")]},
    ]


def reported(call_id: str, **data: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": [{"type": "document", "document": {"data": data}}]}


@pytest.mark.parametrize(
    ("parts", "companion"),
    [
        ((), {}),
        (("on it",), {"tool_plan": "on it"}),
        (("on it", planned('{"tool_plan": "reading"}')), {"tool_plan": "on it\nreading"}),
        ((planned("{"), planned("[]")), {}),
        ((thought(),), {"content": [{"type": "thinking", "thinking": "hm"}]}),
        ((thought(), "on it"), {"tool_plan": "on it"}),
        ((thought(model="other/model"),), {"tool_plan": "hm"}),
    ],
)
def test_no_text_together_with_calls(parts: tuple[AssistantPart | str, ...], companion: dict[str, Any]) -> None:
    message = sent(user_message("go"), model_message(*parts, tool_call("c")), results(result("c")))[1]
    assert {name: message[name] for name in message if name not in {"role", "tool_calls"}} == companion


def test_reasoning_returns_with_its_answer() -> None:
    thinking = {"type": "thinking", "thinking": "hm"}
    assert sent(user_message("a"), model_message(thought(), "b"), user_message("c"))[1] == {
        "role": "assistant",
        "content": [thinking, text("b")],
    }
    alone = [{"role": "user", "content": [text("a"), text("c")]}]
    assert sent(user_message("a"), model_message(thought()), user_message("c")) == alone
    assert sent(user_message("a"), model_message(planned('{"tool_plan": "x"}')), user_message("c")) == alone


def test_media_follow_their_result() -> None:
    messages = sent(user_message("go"), model_message(tool_call("c")), results(result("c", "", images=(PNG,))))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[3]["content"][1]["type"] == "image_url"


# -- step by step -----------------------------------------------------------------------------


def test_request_continues_the_one_before() -> None:
    encoding = encoder(quirks())
    before = request(user_message("a"), session_id="s", system="be brief", tool_choice="none")
    grown = before.transcript.append(model_message(tool_call("c")), results(result("c")), user_message("b"))
    first, second = encoding.encode(before), encoding.encode(attrs.evolve(before, transcript=grown, max_output=7))
    assert bytes(second).startswith(bytes(first).partition(b"]}]")[0])
    assert second.broken_at == ""
    third = encoding.encode(attrs.evolve(before, transcript=grown, system="be long"))
    assert third.broken_at == "system"


def test_cohere_needs_no_cache_markers() -> None:
    marked = request(user_message("a"), options=ModelOptions(cache="1h"))
    assert bytes(encoder(quirks()).encode(marked)) == bytes(encoder(quirks()).encode(request(user_message("a"))))
