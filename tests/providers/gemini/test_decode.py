"""Decoding of Gemini responses: parts, signatures, streamed calls, usage, ends, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import (
    AuthFailed,
    ConnectionBroken,
    Overloaded,
    ProviderError,
    ProviderProtocolError,
    RateLimited,
)
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
from engine.providers.gemini.wire import wire
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import HttpReply

Json = dict[str, Any]
FORMAT = wire(Quirks())
SSE, JSON = "text/event-stream", "application/json"


def chunk(*parts: Json, finish: str | None = None, **more: Any) -> Json:
    candidate: Json = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate | more.pop("candidate", {})], **more}


def stop(*parts: Json, **more: Any) -> Json:
    return chunk(*parts, finish="STOP", **more)


def text(piece: str, **more: Any) -> Json:
    return {"text": piece, **more}


def call(name: str | None = None, **more: Any) -> Json:
    return {"functionCall": ({} if name is None else {"name": name}) | more}


def decode(*events: Json, content_type: str = SSE) -> list[StreamEvent]:
    """Read a stream to its end; the events' own parts only, if it ends well."""
    decoder = FORMAT.decoder(content_type)
    assert decoder is not None
    if content_type == SSE:
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
    else:
        body = json.dumps(events[0] if len(events) == 1 else events).encode()
    out = decoder.feed(body)
    while more := decoder.close():
        out += more
    assert decoder.is_over
    return out


def signed(on: str, signature: str, **more: int) -> str:
    return json.dumps({"on": on, "signature": signature, **more}, separators=(",", ":"))


STOPPED = Finished("stop", "STOP")
CALLED = Finished("calls", "STOP")


# -- parts ---------------------------------------------------------------------------


def test_thoughts_and_texts_in_pieces_are_blocks() -> None:
    events = decode(
        chunk(text("Hm", thought=True)),
        chunk(text(", well", thought=True), text("It")),
        chunk(text(" is.")),
        stop(text("")),
    )
    assert events == [
        ReasoningStarted("#0"),
        ReasoningChunk("#0", "Hm"),
        ReasoningChunk("#0", ", well"),
        ReasoningDone("#0", None),
        TextStarted("#1"),
        TextChunk("#1", "It"),
        TextChunk("#1", " is."),
        TextDone("#1"),
        STOPPED,
    ]


def test_document_equals_its_stream() -> None:
    streamed = decode(stop(text("Hm", thought=True), text("It is."), call("read", args={"path": "a"})))
    assert (
        decode(stop(text("Hm", thought=True), text("It is."), call("read", args={"path": "a"})), content_type=JSON)
        == streamed
    )
    assert streamed[-4:] == [
        TextDone("#1"),
        ToolCallStarted("#2", "read"),
        ToolCallDone("#2", '{"path":"a"}'),
        CALLED,
    ]


def test_array_equals_its_stream() -> None:
    chunks = [chunk(text("a")), chunk(text("b"), usageMetadata={"promptTokenCount": 1}), stop(text("c"))]
    assert decode(*chunks, content_type=JSON) == decode(*chunks)


def test_hosted_tool_output_returns_unchanged() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1 + 1", "id": "x1"}}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True}
    events = decode(
        chunk(text("so"), {**code, "thoughtSignature": "s"}), chunk(result, image), stop({"newPart": {"a": 1}})
    )
    assert events[2:] == [
        TextDone("#0"),
        ReasoningStarted("#1"),
        ReasoningDone("#1", signed("item", "s")),
        ProviderItem("#2", "executableCode", json.dumps(code, separators=(",", ":"))),
        ProviderItem("#3", "codeExecutionResult", json.dumps(result, separators=(",", ":"))),
        ProviderItem("#4", "inlineData", json.dumps(image, separators=(",", ":"))),
        ProviderItem("#5", "newPart", '{"newPart":{"a":1}}'),
        STOPPED,
    ]


def test_unknown_parts_are_counted() -> None:
    events = decode(
        chunk({}, {"thought": True}, {"text": 5}, {"functionCall": None}), stop(text("a"), call(args={"a": 1}))
    )
    assert events[-3:] == [Unread("functionCall without a name"), Unread("part", 4), STOPPED]


