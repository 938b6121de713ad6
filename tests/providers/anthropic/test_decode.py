from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import (
    AuthFailed,
    ConnectionBroken,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    Overloaded,
    ProviderError,
    ProviderProtocolError,
    RateLimited,
)
from engine.core.llm_types import (
    Cited,
    Finished,
    Ping,
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
from engine.core.messages import Citation, FinishReason, Usage
from engine.providers.anthropic.decode import AnthropicReader
from engine.providers.wire.decoding import DocumentDecoder, StreamDecoder, decoder_for
from engine.testing.anthropic_writer import AnthropicWriter
from engine.testing.script import call, done, reasoning, text


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def block(index: int, content: object, *deltas: object, stop: bool = True) -> list[object]:
    start = {"type": "content_block_start", "index": index, "content_block": content}
    middle = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [start, *middle, *([{"type": "content_block_stop", "index": index}] if stop else [])]


START = {"type": "message_start", "message": {"role": "assistant", "content": []}}
STOP = {"type": "message_stop"}


def end(reason: str | None, **more: object) -> list[object]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason, **more}}, STOP]


def decoder_of(content_type: str = "text/event-stream") -> StreamDecoder | DocumentDecoder:
    decoder = decoder_for(AnthropicReader(), content_type)
    assert decoder is not None
    return decoder


def decode(
    chunks: Iterable[bytes], decoder: StreamDecoder | DocumentDecoder | None = None
) -> tuple[list[StreamEvent], ProviderError | None]:
    """Decode as the HTTP shell does: until the end, or the error."""
    decoder = decoder or decoder_of()
    events: list[StreamEvent] = []
    try:
        for chunk in chunks:
            events += decoder.feed(chunk)
        while more := decoder.close():
            events += more
    except ProviderError as error:
        return events, error
    return events, None


def whole(*events: object) -> list[StreamEvent]:
    decoded, error = decode([sse(*events)])
    assert error is None
    return decoded


# -- what each part of the wire means --------------------------------------------


def test_text_with_its_usage_and_end() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
    text_block = block(
        0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a"}, {"type": "text_delta", "text": ""}
    )
    finish = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    assert whole(start, *text_block, {"type": "ping"}, finish, STOP) == [
        UsageReported(Usage(input=9, output=1)),
        TextStarted("0"),
        TextChunk("0", "a"),
        TextDone("0"),
        Ping(),
        UsageReported(Usage(input=9, output=5)),
        Finished("stop", "end_turn"),
    ]


def test_thinking_keeps_its_signature() -> None:
    content = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "thinking_delta", "thinking": ""},
        {"type": "signature_delta", "signature": "si"},
        {"type": "signature_delta", "signature": "g"},
    ]
    assert whole(START, *block(0, content, *deltas), *end("end_turn"))[:-1] == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0", "sig"),
    ]


def test_redacted_thinking() -> None:
    content = {"type": "redacted_thinking", "data": "opaque"}
    assert whole(START, *block(0, content), *end("end_turn"))[:-1] == [
        ReasoningStarted("0"),
        ReasoningDone("0", redacted="opaque"),
    ]


def tool(index: int, own_id: str, *pieces: str, stop: bool = True) -> list[object]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": own_id, "name": "read", "input": {}}, *deltas, stop=stop)


def test_a_call() -> None:
    assert whole(START, *tool(0, "toolu_1", "", '{"a"', ":1}"), *end("tool_use")) == [
        ToolCallStarted("toolu_1", "read"),
        ToolCallChunk("toolu_1", '{"a"'),
        ToolCallChunk("toolu_1", ":1}"),
        ToolCallDone("toolu_1"),
        Finished("calls", "tool_use"),
    ]


@pytest.mark.parametrize("pieces", [(), ("",)])
def test_no_arguments_are_an_empty_object(pieces: tuple[str, ...]) -> None:
    assert whole(START, *tool(0, "t", *pieces), *end("tool_use"))[1] == ToolCallDone("t", "{}")


