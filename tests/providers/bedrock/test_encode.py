from __future__ import annotations

import json
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.ids import PartId
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    Transcript,
)
from engine.providers.bedrock.encode import BedrockDialect, encoder
from engine.providers.bedrock.wire import wire
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.extra_body import merge_json, parse_extra_body
from engine.providers.wire.normalize_transcript import AssistantItem
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import Body
from tests.support import transcripts
from tests.support.transcripts import part, result, results, tool_call, user_message

MODEL = "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PNG = ImagePart(media_type="image/png", data="aGk=")
PDF = FilePart(media_type="application/pdf", data="JVBERg==", name="my_report  (v2).pdf")
model_message = partial(transcripts.model_message, model=MODEL)
READ = ToolSchema(name="read", description="Read a file.", schema='{"type": "object"}')
READ_SPEC = {"toolSpec": {"name": "read", "description": "Read a file.", "inputSchema": {"json": {"type": "object"}}}}
POINT = {"cachePoint": {"type": "default"}}


def quirks(model: str = MODEL, **changes: Any) -> Quirks:
    return attrs.evolve(quirks_of(BY_NAME["bedrock"], model.partition("/")[2]), **changes)


def thought(text: str = "hm", signature: str | None = "sig", **more: Any) -> ReasoningPart:
    return ReasoningPart(id=PartId("r"), text=text, signature=signature, **{"model": MODEL, **more})


def hosted(member: str, **fields: Any) -> ProviderPart:
    return ProviderPart(id=PartId("h"), kind=member, data=json.dumps({member: fields}), model=MODEL)


def request(*messages: Message, **more: Any) -> ModelRequest:
    options = more.pop("options", {"cache": "off"})
    fields: dict[str, Any] = {
        "model": MODEL,
        "system": "",
        "tools": (READ,),
        "options": ModelOptions(**options),
        **more,
    }
    return ModelRequest(transcript=Transcript(messages), **fields)


def body(*messages: Message, own: Quirks | None = None, **more: Any) -> dict[str, Any]:
    requested = request(*messages, **more)
    encoded: dict[str, Any] = json.loads(bytes(encoder(own or quirks(requested.model)).encode(requested)))
    assert validation_errors(encoded) == ""
    return encoded


def validation_errors(encoded: dict[str, Any]) -> str:
    """Return what AWS's own client finds wrong with a body, by the API's description in it."""
    shape = converse_request()
    if shape is None:
        return ""
    report = import_module("botocore.validate").ParamValidator().validate({"modelId": "m"} | encoded, shape)
    return str(report.generate_report())


@cache
def converse_request() -> Any:
    if find_spec("botocore") is None:
        return None
    session = import_module("botocore.session").Session()
    return session.get_service_model("bedrock-runtime").operation_model("ConverseStream").input_shape


def turns(*messages: Message, **more: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(message["role"], message["content"]) for message in body(*messages, **more)["messages"]]


# -- the request as a whole ----------------------------------------------------------


def test_a_whole_request() -> None:
    assert body(
        user_message("hi"), system="be brief", max_output=100, options={"cache": "off", "temperature": 0.5}
    ) == {
        "system": [{"text": "be brief"}],
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "toolConfig": {"tools": [READ_SPEC]},
        "inferenceConfig": {"maxTokens": 100, "temperature": 0.5},
    }


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("us.amazon.nova-micro-v1:0", "/model/us.amazon.nova-micro-v1%3A0/converse-stream"),
        (
            "arn:aws:bedrock:a:1:inference-profile/x",
            "/model/arn%3Aaws%3Abedrock%3Aa%3A1%3Ainference-profile%2Fx/converse-stream",
        ),
        ("us.meta.llama4-scout-17b-instruct-v1:0", "/model/us.meta.llama4-scout-17b-instruct-v1%3A0/converse"),
    ],
)
def test_where_it_goes(model: str, path: str) -> None:
    model = f"bedrock/{model}"
    assert wire(quirks(model)).path(request(user_message("hi"), model=model)) == path


def test_no_tool_members_without_tools() -> None:
    assert body(user_message("hi"), tools=(), system="  ", tool_choice="required").keys() == {
        "messages",
        "inferenceConfig",
    }


