from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    CallResult,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    Transcript,
)
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.openai_chat.wire import wire
from engine.providers.wire.quirks import EffortField, Quirks, ReasoningField
from tests.support import transcripts
from tests.support.transcripts import tool_call, user_message

Json = dict[str, Any]
MODEL = "host/some/model"
PLAIN = Quirks()
MARKED = Quirks(marks="anthropic", long_cache=True)
PNG = ImagePart(media_type="image/png", data="aGk=")
PDF = FilePart(media_type="application/pdf", data="aGk=", name="plan.pdf")
WAV = FilePart(media_type="audio/x-wav", data="aGk=")
MP4 = FilePart(media_type="video/mp4", data="aGk=")
model_message = partial(transcripts.model_message, model=MODEL)
READ = ToolSchema(name="read", description="Read a file.", schema='{"type": "object", "properties": {}}')
READ_TOOL = {"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}


def thought(text: str = "hm", kept: Any = None, model: str = MODEL) -> ReasoningPart:
    signature = json.dumps(kept) if kept is not None else None
    return ReasoningPart(id=PartId("r"), text=text, signature=signature, model=model)


def own(kind: str, data: Any, model: str = MODEL) -> ProviderPart:
    return ProviderPart(id=PartId("h"), kind=kind, data=json.dumps(data), model=model)


def results(*each: tuple[str, str] | CallResult) -> ResultsMessage:
    made = tuple(result(*one) if isinstance(one, tuple) else one for one in each)
    return ResultsMessage(id=MessageId("r"), results=made)


def result(call_id: str, text: str = "done", *media: MediaPart) -> CallResult:
    settlement = Settlement(
        status="completed",
        text=text,
        images=tuple(each for each in media if isinstance(each, ImagePart)),
        files=tuple(each for each in media if isinstance(each, FilePart)),
    )
    return CallResult(call_id=CallId(call_id), tool="read", settlement=settlement)


def request(*messages: Message, **more: Any) -> ModelRequest:
    fields: Json = {"model": MODEL, "system": "", "max_output": 100, **more}
    return ModelRequest(transcript=Transcript(messages), **fields)


def body(*messages: Message, quirks: Quirks = PLAIN, **more: Any) -> Json:
    encoded: Json = json.loads(bytes(wire(quirks).encoder().encode(request(*messages, **more))))
    return encoded


def sent(*messages: Message, quirks: Quirks = PLAIN, **more: Any) -> list[Json]:
    actual: list[Json] = body(*messages, quirks=quirks, **more)["messages"]
    return actual


def last(*messages: Message, quirks: Quirks = PLAIN) -> Json:
    """The model's last message, on a transcript that goes on after it."""
    actual = sent(user_message("hi"), *messages, user_message("go on"), quirks=quirks)
    return [message for message in actual if message["role"] == "assistant"][-1]


def call(call_id: str, arguments: str = '{"path": "a"}') -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}


# -- the request as a whole -----------------------------------------------------------------


def test_a_whole_request() -> None:
    assert body(user_message("hi"), system="be brief", tools=(READ,)) == {
        "model": "some/model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": READ_TOOL}],
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "max_tokens": 100,
    }