def test_arguments_at_the_start_of_a_block() -> None:
    content = {"type": "tool_use", "id": "t", "name": "read", "input": {"a": "é"}}
    assert whole(START, *block(0, content), *end("tool_use"))[1] == ToolCallDone("t", '{"a":"é"}')


def test_a_truncated_call_is_not_done() -> None:
    events = whole(START, *tool(0, "t", '{"a', stop=False), *end("max_tokens"))
    assert events == [ToolCallStarted("t", "read"), ToolCallChunk("t", '{"a'), Finished("length", "max_tokens")]


def test_text_left_open_is_closed_at_the_end() -> None:
    events = whole(START, *block(0, {"type": "text", "text": "so far"}, stop=False), *end("end_turn"))
    assert events == [TextStarted("0"), TextChunk("0", "so far"), TextDone("0"), Finished("stop", "end_turn")]


def test_ids_are_unique_within_an_answer() -> None:
    events = whole(START, *tool(0, "t"), *tool(0, "t"), *tool(1, ""), *end("tool_use"))
    ids = [event.id for event in events if isinstance(event, ToolCallStarted)]
    assert ids[0] == "t"
    assert len(set(ids)) == 3


def test_reused_index_ends_the_first_block() -> None:
    first, second = block(0, {"type": "text", "text": "a"}, stop=False), block(0, {"type": "text", "text": "b"})
    events = whole(START, *first, *second, {"type": "content_block_stop", "index": 9}, *end("end_turn"))
    assert events[:-1] == [
        TextStarted("0"),
        TextChunk("0", "a"),
        TextDone("0"),
        TextStarted("1"),
        TextChunk("1", "b"),
        TextDone("1"),
    ]


def test_a_reused_index_does_not_complete_a_call() -> None:
    events = whole(START, *tool(0, "t", '{"a', stop=False), *tool(0, "u", "{}"), *end("tool_use"))
    assert [event for event in events if isinstance(event, ToolCallDone)] == [ToolCallDone("u")]


def test_id_like_the_engines_is_not_reused() -> None:
    thinking = block(1, {"type": "thinking", "thinking": ""})
    events = whole(START, *tool(0, "1"), *thinking, *tool(2, "0"), *tool(3, ""), *end("tool_use"))
    ids = [event.id for event in events if isinstance(event, ToolCallStarted | ReasoningStarted)]
    assert len(ids) == len(set(ids)) == 4


def test_blocks_may_be_interleaved() -> None:
    a = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a"})
    b = tool(1, "t", "{}")
    mixed = [event for pair in itertools.zip_longest(a, b) for event in pair if event]
    assert whole(START, *mixed, *end("tool_use"))[:-1] == [
        TextStarted("0"),
        ToolCallStarted("t", "read"),
        TextChunk("0", "a"),
        ToolCallChunk("t", "{}"),
        TextDone("0"),
        ToolCallDone("t"),
    ]


def test_hosted_tool_work_is_kept_whole() -> None:
    use = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"query":', ' "é"}')]
    result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"encrypted_content": "x"}]}
    first, second, finished = whole(START, *block(0, use, *deltas), *block(1, result), *end("pause_turn"))
    assert isinstance(first, ProviderItem)
    assert isinstance(second, ProviderItem)
    assert (first.kind, second.kind) == ("server_tool_use", "web_search_tool_result")
    assert json.loads(first.data) == use | {"input": {"query": "é"}}
    assert json.loads(second.data) == result
    assert finished == Finished("pause", "pause_turn")


def test_compacted_content_is_kept_whole() -> None:
    content = {"type": "compaction", "content": None}
    delta = {"type": "compaction_delta", "content": "they spoke of é"}
    item, finished = whole(START, *block(0, content, delta), *end("compaction"))
    assert isinstance(item, ProviderItem)
    assert (item.id, item.kind) == ("0", "compaction")
    assert json.loads(item.data) == {"type": "compaction", "content": "they spoke of é"}
    assert finished == Finished("pause", "compaction")