def test_a_tool_without_a_description() -> None:
    bare = ToolSchema(name="go", description=" ", schema='{"type": "object"}')
    (tool,) = body(user_message("hi"), tools=(bare,))["toolConfig"]["tools"]
    assert tool == {"toolSpec": {"name": "go", "inputSchema": {"json": {"type": "object"}}}}


def test_calls_without_tools_need_one_all_the_same() -> None:
    encoded = body(
        user_message("hi"), model_message(tool_call("c")), results(result("c")), tools=(), tool_choice="required"
    )
    (tool,) = encoded["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "unavailable"
    assert "toolChoice" not in encoded["toolConfig"]


def test_a_call_can_be_demanded_but_not_forbidden() -> None:
    assert body(user_message("hi"), tool_choice="required")["toolConfig"]["toolChoice"] == {"any": {}}
    assert "toolChoice" not in body(user_message("hi"), tool_choice="none")["toolConfig"]
    llama = "bedrock/us.meta.llama4-scout-17b-instruct-v1:0"
    assert "toolChoice" not in body(user_message("hi"), tool_choice="required", model=llama)["toolConfig"]


@pytest.mark.parametrize("schema", ["{", "[]", "null", "{}"])
def test_a_bad_schema_is_named(schema: str) -> None:
    with pytest.raises(ConfigError, match="'grep'"):
        body(user_message("hi"), tools=(ToolSchema(name="grep", description="", schema=schema),))


def test_a_schema_of_the_answer() -> None:
    form = body(user_message("hi"), output_schema='{"type": "object"}')["outputConfig"]["textFormat"]
    assert form == {
        "type": "json_schema",
        "structure": {"jsonSchema": {"name": "answer", "schema": '{"type":"object"}'}},
    }


def test_other_members_of_the_configuration() -> None:
    own = quirks(extra_body='{"guardrailConfig": {"guardrailIdentifier": "g"}}')
    assert body(user_message("hi"), own=own)["guardrailConfig"] == {"guardrailIdentifier": "g"}


def test_default_parameters_of_a_model() -> None:
    model = "bedrock/minimax.minimax-m2"
    config = body(user_message("hi"), model=model, max_output=9)["inferenceConfig"]
    assert config == {"maxTokens": 9, "temperature": 1.0, "topP": 0.95}
    selected = body(user_message("hi"), model=model, max_output=9, options={"temperature": 1.7})["inferenceConfig"]
    assert selected["temperature"] == 1.0


# -- thinking ---------------------------------------------------------------------------


def thinking(model: str, effort: Effort | None, **more: Any) -> tuple[Any, Any, Any]:
    fields: dict[str, Any] = {
        "model": f"bedrock/{model}",
        "max_output": 60_000,
        "options": {"effort": effort, "temperature": 0.5, "cache": "off"},
        **more,
    }
    encoded = body(user_message("hi"), **fields)
    return encoded.get("additionalModelRequestFields"), encoded.get("outputConfig"), encoded["inferenceConfig"]


def test_a_budget_for_thinking() -> None:
    sonnet = MODEL.partition("/")[2]
    fields, output, config = thinking(sonnet, "high")
    assert fields == {"thinking": {"type": "enabled", "budget_tokens": 24_576}}
    assert (output, config) == (None, {"maxTokens": 60_000})
    assert thinking(sonnet, "high", max_output=5_000)[0] == {"thinking": {"type": "enabled", "budget_tokens": 3_976}}
    for quiet in (thinking(sonnet, "none"), thinking(sonnet, None), thinking(sonnet, "high", max_output=2_000)):
        assert (quiet[0], quiet[2]["temperature"]) == (None, 0.5)
    assert thinking(sonnet, "high", tool_choice="required")[0] is None


def test_a_model_that_chooses_how_much_it_thinks() -> None:
    fields, output, config = thinking("global.anthropic.claude-opus-4-8", "minimal")
    assert (fields, output) == ({"thinking": {"type": "adaptive", "display": "summarized"}}, {"effort": "low"})
    assert config == {"maxTokens": 60_000}


def test_nova_and_gpt_oss_options() -> None:
    nova = "us.amazon.nova-2-lite-v1:0"
    assert thinking(nova, "low") == (
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}},
        None,
        {"maxTokens": 60_000, "temperature": 0.5},
    )
    assert thinking(nova, "max")[2] == {}  # no limits are taken with the highest
    assert thinking("openai.gpt-oss-120b-1:0", "xhigh")[0] == {"reasoning_effort": "high"}
    assert thinking("us.amazon.nova-micro-v1:0", "high")[0] is None


