from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import (
    AuthFailed,
    ConnectionBroken,
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
from engine.providers.bedrock.wire import wire
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireDecoder

BEDROCK = wire(Quirks(title="AWS Bedrock"))
Event = tuple[str, dict[str, Any]]


def frame(name: str, payload: object, kind: str = "event") -> bytes:
    named = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    headers = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in named.items()
    )
    body = json.dumps(payload).encode()
    lengths = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    start = lengths + struct.pack(">I", crc32(lengths)) + headers + body
    return start + struct.pack(">I", crc32(start))


def delta(index: int, **member: object) -> Event:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": member, "p": "abcd"}


def start(index: int, **member: object) -> Event:
    return "contentBlockStart", {"contentBlockIndex": index, "start": member}


def stop(index: int) -> Event:
    return "contentBlockStop", {"contentBlockIndex": index}


def end(reason: str | None = "end_turn") -> list[Event]:
    return [("messageStop", {"stopReason": reason}), ("metadata", {"metrics": {"latencyMs": 1}})]


START: Event = ("messageStart", {"role": "assistant"})


def decoder(content_type: str = "application/vnd.amazon.eventstream") -> WireDecoder:
    actual = BEDROCK.decoder(content_type)
    assert actual is not None
    return actual


def stream(*events: Event) -> bytes:
    return b"".join(frame(*event) for event in events)


def whole(*events: Event) -> list[StreamEvent]:
    """Decode an answer, at once and byte by byte."""
    data = stream(*events)
    at_once, slowly = decoder(), decoder()
    read = [*at_once.feed(data), *at_once.close()]
    again = [event for i in range(len(data)) for event in slowly.feed(data[i : i + 1])]
    assert [*again, *slowly.close()] == read
    assert at_once.is_over
    return read


def document(*content: dict[str, Any], reason: str = "end_turn", **more: object) -> list[StreamEvent]:
    message = {"role": "assistant", "content": content}
    body = {"output": {"message": message}, "stopReason": reason, "metrics": {"latencyMs": 1}, **more}
    reading = decoder("application/json")
    assert reading.feed(json.dumps(body).encode()) == []
    return reading.close()


def tool(name: str = "read", use_id: str = "t", **more: str) -> dict[str, Any]:
    return {"name": name, "toolUseId": use_id, **more}


# -- what each part of the wire means --------------------------------------------


def test_text_and_usage() -> None:
    usage = {
        "inputTokens": 3,
        "outputTokens": 4,
        "cacheReadInputTokens": 5,
        "cacheWriteInputTokens": 6,
        "totalTokens": 18,
    }
    events = whole(START, delta(0, text="a"), delta(0, text=""), stop(0), end()[0], ("metadata", {"usage": usage}))
    assert events == [
        TextStarted("0"),
        TextChunk("0", "a"),
        TextDone("0"),
        UsageReported(Usage(input=3, output=4, cache_read=5, cache_write=6)),
        Finished("stop", "end_turn"),
    ]


def test_thinking_with_its_signature() -> None:
    pieces = [delta(0, reasoningContent=part) for part in ({"text": "h"}, {"text": "m"}, {"signature": "si"})]
    assert whole(START, *pieces, delta(0, reasoningContent={"signature": "g"}), stop(0), *end())[:-1] == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "h"),
        ReasoningChunk("0", "m"),
        ReasoningDone("0", "sig"),
    ]


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [(["YWI="], "YWI="), (["YWI=", "Yw=="], "YWJj"), (["!", "!"], "!!")],
)
def test_redacted_thinking(pieces: list[str], kept: str) -> None:
    deltas = [delta(0, reasoningContent={"redactedContent": piece}) for piece in pieces]
    assert whole(START, *deltas, stop(0), *end())[:-1] == [ReasoningStarted("0"), ReasoningDone("0", redacted=kept)]


def test_a_call() -> None:
    arguments = [delta(1, toolUse={"input": piece}) for piece in ("", '{"a"', ":1}")]
    assert whole(START, start(1, toolUse=tool()), *arguments, stop(1), *end("tool_use")) == [
        ToolCallStarted("t", "read"),
        ToolCallChunk("t", '{"a"'),
        ToolCallChunk("t", ":1}"),
        ToolCallDone("t"),
        Finished("calls", "tool_use"),
    ]


