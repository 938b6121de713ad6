from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import AuthFailed, ConnectionBroken, ContextOverflow, ProviderError, ProviderProtocolError
from engine.core.llm_types import (
    Cited,
    Finished,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    Unread,
    UsageReported,
)
from engine.core.messages import Citation, Usage
from engine.providers.cohere.wire import wire
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import HttpReply, WireDecoder

COHERE = wire(Quirks(title="Cohere"))
Event = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def decoder(content_type: str = "text/event-stream") -> WireDecoder:
    actual = COHERE.decoder(content_type)
    assert actual is not None
    return actual


def sse(*events: Event) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (str(e.get("type")).encode(), json.dumps(e).encode()) for e in events)


def whole(*events: Event) -> list[StreamEvent]:
    """Decode an answer, at once and byte by byte."""
    data = sse(*events) + DONE
    at_once, slowly = decoder(), decoder()
    read = [*at_once.feed(data), *at_once.close()]
    again = [event for i in range(len(data)) for event in slowly.feed(data[i : i + 1])]
    assert [*again, *slowly.close()] == read
    assert at_once.is_over
    return read


def document(*content: Any, **more: Any) -> list[StreamEvent]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    reading = decoder("application/json")
    reading.feed(json.dumps({"id": "x", "message": message, "finish_reason": "COMPLETE", **more}).encode())
    return reading.close()


def about(kind: str, index: int | None = None, **message: object) -> Event:
    return {"type": kind, "delta": {"message": message}} | ({} if index is None else {"index": index})


def start(index: int, kind: str = "text", statement: str = "") -> Event:
    return about("content-start", index, content={"type": kind, kind: statement})


def delta(index: int, statement: str, kind: str = "text") -> Event:
    return about("content-delta", index, content={kind: statement})


def stop(index: int) -> Event:
    return {"type": "content-end", "index": index}


def plan(statement: str) -> Event:
    return about("tool-plan-delta", tool_plan=statement)


def call(index: int, *pieces: str, own_id: str = "read_1", ends: bool = True) -> list[Event]:
    begin = about(
        "tool-call-start",
        index,
        tool_calls={"id": own_id, "type": "function", "function": {"name": "read", "arguments": ""}},
    )
    middle = [about("tool-call-delta", index, tool_calls={"function": {"arguments": piece}}) for piece in pieces]
    return [begin, *middle, *([{"type": "tool-call-end", "index": index}] if ends else [])]


def cited(index: int | None = None, **more: Any) -> tuple[Event, Citation]:
    """A citation, and what it means."""
    named: Event = {"id": "doc:0", "title": "facts", "url": "https://a.example/"}
    source: Event = {"type": "document", "id": "doc:0", "document": named}
    raw: Event = {"start": 0, "end": 2, "text": "So", "sources": [source], "type": "TEXT_CONTENT", **more}
    if index is not None:
        raw["content_index"] = index
    actual = Citation(url="https://a.example/", title="facts", quote="So", raw=json.dumps(raw, separators=(",", ":")))
    long = [source | {"document": named | {"text": "x" * 10_000}}]
    return about("citation-start", 0, citations=raw | {"sources": long}), actual


def end(reason: str | None = "COMPLETE", **more: object) -> Event:
    return {"type": "message-end", "delta": {"finish_reason": reason, **more}}


START: Event = {
    "id": "x",
    "type": "message-start",
    "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}},
}


# -- what each part of the wire means --------------------------------------------


def test_text_and_usage() -> None:
    usage = {
        "billed_units": {"input_tokens": 1, "output_tokens": 2},
        "tokens": {"input_tokens": 50, "output_tokens": 7, "reasoning_tokens": 3},
        "cached_tokens": 40,
    }
    events = whole(START, start(0, statement="a"), delta(0, ""), delta(0, "b"), stop(0), end(usage=usage))
    assert events == [
        TextStarted("0"),
        TextChunk("0", "a"),
        TextChunk("0", "b"),
        TextDone("0"),
        UsageReported(Usage(input=10, output=7, cache_read=40, reasoning=3)),
        Finished("stop", "COMPLETE"),
    ]


@pytest.mark.parametrize(
    ("usage", "intended"),
    [
        ({"billed_units": {"input_tokens": 1.0, "output_tokens": 2.0}}, Usage(input=1, output=2)),
        ({"tokens": {"input_tokens": 5, "output_tokens": 1.5}, "cached_tokens": 9}, Usage(cache_read=9)),
        ({"tokens": {"input_tokens": None, "output_tokens": "x"}}, Usage()),
    ],
)
def test_usage_of_other_forms(usage: object, intended: Usage) -> None:
    assert whole(START, end(usage=usage))[0] == UsageReported(intended)