def test_host_with_different_field_names() -> None:
    quirks = Quirks(
        system_role="developer",
        max_tokens_field="max_completion_tokens",
        stream_usage=False,
        strict_tools=True,
        cache_key_field="prompt_cache_key",
    )
    assert body(user_message("hi"), quirks=quirks, system="be brief", tools=(READ,), session_id="s" * 70) == {
        "model": "some/model",
        "stream": True,
        "prompt_cache_key": "s" * 64,
        "tools": [{"type": "function", "function": READ_TOOL | {"strict": False}}],
        "messages": [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "max_completion_tokens": 100,
    }


def test_cache_key_needs_a_session() -> None:
    assert "prompt_cache_key" not in body(user_message("hi"), quirks=Quirks(cache_key_field="prompt_cache_key"))
    assert body(user_message("hi"), session_id="s1").keys() == body(user_message("hi")).keys()


def test_a_host_that_takes_no_cap() -> None:
    assert body(user_message("hi"), quirks=Quirks(max_tokens_field="", stream_usage=False), system=" ") == {
        "model": "some/model",
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("choice", "forced", "expected"),
    [
        ("auto", True, None),
        ("none", True, "none"),
        ("required", True, "required"),
        ("required", False, "auto"),
        ("none", False, "none"),
    ],
)
def test_the_choice_of_tools(choice: str, forced: bool, expected: str | None) -> None:
    encoded = body(user_message("hi"), quirks=Quirks(forced_tools=forced), tools=(READ,), tool_choice=choice)
    assert encoded.get("tool_choice") == expected
    assert encoded["tools"]


def test_without_tools_there_is_no_choice() -> None:
    assert "tool_choice" not in body(user_message("hi"), tool_choice="required")


def test_transcript_with_calls_but_no_tools() -> None:
    messages = (user_message("hi"), model_message(tool_call("c1")), results(("c1", "done")))
    assert "tools" not in body(*messages)
    encoded = body(*messages, quirks=Quirks(stand_in_tool=True))
    assert [tool["function"]["name"] for tool in encoded["tools"]] == ["unavailable"]
    assert encoded["tool_choice"] == "none"
    assert "tools" not in body(user_message("hi"), quirks=Quirks(stand_in_tool=True))
    offered = body(*messages, quirks=Quirks(stand_in_tool=True), tools=(READ,))
    assert [tool["function"]["name"] for tool in offered["tools"]] == ["read"]
    assert "tool_choice" not in offered


def test_tools_have_the_hosts_schemas() -> None:
    tool = attrs.evolve(READ, schema='{"type": "object", "properties": {"a": {"const": 1}}}')
    encoded = body(user_message("hi"), quirks=Quirks(schema="openai"), tools=(tool,))
    assert encoded["tools"][0]["function"]["parameters"]["properties"] == {"a": {"type": "integer", "enum": [1]}}


def test_a_tool_without_a_schema_is_refused() -> None:
    with pytest.raises(ConfigError, match="read"):
        body(user_message("hi"), tools=(attrs.evolve(READ, schema="{}"),))


# -- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "effort", "expected"),
    [
        ("reasoning_effort", "high", {"reasoning_effort": "high"}),
        ("reasoning_effort", "max", {"reasoning_effort": "high"}),
        ("reasoning.effort", "none", {"reasoning": {"effort": "low"}}),
        ("thinking.type", "low", {"thinking": {"type": "enabled"}}),
        ("thinking.type", "none", {"thinking": {"type": "disabled"}}),
        ("enable_thinking", "low", {"enable_thinking": True}),
        ("enable_thinking", "none", {"enable_thinking": False}),
        ("", "high", {}),
        ("reasoning_effort", None, {}),
    ],
)
def test_effort(field: EffortField, effort: Any, expected: Json) -> None:
    quirks = Quirks(effort_field=field, efforts=("low", "high"))
    encoded = body(user_message("hi"), quirks=quirks, options=ModelOptions(effort=effort))
    names = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
    assert {name: encoded[name] for name in names if name in encoded} == expected


def test_a_default_effort() -> None:
    quirks = Quirks(effort_field="reasoning_effort", default_effort="medium")
    assert body(user_message("hi"), quirks=quirks)["reasoning_effort"] == "medium"


@pytest.mark.parametrize(
    ("quirks", "selected", "expected"),
    [
        (PLAIN, None, {}),
        (PLAIN, 0.3, {"temperature": 0.3}),
        (Quirks(temperature=False, default_top_p=0.9), 0.3, {}),
        (Quirks(default_temperature=1.0), None, {"temperature": 1.0}),
        (Quirks(default_temperature=1.0), 0.0, {"temperature": 0.0}),
        (
            Quirks(default_temperature=1.0, default_top_p=0.95, default_top_k=40),
            None,
            {"temperature": 1.0, "top_p": 0.95, "top_k": 40},
        ),
    ],
)
def test_sampling_parameters(quirks: Quirks, selected: float | None, expected: Json) -> None:
    encoded = body(user_message("hi"), quirks=quirks, options=ModelOptions(temperature=selected))
    assert {name: encoded[name] for name in ("temperature", "top_p", "top_k") if name in encoded} == expected