def test_only_the_first_candidate_counts() -> None:
    answer = stop(text("first"))
    answer["candidates"].append(stop(text("second"))["candidates"][0])
    assert [e.text for e in decode(answer) if isinstance(e, TextChunk)] == ["first"]


# -- signatures ----------------------------------------------------------------------


def test_reasoning_signature_ends_it() -> None:
    events = decode(
        chunk(text("a", thought=True)),
        chunk(text("b", thought=True, thoughtSignature="s")),
        stop(text("c", thought=True)),
    )
    assert events[2:] == [
        ReasoningChunk("#0", "b"),
        ReasoningDone("#0", signed("thought", "s")),
        ReasoningStarted("#1"),
        ReasoningChunk("#1", "c"),
        ReasoningDone("#1", None),
        STOPPED,
    ]


def test_a_text_s_signature_names_its_length() -> None:
    events = decode(chunk(text("so ")), chunk(text("it is", thoughtSignature="s")), stop(text(", yes")))
    assert events == [
        TextStarted("#0"),
        TextChunk("#0", "so "),
        TextDone("#0"),
        ReasoningStarted("#1"),
        ReasoningDone("#1", signed("text", "s", characters=5)),
        TextStarted("#2"),
        TextChunk("#2", "it is"),
        TextChunk("#2", ", yes"),
        TextDone("#2"),
        STOPPED,
    ]


def test_the_signature_of_nothing_stands_where_it_came() -> None:
    events = decode(
        chunk(text("a")), chunk(text("", thoughtSignature="s")), stop(text("b"), text("", thoughtSignature="t"))
    )
    assert events == [
        TextStarted("#0"),
        TextChunk("#0", "a"),
        TextDone("#0"),
        ReasoningStarted("#1"),
        ReasoningDone("#1", signed("empty", "s")),
        TextStarted("#2"),
        TextChunk("#2", "b"),
        TextDone("#2"),
        ReasoningStarted("#3"),
        ReasoningDone("#3", signed("empty", "t")),
        STOPPED,
    ]


def test_signature_without_a_part_is_dropped() -> None:
    assert decode(stop(text("a"), {"thoughtSignature": "s"})) == decode(stop(text("a"), text("", thoughtSignature="s")))


def test_call_signature_precedes_the_call() -> None:
    events = decode(stop({**call("read", args={}), "thoughtSignature": "s"}, call("list", args={"path": "b"})))
    assert events == [
        ReasoningStarted("#0"),
        ReasoningDone("#0", signed("call", "s")),
        ToolCallStarted("#1", "read"),
        ToolCallDone("#1", "{}"),
        ToolCallStarted("#2", "list"),
        ToolCallDone("#2", '{"path":"b"}'),
        CALLED,
    ]


def test_late_signature_belongs_to_the_previous_call() -> None:
    pieces = [{"jsonPath": "$.path", "stringValue": "a"}]
    events = decode(
        chunk(call("read", willContinue=True)),
        chunk({**call(partialArgs=pieces), "thoughtSignature": "s"}),
        stop(text("")),
    )
    assert events == [
        ToolCallStarted("#0", "read"),
        ToolCallDone("#0", '{"path":"a"}'),
        ReasoningStarted("#1"),
        ReasoningDone("#1", signed("last", "s")),
        CALLED,
    ]


# -- calls ---------------------------------------------------------------------------


def test_host_id_is_made_unique() -> None:
    events = decode(stop(call("a", id="c1", args={}), call("b", id="c1", args={}), call("c", args={})))
    assert [e.id for e in events if isinstance(e, ToolCallStarted)] == ["c1", "c1#1", "#2"]


def pieces_of(*pieces: tuple[str, str, Any]) -> list[Json]:
    return [{"jsonPath": path, name: value} for path, name, value in pieces]


def arguments(*pieces: Json, **opening: Any) -> Any:
    events = decode(chunk(call("f", willContinue=True, **opening)), stop(call(partialArgs=list(pieces)), call()))
    (done,) = (e for e in events if isinstance(e, ToolCallDone))
    return json.loads(done.arguments or "")


