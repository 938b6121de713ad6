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
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    Transcript,
)
from engine.nursery.stream_parser import CloseBlock, CloseCall, CloseItem, Grow, OpenBlock, StreamParser
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.openai_responses.decode import ResponsesReader
from engine.providers.openai_responses.encode import encoder
from engine.providers.wire.decoding import decoder_for
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.untrusted_json import dumps
from engine.testing.fakes import CountingIds
from tests.support import transcripts
from tests.support.transcripts import part, result, results, tool_call, user_message

MODEL = "openai/gpt-5.2"
OLDER = "openai/gpt-4o"
PNG = ImagePart(media_type="image/png", data="aGk=")
PDF = FilePart(media_type="application/pdf", data="JVBERg==", name="plan.pdf")
model_message = partial(transcripts.model_message, model=MODEL)
READ = ToolSchema(name="read", description="Read a file.", schema='{"type":"object","properties":{}}')
PLAIN = Quirks(title="A host")


def thought(text: str = "", *, model: str = MODEL, **kept: Any) -> ReasoningPart:
    return ReasoningPart(id=PartId("r"), text=text, signature=dumps(kept) if kept else None, model=model)


def item_of(kind: str, model: str = MODEL, **fields: Any) -> ProviderPart:
    return ProviderPart(id=PartId("h"), kind=kind, data=dumps(fields), model=model)


def phase(name: str) -> ProviderPart:
    return item_of("phase", phase=name)