def test_a_schema_for_the_answer() -> None:
    closed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    nearly: Json = {name: value for name, value in closed.items() if name != "additionalProperties"}
    open_: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
    for schema, expected, is_strict in ((closed, closed, True), (nearly, closed, True), (open_, open_, False)):
        assert body(user_message("hi"), output_schema=json.dumps(schema))["response_format"] == {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": expected, "strict": is_strict},
        }


def test_an_answer_schema_without_native_support() -> None:
    assert "response_format" not in body(
        user_message("hi"), quirks=Quirks(output="tool"), output_schema='{"type": "object"}'
    )


def test_extra_body_fields() -> None:
    extra = {"stream_options": {"more": 1}, "max_tokens": 7, "provider": {"only": ["a"]}, "tool_choice": "none"}
    encoded = body(
        user_message("hi"), quirks=Quirks(extra_body=json.dumps(extra)), tools=(READ,), tool_choice="required"
    )
    assert encoded["stream_options"] == {"include_usage": True, "more": 1}
    assert (encoded["max_tokens"], encoded["tool_choice"], encoded["provider"]) == (7, "none", {"only": ["a"]})


def test_hosted_tools_are_added() -> None:
    quirks = Quirks(extra_body='{"tools": [{"type": "web_search"}]}')
    assert [tool["type"] for tool in body(user_message("hi"), quirks=quirks, tools=(READ,))["tools"]] == [
        "function",
        "web_search",
    ]
    alone = body(user_message("hi"), quirks=quirks, tool_choice="required")
    assert (alone["tools"], alone["tool_choice"]) == ([{"type": "web_search"}], "required")


@pytest.mark.parametrize("extra", ["{", "[]", '{"messages": []}'])
def test_fields_that_cannot_be_added(extra: str) -> None:
    with pytest.raises(ConfigError, match="extra_body"):
        body(user_message("hi"), quirks=Quirks(extra_body=extra))


def test_headers_by_which_a_conversation_stays_together() -> None:
    headers = wire(Quirks(session_headers=("x-session-affinity", "x-session-id"))).headers
    assert headers(request(user_message("hi"), session_id="s1")) == {"x-session-affinity": "s1", "x-session-id": "s1"}
    assert headers(request(user_message("hi"))) == {}
    assert headers(request(user_message("hi"), session_id="no\nheader")) == {}
    assert wire(PLAIN).headers(request(user_message("hi"), session_id="s1")) == {}


# -- the user ------------------------------------------------------------------------------------

EVERYTHING = Quirks(user_media=frozenset({"image", "pdf", "audio", "video"}))


def test_media() -> None:
    assert sent(user_message("look", PNG, PDF, WAV, MP4), quirks=EVERYTHING)[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "file", "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,aGk="}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,aGk="}},
    ]


def test_a_file_has_a_name() -> None:
    actual = sent(user_message(attrs.evolve(PDF, name="")), quirks=EVERYTHING)[0]["content"]
    assert actual[0]["file"]["filename"] == "document.pdf"


def test_texts_are_one_text_where_nothing_stands_between() -> None:
    assert sent(user_message("a", "b")) == [{"role": "user", "content": "a\n\nb"}]


# -- the model -----------------------------------------------------------------------------------


def test_a_conversation_with_calls() -> None:
    actual = sent(
        user_message("hi"),
        model_message("let me look", tool_call("c1"), tool_call("c2", "")),
        results(("c1", "one"), ("c2", "")),
        model_message("so it is"),
        user_message("thanks"),
    )
    assert actual == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [call("c1"), call("c2", "{}")], "content": "let me look"},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
        {"role": "assistant", "content": "so it is"},
        {"role": "user", "content": "thanks"},
    ]


def test_calls_without_text() -> None:
    actual = sent(user_message("hi"), model_message(tool_call("c1")), results(("c1", "one")))
    assert actual[1] == {"role": "assistant", "tool_calls": [call("c1")], "content": None}