def test_arguments_in_pieces() -> None:
    assert arguments(
        *pieces_of(
            ("$.items[0].name", "stringValue", "ap"),
            ("$.items[0].name", "stringValue", "ple"),
            ("$.items[0].price", "numberValue", 0.5),
            ("$.items[1]", "nullValue", "NULL_VALUE"),
            ("$['a.b'][\"c d\"]['it\\'s']", "boolValue", True),
            ("$.grid[1][0]", "numberValue", 7),
            ("$.empty", "stringValue", ""),
        ),
        {"jsonPath": "$.items[0].name", "willContinue": False},
    ) == {
        "items": [{"name": "apple", "price": 0.5}, None],
        "a.b": {"c d": {"it's": True}},
        "grid": [None, [7]],
        "empty": "",
    }


def test_pieces_are_added_to_arguments_that_came_first() -> None:
    assert arguments(*pieces_of(("$.b", "numberValue", 2)), args={"a": 1}) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "piece",
    [
        {"jsonPath": "path", "stringValue": "a"},
        {"jsonPath": "$", "stringValue": "a"},
        {"jsonPath": "$..a", "stringValue": "a"},
        {"jsonPath": "$.a[*]", "stringValue": "a"},
        {"jsonPath": "$.a[99999999999]", "stringValue": "a"},
        {"jsonPath": "$.a[5000]", "stringValue": "a"},
        {"jsonPath": "$[0]", "stringValue": "a"},
        {"jsonPath": "$.taken.deeper", "stringValue": "a"},
        {"jsonPath": "$.taken[0]", "stringValue": "a"},
        {"jsonPath": "$" + ".a" * 500, "stringValue": "a"},
        {"jsonPath": "$.a", "stringValue": 5},
        {"jsonPath": "$.a", "numberValue": "5"},
        {"jsonPath": "$.a", "numberValue": True},
        {"jsonPath": "$.a", "boolValue": 1},
        {"stringValue": "a"},
    ],
)
def test_a_piece_without_a_place_breaks_the_call(piece: Json) -> None:
    """Arguments that nobody can vouch for are not run with; what came of them can be seen."""
    events = decode(chunk(call("f", args={"taken": "x"}, willContinue=True)), stop(call(partialArgs=[piece])))
    assert [type(e) for e in events] == [ToolCallStarted, ToolCallChunk, Finished]


def test_name_alone_is_an_empty_call() -> None:
    events = decode(chunk(call("a")), chunk(call("b")), stop(text("so")))
    assert events[:4] == [
        ToolCallStarted("#0", "a"),
        ToolCallDone("#0", "{}"),
        ToolCallStarted("#1", "b"),
        ToolCallDone("#1", "{}"),
    ]


@pytest.mark.parametrize(("finish", "is_cut"), [("STOP", False), ("MAX_TOKENS", True), ("SAFETY", True)])
def test_unfinished_call_needs_a_stop(finish: str, is_cut: bool) -> None:
    piece = {"jsonPath": "$.path", "stringValue": "a"}
    events = decode(
        chunk(call("read", willContinue=True)), chunk(call(partialArgs=[piece], willContinue=True), finish=finish)
    )
    end = ToolCallChunk("#0", '{"path":"a"}') if is_cut else ToolCallDone("#0", '{"path":"a"}')
    assert events[:2] == [ToolCallStarted("#0", "read"), end]


def test_a_complete_call_survives_the_token_limit() -> None:
    events = decode(chunk(call("read", args={"path": "a"})), chunk(text("and"), finish="MAX_TOKENS"))
    assert ToolCallDone("#0", '{"path":"a"}') in events
    assert events[-1] == Finished("length", "MAX_TOKENS")


# -- usage ---------------------------------------------------------------------------


def counts(**more: int) -> Json:
    return {f"{name}TokenCount": value for name, value in more.items()}


def test_usage_is_reported_first_and_last() -> None:
    events = decode(
        chunk(text("a"), usageMetadata=counts(prompt=10, total=10)),
        chunk(text("b"), usageMetadata=counts(prompt=10, candidates=1, thoughts=5, total=16)),
        chunk(text("c"), usageMetadata={"trafficType": "ON_DEMAND"}),
        stop(
            text("d"),
            usageMetadata=counts(prompt=10, cachedContent=4, toolUsePrompt=3, candidates=2, thoughts=5, total=20),
        ),
    )
    assert [e for e in events if isinstance(e, UsageReported)] == [
        UsageReported(Usage(input=10)),
        UsageReported(Usage(input=9, output=7, cache_read=4, reasoning=5)),
    ]
    assert isinstance(events[-2], UsageReported)


