from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ConfigError
from engine.ids import CallId, MessageId, PartId
from engine.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FinishReason,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.model import ModelRequest, ToolChoice, ToolSchema
from engine.providers.anthropic_encode import encode, wire_id

MODEL = "anthropic/claude-sonnet-4-5"
PNG = ImagePart(media_type="image/png", data="aGk=")
READ = ToolSchema(name="read", description="Read a file.", schema='{"type": "object"}')


def said(*parts: UserPart | str) -> UserMessage:
    return UserMessage(id=MessageId("u"), parts=tuple(part(p) if isinstance(p, str) else p for p in parts))


def part(text: str) -> TextPart:
    return TextPart(id=PartId("p"), text=text)


def answered(*parts: AssistantPart | str, finish: FinishReason = "stop") -> AssistantMessage:
    made = tuple(part(p) if isinstance(p, str) else p for p in parts)
    return AssistantMessage(id=MessageId("a"), parts=made, model=MODEL, finish=finish)


def thought(text: str = "hm", signature: str | None = "sig", **more: Any) -> ReasoningPart:
    return ReasoningPart(id=PartId("r"), text=text, signature=signature, **{"model": MODEL, **more})


def asked(call_id: str, arguments: str = '{"path": "a"}', **more: Any) -> CallPart:
    fields: dict[str, Any] = {"tool": "read", **more}
    return CallPart(id=PartId("c"), call_id=CallId(call_id), arguments=arguments, **fields)


def hosted(kind: str, model: str = MODEL, **fields: Any) -> ProviderPart:
    return ProviderPart(id=PartId("h"), kind=kind, data=json.dumps({"type": kind, **fields}), model=model)


def result(call_id: str, text: str = "done", **more: Any) -> CallResult:
    fields: dict[str, Any] = {"status": "completed", "text": text, **more}
    return CallResult(call_id=CallId(call_id), tool="read", settlement=Settlement(**fields))


def results(*each: CallResult) -> ResultsMessage:
    return ResultsMessage(id=MessageId("r"), results=each)


