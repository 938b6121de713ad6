"""Encoding of requests for Gemini, and for Claude on Vertex."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import Effort, ModelOptions, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    AssistantPart,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    Transcript,
)
from engine.providers.anthropic import encode as anthropic_encode
from engine.providers.gemini.encode import UNSIGNED, encoder
from engine.providers.gemini.wire import wire
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.registry import wire_format
from engine.providers.vertex_anthropic import wire as vertex_anthropic
from engine.providers.wire.quirks import Quirks
from tests.support import transcripts
from tests.support.transcripts import user_message

OLD, MIDDLE, NEW = "google/gemini-2.0-flash", "google/gemini-2.5-pro", "google/gemini-3.1-pro-preview"
PNG = ImagePart(media_type="image/png", data="aGk=")
PDF = FilePart(media_type="application/pdf", data="JVBERg==", name="plan.pdf")
model_message = partial(transcripts.model_message, model=MIDDLE)
READ = ToolSchema(
    name="read", description="Read a file.", schema='{"type":"object","properties":{"path":{"type":"string"}}}'
)


def signature(on: str, value: str = "sig", words: str = "", model: str = MIDDLE, **more: int) -> ReasoningPart:
    signed = json.dumps({"on": on, "signature": value, **more})
    return ReasoningPart(id=PartId("r"), text=words, signature=signed, model=model)


def tool_call(call_id: str = "c1", arguments: str = '{"path":"a"}') -> CallPart:
    return CallPart(id=PartId("c"), call_id=CallId(call_id), tool="read", arguments=arguments)


def result(call_id: str = "c1", words: str = "done", **more: Any) -> ResultsMessage:
    fields: dict[str, Any] = {"status": "completed", "text": words, **more}
    one = CallResult(call_id=CallId(call_id), tool="read", settlement=Settlement(**fields))
    return ResultsMessage(id=MessageId("r"), results=(one,))


def hosted(data: str, model: str = MIDDLE) -> ProviderPart:
    return ProviderPart(id=PartId("h"), kind="executableCode", data=data, model=model)


def request_of(*messages: Message, **more: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": MIDDLE, "system": "", **more}
    return ModelRequest(transcript=Transcript(messages or (user_message("hi"),)), **fields)


def quirks_for(model: str) -> Quirks:
    host, _, name = model.partition("/")
    return quirks_of(BY_NAME[host], name)


def body(*messages: Message, quirks: Quirks | None = None, **more: Any) -> dict[str, Any]:
    request = request_of(*messages, **more)
    encoded: dict[str, Any] = json.loads(bytes(encoder(quirks or quirks_for(request.model)).encode(request)))
    return encoded


def turns(*messages: Message, **more: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(content["role"], content["parts"]) for content in body(*messages, **more)["contents"]]


def model_parts(*parts: AssistantPart | str, **more: Any) -> list[dict[str, Any]]:
    """What is sent of an answer."""
    answer = model_message(*parts, model=more.get("model", MIDDLE))
    follows = [result(part.call_id) for part in parts if isinstance(part, CallPart)][:1]
    return next(
        parts
        for role, parts in turns(user_message("hi"), answer, *follows, user_message("go on"), **more)
        if role == "model"
    )


def call_of(call_id: str = "c1") -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": "read", "args": {"path": "a"}}}


# -- the whole of a request ------------------------------------------------------------


def test_a_request() -> None:
    request = body(
        user_message("read a"),
        model_message("sure", tool_call()),
        result(),
        system="Be brief.",
        tools=(READ,),
        max_output=100,
    )
    assert request == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read",
                        "description": "Read a file.",
                        "parametersJsonSchema": {"type": "object", "properties": {"path": {"type": "string"}}},
                    }
                ]
            }
        ],
        "contents": [
            {"role": "user", "parts": [{"text": "read a"}]},
            {"role": "model", "parts": [{"text": "sure"}, call_of()]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "read", "response": {"output": "done"}}}],
            },
        ],
        "generationConfig": {
            "maxOutputTokens": 100,
            "temperature": 1.0,
            "topP": 0.95,
            "topK": 64,
            "thinkingConfig": {"includeThoughts": True},
        },
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }


def test_the_least_request() -> None:
    assert body(model=OLD, max_output=9) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 9},
    }


def test_the_path_names_the_model() -> None:
    path = wire(Quirks()).path
    assert path(request_of()) == "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    tuned = request_of(model="google/tunedModels/mine 1")
    assert path(tuned) == "/v1beta/tunedModels/mine%201:streamGenerateContent?alt=sse"


def test_stable_content_comes_first() -> None:
    """The next step's request begins with the bytes of this one, whatever its cap and its choice of tools."""
    first = request_of(user_message("read a"), system="s", tools=(READ,), max_output=10, tool_choice="required")
    transcript = first.transcript.append(model_message(tool_call()), result())
    second = attrs.evolve(first, transcript=transcript, max_output=20, tool_choice="none")
    ours = encoder(quirks_for(MIDDLE))
    before, after = bytes(ours.encode(first)), bytes(ours.encode(second))
    assert after.startswith(before[: before.index(b']}],"generationConfig"')])