def test_unchanged_usage_is_reported_once() -> None:
    usage = counts(prompt=3, candidates=1)
    assert (
        decode(chunk(text("a"), usageMetadata=usage), stop(text("b"), usageMetadata=usage)).count(
            UsageReported(Usage(input=3, output=1))
        )
        == 1
    )


# -- the end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "malformed"),
        ("OTHER", "unknown"),
        ("SOMETHING_NEW", "unknown"),
    ],
)
def test_reasons_to_finish(raw: str, reason: Any) -> None:
    answer = chunk(finish=raw, candidate={"finishMessage": "It is so."})
    assert decode(answer) == [Finished(reason, raw, "" if raw == "STOP" else "It is so.")]


def test_a_question_that_is_blocked_has_no_answer() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."}
    assert decode({"promptFeedback": feedback}) == [Finished("content_filter", None, "PROHIBITED_CONTENT: No.")]
    assert decode({"promptFeedback": {"blockReason": "SAFETY"}, "candidates": []}) == [
        Finished("content_filter", None, "SAFETY")
    ]
    assert decode({"promptFeedback": {"safetyRatings": []}, **stop(text("a"))})[-1] == STOPPED


def test_content_after_the_finish_reason_counts() -> None:
    events = decode(stop(text("a")), chunk(text("b"), usageMetadata=counts(prompt=1)))
    assert [e.text for e in events if isinstance(e, TextChunk)] == ["a", "b"]
    assert events[-1] == STOPPED


@pytest.mark.parametrize("content_type", [SSE, JSON])
def test_a_stream_without_a_reason_was_cut_short(content_type: str) -> None:
    decoder = FORMAT.decoder(content_type)
    assert decoder is not None
    event = json.dumps(chunk(text("a"), usageMetadata=counts(prompt=1))).encode()
    assert len(decoder.feed(b"data: " + event + b"\n\n" if content_type == SSE else b"[" + event)) == 3
    with pytest.raises(ConnectionBroken) as caught:
        decoder.close()
    assert caught.value.retryable
    assert not decoder.is_over


def test_a_document_is_always_complete() -> None:
    assert decode(chunk(text("a")), content_type=JSON)[-1] == Finished("unknown", None)
    assert decode({}, content_type=JSON) == [Finished("unknown", None)]


# -- sources -------------------------------------------------------------------------


GROUNDING: Json = {
    "groundingChunks": [
        {"web": {"uri": "https://a.example", "title": "A"}},
        {"retrievedContext": {"uri": "gs://b", "title": "B", "text": "a long document"}},
    ],
    "groundingSupports": [
        {"segment": {"endIndex": 5, "text": "It is"}, "groundingChunkIndices": [1, 0]},
        {"segment": {"text": "so."}, "groundingChunkIndices": [7]},
    ],
}


def sources() -> list[Citation]:
    """What `GROUNDING` says; a document is named, not repeated."""
    first, second = GROUNDING["groundingSupports"]
    named = [{"uri": "gs://b", "title": "B"}, {"uri": "https://a.example", "title": "A"}]
    return [
        Citation(
            url="gs://b",
            title="B",
            quote="It is",
            raw=json.dumps({"groundingSupport": first, "sources": named}, separators=(",", ":")),
        ),
        Citation(quote="so.", raw=json.dumps({"groundingSupport": second, "sources": []}, separators=(",", ":"))),
    ]


def test_sources_belong_to_the_text_that_is_open() -> None:
    events = decode(
        chunk(text("It is"), candidate={"groundingMetadata": {}}),
        chunk(text(" so."), candidate={"groundingMetadata": GROUNDING}),
        stop(text("", thoughtSignature="s"), candidate={"groundingMetadata": GROUNDING}),
    )
    assert [e for e in events if isinstance(e, Cited)] == [Cited("#0", source) for source in sources()]
    assert events[-4:] == [TextDone("#0"), ReasoningStarted("#1"), ReasoningDone("#1", signed("empty", "s")), STOPPED]


def test_late_citations_get_an_empty_text() -> None:
    events = decode(stop(text("It is so."), call("a", args={}), candidate={"groundingMetadata": GROUNDING}))
    assert [e for e in events if not isinstance(e, Finished)][-6:] == [
        event
        for number, source in enumerate(sources(), 2)
        for event in (TextStarted(f"#{number}"), Cited(f"#{number}", source), TextDone(f"#{number}"))
    ]