def test_calls_without_text_for_local_servers() -> None:
    quirks = attrs.evolve(PLAIN, empty_content=True)
    actual = sent(user_message("hi"), model_message(tool_call("c1")), results(("c1", "one")), quirks=quirks)
    assert actual[1] == {"role": "assistant", "tool_calls": [call("c1")], "content": ""}


def test_an_empty_answer_is_dropped() -> None:
    actual = sent(
        user_message("hi"), model_message(thought(), own("executed_tool", {"type": "python"})), user_message("go on")
    )
    assert [message["role"] for message in actual] == ["user", "user"]


def test_nine_letters_for_ids() -> None:
    quirks = Quirks(call_ids="nine")
    actual = sent(
        user_message("hi"),
        model_message(tool_call("call_abcdefghi1"), tool_call("call_abcdefghi2")),
        results(("call_abcdefghi2", "two"), ("call_abcdefghi1", "one")),
        model_message(tool_call("call_abcdefghi1x")),
        results(("call_abcdefghi1x", "three")),
        quirks=quirks,
    )
    ids = [call["id"] for message in actual for call in message.get("tool_calls", ())]
    assert ids == ["000000000", "000000001", "000000002"]
    reported = [(message["tool_call_id"], message["content"]) for message in actual if message["role"] == "tool"]
    assert reported == [("000000000", "one"), ("000000001", "two"), ("000000002", "three")]


def test_a_filler_between_results_and_the_user() -> None:
    quirks = Quirks(assistant_after_results=True)
    actual = sent(
        user_message("hi"),
        model_message(tool_call("c1")),
        results(("c1", "one")),
        user_message("wait"),
        user_message("no"),
        quirks=quirks,
    )
    assert [message["role"] for message in actual] == ["user", "assistant", "tool", "assistant", "user", "user"]
    assert actual[3] == {"role": "assistant", "content": "Noted."}


def test_a_filler_between_two_messages_of_the_user() -> None:
    actual = sent(
        user_message("hi"),
        user_message("no"),
        model_message("so?"),
        user_message("yes"),
        quirks=Quirks(alternates=True),
    )
    assert [message["role"] for message in actual] == ["user", "assistant", "user", "assistant", "user"]


def test_only_a_last_paused_message_is_continued() -> None:
    encoder = wire(PLAIN).encoder()
    transcript = Transcript([user_message("hi"), model_message("well", finish="pause")])
    first = json.loads(bytes(encoder.encode(attrs.evolve(request(), transcript=transcript))))
    assert [m["role"] for m in first["messages"]] == ["user", "assistant", "user"]
    longer = transcript.append(user_message("no"))
    second = json.loads(bytes(encoder.encode(attrs.evolve(request(), transcript=longer))))
    assert [m["content"] for m in second["messages"]] == ["hi", "well", "no"]


# -- results ---------------------------------------------------------------------------------------