def request_of(*messages: Message, **more: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": MODEL, "system": "", **more}
    return ModelRequest(transcript=Transcript(messages), **fields)


def quirks_for(model: str) -> Quirks:
    host, _, name = model.partition("/")
    return quirks_of(BY_NAME[host], name)


def encode(request: ModelRequest, quirks: Quirks | None = None) -> bytes:
    return bytes(encoder(quirks or quirks_for(request.model)).encode(request))


def body(*messages: Message, quirks: Quirks | None = None, **more: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = json.loads(encode(request_of(*messages, **more), quirks))
    return encoded


def sent(*messages: Message, quirks: Quirks = PLAIN, **more: Any) -> list[dict[str, Any]]:
    """The items of a request."""
    items: list[dict[str, Any]] = body(*messages, quirks=quirks, **more)["input"]
    return items


def message(role: str, *content: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": each} if isinstance(each, str) else each for each in content]
    return {"type": "message", "role": role, "content": parts, **more}


CALL = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path": "a"}'}
DONE = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
HI = message("user", "hi")


# -- the request as a whole ----------------------------------------------------------


def test_a_whole_request() -> None:
    encoded = body(user_message("hi"), system="be brief", tools=(READ,), max_output=100, session_id="s-1")
    assert encoded == {
        "model": "gpt-5.2",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "text": {"verbosity": "low"},
        "prompt_cache_key": "s-1",
        "parallel_tool_calls": True,
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read a file.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "input": [message("developer", "be brief"), HI],
        "max_output_tokens": 100,
        "tool_choice": "auto",
    }


def test_no_thoughts_from_a_model_without_reasoning() -> None:
    options = ModelOptions(effort="high", temperature=0.5)
    assert body(user_message("hi"), model=OLDER, system="be brief", max_output=1, options=options) == {
        "model": "gpt-4o",
        "stream": True,
        "store": False,
        "temperature": 0.5,
        "input": [message("system", "be brief"), HI],
        "max_output_tokens": 16,
    }


def test_varying_content_comes_last() -> None:
    first = encode(request_of(user_message("hi"), system="be brief", tools=(READ,), max_output=99, tool_choice="none"))
    second = encode(request_of(user_message("hi"), system="be brief", tools=(READ,)))
    assert first.partition(b'"max_output_tokens"')[0] == second.partition(b'"max_output_tokens"')[0]
    assert list(json.loads(first))[-3:] == ["input", "max_output_tokens", "tool_choice"]


def test_request_extends_the_bytes_before() -> None:
    history: list[Message] = [user_message("hi")]
    encoding = encoder(quirks_for(MODEL))
    transcript = Transcript(history)
    before = b""
    for number in range(4):
        request = attrs.evolve(request_of(system="be brief", tools=(READ,)), transcript=transcript)
        now = bytes(encoding.encode(request)).rpartition(b'],"max_output_tokens"')[0]
        assert now.startswith(before)
        before = now
        call = tool_call(f"call_{number}")
        transcript = transcript.append(
            model_message(thought("t", encrypted_content="e", parts=["summary_text"]), "so", phase("commentary"), call),
            results(result(f"call_{number}")),
        )
    assert len(json.loads(before + b"]}")["input"]) == 2 + 3 * 4


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_tool_choice(choice: ToolChoice) -> None:
    encoded = body(user_message("hi"), tools=(READ,), tool_choice=choice)
    assert encoded["tool_choice"] == choice
    assert [tool["name"] for tool in encoded["tools"]] == ["read"]
    assert "tool_choice" not in body(user_message("hi"), tool_choice=choice)


@pytest.mark.parametrize(
    ("effort", "encoded_as"),
    [("none", "none"), ("minimal", "none"), ("high", "high"), ("max", "xhigh"), (None, "medium")],
)
def test_effort(effort: Effort | None, encoded_as: str) -> None:
    encoded = body(user_message("hi"), options=ModelOptions(effort=effort))
    assert encoded["reasoning"] == {"effort": encoded_as, "summary": "auto"}


def test_temperature_is_omitted_where_unsupported() -> None:
    assert "temperature" not in body(user_message("hi"), options=ModelOptions(temperature=1.0))
    assert body(user_message("hi"), quirks=attrs.evolve(PLAIN, default_temperature=0.7, default_top_p=0.9)) == {
        "model": "gpt-5.2",
        "stream": True,
        "store": False,
        "temperature": 0.7,
        "top_p": 0.9,
        "input": [HI],
        "max_output_tokens": 8192,
    }


def test_a_long_cache_must_be_requested() -> None:
    assert "prompt_cache_retention" not in body(user_message("hi"))
    assert body(user_message("hi"), options=ModelOptions(cache="1h"))["prompt_cache_retention"] == "24h"


def test_the_cache_key_is_no_longer_than_allowed() -> None:
    assert body(user_message("hi"), session_id="s" * 70)["prompt_cache_key"] == "s" * 64


def test_the_system_prompt_is_marked_for_marker_caches() -> None:
    marked = {"type": "input_text", "text": "be brief", "prompt_cache_breakpoint": {"mode": "explicit"}}
    newer = body(user_message("hi"), model="openai/gpt-5.6", system="be brief")
    assert newer["input"] == [message("developer", marked), HI]
    off = body(user_message("hi"), model="openai/gpt-5.6", system="be brief", options=ModelOptions(cache="off"))
    assert off["input"] == [message("developer", "be brief"), HI]


def test_a_system_prompt_that_is_no_item() -> None:
    quirks = attrs.evolve(PLAIN, system_role="instructions", max_tokens_field="")
    assert body(user_message("hi"), system="be brief", quirks=quirks) == {
        "model": "gpt-5.2",
        "stream": True,
        "store": False,
        "instructions": "be brief",
        "input": [HI],
    }


def test_more_for_the_body() -> None:
    more = {
        "store": True,
        "include": ["web_search_call.action.sources"],
        "reasoning": {"summary": "detailed"},
        "tools": [{"type": "web_search"}],
        "tool_choice": "required",
        "max_output_tokens": 7,
        "service_tier": "flex",
    }
    quirks = attrs.evolve(quirks_for(MODEL), extra_body=json.dumps(more))
    encoded = body(user_message("hi"), quirks=quirks, tools=(READ,))
    assert encoded["store"] is True
    assert encoded["include"] == ["reasoning.encrypted_content", "web_search_call.action.sources"]
    assert encoded["reasoning"] == {"effort": "medium", "summary": "detailed"}
    assert [tool.get("name") or tool["type"] for tool in encoded["tools"]] == ["read", "web_search"]
    assert (encoded["tool_choice"], encoded["max_output_tokens"]) == ("required", 7)
    assert encoded["service_tier"] == "flex"
    assert body(user_message("hi"), quirks=quirks)["tools"] == [{"type": "web_search"}]
    assert encode(request_of(user_message("hi")), quirks).count(b'"tool_choice":') == 1


@pytest.mark.parametrize("extra", ["{", "[]", '{"input": []}'])
def test_more_for_the_body_that_can_not_be(extra: str) -> None:
    with pytest.raises(ConfigError, match="extra_body"):
        body(user_message("hi"), quirks=attrs.evolve(PLAIN, extra_body=extra))


# -- a schema for the answer ---------------------------------------------------------


def answer_format(schema: dict[str, Any]) -> dict[str, Any]:
    encoded = body(user_message("hi"), quirks=PLAIN, output_schema=json.dumps(schema))
    answer: dict[str, Any] = encoded["text"]["format"]
    return answer


def test_a_closed_schema_is_strict() -> None:
    inner = {"type": "object", "properties": {"b": {"type": ["string", "null"]}}, "required": ["b"]}
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"anyOf": [inner, {"$ref": "#/$defs/C"}]}}, "n": {"const": 1}},
        "required": ["n", "a"],
        "$defs": {"C": {"type": "object"}},
    }
    closed = {**inner, "additionalProperties": False}
    assert answer_format(schema) == {
        "type": "json_schema",
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "a": {"type": "array", "items": {"anyOf": [closed, {"$ref": "#/$defs/C"}]}},
                "n": {"const": 1},
            },
            "required": ["a", "n"],
            "additionalProperties": False,
            "$defs": {"C": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
        },
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_foreign_schema_becomes_a_hint(schema: dict[str, Any]) -> None:
    assert answer_format(schema) == {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}