def body(*messages: Message, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": MODEL, "system": "", "tools": (READ,), **more}
    encoded: dict[str, Any] = json.loads(encode(ModelRequest(transcript=Transcript(messages), **fields)))
    return encoded


def turns(*messages: Message, **more: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(message["role"], message["content"]) for message in body(*messages, **more)["messages"]]


def text_of(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


# -- the request as a whole ----------------------------------------------------------


def test_a_whole_request() -> None:
    encoded = body(said("hi"), system="be brief", max_output=100)
    assert encoded == {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "stream": True,
        "system": "be brief",
        "tools": [{"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "messages": [{"role": "user", "content": [text_of("hi")]}],
    }


@pytest.mark.parametrize(("choice", "wire"), [("auto", "auto"), ("none", "none"), ("required", "any")])
def test_tool_choice(choice: ToolChoice, wire: str) -> None:
    assert body(said("hi"), tool_choice=choice)["tool_choice"] == {"type": wire}


def test_without_tools_nothing_is_said_of_them() -> None:
    assert body(said("hi"), tools=(), system="  ").keys() == {"model", "max_tokens", "stream", "messages"}


def test_without_tools_those_in_the_transcript_are_declared_and_forbidden() -> None:
    encoded = body(said("hi"), answered(asked("c1")), results(result("c1")), tools=(), tool_choice="required")
    assert encoded["tools"] == [{"name": "read", "input_schema": {"type": "object"}}]
    assert encoded["tool_choice"] == {"type": "none"}


def test_an_output_schema() -> None:
    encoded = body(said("hi"), output_schema='{"type": "object"}')
    assert encoded["output_config"] == {"format": {"type": "json_schema", "schema": {"type": "object"}}}


@pytest.mark.parametrize("schema", ["{", "[]", "null", "{}"])
def test_a_bad_schema_is_named(schema: str) -> None:
    with pytest.raises(ConfigError, match="'grep'"):
        body(said("hi"), tools=(ToolSchema(name="grep", description="", schema=schema),))


def test_text_that_has_no_utf8_is_sent_all_the_same() -> None:
    assert turns(said("a\ud800b")) == [("user", [text_of("a?b")])]


# -- turns ---------------------------------------------------------------------------


def test_users_in_a_row_are_one_turn() -> None:
    assert turns(said("a"), said("b", PNG)) == [
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
        said("go"),
        answered("on it", asked("c1"), asked("c2")),
        results(result("c2", "two"), result("c1", "one")),
        said("and?"),
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
def test_what_did_not_complete_is_an_error(status: str) -> None:
    (block,) = turns(said("go"), answered(asked("c")), results(result("c", "why", status=status)))[2][1]
    assert block == {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "why"}


def test_images_in_results() -> None:
    bmp = ImagePart(media_type="image/bmp", data="aGk=")
    (block,) = turns(said("go"), answered(asked("c")), results(result("c", "", images=(PNG, bmp))))[2][1]
    assert [content["type"] for content in block["content"]] == ["image", "text"]
    assert "image/bmp" in block["content"][1]["text"]


def test_an_empty_result_is_not_empty() -> None:
    (block,) = turns(said("go"), answered(asked("c")), results(result("c", " \n")))[2][1]
    assert block["content"] == "(no output)"


@pytest.mark.parametrize(
    "call",
    [
        asked("c", '{"path": "a', complete=False),
        asked("c", '{"path": "a', complete=True),
        asked("c", '{"path": "a"}', complete=False),
        asked("c", ""),
        asked("c", "[1]"),
        asked("c", '{"n": NaN}'),
        asked("c", '{"n": 1e999}'),
        asked("c", '{"n": ' + "[" * 100_000),
    ],
)
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(call: CallPart) -> None:
    assert turns(said("go"), answered(call), results(result("c")))[1][1][0]["input"] == {}


def test_a_call_without_a_result_gets_one() -> None:
    messages = turns(said("go"), answered(asked("c1"), asked("c2")), results(result("c2"), result("other")), said("x"))
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
    call = asked("c", tool="mcp/files.read it")
    assert turns(said("go"), answered(call), results(result("c")))[1][1][0]["name"] == "mcp_files_read_it"


# -- reasoning -------------------------------------------------------------------------


def reasoning_sent(part: ReasoningPart, **more: Any) -> list[dict[str, Any]]:
    blocks = turns(said("a"), answered(part, "b"), said("c"), **more)[1][1]
    assert blocks[-1] == text_of("b")
    return blocks[:-1]


def test_signed_reasoning_goes_back_to_the_model_it_is_of() -> None:
    assert reasoning_sent(thought()) == [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    assert reasoning_sent(thought("")) == [{"type": "thinking", "thinking": "", "signature": "sig"}]
    assert reasoning_sent(thought("", None, redacted="x")) == [{"type": "redacted_thinking", "data": "x"}]


@pytest.mark.parametrize(
    ("part", "drop"),
    [
        (thought(), True),
        (thought(redacted="x"), True),
        (thought(signature=None), False),
        (thought(model="anthropic/claude-opus-4-5"), False),
        (thought(model=""), False),
    ],
)
def test_other_reasoning_does_not(part: ReasoningPart, drop: bool) -> None:
    assert reasoning_sent(part, drop_reasoning=drop) == []


def test_reasoning_is_not_the_last_of_a_turn() -> None:
    assert turns(said("a"), answered("b", thought()), said("c"))[1] == ("assistant", [text_of("b")])
    assert turns(said("a"), answered(thought()), said("c")) == [("user", [text_of("a"), text_of("c")])]


# -- hosted tools ------------------------------------------------------------------------


SEARCH = hosted("server_tool_use", id="s1", name="web_search", input={"query": "é"})
FOUND = hosted("web_search_tool_result", tool_use_id="s1", content=[])


def test_a_hosted_tool_s_work_goes_back_unchanged() -> None:
    sent = turns(said("a"), answered(SEARCH, FOUND, "b"), said("c"))[1][1]
    assert sent == [json.loads(SEARCH.data), json.loads(FOUND.data), text_of("b")]


def test_half_of_it_does_not() -> None:
    assert turns(said("a"), answered(SEARCH, "b"), said("c"))[1][1] == [text_of("b")]
    assert turns(said("a"), answered(FOUND, "b"), said("c"))[1][1] == [text_of("b")]


def test_nor_does_another_provider_s_or_what_is_no_json() -> None:
    foreign = hosted("server_tool_use", model="other/model", id="s1")
    broken = ProviderPart(id=PartId("h"), kind="x", data="{", model=MODEL)
    assert turns(said("a"), answered(foreign, FOUND, broken, "b"), said("c"))[1][1] == [text_of("b")]


def test_a_paused_turn_is_sent_as_it_stands() -> None:
    paused = turns(said("a"), answered("b", SEARCH, finish="pause"))
    assert paused[-1] == ("assistant", [text_of("b"), json.loads(SEARCH.data)])
    resumed = turns(said("a"), answered("b", SEARCH, finish="pause"), answered(FOUND, "c"), said("d"))
    assert [role for role, _ in resumed] == ["user", "assistant", "user"]
    assert len(resumed[1][1]) == 4


# -- what can't be sent --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ((), "nothing to send"),
        ((said(" "),), "nothing to send"),
        ((answered("a"), said("b")), "begins with the model"),
        ((said("a"), answered("b")), "ends with the model"),
        ((said("a"), answered("b", SEARCH, finish="pause"), answered("c")), "ends with the model"),
    ],
)
def test_what_is_no_request(messages: tuple[Message, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        body(*messages)


# -- ids -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plain", ["toolu_01ABC", "call-1", "_", "x"])
def test_ordinary_ids_pass(plain: str) -> None:
    assert wire_id(plain) == plain


IDS = st.text(st.sampled_from("ax-_0f.:é ") | st.characters(), max_size=8)


@given(IDS, IDS)
def test_ids_stay_apart_and_fit(first: str, second: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", wire_id(first))
    assert (wire_id(first) == wire_id(second)) == (first == second)


# -- any transcript ----------------------------------------------------------------------------


WORDS = st.sampled_from(["", " ", "\n", "word", "two words", "\ud800"])
ARGUMENTS = st.sampled_from(["{}", '{"a": 1}', "", "{", "[]", "null"])
USERS: st.SearchStrategy[UserMessage] = st.lists(WORDS | st.just(PNG), max_size=3).map(lambda parts: said(*parts))
PARTS: st.SearchStrategy[AssistantPart | str] = st.one_of(
    WORDS,
    st.builds(thought, WORDS, st.none() | WORDS, model=st.sampled_from([MODEL, "anthropic/other"])),
    st.builds(lambda a, c: asked("", a, complete=c), ARGUMENTS, st.booleans()),
    st.sampled_from(["s1", "s2"]).map(lambda i: hosted("server_tool_use", id=i, name="web_search", input={})),
    st.sampled_from(["s1", "s2"]).map(lambda i: hosted("web_search_tool_result", tool_use_id=i, content=[])),
)
SETTLEMENTS = st.builds(
    Settlement,
    status=st.sampled_from(["completed", "error", "denied", "aborted"]),
    text=WORDS,
    images=st.lists(st.just(PNG), max_size=1).map(tuple),
)


@st.composite
def transcripts(draw: st.DrawFn, *, wild: bool) -> list[Message]:
    """Draw any transcript; if not *wild*, one of those which the engine makes."""
    messages: list[Message] = [] if wild else [said("begin")]
    for number in range(draw(st.integers(0, 5))):
        parts = draw(st.lists(PARTS, max_size=5))
        named = [renamed(p, f"{number}.{i}") if isinstance(p, CallPart) else p for i, p in enumerate(parts)]
        assistant = answered(*named, finish=draw(st.sampled_from(["stop", "calls", "pause"])))
        each = [CallResult(call_id=c.call_id, tool=c.tool, settlement=draw(SETTLEMENTS)) for c in assistant.calls]
        if wild:
            each = draw(st.permutations([*each, result("stray")]))[draw(st.integers(0, 2)) :]
        exchange: list[Message] = [assistant, *([results(*each)] if each else [])]
        messages += exchange if not wild else draw(st.permutations(exchange))
        messages += draw(st.lists(USERS, max_size=2))
    return messages if wild else [*messages, said("go on")]


def renamed(call: CallPart, call_id: str) -> CallPart:
    return asked(call_id, call.arguments, complete=call.complete)


def check(encoded: dict[str, Any]) -> None:
    """Assert what the API asks of a request."""
    messages = encoded["messages"]
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
    waiting: list[str] = []
    for message in messages:
        blocks = message["content"]
        assert blocks
        for block in blocks:
            assert block["type"] != "text" or block["text"].strip()
        found = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert [b["type"] for b in blocks[: len(found)]] == ["tool_result"] * len(found)
        assert found == waiting
        assert all(block["content"] for block in blocks if block["type"] == "tool_result")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use")
        assert message["role"] == "user" or blocks[-1]["type"] not in {"thinking", "redacted_thinking"}
        check_hosted(blocks, is_last=message is messages[-1])
    assert not waiting


def check_hosted(blocks: list[dict[str, Any]], *, is_last: bool) -> None:
    uses = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    found = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
    assert found <= uses
    assert is_last or uses <= found


@given(transcripts(wild=False), st.booleans(), st.sampled_from([(), (READ,)]))
def test_every_transcript_of_ours_is_a_valid_request(
    messages: list[Message], drop: bool, tools: tuple[ToolSchema, ...]
) -> None:
    encoded = body(*messages, drop_reasoning=drop, tools=tools)
    check(encoded)
    declared = {tool["name"] for tool in encoded.get("tools", [])}
    used = {b["name"] for m in encoded["messages"] for b in m["content"] if b["type"] == "tool_use"}
    assert used <= declared
    assert len(used) == 0 or sum(len(m.calls) for m in messages if isinstance(m, AssistantMessage)) == sum(
        b["type"] == "tool_use" for m in encoded["messages"] for b in m["content"]
    )


@given(transcripts(wild=True))
def test_any_transcript_is_a_valid_request_or_a_typed_error(messages: list[Message]) -> None:
    try:
        encoded = body(*messages)
    except ConfigError:
        return
    check(encoded)


@given(transcripts(wild=False))
def test_encoding_is_a_function(messages: list[Message]) -> None:
    request = ModelRequest(model=MODEL, system="", transcript=Transcript(messages))
    assert encode(request) == encode(request)
    longer = ModelRequest(model=MODEL, system="", transcript=Transcript([*messages, said("more")]))
    assert encode(longer).startswith(encode(request).removesuffix(b"]}]}"))