WEB = {"type": "web_search_result_location", "url": "https://a.example", "title": "A", "cited_text": "so it is"}
PAGE = {"type": "page_location", "document_title": "B.pdf", "cited_text": "é", "start_page_number": 1}


def cited(fields: Mapping[str, object], **reported: str) -> Cited:
    return Cited("0", Citation(raw=json.dumps(fields, ensure_ascii=False, separators=(",", ":")), **reported))


def test_citations_come_with_the_text_they_are_of() -> None:
    deltas = [
        {"type": "citations_delta", "citation": WEB},
        {"type": "text_delta", "text": "It is."},
        {"type": "citations_delta", "citation": PAGE},
        {"type": "citations_delta", "citation": {}},
        {"type": "citations_delta"},
    ]
    content = {"type": "text", "text": "", "citations": [WEB]}
    of_web = cited(WEB, url="https://a.example", title="A", quote="so it is")
    assert whole(START, *block(0, content, *deltas), *end("end_turn"))[:-1] == [
        TextStarted("0"),
        of_web,
        of_web,
        TextChunk("0", "It is."),
        cited(PAGE, title="B.pdf", quote="é"),
        TextDone("0"),
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "calls"),
        ("max_tokens", "length"),
        ("pause_turn", "pause"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "overflow"),
        ("compaction", "pause"),
        ("what_next", "unknown"),
        (None, "unknown"),
    ],
)
def test_reasons(raw: str | None, reason: str) -> None:
    (finished,) = whole(START, *end(raw))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw) == (reason, raw)


def test_refusal_has_its_reason() -> None:
    (finished,) = whole(START, *end("refusal", stop_details={"type": "refusal", "explanation": "no such help"}))
    assert finished == Finished("refusal", "refusal", "no such help")


def test_usage_is_merged_not_replaced() -> None:
    start = {
        "type": "message_start",
        "message": {
            "usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 4,
                "output_tokens": 1,
            }
        },
    }
    correction = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {
            "input_tokens": 50,
            "cache_read_input_tokens": None,
            "output_tokens": 7,
            "output_tokens_details": {"thinking_tokens": 2},
        },
    }
    events = whole(start, correction, STOP)
    assert events[1] == UsageReported(Usage(input=50, output=7, cache_read=4, cache_write=3, reasoning=2))


def test_unknown_events_are_reported_at_the_end() -> None:
    decoder = decoder_of()
    odd = {"type": "odd_delta", "text": "x"}
    stream = sse({"type": "novelty"}, {"type": "novelty"}, *block(0, {"type": "text"}, odd), 7, *end("end_turn"))
    events, error = decode([stream], decoder)
    assert events == [
        TextStarted("0"),
        TextDone("0"),
        Unread("None"),
        Unread("novelty", 2),
        Unread("odd_delta"),
        Finished("stop", "end_turn"),
    ]
    assert error is None
    assert decoder.ignored == {"novelty": 2, "odd_delta": 1, "None": 1}


def test_events_after_the_end_are_ignored() -> None:
    decoder = decoder_of()
    assert decoder.feed(sse(START, *end("end_turn"), {"type": "ping"}, START)) == [Finished("stop", "end_turn")]
    assert decoder.is_over
    assert decoder.feed(sse({"type": "error"})) == []
    assert decoder.close() == []


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextChunk))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"type": "text_delta", "text": "hi"}, [TextStarted("0"), TextChunk("0", "hi"), TextDone("0")]),
        (
            {"type": "thinking_delta", "thinking": "hm"},
            [ReasoningStarted("0"), ReasoningChunk("0", "hm"), ReasoningDone("0")],
        ),
    ],
)
def test_delta_without_start_keeps_its_text(kind: object, expected: list[StreamEvent]) -> None:
    _, *rest = block(0, None, kind)
    assert whole(START, *rest, *end("end_turn")) == [*expected, Finished("stop", "end_turn")]


