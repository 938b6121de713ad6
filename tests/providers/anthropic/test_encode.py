from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from engine.core.errors import ConfigError
from engine.core.ids import PartId
from engine.core.llm_types import CacheLifetime, Effort, ModelOptions, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    Transcript,
    UserPart,
)
from engine.providers.anthropic.encode import encoder
from engine.providers.anthropic.wire import wire
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks
from tests.support import transcripts
from tests.support.transcripts import result, results, tool_call, user_message

MODEL = "anthropic/claude-sonnet-4-5"
NEWER = "anthropic/claude-opus-4-6"
PNG = ImagePart(media_type="image/png", data="aGk=")
PDF = FilePart(media_type="application/pdf", data="JVBERg==", name="plan.pdf")
MARK = {"type": "ephemeral"}
model_message = partial(transcripts.model_message, model=MODEL)
READ = ToolSchema(name="read", description="Read a file.", schema='{"type": "object"}')


def thought(text: str = "hm", signature: str | None = "sig", **more: Any) -> ReasoningPart:
    return ReasoningPart(id=PartId("r"), text=text, signature=signature, **{"model": MODEL, **more})


def hosted(kind: str, model: str = MODEL, **fields: Any) -> ProviderPart:
    return ProviderPart(id=PartId("h"), kind=kind, data=json.dumps({"type": kind, **fields}), model=model)


def request_of(*messages: Message, **more: Any) -> ModelRequest:
    fields: dict[str, Any] = {"model": MODEL, "system": "", "tools": (READ,), **more}
    return ModelRequest(transcript=Transcript(messages), **fields)


def quirks_for(model: str) -> Quirks:
    host, _, name = model.partition("/")
    return quirks_of(BY_NAME[host], name)


def encode(request: ModelRequest) -> bytes:
    return bytes(encoder(quirks_for(request.model)).encode(request))


def body(*messages: Message, **more: Any) -> dict[str, Any]:
    encoded: dict[str, Any] = json.loads(encode(request_of(*messages, **more)))
    return encoded