def test_media_in_results_where_they_are_read() -> None:
    messages = (user_message("hi"), model_message(tool_call("c1")), results(result("c1", "see", PNG)))
    actual = sent(*messages, quirks=Quirks(result_media=frozenset({"image"})))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert actual[2:] == [{"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "see"}, image]}]


def test_media_in_results_follow_in_a_message_elsewhere() -> None:
    actual = sent(user_message("hi"), model_message(tool_call("c1")), results(result("c1", "see", PNG)))
    assert [message["role"] for message in actual[2:]] == ["tool", "user"]
    assert actual[2]["content"].startswith("see\n")
    assert actual[3]["content"][1]["type"] == "image_url"


def test_media_in_results_stay_before_a_filler() -> None:
    quirks = Quirks(assistant_after_results=True)
    actual = sent(user_message("hi"), model_message(tool_call("c1")), results(result("c1", "see", PNG)), quirks=quirks)
    assert [message["role"] for message in actual[2:]] == ["tool", "assistant", "user"]


# -- thinking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("", {}),
        ("reasoning_content", {"reasoning_content": "hm"}),
        ("reasoning", {"reasoning": "hm"}),
        (
            "reasoning_details",
            {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": "unknown"}]},
        ),
    ],
)
def test_reasoning_returns_where_the_host_expects_it(field: ReasoningField, expected: Json) -> None:
    quirks = Quirks(reasoning_field=field)
    assert last(model_message(thought(), "hi"), quirks=quirks) == {"role": "assistant", **expected, "content": "hi"}


def test_thinking_among_the_content() -> None:
    quirks = Quirks(reasoning_field="content")
    assert last(model_message(thought(), "hi"), quirks=quirks)["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "hi"},
    ]
    for always in (True, False):
        bare = attrs.evolve(quirks, reasoning_always=always)
        assert last(model_message("hi"), quirks=bare) == {"role": "assistant", "content": "hi"}


def test_no_thinking_member_without_thinking() -> None:
    for field in ("reasoning_content", "reasoning", "reasoning_details"):
        assert last(model_message("hi"), quirks=Quirks(reasoning_field=field)) == {"role": "assistant", "content": "hi"}
    assert last(model_message("hi"), quirks=Quirks(reasoning_always=True)) == {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize(("field", "empty"), [("reasoning_content", ""), ("reasoning", ""), ("reasoning_details", [])])
def test_hosts_that_insist_on_thinking(field: ReasoningField, empty: object) -> None:
    quirks = Quirks(reasoning_field=field, reasoning_always=True, assistant_after_results=True)
    actual = sent(
        user_message("hi"),
        model_message("well", model="other/model"),
        user_message("go on"),
        model_message(tool_call("c1")),
        results(("c1", "one")),
        user_message("stop"),
        quirks=quirks,
    )
    spoken = [message for message in actual if message["role"] == "assistant"]
    assert len(spoken) == 3
    assert [message[field] for message in spoken] == [empty] * 3


def test_signed_thinking_goes_back_as_it_came() -> None:
    kept = {
        "field": "reasoning_details",
        "details": [
            {"type": "reasoning.summary", "format": "v1", "index": 0},
            {"type": "reasoning.encrypted", "data": "xyz", "id": "host-1", "index": 0},
        ],
    }
    message = model_message(thought("hm", kept), tool_call("c1", provider_id="host-1"))
    actual = sent(
        user_message("hi"), message, results(("c1", "one")), quirks=Quirks(reasoning_field="reasoning_details")
    )
    assert actual[1]["reasoning_details"] == [
        {"type": "reasoning.summary", "format": "v1", "index": 0, "summary": "hm"},
        # It belongs to a call, and that has another id here.
        {"type": "reasoning.encrypted", "data": "xyz", "id": "c1", "index": 0},
    ]


def test_signed_items_return_with_plain_reasoning() -> None:
    kept = {"field": "thinking_blocks", "details": [{"type": "thinking", "signature": "sig"}]}
    message = last(model_message(thought("hm", kept), "hi"), quirks=Quirks(reasoning_field="reasoning_content"))
    assert message == {
        "role": "assistant",
        "thinking_blocks": [{"type": "thinking", "signature": "sig", "thinking": "hm"}],
        "reasoning_content": "hm",
        "content": "hi",
    }


@pytest.mark.parametrize("signature", ["not ours", "[]", '{"field": "x", "details": [{}]}'])
def test_foreign_signature_is_ignored(signature: str) -> None:
    part = attrs.evolve(thought(), signature=signature)
    assert last(model_message(part, "hi"), quirks=Quirks(reasoning_field="reasoning")) == {
        "role": "assistant",
        "reasoning": "hm",
        "content": "hi",
    }


def test_items_of_the_hosts_own() -> None:
    signed = {"google": {"thought_signature": "sig"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    messages = (
        user_message("hi"),
        model_message("see", own("image", image), own("extra_content", signed), tool_call("c1"), tool_call("c2")),
        results(("c1", "one"), ("c2", "two")),
        model_message("so", own("extra_content", signed)),
        user_message("go on"),
    )
    actual = sent(*messages)
    assert actual[1]["images"] == [image]
    assert actual[1]["tool_calls"] == [call("c1") | {"extra_content": signed}, call("c2")]
    assert actual[4] == {"role": "assistant", "extra_content": signed, "content": "so"}
    alone = sent(user_message("hi"), model_message(own("image", image)), user_message("go on"))
    assert alone[1] == {"role": "assistant", "images": [image], "content": None}
    foreign = sent(
        user_message("hi"), model_message("see", own("image", image, model="other/model")), user_message("go on")
    )
    assert foreign[1] == {"role": "assistant", "content": "see"}


def test_a_signature_of_nothing_is_not_sent() -> None:
    signed = own("extra_content", {"google": {"thought_signature": "sig"}})
    assert [m["role"] for m in sent(user_message("hi"), model_message(thought(), signed), user_message("go on"))] == [
        "user",
        "user",
    ]
    actual = sent(user_message("hi"), model_message(tool_call("c1"), signed), results(("c1", "one")))
    assert actual[1]["extra_content"] == {"google": {"thought_signature": "sig"}}


# -- cache markers ------------------------------------------------------------------------------------

MARK = {"cache_control": {"type": "ephemeral"}}


def text_of(text: str, **more: Any) -> list[Json]:
    return [{"type": "text", "text": text, **more}]


def test_markers_stand_on_the_last_parts() -> None:
    actual = sent(
        user_message("hi"),
        model_message("let me look", tool_call("c1")),
        results(("c1", "one")),
        model_message(tool_call("c2")),
        results(("c2", "two")),
        system="be brief",
        quirks=MARKED,
    )
    assert [message["content"] for message in actual] == [
        text_of("be brief", **MARK),
        text_of("hi"),
        text_of("let me look"),
        text_of("one", **MARK),
        None,
        text_of("two", **MARK),
    ]


def test_a_marker_on_an_image() -> None:
    actual = sent(user_message("look", PNG), quirks=MARKED)
    assert actual[0]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}, **MARK}


@pytest.mark.parametrize(
    ("cache", "quirks", "marker"),
    [
        ("off", MARKED, None),
        ("1h", MARKED, {"type": "ephemeral", "ttl": "1h"}),
        ("1h", attrs.evolve(MARKED, long_cache=False), {"type": "ephemeral"}),
    ],
)
def test_how_long_a_cache_lasts(cache: Any, quirks: Quirks, marker: Json | None) -> None:
    actual = sent(user_message("hi"), system="be brief", quirks=quirks, options=ModelOptions(cache=cache))
    assert [message["content"][0].get("cache_control") for message in actual] == [marker, marker]


@pytest.mark.parametrize(
    ("model", "with_tools", "without"),
    [
        ("gpt-5.2", "high", "high"),
        ("gpt-5.4", "none", "high"),
        ("gpt-5.6-terra", "none", "high"),
        ("gpt-6-sol", "none", "high"),
    ],
)
def test_effort_with_tools(model: str, with_tools: str, without: str) -> None:
    """OpenAI: "Function tools with reasoning_effort are not supported … or set reasoning_effort to 'none'"."""
    quirks = quirks_of(BY_NAME["openai-chat"], model)
    tool = ToolSchema(name="read", description="Reads.", schema='{"type": "object"}')
    options = ModelOptions(effort="high")
    assert body(user_message("hi"), quirks=quirks, tools=(tool,), options=options)["reasoning_effort"] == with_tools
    assert body(user_message("hi"), quirks=quirks, tools=(), options=options)["reasoning_effort"] == without


def test_no_effort_is_sent_with_tools_where_one_is_the_default() -> None:
    tool = ToolSchema(name="read", description="Reads.", schema='{"type": "object"}')
    quirks = quirks_of(BY_NAME["openai-chat"], "gpt-5.6")
    assert body(user_message("hi"), quirks=quirks, tools=(tool,))["reasoning_effort"] == "none"
    # A gateway translates.
    quirks = quirks_of(BY_NAME["openrouter"], "openai/gpt-5.6")
    assert "reasoning" not in body(user_message("hi"), quirks=quirks, tools=(tool,))