@pytest.mark.parametrize("deltas", [[], [delta(0, toolUse={"input": ""})]])
def test_no_arguments_are_an_empty_object(deltas: list[Event]) -> None:
    assert whole(START, start(0, toolUse=tool()), *deltas, stop(0), *end("tool_use"))[1] == ToolCallDone("t", "{}")


def test_blocks_in_any_order_of_kinds() -> None:
    thought = delta(1, reasoningContent={"text": "hm"})
    events = whole(START, delta(0, text=""), stop(0), thought, stop(1), delta(2, text="hi"), stop(2), *end())
    assert events[:-1] == [
        TextStarted("0"),
        TextDone("0"),
        ReasoningStarted("1"),
        ReasoningChunk("1", "hm"),
        ReasoningDone("1"),
        TextStarted("2"),
        TextChunk("2", "hi"),
        TextDone("2"),
    ]


def test_open_block_ends_with_next_or_answer() -> None:
    call = start(0, toolUse=tool())
    events = whole(
        START, delta(0, reasoningContent={"text": "hm"}), delta(0, text="a"), call, delta(1, text="b"), *end()
    )
    assert events == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0"),
        TextStarted("1"),
        TextChunk("1", "a"),
        TextDone("1"),
        ToolCallStarted("t", "read"),
        TextStarted("3"),
        TextChunk("3", "b"),
        TextDone("3"),
        Finished("calls", "end_turn"),
    ]


def test_ids_are_unique_within_an_answer() -> None:
    calls = [start(0, toolUse=tool(use_id=use_id)) for use_id in ("t", "t", "", "t.2")]
    ids = [event.id for event in whole(START, *calls, *end("tool_use")) if isinstance(event, ToolCallStarted)]
    assert ids[0] == "t"
    assert len(set(ids)) == 4


def test_sources() -> None:
    page = {"location": {"web": {"url": "https://a.example/", "domain": "a.example"}}}
    text_of = {
        "title": "facts",
        "sourceContent": [{"text": "So "}, {"text": "it is."}],
        "location": {"documentChar": {"start": 0}},
    }
    events = whole(START, delta(0, citation=text_of), delta(0, text="it is"), delta(0, citation=page), stop(0), *end())
    assert events[:-1] == [
        TextStarted("0"),
        Cited("0", Citation(title="facts", quote="So it is.", raw=json.dumps(text_of, separators=(",", ":")))),
        TextChunk("0", "it is"),
        Cited("0", Citation(url="https://a.example/", title="a.example", raw=json.dumps(page, separators=(",", ":")))),
        TextDone("0"),
    ]


def test_hosted_tool_work_is_kept_whole() -> None:
    use = tool("nova_code_interpreter", "s", type="server_tool_use")
    result = {"toolUseId": "s", "type": "nova_code_interpreter_result", "status": "success"}
    results = [{"text": "a"}], [{"text": "b"}, {"text": "c"}], [{"json": {"exitCode": 0}}]
    events = whole(
        START,
        start(0, toolUse=use),
        delta(0, toolUse={"input": '{"snippet":'}),
        delta(0, toolUse={"input": '"1+1"}'}),
        stop(0),
        start(1, toolResult=result),
        *(delta(1, toolResult=each) for each in results),
        stop(1),
        *end(),
    )
    assert [type(event) for event in events] == [ProviderItem, ProviderItem, Finished]
    first, second = (event for event in events if isinstance(event, ProviderItem))
    assert (first.kind, json.loads(first.data)) == ("toolUse", {"toolUse": use | {"input": {"snippet": "1+1"}}})
    reported = [{"text": "ab"}, {"text": "c"}, {"json": {"exitCode": 0}}]
    assert (second.kind, json.loads(second.data)) == ("toolResult", {"toolResult": result | {"content": reported}})


def test_an_image_that_the_model_made() -> None:
    pieces = [delta(0, image={"source": {"bytes": piece}}) for piece in ("YWI=", "Yw==")]
    item, _ = whole(START, start(0, image={"format": "png"}), *pieces, stop(0), *end())
    assert isinstance(item, ProviderItem)
    assert (item.kind, json.loads(item.data)) == ("image", {"image": {"format": "png", "source": {"bytes": "YWJj"}}})