def turns(*messages: Message, **more: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the turns, without the cache markers, which have tests of their own."""
    encoded = without_marks(body(*messages, **more))
    return [(message["role"], message["content"]) for message in encoded["messages"]]


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_marks(each) for name, each in value.items() if name != "cache_control"}
    return [without_marks(each) for each in value] if isinstance(value, list) else value


def text_of(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def marked_text(text: str, **mark: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {**MARK, **mark}}


# -- the request as a whole ----------------------------------------------------------


def test_a_whole_request() -> None:
    assert body(user_message("hi"), system="be brief", max_output=100) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "stream": True,
        "system": [marked_text("be brief")],
        "tools": [
            {
                "name": "read",
                "description": "Read a file.",
                "input_schema": {"type": "object"},
                "cache_control": MARK,
            }
        ],
        "tool_choice": {"type": "auto"},
        "messages": [{"role": "user", "content": [marked_text("hi")]}],
    }


def test_varying_content_comes_last() -> None:
    first = encode(request_of(user_message("hi"), system="be brief", max_output=1, tool_choice="none"))
    second = encode(request_of(user_message("hi"), system="be brief", max_output=2))
    assert first.partition(b'"messages":')[0] == second.partition(b'"messages":')[0]
    assert list(json.loads(first)) == ["model", "stream", "tools", "system", "messages", "max_tokens", "tool_choice"]


@pytest.mark.parametrize(("choice", "wire"), [("auto", "auto"), ("none", "none"), ("required", "any")])
def test_tool_choice(choice: ToolChoice, wire: str) -> None:
    encoded = body(user_message("hi"), tool_choice=choice)
    assert encoded["tool_choice"] == {"type": wire}
    assert [tool["name"] for tool in encoded["tools"]] == ["read"]


def test_no_tool_members_without_tools() -> None:
    assert body(user_message("hi"), tools=(), system="  ").keys() == {"model", "max_tokens", "stream", "messages"}


def test_a_placeholder_tool_for_old_calls() -> None:
    encoded = body(
        user_message("hi"), model_message(tool_call("c1")), results(result("c1")), tools=(), tool_choice="required"
    )
    assert encoded["tools"] == [
        {"name": "unavailable", "description": "Not offered.", "input_schema": {"type": "object"}}
    ]
    assert encoded["tool_choice"] == {"type": "none"}


def test_an_output_schema() -> None:
    encoded = body(user_message("hi"), output_schema='{"type": "object"}')
    assert encoded["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "object"}}}


@pytest.mark.parametrize("schema", ["{", "[]", "null", "{}"])
def test_a_bad_schema_is_named(schema: str) -> None:
    with pytest.raises(ConfigError, match="'grep'"):
        body(user_message("hi"), tools=(ToolSchema(name="grep", description="", schema=schema),))


def test_half_a_character_is_replaced() -> None:
    assert turns(user_message("a\ud800b")) == [("user", [text_of("a\ufffdb")])]
    assert turns(user_message("\ud83d\ude00")) == [("user", [text_of("😀")])]
    halves = tool_call("c", '{"\\ud800": "\\ud83d\\ude00 \udc00"}')
    call = turns(user_message("go"), model_message(halves), results(result("c")))[1][1][0]
    assert call["input"] == {"\ufffd": "😀 \ufffd"}


# -- how the model is to work --------------------------------------------------------


def how(model: str = MODEL, *, tool_choice: ToolChoice = "auto", max_output: int = 60_000, **options: Any) -> Any:
    """Return what the request says of thinking, effort, chance and calls."""
    encoded = body(
        user_message("hi"), model=model, tool_choice=tool_choice, max_output=max_output, options=ModelOptions(**options)
    )
    return {name: encoded[name] for name in ("thinking", "output_config", "temperature") if name in encoded}


@pytest.mark.parametrize(
    ("effort", "budget"),
    [("minimal", 1_024), ("low", 4_096), ("medium", 10_240), ("high", 24_576), ("xhigh", 32_768), ("max", 49_152)],
)
def test_effort_is_a_token_budget(effort: Effort, budget: int) -> None:
    assert how(effort=effort) == {"thinking": {"type": "enabled", "budget_tokens": budget}}


@pytest.mark.parametrize(("cap", "budget"), [(8_192, 7_168), (2_048, 1_024)])
def test_the_budget_leaves_room_for_the_answer(cap: int, budget: int) -> None:
    assert how(effort="high", max_output=cap) == {"thinking": {"type": "enabled", "budget_tokens": budget}}
    assert how(effort="high", max_output=2_047) == {}


def test_newer_models_choose_how_much_they_think() -> None:
    adaptive = {"type": "adaptive"}
    assert how(NEWER, effort="medium") == {"thinking": adaptive, "output_config": {"effort": "medium"}}
    assert how(NEWER, effort="minimal") == {"thinking": adaptive, "output_config": {"effort": "low"}}
    assert how(NEWER, effort="medium", max_output=1) == {"thinking": adaptive, "output_config": {"effort": "medium"}}


@pytest.mark.parametrize("model", [MODEL, NEWER])
@pytest.mark.parametrize("effort", [None, "none"])
def test_missing_effort_is_omitted(model: str, effort: Effort | None) -> None:
    assert how(model, effort=effort) == {}


def test_no_effort_for_a_model_without_reasoning() -> None:
    assert how("anthropic/claude-3-5-haiku-latest", effort="high") == {}


def test_a_call_that_is_demanded_goes_before_thinking() -> None:
    assert "thinking" not in how(effort="high", tool_choice="required")
    assert "thinking" not in how(NEWER, effort="high", tool_choice="required")


def test_temperature() -> None:
    assert how(temperature=0.5) == {"temperature": 0.5}
    assert how(temperature=1.7) == {"temperature": 1.0}
    assert how(temperature=0.5, effort="none") == {"temperature": 0.5}
    assert "temperature" not in how(temperature=0.5, effort="high")
    no_chance = encoder(Quirks(temperature=False)).encode(
        request_of(user_message("hi"), options=ModelOptions(temperature=0.5))
    )
    assert "temperature" not in json.loads(bytes(no_chance))


def test_default_parameters_of_a_model() -> None:
    quirks = Quirks(default_temperature=0.9, default_top_p=0.95, default_top_k=40)
    hot = request_of(user_message("hi"), options=ModelOptions(temperature=0.1))
    for request, temperature in ((request_of(user_message("hi")), 0.9), (hot, 0.1)):
        encoded = json.loads(bytes(encoder(quirks).encode(request)))
        assert (encoded["temperature"], encoded["top_p"], encoded["top_k"]) == (temperature, 0.95, 40)


def how_claude(name: str, *, tool_choice: ToolChoice = "auto", **options: Any) -> tuple[Any, Any, Any]:
    """Return thinking, effort and tool choice in a request to that Claude."""
    host = BY_NAME["anthropic"]
    asked = request_of(user_message("hi"), tool_choice=tool_choice, max_output=60_000, options=ModelOptions(**options))
    encoded = json.loads(bytes(encoder(quirks_of(host, name)).encode(asked)))
    return encoded.get("thinking"), encoded.get("output_config", {}).get("effort"), encoded["tool_choice"]["type"]


SHOWN = {"type": "adaptive", "display": "summarized"}
BOUND = {**SHOWN, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


@pytest.mark.parametrize(
    ("name", "unasked", "asked", "off", "off_effort", "forced"),
    [
        ("claude-opus-4-6", None, {"type": "adaptive"}, None, None, "any"),
        ("claude-opus-4-7", None, SHOWN, None, None, "any"),
        ("claude-opus-4-8", None, SHOWN, None, None, "any"),
        ("claude-opus-5", SHOWN, SHOWN, {"type": "disabled"}, None, "any"),
        ("claude-sonnet-5", SHOWN, SHOWN, {"type": "disabled"}, None, "any"),
        ("claude-fable-5", SHOWN, SHOWN, SHOWN, "low", "any"),
        ("claude-mythos-preview", SHOWN, SHOWN, SHOWN, "low", "auto"),
        ("claude-fable-5-1", BOUND, BOUND, BOUND, "low", "auto"),
        ("claude-mythos-5-1", SHOWN, SHOWN, SHOWN, "low", "auto"),
        ("claude-opus-5-5", BOUND, BOUND, BOUND, "low", "auto"),
        ("claude-sonnet-5-5", BOUND, BOUND, {"type": "between_tools"}, None, "auto"),
        ("claude-haiku-5-5", BOUND, BOUND, {"type": "disabled"}, None, "any"),
        ("claude-opus-5-20260401", SHOWN, SHOWN, {"type": "disabled"}, None, "any"),
    ],
)
def test_thinking_of_each_claude(
    name: str, unasked: Any, asked: Any, off: Any, off_effort: str | None, forced: str
) -> None:
    assert how_claude(name) == (unasked, None, "auto")
    assert how_claude(name, effort="high") == (asked, "high", "auto")
    assert how_claude(name, effort="none") == (off, off_effort, "auto")
    assert how_claude(name, tool_choice="required")[2] == forced


def test_bound_thinking_needs_a_beta() -> None:
    host = BY_NAME["anthropic"]
    headers = wire(quirks_of(host, "claude-opus-5-5")).headers(request_of(user_message("hi")))
    assert headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert "anthropic-beta" not in wire(quirks_of(host, "claude-opus-5")).headers(request_of(user_message("hi")))


SIGNED = ReasoningPart(id=PartId("r"), text="hm", signature="sig", model=MODEL)
EXCHANGE: list[Message] = [user_message("go"), model_message(SIGNED, tool_call("c")), results(result("c"))]


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        (tuple(EXCHANGE), True),
        ((user_message("go"), model_message("first", SIGNED, tool_call("c")), results(result("c"))), False),
        ((user_message("go"), model_message(tool_call("c")), results(result("c"))), False),
        ((user_message("go"), model_message(tool_call("c")), results(result("c")), user_message("and?")), False),
        ((user_message("go"), model_message(tool_call("c"))), False),
        (
            (
                user_message("go"),
                model_message(tool_call("c")),
                results(result("c")),
                model_message("so"),
                user_message("and?"),
            ),
            True,
        ),
        ((user_message("go"), model_message("so"), user_message("and?")), True),
        ((user_message("go"), model_message("let me", finish="pause")), False),
        ((user_message("go"), model_message(SIGNED, "let me", finish="pause")), True),
    ],
)
def test_a_turn_without_thinking_continues_without(messages: tuple[Message, ...], thinks: bool) -> None:
    """Otherwise the host refuses the request: it wants the turn to begin with a thought."""
    encoded = body(*messages, max_output=60_000, options=ModelOptions(effort="low"))
    assert ("thinking" in encoded) == thinks
    adaptive = body(*messages, model=NEWER, options=ModelOptions(effort="low"))
    assert "thinking" in adaptive


def thinking_kinds(encoded: Any) -> list[list[str]]:
    return [
        [block["type"] for block in message["content"]]
        for message in encoded["messages"]
        if message["role"] == "assistant"
    ]


@pytest.mark.parametrize("effort", ["low", "none", None])
@pytest.mark.parametrize("tool_choice", ["auto", "required"])
def test_a_turn_keeps_its_thinking(effort: Effort | None, tool_choice: ToolChoice) -> None:
    """Half with thinking and half without is refused."""
    more: list[Message] = [model_message(tool_call("d")), results(result("d"))]
    encoded = body(*EXCHANGE, *more, max_output=1_500, tool_choice=tool_choice, options=ModelOptions(effort=effort))
    assert encoded["thinking"]["type"] == "enabled"
    assert encoded["max_tokens"] > encoded["thinking"]["budget_tokens"] >= 1_024
    assert encoded["tool_choice"]["type"] == "auto"


def test_a_turn_without_thinking_stays_without() -> None:
    turn: list[Message] = [user_message("go"), model_message(tool_call("c")), results(result("c"))]
    more: list[Message] = [model_message(SIGNED, tool_call("d")), results(result("d"))]
    encoded = body(*turn, *more, max_output=60_000, options=ModelOptions(effort="high"))
    assert "thinking" not in encoded
    assert thinking_kinds(encoded) == [["tool_use"], ["tool_use"]]
    over = body(*turn, *more, model_message("so"), user_message("and?"), options=ModelOptions(effort="high"))
    assert over["thinking"]["type"] == "enabled"


def test_thinking_is_off_after_rejected_reasoning() -> None:
    options = ModelOptions(effort="low")
    assert "thinking" in body(*EXCHANGE, max_output=60_000, options=options)
    assert "thinking" not in body(*EXCHANGE, max_output=60_000, options=options, reasoning_from=3)
    after = [*EXCHANGE, model_message("so"), user_message("and?")]
    assert "thinking" in body(*after, max_output=60_000, options=options, reasoning_from=3)


SEARCHING = {"type": "web_search_20250305", "name": "web_search"}


def test_extra_fields_of_a_host() -> None:
    extra = {
        "speed": "fast",
        "max_tokens": 7,
        "output_config": {"effort": "high"},
        "tools": [SEARCHING, SEARCHING],
        "thinking": {"type": "adaptive"},
    }
    quirks = Quirks(extra_body=json.dumps(extra), marks="anthropic")
    request = request_of(user_message("hi"), output_schema='{"type": "object"}')
    encoded = json.loads(bytes(encoder(quirks).encode(request)))
    assert (encoded["speed"], encoded["max_tokens"], encoded["thinking"]) == ("fast", 7, {"type": "adaptive"})
    assert encoded["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}},
        "effort": "high",
    }
    assert without_marks(encoded["tools"][0])["name"] == "read"
    assert encoded["tools"][1:] == [SEARCHING, {**SEARCHING, "cache_control": MARK}]
    assert list(json.loads(bytes(encoder(quirks).encode(request_of(user_message("hi"), tools=())))))[:5] == [
        "model",
        "stream",
        "speed",
        "output_config",
        "tools",
    ]
    assert encoded["tool_choice"] == {"type": "auto"}


@pytest.mark.parametrize("extra", ["{", "[]", '{"messages": []}'])
def test_an_invalid_extra_body_is_refused(extra: str) -> None:
    with pytest.raises(ConfigError, match="extra_body"):
        encoder(Quirks(extra_body=extra))


def test_a_schema_without_native_support_is_not_sent() -> None:
    request = request_of(user_message("hi"), output_schema='{"type": "object"}')
    assert "output_config" not in json.loads(bytes(encoder(Quirks(output="tool")).encode(request)))


# -- turns ---------------------------------------------------------------------------


def test_users_in_a_row_are_one_turn() -> None:
    assert turns(user_message("a"), user_message("b", PNG)) == [
        (
            "user",
            [
                text_of("a"),
                text_of("b"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            ],
        )
    ]


def test_results_come_first_and_in_call_order() -> None:
    messages = turns(
        user_message("go"),
        model_message("on it", tool_call("c1"), tool_call("c2")),
        results(result("c2", "two"), result("c1", "one")),
        user_message("and?"),
    )
    assert messages[1] == (
        "assistant",
        [
            text_of("on it"),
            {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
            {"type": "tool_use", "id": "c2", "name": "read", "input": {"path": "a"}},
        ],
    )
    assert messages[2] == (
        "user",
        [
            {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "two"},
            text_of("and?"),
        ],
    )


@pytest.mark.parametrize("status", ["error", "denied", "aborted"])
def test_incomplete_call_is_an_error(status: str) -> None:
    (block,) = turns(user_message("go"), model_message(tool_call("c")), results(result("c", "why", status=status)))[2][
        1
    ]
    assert block == {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "why"}


IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
PDF_BLOCK = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
    "title": "plan.pdf",
}


def test_pdfs_and_images_of_the_user() -> None:
    unnamed = FilePart(media_type="application/pdf", data="JVBERg==")
    assert turns(user_message("see", PNG, PDF, unnamed)) == [
        ("user", [text_of("see"), IMAGE_BLOCK, PDF_BLOCK, {k: v for k, v in PDF_BLOCK.items() if k != "title"}])
    ]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (ImagePart(media_type="image/bmp", data="aGk="), "image has the type image/bmp"),
        (ImagePart(media_type="image/png", data=""), "This image is empty"),
        (FilePart(media_type="audio/wav", data="aGk=", name="talk.wav"), "'talk.wav' has the type audio/wav"),
        (FilePart(media_type="application/zip", data="aGk="), "file has the type application/zip"),
    ],
)
def test_unsupported_media_become_a_sentence(part: UserPart, words: str) -> None:
    ((_, (block,)),) = turns(user_message(part))
    assert block["type"] == "text"
    assert words in block["text"]
    assert "Tell the user." in block["text"]


def test_media_in_results() -> None:
    shown = result("c", "", images=(PNG,), files=(PDF,))
    (block,) = turns(user_message("go"), model_message(tool_call("c")), results(shown))[2][1]
    assert block["content"] == [IMAGE_BLOCK, PDF_BLOCK]
    shown = result("c", "told", images=(PNG,))
    (block,) = turns(user_message("go"), model_message(tool_call("c")), results(shown))[2][1]
    assert block["content"] == [text_of("told"), IMAGE_BLOCK]


def test_media_that_results_cannot_hold_follow() -> None:
    bmp = ImagePart(media_type="image/bmp", data="aGk=")
    block, intro, reported = turns(
        user_message("go"), model_message(tool_call("c")), results(result("c", "", images=(PNG, bmp)))
    )[2][1]
    first, second = block["content"]
    assert (first, second) == (text_of("(the media of read follow in the next message)"), IMAGE_BLOCK)
    assert intro == text_of("Media of read:")
    assert "image/bmp" in reported["text"]


def test_an_empty_result_is_not_empty() -> None:
    (block,) = turns(user_message("go"), model_message(tool_call("c")), results(result("c", " \n")))[2][1]
    assert block["content"] == "(no output)"


@pytest.mark.parametrize(
    "call",
    [
        tool_call("c", '{"path": "a', complete=False),
        tool_call("c", '{"path": "a', complete=True),
        tool_call("c", '{"path": "a"}', complete=False),
        tool_call("c", ""),
        tool_call("c", "[1]"),
        tool_call("c", '{"n": NaN}'),
        tool_call("c", '{"n": 1e999}'),
        tool_call("c", '{"n": ' + "[" * 100_000),
    ],
)
def test_non_object_arguments_become_empty(call: CallPart) -> None:
    assert turns(user_message("go"), model_message(call), results(result("c")))[1][1][0]["input"] == {}


def test_call_without_a_result_gets_one() -> None:
    messages = turns(
        user_message("go"),
        model_message(tool_call("c1"), tool_call("c2")),
        results(result("c2"), result("other")),
        user_message("x"),
    )
    first, second, text = messages[2][1]
    assert first == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "is_error": True,
        "content": "(no result was recorded)",
    }
    assert second["tool_use_id"] == "c2"
    assert text == text_of("x")


def test_a_tool_of_any_name() -> None:
    call = tool_call("c", tool="mcp/files.read it")
    assert turns(user_message("go"), model_message(call), results(result("c")))[1][1][0]["name"] == "mcp_files_read_it"


# -- reasoning -------------------------------------------------------------------------


def reasoning_sent(part: ReasoningPart, **more: Any) -> list[dict[str, Any]]:
    blocks = turns(user_message("a"), model_message(part, "b"), user_message("c"), **more)[1][1]
    assert blocks[-1] == text_of("b")
    return blocks[:-1]


def test_signed_reasoning_returns_to_its_model() -> None:
    assert reasoning_sent(thought()) == [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    assert reasoning_sent(thought("")) == [{"type": "thinking", "thinking": "", "signature": "sig"}]
    assert reasoning_sent(thought("", None, redacted="x")) == [{"type": "redacted_thinking", "data": "x"}]


@pytest.mark.parametrize("other", ["anthropic/claude-opus-4-5", "openai/gpt-5", ""])
def test_another_model_s_thoughts_are_plain_text(other: str) -> None:
    assert reasoning_sent(thought("hm", "theirs", model=other)) == [text_of("hm")]
    assert reasoning_sent(thought(" ", "theirs", model=other)) == []
    assert reasoning_sent(thought("", None, redacted="theirs", model=other)) == []


@pytest.mark.parametrize("part", [thought(), thought("", None, redacted="x"), thought(model="other/model")])
def test_thoughts_that_the_host_rejected_stay_out(part: ReasoningPart) -> None:
    assert reasoning_sent(part, reasoning_from=2) == []
    assert reasoning_sent(part, reasoning_from=1) != []


def test_an_unsigned_thought_does_not_go_back() -> None:
    assert reasoning_sent(thought(signature=None)) == []
    assert reasoning_sent(thought(signature="")) == []
    assert reasoning_sent(thought("", None, redacted="")) == []


def test_empty_text_between_signed_reasoning_stays() -> None:
    first, space, second, last = turns(
        user_message("a"), model_message(thought("x"), "", thought("y"), "b"), user_message("c")
    )[1][1]
    assert (first["thinking"], second["thinking"], last) == ("x", "y", text_of("b"))
    assert space == text_of(" ")
    unsigned = turns(user_message("a"), model_message(thought("x"), "", thought("y", None), "b"), user_message("c"))[1][
        1
    ]
    assert [block["type"] for block in unsigned] == ["thinking", "text"]
    assert unsigned[1] == text_of("b")


def test_reasoning_is_not_the_last_of_a_turn() -> None:
    assert turns(user_message("a"), model_message("b", thought()), user_message("c"))[1] == (
        "assistant",
        [text_of("b")],
    )
    assert turns(user_message("a"), model_message(thought()), user_message("c")) == [
        ("user", [text_of("a"), text_of("c")])
    ]


# -- hosted tools ------------------------------------------------------------------------


SEARCH = hosted("server_tool_use", id="s1", name="web_search", input={"query": "é"})
SEARCH_RESULT = hosted("web_search_tool_result", tool_use_id="s1", content=[])


def test_a_hosted_tool_s_work_goes_back_unchanged() -> None:
    sent = turns(user_message("a"), model_message(SEARCH, SEARCH_RESULT, "b"), user_message("c"))[1][1]
    assert sent == [json.loads(SEARCH.data), json.loads(SEARCH_RESULT.data), text_of("b")]


def test_half_of_hosted_work_is_not_sent() -> None:
    assert turns(user_message("a"), model_message(SEARCH, "b"), user_message("c"))[1][1] == [text_of("b")]
    assert turns(user_message("a"), model_message(SEARCH_RESULT, "b"), user_message("c"))[1][1] == [text_of("b")]


def test_foreign_items_and_non_json_are_dropped() -> None:
    foreign = hosted("server_tool_use", model="other/model", id="s1")
    broken = ProviderPart(id=PartId("h"), kind="x", data="{", model=MODEL)
    assert turns(user_message("a"), model_message(foreign, SEARCH_RESULT, broken, "b"), user_message("c"))[1][1] == [
        text_of("b")
    ]


def test_a_paused_turn_is_sent_as_it_stands() -> None:
    paused = turns(user_message("a"), model_message("b", SEARCH, finish="pause"))
    assert paused[-1] == ("assistant", [text_of("b"), json.loads(SEARCH.data)])
    resumed = turns(
        user_message("a"),
        model_message("b", SEARCH, finish="pause"),
        model_message(SEARCH_RESULT, "c"),
        user_message("d"),
    )
    assert [role for role, _ in resumed] == ["user", "assistant", "user"]
    assert len(resumed[1][1]) == 4


# -- what can't be sent --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((), "nothing to send"),
        ((user_message(" "),), "nothing to send"),
        ((model_message("a"), user_message("b")), "begins with an assistant message"),
        ((user_message("a"), model_message("b")), "ends with an assistant message"),
        (
            (user_message("a"), model_message("b", SEARCH, finish="pause"), model_message("c")),
            "ends with an assistant message",
        ),
    ],
)
def test_invalid_requests(messages: tuple[Message, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        body(*messages)


# -- cache markers ----------------------------------------------------------------------------


def marks(encoded: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield each marker and where it stands."""
    if isinstance(encoded, dict):
        if "cache_control" in encoded:
            yield path, encoded["cache_control"]
        for name, value in encoded.items():
            yield from marks(value, (*path, name))
    elif isinstance(encoded, list):
        for place, value in enumerate(encoded):
            yield from marks(value, (*path, place))


def places(*messages: Message, **more: Any) -> list[tuple[str | int, ...]]:
    return [place for place, _ in marks(body(*messages, system="s", **more))]


FIXED: list[tuple[str | int, ...]] = [("tools", 0), ("system", 0)]


def test_markers_stand_on_tools_system_and_the_end() -> None:
    assert places(user_message("a", "b")) == [*FIXED, ("messages", 0, "content", 1)]


def test_last_cache_marker_moves() -> None:
    first: list[Message] = [user_message("a"), model_message("b", tool_call("c1")), results(result("c1"))]
    assert places(*first) == [*FIXED, ("messages", 0, "content", 0), ("messages", 2, "content", 0)]
    second = [
        *first,
        model_message(tool_call("c2"), tool_call("c3")),
        results(result("c2"), result("c3")),
        user_message("steer"),
    ]
    assert places(*second) == [*FIXED, ("messages", 2, "content", 0), ("messages", 4, "content", 2)]
    third = [*second, model_message("so"), user_message("and?")]
    assert places(*third) == [*FIXED, ("messages", 4, "content", 2), ("messages", 6, "content", 0)]


def test_pause_is_marked_at_its_last_word() -> None:
    assert places(user_message("a"), model_message("b", thought(), finish="pause")) == [
        *FIXED,
        ("messages", 0, "content", 0),
        ("messages", 1, "content", 0),
    ]


def test_missing_result_is_marked_too() -> None:
    assert places(user_message("a"), model_message(tool_call("c"))) == [
        *FIXED,
        ("messages", 0, "content", 0),
        ("messages", 2, "content", 0),
    ]


@pytest.mark.parametrize(("lifetime", "mark"), [(None, MARK), ("5m", MARK), ("1h", {"type": "ephemeral", "ttl": "1h"})])
def test_how_long_it_is_cached(lifetime: CacheLifetime | None, mark: dict[str, str]) -> None:
    encoded = body(
        user_message("a"), model_message("b"), user_message("c"), system="s", options=ModelOptions(cache=lifetime)
    )
    assert [actual for _, actual in marks(encoded)] == [mark] * 4


def test_no_hour_cache_where_it_is_unsupported() -> None:
    request = request_of(user_message("a"), system="s", options=ModelOptions(cache="1h"))
    encoded = json.loads(bytes(encoder(Quirks(marks="anthropic")).encode(request)))
    assert [actual for _, actual in marks(encoded)] == [MARK] * 3


def test_no_markers_without_a_cache() -> None:
    assert places(user_message("a"), model_message("b"), user_message("c"), options=ModelOptions(cache="off")) == []
    request = request_of(user_message("a"), model_message("b"), user_message("c"), system="s")
    assert list(marks(json.loads(bytes(encoder(Quirks()).encode(request))))) == []