def test_thinking() -> None:
    thought = [start(0, "thinking"), delta(0, "hm", "thinking"), stop(0)]
    assert whole(START, *thought, start(1), delta(1, "so"), stop(1), end())[:-1] == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0"),
        TextStarted("1"),
        TextChunk("1", "so"),
        TextDone("1"),
    ]


def test_a_plan_and_its_calls() -> None:
    first, second = call(0, "{", '"a":1}'), call(1, own_id="read_2")
    assert whole(START, plan("I will "), plan("read."), *first, *second, end("TOOL_CALL")) == [
        ProviderItem("0", "tool_plan", '{"tool_plan":"I will read."}'),
        ToolCallStarted("read_1", "read"),
        ToolCallChunk("read_1", "{"),
        ToolCallChunk("read_1", '"a":1}'),
        ToolCallDone("read_1"),
        ToolCallStarted("read_2", "read"),
        ToolCallDone("read_2", "{}"),
        Finished("calls", "TOOL_CALL"),
    ]


def test_a_plan_without_calls_is_kept_too() -> None:
    assert whole(START, plan("I will."), end())[0] == ProviderItem("0", "tool_plan", '{"tool_plan":"I will."}')


def test_a_block_without_its_start_or_end() -> None:
    assert whole(START, delta(0, "a"), start(0), delta(1, "hm", "thinking"), end())[:-1] == [
        TextStarted("0"),
        TextChunk("0", "a"),
        TextDone("0"),
        TextStarted("1"),
        ReasoningStarted("2"),
        ReasoningChunk("2", "hm"),
        TextDone("1"),
        ReasoningDone("2"),
    ]


def test_ids_are_unique_within_an_answer() -> None:
    calls = [event for own_id in ("a", "a", "", "a.1") for event in call(0, "{}", own_id=own_id)]
    ids = [event.id for event in whole(START, *calls, end("TOOL_CALL")) if isinstance(event, ToolCallStarted)]
    assert ids[0] == "a"
    assert len(set(ids)) == 4


def test_citations_are_kept_without_content() -> None:
    event, citation = cited(1)
    ends = {"type": "citation-end", "index": 0}
    assert whole(START, start(1), delta(1, "So"), event, ends, delta(1, "."), stop(1), end())[:-1] == [
        TextStarted("0"),
        TextChunk("0", "So"),
        Cited("0", citation),
        TextChunk("0", "."),
        TextDone("0"),
    ]


def test_a_citation_belongs_to_the_open_text() -> None:
    event, citation = cited(type="PLAN")
    assert whole(START, start(3), event, stop(3), end())[1] == Cited("0", citation)


def test_a_citation_without_text_moves_to_the_next() -> None:
    event, citation = cited(type="PLAN")
    assert whole(START, plan("I will"), event, start(0), stop(0), end())[1:4] == [
        TextStarted("1"),
        Cited("1", citation),
        TextDone("1"),
    ]
    assert whole(START, event, *call(0, "{}"), end("TOOL_CALL"))[-4:-1] == [
        TextStarted("1"),
        Cited("1", citation),
        TextDone("1"),
    ]


# -- how it ends --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("COMPLETE", "stop"),
        ("STOP_SEQUENCE", "stop"),
        ("MAX_TOKENS", "length"),
        ("TOOL_CALL", "stop"),  # without a call there is nothing to do
        ("ERROR_LIMIT", "overflow"),
        ("ERROR_TOXIC", "content_filter"),
        ("USER_CANCEL", "unknown"),
        (None, "unknown"),
    ],
)
def test_reasons(raw: str | None, reason: str) -> None:
    (finished,) = whole(START, end(raw))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw) == (reason, raw)


def test_calls_end_with_the_reason_calls() -> None:
    assert whole(START, *call(0, "{}"), end("COMPLETE"))[-1] == Finished("calls", "COMPLETE")


@pytest.mark.parametrize("ends", [True, False])
def test_a_truncated_call_is_not_done(ends: bool) -> None:
    started = [ToolCallStarted("read_1", "read"), ToolCallChunk("read_1", '{"a')]
    assert whole(START, *call(0, '{"a', ends=ends), end("MAX_TOKENS")) == [*started, Finished("length", "MAX_TOKENS")]


def test_a_call_of_nonsense_is_handed_on() -> None:
    assert whole(START, *call(0, "{x"), end("TOOL_CALL"))[-2:] == [
        ToolCallDone("read_1"),
        Finished("calls", "TOOL_CALL"),
    ]


def test_the_last_line_may_be_missing() -> None:
    reading = decoder()
    assert reading.feed(sse(START, end())) == [Finished("stop", "COMPLETE")]
    assert reading.close() == []