# -- how it ends --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "stop"),  # a hosted tool's: there is nothing to call
        ("max_tokens", "length"),
        ("guardrail_intervened", "content_filter"),
        ("content_filtered", "content_filter"),
        ("model_context_window_exceeded", "overflow"),
        ("malformed_model_output", "unknown"),
        ("malformed_tool_use", "unknown"),
        (None, "unknown"),
    ],
)
def test_reasons(raw: str | None, reason: str) -> None:
    (finished,) = whole(START, *end(raw))
    assert isinstance(finished, Finished)
    assert (finished.reason, finished.raw) == (reason, raw)


def test_guardrail_reason() -> None:
    metadata = {"trace": {"guardrail": {"actionReason": "Guardrail\nblocked."}}}
    (finished,) = whole(START, end("guardrail_intervened")[0], ("metadata", metadata))
    assert finished == Finished("content_filter", "guardrail_intervened", "Guardrail blocked.")


def test_a_truncated_call_is_not_done() -> None:
    cut = [start(0, toolUse=tool()), delta(0, toolUse={"input": '{"a'})]
    started = [ToolCallStarted("t", "read"), ToolCallChunk("t", '{"a')]
    for closing in ([], [stop(0)]):
        assert whole(START, *cut, *closing, *end("max_tokens")) == [*started, Finished("length", "max_tokens")]


def test_a_call_of_nonsense_is_handed_on() -> None:
    events = whole(START, start(0, toolUse=tool()), delta(0, toolUse={"input": "{x"}), stop(0), *end("tool_use"))
    assert events[-2:] == [ToolCallDone("t"), Finished("calls", "tool_use")]


def test_usage_ends_the_answer() -> None:
    reading = decoder()
    stopped, metadata = end()
    seen = [(reading.feed(data), reading.is_over) for data in (stream(START, stopped), stream(metadata))]
    assert seen == [([], False), ([Finished("stop", "end_turn")], True)]
    assert reading.feed(b"whatever comes then") == []
    assert reading.close() == []


def test_or_with_the_bytes() -> None:
    assert whole(START, delta(0, text="a"), stop(0), end()[0])[-1] == Finished("stop", "end_turn")


def test_usage_may_come_first() -> None:
    stopped, metadata = end()
    assert whole(START, metadata, delta(0, text="a"), stopped)[-1] == Finished("stop", "end_turn")


@pytest.mark.parametrize("size", [0, 1, 20, -1])
def test_truncated_answer_is_a_broken_connection(size: int) -> None:
    reading = decoder()
    reading.feed(stream(START, delta(0, text="a"), stop(0), *end())[:size] if size != -1 else stream(START))
    with pytest.raises(ConnectionBroken) as caught:
        reading.close()
    assert caught.value.retryable


def test_the_unknown_is_ignored_and_counted() -> None:
    novel = start(1, novelty={"a": 1})
    events = whole(START, ("news", {}), ("news", {}), novel, delta(1, novelty={}), delta(2, other={}), stop(1), *end())
    assert events == [Unread("news", 2), Unread("novelty"), Unread("other"), Finished("stop", "end_turn")]


# -- when it goes wrong -----------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "message", "expected", "retryable"),
    [
        ("throttlingException", "Too many tokens, please wait before trying again.", RateLimited, True),
        ("serviceUnavailableException", "try later", Overloaded, True),
        ("internalServerException", "sorry", Overloaded, True),
        ("modelStreamErrorException", "sorry", Overloaded, True),
        ("modelTimeoutException", "too slow", Overloaded, True),
        ("validationException", "Input is too long for requested model.", ContextOverflow, False),
        ("validationException", "toolConfig is wrong", InvalidRequest, False),
        ("accessDeniedException", "you may not", AuthFailed, False),
        ("newException", "what next", ProviderError, True),
    ],
)
def test_an_exception_in_the_stream(kind: str, message: str, expected: type[ProviderError], retryable: bool) -> None:
    reading = decoder()
    assert reading.feed(stream(START, delta(0, text="kept"))) == [TextStarted("0"), TextChunk("0", "kept")]
    with pytest.raises(ProviderError, match=message) as caught:
        reading.feed(frame(kind, {"message": message}, "exception"))
    assert type(caught.value) is expected
    assert caught.value.retryable == retryable
    with pytest.raises(expected):
        reading.close()


def test_arguments_without_a_call_are_no_protocol() -> None:
    with pytest.raises(ProviderProtocolError) as caught:
        decoder().feed(stream(START, delta(0, toolUse={"input": "{}"})))
    assert caught.value.retryable