def test_no_budget_after_a_start_without_reasoning() -> None:
    options = {"effort": "low", "cache": "off"}
    unthought = body(
        user_message("a"), model_message("b", tool_call("c")), results(result("c")), options=options, max_output=60_000
    )
    assert "additionalModelRequestFields" not in unthought
    thought_of = body(
        user_message("a"),
        model_message(thought(), tool_call("c")),
        results(result("c")),
        options=options,
        max_output=60_000,
    )
    assert "additionalModelRequestFields" in thought_of


def reasoning_sent(part: ReasoningPart, **more: Any) -> list[dict[str, Any]]:
    blocks = turns(user_message("a"), model_message(part, "b"), user_message("c"), **more)[1][1]
    assert blocks[-1] == {"text": "b"}
    return blocks[:-1]


def test_signed_reasoning_returns_to_its_model() -> None:
    signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}
    assert reasoning_sent(thought()) == [signed]
    assert reasoning_sent(thought("")) == [{"reasoningContent": {"reasoningText": {"text": "", "signature": "sig"}}}]
    assert reasoning_sent(thought("", None, redacted="eA==")) == [{"reasoningContent": {"redactedContent": "eA=="}}]


def test_foreign_reasoning_is_dropped() -> None:
    assert reasoning_sent(thought(signature=None)) == []
    assert reasoning_sent(thought(), reasoning_from=2) == []
    assert reasoning_sent(thought(model="anthropic/claude")) == [{"text": "hm"}]


def test_blank_text_between_reasoning_is_dropped() -> None:
    # Elsewhere a space keeps their places; Bedrock refuses a text without a visible letter.
    own = quirks(space_between_reasoning=True)
    blocks = turns(user_message("a"), model_message(thought(), "", thought(), "b"), user_message("c"), own=own)[1][1]
    assert [next(iter(block)) for block in blocks] == ["reasoningContent", "reasoningContent", "text"]


def test_reasoning_is_never_last_or_alone() -> None:
    assert turns(user_message("a"), model_message("b", thought()), user_message("c"))[1] == (
        "assistant",
        [{"text": "b"}],
    )
    assert turns(user_message("a"), model_message(thought()), user_message("c")) == [
        ("user", [{"text": "a"}, {"text": "c"}])
    ]


# -- turns ---------------------------------------------------------------------------


def test_users_in_a_row_are_one_turn() -> None:
    image = {"image": {"format": "png", "source": {"bytes": "aGk="}}}
    assert turns(user_message("a"), user_message("b", PNG)) == [("user", [{"text": "a"}, {"text": "b"}, image])]


def test_results_precede_user_text_in_call_order() -> None:
    messages = turns(
        user_message("go"),
        model_message("on it", tool_call("c1"), tool_call("c2")),
        results(result("c2", "two", status="error"), result("c1", "", images=(PNG,))),
        user_message("and?"),
    )
    use = {"name": "read", "input": {"path": "a"}}
    assert messages[1:] == [
        (
            "assistant",
            [{"text": "on it"}, {"toolUse": {"toolUseId": "c1", **use}}, {"toolUse": {"toolUseId": "c2", **use}}],
        ),
        (
            "user",
            [
                {
                    "toolResult": {
                        "toolUseId": "c1",
                        "content": [{"image": {"format": "png", "source": {"bytes": "aGk="}}}],
                    }
                },
                {"toolResult": {"toolUseId": "c2", "content": [{"text": "two"}], "status": "error"}},
                {"text": "and?"},
            ],
        ),
    ]


def test_an_empty_result_is_not_empty() -> None:
    (block,) = turns(user_message("go"), model_message(tool_call("c")), results(result("c", " \n")))[2][1]
    assert block["toolResult"]["content"] == [{"text": "(no output)"}]