def test_text_in_a_block_of_thinking_is_kept() -> None:
    thought = {"type": "thinking_delta", "thinking": "hm"}
    events = whole(
        START, *block(0, {"type": "thinking"}, thought, {"type": "text_delta", "text": "hi"}), *end("end_turn")
    )
    assert events[:-1] == [
        *(ReasoningStarted("0"), ReasoningChunk("0", "hm"), ReasoningDone("0")),
        *(TextStarted("1"), TextChunk("1", "hi"), TextDone("1")),
    ]


@pytest.mark.parametrize("gap", [end("end_turn"), []])
@pytest.mark.parametrize("together", [True, False])
def test_second_message_keeps_its_text(gap: list[object], together: bool) -> None:
    def message(text: str) -> list[object]:
        start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}
        return [start, *block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})]

    events = [*message("one "), *gap, *message("two"), *end("end_turn")]
    decoder = decoder_of()
    pieces = [sse(*events)] if together else [sse(event) for event in events]
    out = [event for piece in pieces for event in decoder.feed(piece)]
    assert text_of(out) == "one two"
    assert out[-1] == Finished("stop", "end_turn")
    assert [event.usage for event in out if isinstance(event, UsageReported)][-1] == Usage(input=10, output=2)
    assert decoder.close() == []


# -- answers that were not streamed --------------------------------------------------


def document(*content: object, **fields: object) -> bytes:
    message = {"type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", **fields}
    return json.dumps(message).encode()


def read_document(data: bytes, cuts: int = 3) -> tuple[list[StreamEvent], ProviderError | None]:
    size = len(data) // cuts + 1
    return decode([data[i : i + size] for i in range(0, len(data), size)], decoder_of("application/json"))


def test_a_whole_message() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": "It is.", "citations": [PAGE]},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "é"}},
        {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "é"}},
        {"type": "tool_use", "id": "u", "name": "list", "input": {}},
    ]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5, "output_tokens": 6}
    events, error = read_document(document(*blocks, stop_reason="tool_use", usage=usage))
    assert error is None
    quoted = cited(PAGE, title="B.pdf", quote="é")
    assert events == [
        UsageReported(Usage(input=3, output=6, cache_read=4, cache_write=5)),
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0", "sig"),
        ReasoningStarted("1"),
        ReasoningDone("1", redacted="opaque"),
        TextStarted("2"),
        TextChunk("2", "It is."),
        Cited("2", quoted.citation),
        TextDone("2"),
        ProviderItem(
            "3", "server_tool_use", '{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"é"}}'
        ),
        ToolCallStarted("t", "read"),
        ToolCallDone("t", '{"path":"é"}'),
        ToolCallStarted("u", "list"),
        ToolCallDone("u", "{}"),
        Finished("calls", "tool_use"),
    ]


def test_a_truncated_call_in_a_document() -> None:
    asks = [{"type": "tool_use", "id": key, "name": "read", "input": {"a": 1}} for key in ("t", "u")]
    events, error = read_document(document(*asks, stop_reason="max_tokens"))
    assert error is None
    assert events == [
        ToolCallStarted("t", "read"),
        ToolCallDone("t", '{"a":1}'),
        ToolCallStarted("u", "read"),
        Finished("length", "max_tokens"),
    ]
    events, _ = read_document(document({"type": "text", "text": "so far"}, stop_reason="max_tokens"))
    assert events == [TextStarted("0"), TextChunk("0", "so far"), TextDone("0"), Finished("length", "max_tokens")]


def test_no_events_before_the_document_is_complete() -> None:
    decoder = decoder_of("application/json")
    assert (decoder.feed(document()), decoder.is_over) == ([], False)
    assert (decoder.close(), decoder.is_over) == ([Finished("stop", "end_turn")], True)
    assert decoder.close() == []