def test_quoted_works_are_named() -> None:
    quoted = {"citationSources": [{"uri": "https://a.example", "license": "MIT"}]}
    events = decode(stop(text("a"), candidate={"citationMetadata": quoted}))
    assert Cited("#0", Citation(url="https://a.example", raw='{"uri":"https://a.example","license":"MIT"}')) in events


# -- errors --------------------------------------------------------------------------


def failure(code: int, status: str, message: str = "no") -> Json:
    return {"error": {"code": code, "status": status, "message": message}}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failure(429, "RESOURCE_EXHAUSTED", "Please retry later"), RateLimited),
        (failure(503, "UNAVAILABLE", "The model is overloaded."), Overloaded),
        (failure(500, "INTERNAL"), Overloaded),
        (failure(403, "PERMISSION_DENIED"), AuthFailed),
    ],
)
@pytest.mark.parametrize("content_type", [SSE, JSON])
def test_an_error_in_the_stream(error: Json, kind: type[ProviderError], content_type: str) -> None:
    """What came before it is kept, what was used among it."""
    before = chunk(text("a"), usageMetadata=counts(prompt=1))
    after = chunk(text("b"), usageMetadata=counts(prompt=1, candidates=2))
    decoder = FORMAT.decoder(content_type)
    assert decoder is not None
    if content_type == SSE:
        body = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in (before, after, error))
    else:
        body = json.dumps([before, after, error]).encode()
    assert decoder.feed(body)[-2:] == [TextChunk("#0", "b"), UsageReported(Usage(input=1, output=2))]
    with pytest.raises(kind) as caught:
        decoder.feed(b"")
    assert error["error"]["message"] in str(caught.value)


def test_error_in_an_array() -> None:
    body = json.dumps([failure(429, "RESOURCE_EXHAUSTED", "Resource exhausted.")]).encode()
    error = FORMAT.failure(HttpReply(status=429, headers={}, body=body), 0.0)
    assert type(error) is RateLimited
    assert "Resource exhausted." in str(error)


@pytest.mark.parametrize("body", [b"<html>", b'[{"candidates": nonsense}]', b"[1]"])
def test_invalid_json_breaks_the_protocol(body: bytes) -> None:
    decoder = FORMAT.decoder(JSON)
    assert decoder is not None
    with pytest.raises(ProviderProtocolError):
        decoder.feed(body)


def test_other_content_types_are_no_answer() -> None:
    assert FORMAT.decoder("text/html") is None


# Words of the API, and values of any kind in their places.
NAMES = (
    *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall", "name", "args", "id"),
    *("partialArgs", "jsonPath", "stringValue", "numberValue", "willContinue", "finishReason", "finishMessage"),
    *("usageMetadata", "promptTokenCount", "groundingMetadata", "groundingSupports", "groundingChunks", "segment"),
    *("groundingChunkIndices", "web", "promptFeedback", "blockReason", "inlineData", "error", "code", "message"),
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "STOP", "$.a", "$.a[2]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=4)
CHUNKS = st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=4) | st.builds(
    lambda parts, reason: {"candidates": [{"content": {"parts": parts}, "finishReason": reason}]},
    st.lists(PARTS | ANYTHING, max_size=4),
    ANYTHING,
)


@given(chunks=st.lists(CHUNKS, max_size=4), content_type=st.sampled_from([SSE, JSON]))
def test_any_input_is_read_or_a_provider_error(chunks: Sequence[Json], content_type: str) -> None:
    """And every block is opened and closed once, with an id that no other has."""
    try:
        events = decode(*chunks, content_type=content_type) if chunks else []
    except ProviderError:
        return
    opened = [e.id for e in events if isinstance(e, (TextStarted, ReasoningStarted, ToolCallStarted, ProviderItem))]
    closed = [e.id for e in events if isinstance(e, (TextDone, ReasoningDone, ToolCallDone))]
    assert len(set(opened)) == len(opened)
    assert len(set(closed)) == len(closed)
    assert set(closed) <= set(opened)
    assert [e for e in events if isinstance(e, Finished)] == events[-1:]