def test_a_filler_between_results_and_text() -> None:
    messages = turns(
        user_message("go"),
        model_message("x", tool_call("c")),
        results(result("c")),
        user_message("and?"),
        model="bedrock/us.amazon.nova-pro-v1:0",
    )
    assert [role for role, _ in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[3:] == [("assistant", [{"text": "Noted."}]), ("user", [{"text": "and?"}])]


def test_nothing_is_inserted_after_an_answer() -> None:
    messages = turns(
        user_message("go"),
        model_message(tool_call("c")),
        results(result("c")),
        model_message("so"),
        user_message("and?"),
        model="bedrock/us.amazon.nova-pro-v1:0",
    )
    assert messages[3:] == [("assistant", [{"text": "so"}]), ("user", [{"text": "and?"}])]


def test_text_with_calls_is_dropped_where_refused() -> None:
    model = "bedrock/us.meta.llama3-3-70b-instruct-v1:0"
    messages = turns(user_message("go"), model_message("x", tool_call("c")), results(result("c")), model=model)
    assert [[next(iter(block)) for block in blocks] for _, blocks in messages] == [
        ["text"],
        ["toolUse"],
        ["toolResult"],
    ]
    assert turns(user_message("go"), model_message("x"), user_message("y"), model=model)[1] == (
        "assistant",
        [{"text": "x"}],
    )


# -- media ------------------------------------------------------------------------------


def test_documents_get_unique_safe_names() -> None:
    other = FilePart(media_type="application/pdf", data="JVBERg==", name="../é")
    first, second = (
        turns(user_message("see", PDF, other), model_message("ok"), user_message(PDF))[0][1][1:],
        turns(user_message(PDF))[0][1],
    )
    assert [block["document"]["name"] for block in first] == ["my report (v2) pdf 1", "document 2"]
    assert first[0]["document"] == {
        "format": "pdf",
        "name": "my report (v2) pdf 1",
        "source": {"bytes": "JVBERg=="},
    }
    assert second == [{"text": "(See the document.)"}, {"document": first[0]["document"]}]
    third = turns(user_message("see", PDF, other), model_message("ok"), user_message(PDF))[2][1][1]
    assert third["document"]["name"] == "my report (v2) pdf 3"


def test_documents_in_results_are_counted_with_the_others() -> None:
    own = quirks(result_media=frozenset({"pdf"}))
    messages = turns(
        user_message("a", PDF),
        model_message(tool_call("c")),
        results(result("c", files=(PDF,))),
        user_message("b", PDF),
        own=own,
    )
    (given, text, last) = messages[2][1]
    assert given["toolResult"]["content"][1]["document"]["name"].endswith(" 2")
    assert (text, last["document"]["name"][-2:]) == ({"text": "b"}, " 3")


def test_a_video() -> None:
    film = FilePart(media_type="video/quicktime", data="AAAA")
    blocks = turns(user_message("see", film), model="bedrock/us.amazon.nova-pro-v1:0")[0][1]
    assert blocks[1] == {"video": {"format": "mov", "source": {"bytes": "AAAA"}}}


# -- hosted tools ------------------------------------------------------------------------

USE = hosted("toolUse", toolUseId="s", name="nova_grounding", input={}, type="server_tool_use")
SEARCH_RESULT = hosted("toolResult", toolUseId="s", content=[{"text": "[HIDDEN]"}], type="nova_grounding_result")


def sent_back(*parts: ProviderPart) -> list[dict[str, Any]]:
    blocks = turns(user_message("a"), model_message(*parts, "b"), user_message("c"))[1][1]
    assert blocks[-1] == {"text": "b"}
    return blocks[:-1]


def test_a_hosted_tool_s_work_goes_back_unchanged() -> None:
    assert sent_back(USE, SEARCH_RESULT) == [json.loads(USE.data), json.loads(SEARCH_RESULT.data)]


def test_half_of_hosted_work_is_dropped() -> None:
    broken = ProviderPart(id=PartId("h"), kind="x", data="{", model=MODEL)
    assert sent_back(USE) == sent_back(SEARCH_RESULT) == sent_back(broken) == []
    assert sent_back(hosted("image", format="png", source={"bytes": "YQ=="})) == []


# -- cache points ---------------------------------------------------------------------------


def marked(*messages: Message, cache: CacheLifetime | None = None, **more: Any) -> dict[str, Any]:
    return body(*messages, system="be brief", options={"cache": cache}, **more)


def test_cache_points() -> None:
    encoded = marked(user_message("a"), model_message(tool_call("c")), results(result("c")))
    assert encoded["toolConfig"]["tools"] == [READ_SPEC, POINT]
    assert encoded["system"] == [{"text": "be brief"}, POINT]
    ends = [message["content"][-1] == POINT for message in encoded["messages"]]
    assert ends == [True, False, True]


def test_their_life() -> None:
    hour = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert marked(user_message("a"), cache="1h")["system"][1] == hour
    assert marked(user_message("a"), cache="1h")["messages"][0]["content"][1] == hour
    assert marked(user_message("a"), cache="5m")["system"][1] == POINT
    assert marked(user_message("a"), cache="off")["system"] == [{"text": "be brief"}]
    short = "bedrock/us.anthropic.claude-3-7-sonnet-20250219-v1:0"
    assert marked(user_message("a"), cache="1h", model=short)["system"][1] == POINT


def test_no_cache_point_after_document_or_reasoning() -> None:
    assert [next(iter(block)) for block in marked(user_message("a", PDF))["messages"][0]["content"]] == [
        "text",
        "cachePoint",
        "document",
    ]
    dialect = BedrockDialect(quirks())
    _, chunks = dialect.add(dialect.start(), AssistantItem((thought(), part("b"), tool_call("c"))))
    assert [chunk.can_be_marked for chunk in chunks] == [False, True, True]


@pytest.mark.parametrize(
    ("model", "where"),
    [
        ("us.amazon.nova-pro-v1:0", {"system", "messages"}),
        ("us.meta.llama4-scout-17b-instruct-v1:0", set[str]()),
        ("anthropic.claude-3-haiku-20240307-v1:0", set[str]()),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x", set[str]()),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", {"system", "messages", "toolConfig"}),
    ],
)
def test_which_models_take_them_where(model: str, where: set[str]) -> None:
    encoded = marked(user_message("a"), model=f"bedrock/{model}")
    assert {name for name in encoded if "cachePoint" in json.dumps(encoded[name])} == where