@pytest.mark.parametrize(
    ("data", "expected", "retryable"),
    [
        (b"", ConnectionBroken, True),
        (document()[:-1], ConnectionBroken, True),
        (b"nonsense", ConnectionBroken, True),
        (b"{}", ProviderProtocolError, False),
        (b"[]", ProviderProtocolError, False),
        (b'{"content": "text"}', ProviderProtocolError, False),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}', Overloaded, True),
        (b'{"error": {"type": "authentication_error", "message": "x"}}', AuthFailed, False),
    ],
)
def test_invalid_messages(data: bytes, expected: type[ProviderError], retryable: bool) -> None:
    events, error = read_document(data)
    assert events == []
    assert error is not None
    assert (type(error), error.retryable) == (expected, retryable)


def test_the_error_of_a_document_stays() -> None:
    decoder = decoder_of("application/json")
    for _ in range(2):
        with pytest.raises(ConnectionBroken):
            decoder.close()
    with pytest.raises(ConnectionBroken):
        decoder.feed(b"{}")


def test_a_content_type_of_no_answer() -> None:
    assert decoder_for(AnthropicReader(), "text/html") is None


# -- when it goes wrong -----------------------------------------------------------


def failed(kind: str, message: str = "") -> bytes:
    return sse({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("kind", "message", "expected", "retryable"),
    [
        ("overloaded_error", "Overloaded", Overloaded, True),
        ("api_error", "Internal server error", Overloaded, True),
        ("timeout_error", "", Overloaded, True),
        ("rate_limit_error", "", RateLimited, True),
        ("authentication_error", "", AuthFailed, False),
        ("permission_error", "", AuthFailed, False),
        ("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum", ContextOverflow, False),
        ("invalid_request_error", "Output blocked by content filtering policy", ContentFiltered, False),
        ("invalid_request_error", "max_tokens: too large", InvalidRequest, False),
        ("what_next_error", "", ProviderError, True),
    ],
)
def test_an_error_in_the_stream(kind: str, message: str, expected: type[ProviderError], retryable: bool) -> None:
    with pytest.raises(ProviderError) as caught:
        decoder_of().feed(failed(kind, message))
    assert type(caught.value) is expected
    assert caught.value.retryable == retryable
    assert caught.value.status is None


def test_events_before_an_error_are_kept() -> None:
    decoder = decoder_of()
    stream = sse(START, *block(0, {"type": "text", "text": "kept"}, stop=False)) + failed("overloaded_error")
    assert decoder.feed(stream) == [TextStarted("0"), TextChunk("0", "kept")]
    for _ in range(2):
        with pytest.raises(Overloaded):
            decoder.feed(b"")
    with pytest.raises(Overloaded):
        decoder.close()


def test_truncated_answer_is_a_broken_connection() -> None:
    stream = sse(START, *block(0, {"type": "text", "text": "kept"}, stop=False))
    for cut_short in (b"", stream, stream + b'data: {"type": "message_st', stream + b"data: "):
        events, error = decode([cut_short])
        assert isinstance(error, ConnectionBroken)
        assert error.retryable
        assert events == ([TextStarted("0"), TextChunk("0", "kept")] if cut_short else [])


def test_the_last_blank_line_may_be_missing() -> None:
    stream = sse(START, *end("end_turn")).rstrip(b"\n")
    assert decode([stream]) == ([Finished("stop", "end_turn")], None)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: nonsense\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        sse({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{"}}),
        sse({"type": "content_block_delta", "index": 0}),
        sse({"type": "content_block_start", "index": 0}),
        sse(*block(0, {"type": "server_tool_use"}, {"type": "input_json_delta", "partial_json": "{"})),
    ],
)
def test_protocol_violations(stream: bytes) -> None:
    with pytest.raises(ProviderProtocolError) as caught:
        decoder_of().feed(stream)
    assert caught.value.retryable


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["text", "tool_use", "text_delta", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "index", "delta", "content_block", "usage", "message", "error", "id", "text", "input"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
KINDS = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.dictionaries(
                st.just("x") | st.sampled_from(["index", "delta", "content_block", "usage", "message", "error"]),
                JSON,
                max_size=4,
            ),
        ),
        max_size=6,
    )
)
def test_no_other_error_can_be_raised(events: list[tuple[str, dict[str, object]]]) -> None:
    decode([sse(*({"type": kind, **fields} for kind, fields in events))])