MEMBERS = ["text", "toolUse", "toolResult", "reasoningContent", "citation", "image", "name", "input", "toolUseId"]
OTHERS = ["type", "usage", "inputTokens", "message", "output", "content", "stopReason", "citationsContent", "json"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "tool_use", "server_tool_use", "{"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(MEMBERS + OTHERS), inner, max_size=4),
    max_leaves=12,
)
NAMES = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "x"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(NAMES),
            st.dictionaries(st.sampled_from(["contentBlockIndex", "start", "delta", "usage", "stopReason"]), JSON),
        ),
        max_size=8,
    )
)
def test_no_other_error_can_be_raised(events: list[Event]) -> None:
    reading = decoder()
    try:
        reading.feed(stream(*events))
        reading.close()
    except ProviderError:
        pass


# -- documents ----------------------------------------------------------------------


def test_a_document() -> None:
    signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}}
    redacted = {"reasoningContent": {"redactedContent": "YQ=="}}
    calls = [{"toolUse": tool(use_id="a") | {"input": {"é": 1}}}, {"toolUse": tool(use_id="b") | {"input": {}}}]
    events = document(signed, redacted, {"text": "hi"}, *calls, reason="tool_use", usage={"inputTokens": 1})
    assert events == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0", "sig"),
        ReasoningStarted("1"),
        ReasoningDone("1", redacted="YQ=="),
        TextStarted("2"),
        TextChunk("2", "hi"),
        TextDone("2"),
        ToolCallStarted("a", "read"),
        ToolCallChunk("a", '{"é":1}'),
        ToolCallDone("a"),
        ToolCallStarted("b", "read"),
        ToolCallChunk("b", "{}"),
        ToolCallDone("b"),
        UsageReported(Usage(input=1)),
        Finished("calls", "tool_use"),
    ]


def test_a_document_with_a_hosted_tool_and_sources() -> None:
    use = {"toolUse": tool("nova_grounding", "s", type="server_tool_use") | {"input": {"query": "q"}}}
    result = {"toolResult": {"toolUseId": "s", "content": [{"text": "[HIDDEN]"}], "type": "nova_grounding_result"}}
    cited = {"citationsContent": {"content": [{"text": "So."}], "citations": [{"title": "a"}, {"title": "b"}]}}
    events = document(use, result, cited, {"novelty": {}}, {"image": {"format": "png", "source": {"bytes": "YQ=="}}})
    assert [json.loads(event.data) for event in events if isinstance(event, ProviderItem)] == [
        use,
        result,
        {"image": {"format": "png", "source": {"bytes": "YQ=="}}},
    ]
    texts = [event for event in events if isinstance(event, (TextStarted, Cited, TextChunk, TextDone))]
    sources = [Cited("2", Citation(title=title, raw=f'{{"title":"{title}"}}')) for title in "ab"]
    assert texts == [TextStarted("2"), *sources, TextChunk("2", "So."), TextDone("2")]
    assert events[-2:] == [Unread("novelty"), Finished("stop", "end_turn")]


def test_the_last_call_of_a_truncated_document() -> None:
    call = {"toolUse": tool() | {"input": {}}}
    assert document(call, reason="max_tokens") == [
        ToolCallStarted("t", "read"),
        ToolCallChunk("t", "{}"),
        Finished("length", "max_tokens"),
    ]
    assert ToolCallDone("t") in document(call, {"text": "x"}, reason="max_tokens")


@pytest.mark.parametrize("body", [{}, {"output": {"message": {}}}, {"message": "hello"}, [1]])
def test_invalid_answers(body: object) -> None:
    reading = decoder("application/json")
    reading.feed(json.dumps(body).encode())
    with pytest.raises(ProviderProtocolError):
        reading.close()


@given(st.lists(JSON, max_size=5), JSON, JSON)
def test_no_document_raises_another_error(content: list[Any], reason: Any, usage: Any) -> None:
    with suppress(ProviderError):
        document(*content, reason=reason, usage=usage)


@pytest.mark.parametrize("content_type", ["text/html", "text/event-stream"])
def test_other_types_are_no_answer(content_type: str) -> None:
    assert BEDROCK.decoder(content_type) is None


def test_answer_without_a_type() -> None:
    reading = decoder("")
    assert reading.feed(stream(START, *end())) == [Finished("stop", "end_turn")]