@pytest.mark.parametrize(("choice", "mode"), [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")])
def test_the_choice_of_tools(choice: ToolChoice, mode: str) -> None:
    request = body(tools=(READ,), tool_choice=choice)
    assert request["toolConfig"] == {"functionCallingConfig": {"mode": mode}}
    assert len(request["tools"]) == 1


def test_calls_of_the_past_need_no_tools() -> None:
    request = body(user_message("hi"), model_message(tool_call()), result())
    assert not {"tools", "toolConfig"} & request.keys()


def test_user_options_are_merged() -> None:
    extra = {"safetySettings": [{"category": "X"}], "generationConfig": {"seed": 7, "topK": 1}}
    quirks = attrs.evolve(quirks_for(OLD), extra_body=json.dumps(extra))
    assert body(quirks=quirks, model=OLD, max_output=9) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": 9, "seed": 7, "topK": 1},
        "safetySettings": [{"category": "X"}],
    }


def test_hosted_tools_follow_the_engines() -> None:
    search: dict[str, Any] = {"googleSearch": {}}
    quirks = attrs.evolve(quirks_for(NEW), extra_body=json.dumps({"tools": [search, {"codeExecution": {}}]}))
    assert body(quirks=quirks, model=NEW)["tools"] == [search, {"codeExecution": {}}]
    ours, *theirs = body(quirks=quirks, model=NEW, tools=(READ,))["tools"]
    assert ([tool["name"] for tool in ours["functionDeclarations"]], theirs) == (
        ["read"],
        [search, {"codeExecution": {}}],
    )


@pytest.mark.parametrize("extra", ["[", "[]", '{"contents": []}'])
def test_unmergeable_options_are_refused(extra: str) -> None:
    with pytest.raises(ConfigError, match="extra_body"):
        body(quirks=Quirks(extra_body=extra))


# -- schemas -----------------------------------------------------------------------------

LEVELS = ToolSchema(
    name="set",
    description="Set it.",
    schema='{"type":"object","properties":{"level":{"type":["integer","null"],"enum":[1,2,null]}},"required":["level"]}',
)


def test_newer_models_get_json_schema() -> None:
    (tool,) = body(tools=(LEVELS,))["tools"][0]["functionDeclarations"]
    assert tool["parametersJsonSchema"]["properties"] == {"level": {"type": ["integer", "null"], "enum": [1, 2, None]}}


def test_older_models_get_openapi_schemas() -> None:
    (tool,) = body(tools=(LEVELS,), model=OLD)["tools"][0]["functionDeclarations"]
    assert tool["parameters"]["properties"] == {"level": {"type": "string", "nullable": True, "enum": ["1", "2"]}}


def test_a_tool_with_a_broken_schema_is_named() -> None:
    with pytest.raises(ConfigError, match="'set'"):
        body(tools=(attrs.evolve(LEVELS, schema="{"),))


def test_an_answer_schema_together_with_tools() -> None:
    request = body(model=NEW, tools=(READ,), output_schema='{"type":"object"}')
    config = request["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]["type"]) == ("application/json", "object")
    assert len(request["tools"]) == 1


@pytest.mark.parametrize("model", [OLD, MIDDLE])
def test_elsewhere_the_answer_is_a_tool(model: str) -> None:
    host, _, name = model.partition("/")
    format_ = wire_format(BY_NAME[host], quirks_of(BY_NAME[host], name))
    request = request_of(model=model, tools=(READ,), output_schema='{"type":"object"}')
    encoded = json.loads(bytes(format_.encoder().encode(request)))
    assert "responseMimeType" not in encoded["generationConfig"]
    assert len(encoded["tools"][0]["functionDeclarations"]) == 2
    assert encoded["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


# -- thinking and chance --------------------------------------------------------------------

THOUGHTS = {"includeThoughts": True}


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-2.0-flash", "high", None),
        ("gemini-2.5-pro", None, THOUGHTS),
        ("gemini-2.5-pro", "none", THOUGHTS | {"thinkingBudget": 512}),
        ("gemini-2.5-pro", "low", THOUGHTS | {"thinkingBudget": 4_096}),
        ("gemini-2.5-pro", "max", THOUGHTS | {"thinkingBudget": 32_768}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", "max", THOUGHTS | {"thinkingBudget": 24_576}),
        ("gemini-2.5-flash-lite", None, {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", "minimal", THOUGHTS | {"thinkingBudget": 512}),
        ("gemini-2.5-flash-image", "high", None),
        ("gemini-3-pro-preview", None, THOUGHTS | {"thinkingLevel": "high"}),
        ("gemini-3-pro-preview", "medium", THOUGHTS | {"thinkingLevel": "low"}),
        ("gemini-3.1-pro-preview", "medium", THOUGHTS | {"thinkingLevel": "medium"}),
        ("gemini-3-flash-preview", "none", THOUGHTS | {"thinkingLevel": "minimal"}),
        ("gemini-3.8-flash", None, THOUGHTS),
        ("gemini-3.8-flash", "minimal", THOUGHTS | {"thinkingLevel": "low"}),
        ("gemini-3.8-flash", "max", THOUGHTS | {"thinkingLevel": "high"}),
        ("gemini-flash-latest", "low", THOUGHTS | {"thinkingLevel": "low"}),
    ],
)
def test_how_much_to_think(model: str, effort: Effort | None, config: Any) -> None:
    options = ModelOptions(effort=effort)
    request = body(model=f"google/{model}", max_output=60_000, options=options)
    assert request["generationConfig"].get("thinkingConfig") == config


@pytest.mark.parametrize(("cap", "budget"), [(8_192, 7_168), (1_000, 512)])
def test_thinking_leaves_room_for_the_answer(cap: int, budget: int) -> None:
    request = body(max_output=cap, options=ModelOptions(effort="high"))
    assert request["generationConfig"]["thinkingConfig"]["thinkingBudget"] == budget


def test_sampling_parameters_where_they_apply() -> None:
    selected = ModelOptions(temperature=0.3)
    assert body(options=selected)["generationConfig"]["temperature"] == 0.3
    assert body(model=OLD, options=selected)["generationConfig"] == {"maxOutputTokens": 8_192, "temperature": 0.3}
    newest = body(model="google/gemini-3.8-flash", options=selected)["generationConfig"]
    assert not {"temperature", "topP", "topK"} & newest.keys()


# -- what the user says ------------------------------------------------------------------------


def test_media_of_the_user() -> None:
    wav, heic = FilePart(media_type="audio/wav", data="aGk="), ImagePart(media_type="image/heic", data="aGk=")
    (turn,) = turns(user_message("look", PNG, PDF, wav, heic))
    assert turn == (
        "user",
        [
            {"text": "look"},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
            {"inlineData": {"mimeType": "audio/wav", "data": "aGk="}},
            {"inlineData": {"mimeType": "image/heic", "data": "aGk="}},
        ],
    )
    ((_, (gif,)),) = turns(user_message(ImagePart(media_type="image/gif", data="aGk=")))
    assert "cannot read" in gif["text"]


def test_media_in_results_where_supported() -> None:
    shown: dict[str, Any] = {"images": (PNG,), "files": (PDF,)}
    *_, (role, parts) = turns(
        user_message("hi"), model_message(tool_call(), model=NEW), result(words="", **shown), model=NEW
    )
    assert (role, parts) == (
        "user",
        [
            {
                "functionResponse": {
                    "id": "c1",
                    "name": "read",
                    "response": {"output": ""},
                    "parts": [
                        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                        {"inlineData": {"mimeType": "application/pdf", "data": "JVBERg=="}},
                    ],
                }
            }
        ],
    )
    *_, (_, parts) = turns(user_message("hi"), model_message(tool_call()), result(words="", **shown))
    assert [next(iter(part)) for part in parts] == ["functionResponse", "text", "inlineData", "inlineData"]


@pytest.mark.parametrize(
    ("settlement", "response"),
    [
        ({"words": "done"}, {"output": "done"}),
        ({"words": ""}, {"output": "(no output)"}),
        ({"words": "exit 1", "failed": True}, {"output": "exit 1"}),
        ({"words": "no such file", "status": "error"}, {"error": "no such file"}),
        ({"words": "stopped", "status": "aborted"}, {"error": "stopped"}),
    ],
)
def test_results(settlement: dict[str, Any], response: dict[str, str]) -> None:
    *_, (_, (part,)) = turns(user_message("hi"), model_message(tool_call()), result(**settlement))
    assert part["functionResponse"]["response"] == response


# -- what the model said -------------------------------------------------------------------------


def test_signatures_go_back_onto_their_parts() -> None:
    sent = model_parts(
        signature("thought", "s0", "Hm."),
        signature("text", "s1", characters=5),
        "so it is, yes",
        signature("empty", "s2"),
        signature("item", "s3"),
        hosted('{"executableCode":{"code":"1"}}'),
        signature("call", "s4"),
        tool_call("c1"),
        tool_call("c2"),
        signature("last", "s5"),
    )
    assert sent == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "s0"},
        {"text": "so it", "thoughtSignature": "s1"},
        {"text": " is, yes"},
        {"text": "", "thoughtSignature": "s2"},
        {"executableCode": {"code": "1"}, "thoughtSignature": "s3"},
        {**call_of("c1"), "thoughtSignature": "s4"},
        {**call_of("c2"), "thoughtSignature": "s5"},
    ]


@pytest.mark.parametrize(
    ("parts", "sent"),
    [
        ((signature("call"), "but a text"), [{"text": "", "thoughtSignature": "sig"}, {"text": "but a text"}]),
        (("a", signature("text")), [{"text": "a"}, {"text": "", "thoughtSignature": "sig"}]),
        (
            (signature("item"), hosted("{"), "a"),
            [{"text": "", "thoughtSignature": "sig"}, {"text": "a"}],
        ),
        (
            (signature("text", "s1"), signature("text", "s2"), "a"),
            [{"text": "", "thoughtSignature": "s1"}, {"text": "a", "thoughtSignature": "s2"}],
        ),
        ((signature("text", characters=9), "a"), [{"text": "a", "thoughtSignature": "sig"}]),
        # Not ours, or not to be understood.
        ((signature("last"), signature("new kind"), "a"), [{"text": "a"}]),
        ((ReasoningPart(id=PartId("r"), text="hm", signature="opaque", model=MIDDLE), "a"), [{"text": "a"}]),
        ((ReasoningPart(id=PartId("r"), text="hm", model=MIDDLE), "a"), [{"text": "a"}]),
        ((signature("text", model="google/gemini-3.8-flash"), "a"), [{"text": "a"}]),
    ],
)
def test_signatures_of_removed_parts(parts: tuple[Any, ...], sent: list[Any]) -> None:
    assert model_parts(*parts) == sent


def test_gemini_3_step_is_signed_or_marked() -> None:
    """Only its first call counts; an older model's is none of its business."""
    unsigned = {**call_of("c1"), "thoughtSignature": UNSIGNED}
    assert model_parts(tool_call("c1"), tool_call("c2"), model=NEW) == [unsigned, call_of("c2")]
    own = signature("call", model=NEW)
    assert model_parts(own, tool_call("c1"), tool_call("c2"), model=NEW) == [
        {**call_of("c1"), "thoughtSignature": "sig"},
        call_of("c2"),
    ]
    assert model_parts(own, tool_call("c1"), model=NEW, reasoning_from=2) == [unsigned]
    assert model_parts(tool_call("c1")) == [call_of("c1")]


def test_another_hosts_work_is_not_sent() -> None:
    assert model_parts(hosted('{"type":"server_tool_use"}', model="anthropic/claude"), "a") == [{"text": "a"}]


def test_broken_arguments_are_none() -> None:
    (part,) = model_parts(tool_call(arguments='{"path": "a'))
    assert part["functionCall"]["args"] == {}


# -- Claude at Vertex ------------------------------------------------------------------------------


def test_claude_at_vertex_is_claude_without_its_name() -> None:
    request = request_of(model="vertex-anthropic/claude-sonnet-4-5@20250929", system="s", tools=(READ,))
    quirks = quirks_for(request.model)
    ours = json.loads(bytes(vertex_anthropic.encoder(quirks).encode(request)))
    theirs = json.loads(bytes(anthropic_encode.encoder(quirks).encode(request)))
    assert theirs.pop("model") == "claude-sonnet-4-5@20250929"
    assert ours == {"anthropic_version": "vertex-2023-10-16", **theirs}
    assert vertex_anthropic.wire(quirks).headers(request) == {}
    assert quirks.thinking_budget