@given(
    st.dictionaries(
        st.sampled_from(["content", "usage", "stop_reason", "error", "stop_details"]), JSON | st.lists(JSON)
    )
)
def test_nor_can_one_that_does_not_stream(message: dict[str, object]) -> None:
    read_document(json.dumps(message).encode())


# -- any cut of the bytes -----------------------------------------------------------


Block = Callable[[str], Sequence[StreamEvent]]  # of the id that the decoder will give it


def strategy_of_scripts() -> st.SearchStrategy[list[StreamEvent]]:
    words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    pieces = st.integers(1, 4)

    def a_text(whole: str, n: int) -> Block:
        return lambda key: text(whole, id=key, pieces=n)

    def a_thought(whole: str, n: int, signature: str | None) -> Block:
        return lambda key: reasoning(whole, id=key, pieces=n, signature=signature)

    def a_redacted_thought(opaque: str) -> Block:
        return lambda key: reasoning("", id=key, redacted=opaque)

    def a_call(path: str, n: int) -> Block:
        return lambda key: call("read", {"path": path}, id=f"call{key}", pieces=n)

    blocks = st.one_of(
        st.builds(a_text, words, pieces),
        st.builds(a_thought, words, pieces, st.none() | words.filter(bool)),
        st.builds(a_redacted_thought, words.filter(bool)),
        st.builds(a_call, words, pieces),
    )
    reasons = st.sampled_from(["stop", "calls", "length", "pause"])
    usages = st.builds(Usage, input=st.integers(0, 99), output=st.integers(0, 99), cache_read=st.integers(0, 9))

    def script(parts: list[Block], pings: set[int], reason: FinishReason, usage: Usage) -> list[StreamEvent]:
        numbered = [event for index, part in enumerate(parts) for event in part(str(index))]
        for position in pings:
            numbered.insert(position, Ping())
        return [*numbered, *done(reason, usage=usage)]

    return st.builds(script, st.lists(blocks, max_size=6), st.sets(st.integers(0, 20), max_size=3), reasons, usages)


def bytes_of(script: Iterable[StreamEvent]) -> bytes:
    writer = AnthropicWriter("m")
    return b"".join(writer.write(event) for event in script)


def comparable(events: Iterable[StreamEvent]) -> list[StreamEvent]:
    """Leave out what the host may say sooner or later, and what the wire adds to the last event."""
    kept = [event for event in events if not isinstance(event, UsageReported | Ping)]
    return [Finished(event.reason) if isinstance(event, Finished) else event for event in kept]


@given(script=strategy_of_scripts())
def test_the_fake_host_and_the_decoder_agree(script: list[StreamEvent]) -> None:
    events, error = decode([bytes_of(script)])
    assert error is None
    assert comparable(events) == comparable(script)
    assert [e for e in events if isinstance(e, UsageReported)][-1:] == [
        e for e in script if isinstance(e, UsageReported)
    ]


@given(
    script=strategy_of_scripts(),
    cuts=st.lists(st.floats(0, 1), max_size=20),
    tail=st.sampled_from([b"", failed("overloaded_error"), b"data: x\n\n", sse({"type": "ping"}) * 2]),
    length=st.floats(0, 1),
)
def test_any_split_gives_equal_events_and_error(
    script: list[StreamEvent], cuts: list[float], tail: bytes, length: float
) -> None:
    stream = bytes_of(script)
    stream = stream[: int(len(stream) * length)] + tail
    edges = [0, *sorted(int(cut * len(stream)) for cut in cuts), len(stream)]
    split = decode(stream[a:b] for a, b in itertools.pairwise(edges))
    single = decode(stream[i : i + 1] for i in range(len(stream)))
    expected = decode([stream])
    for events, error in (split, single):
        assert events == expected[0]
        assert repr(error) == repr(expected[1])