def test_a_schema_that_is_none() -> None:
    with pytest.raises(ConfigError, match="the tool 'read'"):
        body(user_message("hi"), tools=(attrs.evolve(READ, schema="[]"),))


# -- items ---------------------------------------------------------------------------


def test_media_of_the_user() -> None:
    quirks = attrs.evolve(PLAIN, user_media=frozenset({"image", "pdf"}))
    assert sent(user_message("see", PNG, PDF, attrs.evolve(PDF, name="")), quirks=quirks) == [
        message(
            "user",
            "see",
            {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
            {"type": "input_file", "filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
        )
    ]


def test_media_in_a_result() -> None:
    talk: list[Message] = [user_message("hi"), model_message(tool_call()), results(result(images=(PNG,), files=(PDF,)))]
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    pdf = {"type": "input_file", "filename": "plan.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    both = attrs.evolve(PLAIN, user_media=frozenset({"image", "pdf"}), result_media=frozenset({"image", "pdf"}))
    assert sent(*talk, quirks=both)[-1] == {**DONE, "output": [{"type": "input_text", "text": "done"}, image, pdf]}
    images = attrs.evolve(both, result_media=frozenset({"image"}))
    *_, output, moved = sent(*talk, quirks=images)
    assert output["output"][1:] == [image]
    assert moved["content"][1:] == [pdf]
    silent: list[Message] = [user_message("hi"), model_message(tool_call()), results(result(text="", images=(PNG,)))]
    assert sent(*silent, quirks=both)[-1] == {**DONE, "output": [image]}


def test_calls_and_their_results() -> None:
    talk: list[Message] = [
        user_message("hi"),
        model_message("so", tool_call("call_1"), tool_call("x:1", "{")),
        results(result("x:1", "no", status="error")),
    ]
    assert sent(*talk) == [
        HI,
        message("assistant", "so"),
        CALL,
        {**CALL, "call_id": "x-x_3a_1", "arguments": "{}"},
        {**DONE, "output": "(no result was recorded)"},
        {**DONE, "call_id": "x-x_3a_1", "output": "no"},
    ]


def test_a_message_keeps_its_phase() -> None:
    talk: list[Message] = [
        user_message("hi"),
        model_message("a", "b", phase("commentary"), "c", phase("final_answer")),
        user_message("hi"),
    ]
    assert sent(*talk) == [
        HI,
        message("assistant", "a", "b", phase="commentary"),
        message("assistant", "c", phase="final_answer"),
        HI,
    ]


ENCRYPTED = {"type": "reasoning", "encrypted_content": "enc"}


def test_thinking_stands_before_what_it_led_to() -> None:
    first = thought("s1"), thought("s2", id="rs_1", encrypted_content="enc", parts=["summary_text"] * 2)
    second = thought("t", id="rs_2", parts=["reasoning_text"])
    talk: list[Message] = [
        user_message("hi"),
        model_message(*first, "a", second, thought(encrypted_content="enc"), tool_call()),
        results(result()),
    ]
    summary = [{"type": "summary_text", "text": "s1"}, {"type": "summary_text", "text": "s2"}]
    content = [{"type": "reasoning_text", "text": "t"}]
    expected = [
        HI,
        {**ENCRYPTED, "summary": summary},
        message("assistant", "a"),
        {"type": "reasoning", "summary": [], "content": content},
        {**ENCRYPTED, "summary": []},
        CALL,
        DONE,
    ]
    assert sent(*talk) == expected
    named = sent(*talk, quirks=attrs.evolve(PLAIN, item_ids=True))
    assert [item.get("id") for item in named] == [None, "rs_1", None, "rs_2", None, None, None]


@pytest.mark.parametrize(
    "lost",
    [
        [thought("cut off")],
        [thought("of another format", id="sig")],
        [ReasoningPart(id=PartId("r"), text="x", signature="sig", model=MODEL)],
        [thought("of another model", model="openai/other", encrypted_content="enc", parts=["summary_text"])],
        [thought("", model="anthropic/claude", encrypted_content="enc")],
    ],
)
def test_thinking_that_the_host_does_not_want_back(lost: list[AssistantPart]) -> None:
    talk: list[Message] = [user_message("hi"), model_message(*lost, tool_call()), results(result())]
    spoken = [item for item in sent(*talk) if item.get("role") == "assistant"]
    assert [item for item in sent(*talk) if item not in spoken] == [HI, CALL, DONE]
    assert spoken == ([message("assistant", "of another model")] if "another model" in lost[0].text else [])  # type: ignore[union-attr]  # all are thoughts


def test_trailing_reasoning_is_left_out() -> None:
    signed = thought("s", encrypted_content="enc", parts=["summary_text"])
    assert sent(user_message("hi"), model_message("a", signed, signed), user_message("hi")) == [
        HI,
        message("assistant", "a"),
        HI,
    ]
    assert sent(user_message("hi"), model_message(signed), user_message("hi")) == [HI, HI]


def test_parts_of_a_thought_that_were_lost() -> None:
    signed = thought("s2", encrypted_content="enc", parts=["summary_text", "summary_text"])
    talk: list[Message] = [
        user_message("hi"),
        model_message(thought("other"), "a", signed, tool_call()),
        results(result()),
    ]
    assert sent(*talk)[2] == {**ENCRYPTED, "summary": [{"type": "summary_text", "text": "s2"}]}


def test_hosted_tool_work_returns_without_id() -> None:
    search: dict[str, Any] = {"type": "web_search_call", "status": "completed", "action": {"query": "é"}}
    talk: list[Message] = [
        user_message("hi"),
        model_message(item_of("web_search_call", id="ws_1", **search), "a"),
        user_message("hi"),
    ]
    assert sent(*talk)[1:3] == [search, message("assistant", "a")]
    kept = attrs.evolve(PLAIN, item_ids=True)
    assert sent(*talk, quirks=kept)[1] == {**search, "id": "ws_1"}


def test_image_returns_without_its_generation() -> None:
    image = {"type": "image_generation_call", "status": "completed", "result": "aGk=", "revised_prompt": "a cat"}
    talk: list[Message] = [
        user_message("hi"),
        model_message(item_of("i", id="ig", action="generate", size="1x1", **image), "a"),
        user_message("hi"),
    ]
    assert sent(*talk)[1] == image


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"type": 1}', "x"])
def test_an_item_that_is_none(data: str) -> None:
    odd = ProviderPart(id=PartId("h"), kind="web_search_call", data=data, model=MODEL)
    assert sent(user_message("hi"), model_message(odd, "a"), user_message("hi")) == [HI, message("assistant", "a"), HI]


def test_halves_of_characters_never_get_out() -> None:
    talk: list[Message] = [
        user_message("a\ud800"),
        model_message(thought("\ud83d", encrypted_content="\udc00", parts=["summary_text"]), "\ud800"),
    ]
    assert b"\\ud" not in encode(request_of(*talk, user_message("hi")))


# -- there and back ------------------------------------------------------------------


def test_host_messages_return_to_it() -> None:
    """An answer that was read, kept and sent again is what it was, but for the ids and what only a host says."""
    output = [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": t} for t in ("a", "b")],
            "encrypted_content": "e",
        },
        message("assistant", "so", phase="commentary"),
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
        {"type": "web_search_call", "status": "completed"},
        {"type": "reasoning", "summary": [], "encrypted_content": "f"},
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"path": "a"}'},
    ]
    decoder = decoder_for(ResponsesReader(), "application/json")
    assert decoder is not None
    decoder.feed(json.dumps({"status": "completed", "output": output}).encode())
    parser = StreamParser(CountingIds().new)
    opened: dict[str, OpenBlock] = {}
    texts: dict[str, str] = {}
    parts: list[AssistantPart] = []
    for command in parser.feed(decoder.close()):
        match command:
            case OpenBlock():
                opened[command.part_id], texts[command.part_id] = command, ""
            case Grow():
                texts[command.part_id] += command.text
            case CloseBlock(kind="text"):
                parts.append(part(texts[command.part_id]))
            case CloseBlock():
                text, signature = texts[command.part_id], command.signature
                parts.append(ReasoningPart(id=command.part_id, text=text, signature=signature, model=MODEL))
            case CloseCall():
                parts.append(tool_call(command.provider_id, texts[command.part_id], tool=command.tool))
            case CloseItem():
                parts.append(ProviderPart(id=command.part_id, kind=command.kind, data=command.data, model=MODEL))
            case _:
                raise AssertionError(command)
    assert sent(user_message("hi"), model_message(*parts), results(result())) == [HI, *output, DONE]
