"""The comparison itself detects every kind of difference, without recordings."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import attrs
import pytest

from engine.core.errors import ContextOverflow, InvalidRequest, Overloaded, RateLimited
from engine.core.messages import Usage
from engine.testing.cassette import Exchange
from tests.conformance.answers import Answer, Part, play
from tests.conformance.cases import Case
from tests.conformance.glued import answers_in, as_one
from tests.conformance.meaning import as_far_as_it_goes, check_meaning, strings_of, usage_of
from tests.conformance.rows import WIRES, model_at, row_of
from tests.conformance.test_errors import exception_frame
from tests.conformance.test_recorded import check

SSE = {"content-type": "text/event-stream"}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[dict[str, Any]], stop: str = "tool_use") -> bytes:
    return sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 7}}},
        *(event for events in blocks for event in events),
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "hm"},
    {"type": "signature_delta", "signature": "s"},
)
TEXT = block(
    1,
    {"type": "text", "text": ""},
    {"type": "text_delta", "text": "é!"},
    {"type": "citations_delta", "citation": {"url": "u", "title": "t", "cited_text": "q"}},
)
CALL = block(
    2,
    {"type": "tool_use", "id": "c1", "name": "read", "input": {}},
    {"type": "input_json_delta", "partial_json": '{"a":'},
    {"type": "input_json_delta", "partial_json": "1}"},
)
HOSTED = block(3, {"type": "server_tool_use", "id": "s1", "name": "search", "input": {"q": "x"}})
RIGHT: dict[str, Any] = {
    "text": "é!",
    "reasoning": "hm",
    "tool_calls": [{"id": "c1", "name": "read", "arguments": {"a": 1}}],
    "finish_reason_raw": "tool_use",
    "usage": {"input": 5, "output": 3, "cache_read": 7, "cache_write": None, "reasoning": None},
    "usage_raw": {},
    "error": None,
    "extra": {
        "blocks": ["thinking", "text", "tool_use", "server_tool_use"],
        "signatures": 1,
        "citations": 1,
        "server_tool_calls": [{"id": "s1", "name": "search"}],
    },
}
ANTHROPIC = Exchange(
    provider="anthropic",
    host="anthropic",
    protocol="anthropic-messages",
    headers=SSE,
    body=message(THOUGHT, TEXT, CALL, HOSTED),
)
at = partial(model_at, row=row_of("anthropic", "anthropic"), model="claude-haiku-4-5")


def wrong(**changes: Any) -> dict[str, Any]:
    return RIGHT | changes


def extra(**changes: Any) -> dict[str, Any]:
    return wrong(extra=RIGHT["extra"] | changes)


async def answer_to(body: bytes, **changes: Any) -> list[Answer]:
    return await play(attrs.evolve(ANTHROPIC, body=body, **changes), at, seed=1)


async def test_valid_request_passes_in_any_chunks() -> None:
    answers = await answer_to(ANTHROPIC.body)
    assert len(answers) == 4
    for answer in answers:
        check(answer, Case(ANTHROPIC, RIGHT))
        assert answer.slips == {}


@pytest.mark.parametrize(
    "expected",
    [
        wrong(text="é"),
        wrong(reasoning=""),
        wrong(tool_calls=[]),
        wrong(tool_calls=[{"id": "c2", "name": "read", "arguments": {"a": 1}}]),
        wrong(tool_calls=[{"id": "c1", "name": "write", "arguments": {"a": 1}}]),
        wrong(tool_calls=[{"id": "c1", "name": "read", "arguments": {"a": 2}}]),
        wrong(tool_calls=[{"id": "c1", "name": "read", "arguments": None, "arguments_raw": '{"a":1}'}]),
        wrong(finish_reason_raw="end_turn"),
        wrong(finish_reason_raw=None),
        wrong(usage=RIGHT["usage"] | {"input": 12}),
        wrong(usage=RIGHT["usage"] | {"cache_write": 1}),
        wrong(usage=None),
        wrong(error={"status": 200, "meaning": "overloaded", "message": "busy"}),
        extra(signatures=2),
        extra(redacted=1),
        extra(citations=2),
        extra(refusal="no"),
        extra(stop_sequence="."),
        extra(tool_plan="I will"),
        extra(images=1),
        extra(phases=["final_answer"]),
        extra(server_tool_calls=[{"id": "s2", "name": "search"}]),
        extra(blocks=["text"]),
    ],
    ids=lambda expected: "-".join(name for name in RIGHT if expected[name] != RIGHT[name]),
)
async def test_invalid_request_is_reported(expected: dict[str, Any]) -> None:
    answer = (await answer_to(ANTHROPIC.body))[0]
    with pytest.raises(AssertionError):
        check(answer, Case(ANTHROPIC, expected))


async def test_a_truncated_call_is_compared_as_a_prefix() -> None:
    cut = [event for event in CALL if event.get("delta", {}).get("partial_json") != "1}"][:-1]
    answer = (await answer_to(message(cut, stop="max_tokens")))[0]
    case = wrong(text="", reasoning="", finish_reason_raw="max_tokens", extra={})
    check(answer, Case(ANTHROPIC, case | {"tool_calls": [{"id": "c1", "name": "read", "arguments": {}}]}))
    raw = {"id": "c1", "name": "read", "arguments": None, "arguments_raw": '{"a":'}
    check(answer, Case(ANTHROPIC, case | {"tool_calls": [raw]}))
    with pytest.raises(AssertionError):
        check(answer, Case(ANTHROPIC, case | {"tool_calls": [raw | {"kind": "custom"}]}))


async def test_refused_request_and_error_in_the_middle() -> None:
    error = {"status": 529, "meaning": "overloaded", "message": "busy  now"}
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"busy now"}}'
    refused = attrs.evolve(ANTHROPIC, status=529, headers={"content-type": "application/json"}, body=body)
    nothing = wrong(text="", reasoning="", tool_calls=[], usage=None, extra={}, finish_reason_raw=None, error=error)
    (answer, *_) = await play(refused, at, seed=1)
    check(answer, Case(refused, nothing))
    broken = attrs.evolve(ANTHROPIC, body=message(TEXT).split(b"event: message_delta")[0] + b"data: " + body + b"\n\n")
    (answer, *_) = await play(broken, at, seed=1)
    kept = RIGHT["usage"] | {"output": None}
    check(answer, Case(broken, nothing | {"text": "é!", "usage": kept, "extra": {"citations": 1}}))
    with pytest.raises(AssertionError):
        check(answer, Case(broken, nothing | {"text": "", "usage": kept, "extra": {"citations": 1}}))


@pytest.mark.parametrize(
    ("meaning", "error", "is_right"),
    [
        ("overflow", ContextOverflow("x"), True),
        ("overflow", ContextOverflow("x", retryable=True), False),
        ("overflow", InvalidRequest("x"), False),
        ("rate_limit", RateLimited("x", retryable=False), True),
        ("overloaded", Overloaded("x", retryable=True), True),
        ("overloaded", Overloaded("x", retryable=False), False),
        ("invalid_request", InvalidRequest("x", retryable=True), True),
    ],
)
def test_meanings(meaning: str, error: Any, is_right: bool) -> None:
    if is_right:
        check_meaning(error, meaning)
    else:
        with pytest.raises(AssertionError):
            check_meaning(error, meaning)


@pytest.mark.parametrize(
    ("protocol", "host", "model", "usage"),
    [
        ("anthropic-messages", "any", "m", Usage(input=100, output=20, cache_read=30, cache_write=5, reasoning=7)),
        ("bedrock-converse", "any", "m", Usage(input=100, output=20, cache_read=30, cache_write=5, reasoning=7)),
        ("openai-chat", "openai", "m", Usage(input=65, output=20, cache_read=30, cache_write=5, reasoning=7)),
        ("openai-chat", "xai", "m", Usage(input=65, output=27, cache_read=30, cache_write=5, reasoning=7)),
        ("openai-responses", "xai", "m", Usage(input=65, output=20, cache_read=30, cache_write=5, reasoning=7)),
        ("openai-chat", "azure", "grok-4", Usage(input=100, output=20, cache_read=30, cache_write=5, reasoning=7)),
        ("openai-chat", "azure", "gpt-5", Usage(input=65, output=20, cache_read=30, cache_write=5, reasoning=7)),
        ("gemini", "google", "m", Usage(input=72, output=27, cache_read=30, cache_write=5, reasoning=7)),
        ("cohere-v2", "cohere", "m", Usage(input=65, output=20, cache_read=30, cache_write=5, reasoning=7)),
    ],
)
def test_usage_by_the_table(protocol: str, host: str, model: str, usage: Usage) -> None:
    exchange = Exchange(protocol=protocol, host=host, sent=json.dumps({"model": model}).encode())
    raw = {"input": 100, "output": 20, "cache_read": 30, "cache_write": 5, "reasoning": 7}
    given = {"toolUsePromptTokenCount": 2}
    assert usage_of(Case(exchange, RIGHT | {"usage": raw, "usage_raw": given})) == usage


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ('{"a', {}),
        ('{"a": "b', {}),
        ('{"a": "b"', {"a": "b"}),
        ('{"a": "}{", "c": [1, {"d": 2', {"a": "}{", "c": [1, {"d": 2}]}),
        ('{"a": "\\"}', {}),
    ],
)
def test_json_that_was_cut(text: str, value: object) -> None:
    assert as_far_as_it_goes(text) == value


def test_the_strings_of_a_value() -> None:
    assert strings_of({"a": "b", "c": ["d", 1, {"e": "f"}]}) == ["b", "d", "f"]


def test_concatenated_answers_are_split() -> None:
    one, two = message(TEXT), message(CALL)
    assert [e.body for e in answers_in(attrs.evolve(ANTHROPIC, body=one + two))] == [one, two]
    windows = (one + two).replace(b"\n", b"\r\n")
    assert [e.body for e in answers_in(attrs.evolve(ANTHROPIC, body=windows))] == [
        body.replace(b"\n", b"\r\n") for body in (one, two)
    ]
    frames = [bytes([0, 0, 0, 4 + len(name)]) + name for name in (b"messageStart", b"x", b"messageStart", b"yz")]
    binary = attrs.evolve(
        ANTHROPIC, body=b"".join(frames), headers={"content-type": "application/vnd.amazon.eventstream"}
    )
    assert [e.body for e in answers_in(binary)] == [frames[0] + frames[1], frames[2] + frames[3]]
    assert answers_in(ANTHROPIC) == [ANTHROPIC]


def test_an_sdk_s_view_of_glued_answers() -> None:
    def answer(*parts: Part) -> Answer:
        return Answer(parts=parts, slips={})

    first = answer(Part("text", "a"), Part("call", "{}", tool="x"))
    second = answer(Part("text", "b"), Part("text", "c"))
    assert [(part.kind, part.text) for part in as_one([first, second])] == [
        ("text", "ab"),
        ("call", "{}"),
        ("text", ""),
        ("text", ""),
    ]


def test_model_is_named_in_body_or_path() -> None:
    urls = {
        "https://h/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse": "gemini-2.5-pro",
        "https://h/model/us.anthropic.claude-v1%3A0/converse": "us.anthropic.claude-v1:0",
        "https://h/openai/deployments/mine/chat/completions": "mine",
        "https://h/v1/chat": "unknown",
    }
    for url, name in urls.items():
        assert Case(Exchange(url=url), RIGHT).model == name
    assert Case(Exchange(url="https://h/model/a", sent=b'{"model":"b"}'), RIGHT).model == "b"


@pytest.mark.parametrize(
    ("host", "protocol", "name", "wire", "is_known"),
    [
        ("azure", "openai-chat", "azure-chat", "openai_chat", True),
        ("azure", "openai-responses", "azure", "openai_responses", True),
        ("llama-cpp", "openai-chat", "llamacpp", "openai_chat", True),
        ("openrouter", "openai-responses", "openrouter", "openai_responses", True),
        ("mistral", "mistral-chat", "mistral", "openai_chat", True),
        ("vertex-anthropic", "anthropic-messages", "vertex-anthropic", "vertex_anthropic", True),
        ("nobody.example", "openai-chat", "nobody.example", "openai_chat", False),
    ],
)
def test_rows(host: str, protocol: str, name: str, wire: str, is_known: bool) -> None:
    row = row_of(host, *WIRES[protocol])
    assert (row.name, row.wire, bool(row.base_url)) == (name, wire, is_known)


def test_an_exception_s_frame_has_its_length() -> None:
    frame = exception_frame("validationException", b"{}")
    assert len(frame) == int.from_bytes(frame[:4], "big")
    assert re.search(rb":exception-type\x07\x00\x13validationException", frame)