@pytest.mark.parametrize("more", [b"", DONE])
def test_truncated_answer_is_a_broken_connection(more: bytes) -> None:
    reading = decoder()
    reading.feed(sse(START, start(0), delta(0, "a")) + more)
    with pytest.raises(ConnectionBroken) as caught:
        reading.close()
    assert caught.value.retryable


def test_the_unknown_is_ignored_and_counted() -> None:
    news = {"type": "news", "delta": {}}
    assert whole(START, news, {"type": "debug", "prompt": "x"}, news, end()) == [
        Unread("news", 2),
        Finished("stop", "COMPLETE"),
    ]


# -- when it goes wrong -----------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (end("ERROR", error="the model fell over"), "the model fell over"),
        (end("TIMEOUT"), "TIMEOUT"),
        ({"type": "error", "message": "internal"}, "internal"),
        ({"message": "no stream for you", "id": "x"}, "no stream for you"),
    ],
)
def test_an_error_in_the_stream(event: Event, words: str) -> None:
    reading = decoder()
    assert reading.feed(sse(START, start(0), delta(0, "kept"))) == [TextStarted("0"), TextChunk("0", "kept")]
    with pytest.raises(ProviderError, match=words) as caught:
        reading.feed(sse(event))
        reading.feed(b"")
    assert caught.value.retryable
    assert not reading.is_over


def test_refusals() -> None:
    statement = {"message": "Incorrect API key provided: ***.", "id": "x"}
    wrong = COHERE.failure(HttpReply(status=401, headers={}, body=json.dumps(statement).encode()), 0.0)
    assert isinstance(wrong, AuthFailed)
    assert "Incorrect API key" in str(wrong)
    statement = {"message": "too many tokens: total number of tokens cannot exceed 2048 - received 6354."}
    large = COHERE.failure(HttpReply(status=400, headers={}, body=json.dumps(statement).encode()), 0.0)
    assert isinstance(large, ContextOverflow)


def test_arguments_without_a_call_are_no_protocol() -> None:
    with pytest.raises(ProviderProtocolError) as caught:
        decoder().feed(sse(START, *call(0, "{}")[1:]))
    assert caught.value.retryable


NAMES = ["message", "content", "text", "thinking", "type", "tool_calls", "function", "name", "arguments", "id"]
MORE_NAMES = [
    "citations",
    "sources",
    "document",
    "tool_plan",
    "index",
    "usage",
    "tokens",
    "finish_reason",
    "content_index",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["", "x", "text", "thinking", "ERROR", "{"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES + MORE_NAMES), inner, max_size=4),
    max_leaves=12,
)
KINDS = ["message-start", "content-start", "content-delta", "content-end", "tool-plan-delta", "tool-call-start"]
MORE_KINDS = ["tool-call-delta", "tool-call-end", "citation-start", "citation-end", "message-end", "x"]


@given(st.lists(st.tuples(st.sampled_from(KINDS + MORE_KINDS), JSON, st.integers(0, 2)), max_size=8))
def test_no_other_error_can_be_raised(events: list[tuple[str, Any, int]]) -> None:
    reading = decoder()
    with suppress(ProviderError):
        reading.feed(sse(*({"type": kind, "index": index, "delta": delta} for kind, delta, index in events)))
        reading.close()


# -- documents ----------------------------------------------------------------------


def test_a_document() -> None:
    event, citation = cited(1)
    calls = [{"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"a":1}'}}]
    events = document(
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "So"},
        message={
            "tool_plan": "I will.",
            "tool_calls": calls,
            "citations": [event["delta"]["message"]["citations"]],
        },
        usage={"tokens": {"input_tokens": 1}},
    )
    assert events == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0"),
        TextStarted("1"),
        TextChunk("1", "So"),
        Cited("1", citation),
        TextDone("1"),
        ProviderItem("2", "tool_plan", '{"tool_plan":"I will."}'),
        ToolCallStarted("a", "read"),
        ToolCallChunk("a", '{"a":1}'),
        ToolCallDone("a"),
        UsageReported(Usage(input=1)),
        Finished("calls", "COMPLETE"),
    ]


@pytest.mark.parametrize("body", [{}, {"message": "hello"}, [1]])
def test_invalid_answers(body: object) -> None:
    reading = decoder("application/json")
    reading.feed(json.dumps(body).encode())
    with pytest.raises(ProviderProtocolError):
        reading.close()


@given(st.lists(JSON, max_size=4), JSON, JSON)
def test_no_document_raises_another_error(content: list[Any], message: Any, usage: Any) -> None:
    with suppress(ProviderError):
        document(*content, message=message if isinstance(message, dict) else {}, usage=usage)