# -- step by step -----------------------------------------------------------------------------


def test_request_continues_the_one_before() -> None:
    encoding = encoder(quirks())
    before = request(user_message("a"), session_id="s", system="be brief", tool_choice="none")
    grown = before.transcript.append(model_message(tool_call("c")), results(result("c")))
    first, second = (
        encoding.encode(before),
        encoding.encode(attrs.evolve(before, transcript=grown, tool_choice="required")),
    )
    start = bytes(first).partition(b"]}]")[0]
    assert start in bytes(second)
    assert bytes(second).startswith(start)
    assert second.broken_at == ""


@pytest.mark.parametrize(
    ("changes", "broken_at"),
    [
        ({}, ""),
        ({"tool_choice": "required"}, ""),
        ({"max_output": 7}, ""),
        ({"system": "be long"}, "system"),
        ({"tools": (attrs.evolve(READ, description="Other."),)}, "tool read"),
        ({"tools": ()}, "tool read"),
    ],
)
def test_a_broken_prefix_is_reported(changes: dict[str, Any], broken_at: str) -> None:
    encoding = encoder(quirks())
    first = request(user_message("a"), session_id="s", system="be brief")
    bodies: list[Body] = [encoding.encode(first), encoding.encode(attrs.evolve(first, **changes))]
    assert [each.broken_at for each in bodies] == ["", broken_at]


@pytest.mark.parametrize("member", ["messages", "system", "toolConfig", "outputConfig"])
def test_extra_body_cannot_replace_the_messages(member: str) -> None:
    with pytest.raises(ConfigError, match="extra_body"):
        parse_extra_body(Quirks(extra_body=json.dumps({member: 1})), "messages", "system", "toolConfig", "outputConfig")
    assert merge_json({"a": {"b": 1}}, parse_extra_body(Quirks(extra_body='{"a": {"c": 2}}'), member)) == {
        "a": {"b": 1, "c": 2}
    }
