from __future__ import annotations

import itertools
import json
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import (
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
from engine.providers.openai_chat.wire import wire
from engine.providers.wire.quirks import Quirks

Json = dict[str, Any]
PLAIN = Quirks(title="Host")


def delta(reason: str | None = None, **members: Any) -> Json:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": reason}]}


def called(*calls: Json, reason: str | None = None) -> Json:
    return delta(reason, tool_calls=list(calls))


def call(name: str | None = None, arguments: Any = None, **more: Any) -> Json:
    function = {"name": name, "arguments": arguments}
    return {**more, "function": {key: value for key, value in function.items() if value is not None}}


STOP = delta("stop")
CALLS = delta("tool_calls")
DONE = "[DONE]"


def stream(*events: Json | str) -> bytes:
    return b"".join(b"data: %s\n\n" % (e if isinstance(e, str) else json.dumps(e)).encode() for e in events)


def read(*events: Json | str, quirks: Quirks = PLAIN) -> list[StreamEvent]:
    """All events of an answer; the same ones however it is cut."""
    actual = [decode(stream(*events), seed, quirks) for seed in (0, 1, 2)]
    assert actual[1] == actual[2] == actual[0]
    return actual[0]


def decode(body: bytes, seed: int, quirks: Quirks = PLAIN) -> list[StreamEvent]:
    decoder = wire(quirks).decoder("text/event-stream")
    assert decoder is not None
    rng, start = random.Random(seed), 0
    events: list[StreamEvent] = []
    while start < len(body):
        size = len(body) if seed == 0 else rng.randint(1, 40)
        events += decoder.feed(body[start : start + size])
        start += size
    while more := decoder.close():
        events += more
    assert decoder.is_over
    return events


def document(body: Json, quirks: Quirks = PLAIN) -> list[StreamEvent]:
    decoder = wire(quirks).decoder("application/json")
    assert decoder is not None
    assert decoder.feed(json.dumps(body).encode()) == []
    events = decoder.close()
    assert decoder.is_over
    return events


def message(reason: str | None = "stop", **members: Any) -> Json:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **members}, "finish_reason": reason}]}


def failing(*events: Json | str) -> tuple[list[StreamEvent], ProviderError]:
    """What comes before a failure, and the failure."""
    decoder = wire(PLAIN).decoder("text/event-stream")
    assert decoder is not None
    actual: list[StreamEvent] = []
    with pytest.raises(ProviderError) as failure:
        actual += decoder.feed(stream(*events))
        while more := decoder.close():
            actual += more
    return actual, failure.value


def text_block(text: str = "hi", block: str = "0") -> list[StreamEvent]:
    return [TextStarted(block), TextChunk(block, text)]


# -- text and its end ---------------------------------------------------------------------


def test_text() -> None:
    assert read(delta(role="assistant", content=""), delta(content="wo"), delta(content="rd"), STOP, DONE) == [
        TextStarted("0"),
        TextChunk("0", "wo"),
        TextChunk("0", "rd"),
        TextDone("0"),
        Finished("stop", "stop"),
    ]


def test_end_of_bytes_with_a_finish_reason() -> None:
    assert read(delta(content="hi"), STOP) == [*text_block(), TextDone("0"), Finished("stop", "stop")]


def test_stream_without_reason_is_complete_if_declared() -> None:
    assert read(delta(content="hi"), DONE) == [*text_block(), TextDone("0"), Finished("stop", None)]


@pytest.mark.parametrize("events", [[delta(content="hi")], []])
def test_a_stream_that_just_ends_is_cut_short(events: list[Json]) -> None:
    before, failure = failing(*events)
    assert before == (text_block() if events else [])
    assert isinstance(failure, ConnectionBroken)
    assert failure.retryable


def test_done_alone_is_no_answer() -> None:
    assert isinstance(failing(DONE)[1], ConnectionBroken)


def test_data_after_the_end_is_ignored() -> None:
    assert read(delta(content="hi"), STOP, DONE, delta(content="more")) == [
        *text_block(),
        TextDone("0"),
        Finished("stop", "stop"),
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("eos", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("sensitive", "content_filter"),
        ("model_context_window_exceeded", "overflow"),
        ("something new", "unknown"),
        # Calls without any: there is nothing to run.
        ("tool_calls", "stop"),
    ],
)
def test_reasons_to_stop(raw: str, reason: FinishReason) -> None:
    assert read(delta(content="hi"), delta(raw), DONE)[-1] == Finished(reason, raw)


def test_reason_chunk_followed_by_usage_chunk() -> None:
    counted = STOP | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    assert read(delta(content="hi"), STOP, counted, DONE) == [
        *text_block(),
        UsageReported(Usage(input=3, output=2)),
        TextDone("0"),
        Finished("stop", "stop"),
    ]


def test_text_in_the_last_chunk() -> None:
    assert read(delta("stop", content="hi"), DONE) == [*text_block(), TextDone("0"), Finished("stop", "stop")]


def test_a_reason_that_is_none_does_not_count() -> None:
    odd = {"choices": [{"index": 0, "delta": {}, "finish_reason": 5}]}
    assert read(delta("length", content="hi"), odd, DONE)[-1] == Finished("length", "length")


def test_a_refusal_is_no_text() -> None:
    parts = [{"type": "refusal", "refusal": "I won't"}]
    assert read(delta(content=parts), STOP, DONE) == [Finished("refusal", "stop", "I won't")]
    assert read(delta(refusal="I "), delta(refusal="won't"), STOP, DONE) == [Finished("refusal", "stop", "I won't")]


def test_a_message_whole_in_one_event() -> None:
    assert read(message(content="hi"), DONE) == [*text_block(), TextDone("0"), Finished("stop", "stop")]


def test_a_repeated_message_is_emitted_once() -> None:
    last = message(content="hi") | {"object": "chat.completion.done"}
    assert read(delta(content="hi"), last) == [*text_block(), TextDone("0"), Finished("stop", "stop")]


# -- usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(input=10, output=5)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input=4, output=5, cache_read=4, cache_write=2, reasoning=3),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, Usage(input=6, cache_read=4)),
        ({"prompt_tokens": 10, "cached_tokens": 4}, Usage(input=6, cache_read=4)),
        ({"prompt_tokens": 10, "cache_creation_input_tokens": 4}, Usage(input=6, cache_write=4)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None, "reasoning_tokens": 1}, Usage(input=10, reasoning=1)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 7}}, Usage(input=0, cache_read=7)),
        # Nothing that can be counted.
        ({"prompt_tokens": "10", "completion_tokens": None, "prompt_tokens_details": []}, Usage()),
    ],
)
def test_usage(raw: Json, expected: Usage) -> None:
    assert read(delta("stop", content="hi"), {"choices": [], "usage": raw}, DONE)[2] == UsageReported(expected)


def test_usage_of_hosts_that_count_apart() -> None:
    raw = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 161},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    quirks = Quirks(title="Host", cached_apart=True, reasoning_apart=True)
    events = read(delta("stop", content="hi") | {"usage": raw}, DONE, quirks=quirks)
    assert events[2] == UsageReported(Usage(input=10, output=8, cache_read=161, reasoning=3))


def test_groq_counts_in_a_place_of_its_own() -> None:
    last = STOP | {"x_groq": {"id": "req", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}}
    opening = {"choices": [], "x_groq": {"id": "req"}}
    assert read(opening, delta(content="hi"), last, DONE)[2] == UsageReported(Usage(input=3, output=2))


# -- thinking -------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["reasoning_content", "reasoning"])
def test_thinking_ends_where_text_begins(member: str) -> None:
    events = read(
        delta(role="assistant", content=None, **{member: "h"}), delta(**{member: "m"}), delta(content="hi"), STOP, DONE
    )
    assert events == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "h"),
        ReasoningChunk("0", "m"),
        ReasoningDone("0"),
        *text_block(block="1"),
        TextDone("1"),
        Finished("stop", "stop"),
    ]


def test_reasoning_precedes_text_of_its_delta() -> None:
    events = read(delta("stop", content="hi", reasoning="hm"), DONE)
    assert events[:5] == [ReasoningStarted("0"), ReasoningChunk("0", "hm"), ReasoningDone("0"), *text_block(block="1")]


def test_thinking_between_texts_makes_two_of_them() -> None:
    events = read(delta(content="a"), delta(reasoning="hm"), delta(content="b"), STOP, DONE)
    assert events == [
        *text_block("a", "0"),
        ReasoningStarted("1"),
        ReasoningChunk("1", "hm"),
        ReasoningDone("1"),
        TextDone("0"),
        *text_block("b", "2"),
        TextDone("2"),
        Finished("stop", "stop"),
    ]


def detail(kind: str, **members: Any) -> Json:
    return {"type": f"reasoning.{kind}", "format": "some-v1", "index": 0, **members}


def thought(events: list[StreamEvent]) -> tuple[str, Any]:
    """The text of the one block of thinking, and what its signature holds."""
    (done,) = (event for event in events if isinstance(event, ReasoningDone))
    shown = "".join(event.text for event in events if isinstance(event, ReasoningChunk))
    return shown, json.loads(done.signature) if done.signature else None


def test_repeated_thinking_counts_once() -> None:
    events = read(
        delta(content="", reasoning="h", reasoning_details=[detail("text", text="h", signature="")]),
        delta(content="", reasoning="m", reasoning_details=[detail("text", text="m", signature=None)]),
        delta(content="", reasoning=None, reasoning_details=[detail("text", text="", signature="sig")]),
        delta("stop", content="hi"),
        DONE,
    )
    kept = {"type": "reasoning.text", "format": "some-v1", "index": 0, "signature": "sig"}
    assert thought(events) == ("hm", {"field": "reasoning_details", "details": [kept]})


def test_thinking_in_details_alone() -> None:
    events = read(delta(reasoning_details=[detail("text", text="hm")]), delta("stop", content="hi"), DONE)
    assert thought(events) == ("hm", None)


def test_a_summary_and_what_is_encrypted_belong_together() -> None:
    secret = detail("encrypted", data="xyz", id="rs_1")
    events = read(
        delta(reasoning="hm", reasoning_details=[detail("summary", summary="hm")]),
        delta(reasoning_details=[secret]),
        delta("stop", content="hi"),
        DONE,
    )
    summary = {"type": "reasoning.summary", "format": "some-v1", "index": 0}
    assert thought(events) == ("hm", {"field": "reasoning_details", "details": [summary, secret]})


def test_two_pieces_of_thinking_are_two_blocks() -> None:
    events = read(
        delta(reasoning_details=[detail("text", text="a", signature="s1"), detail("text", text="b", index=1)]),
        delta(reasoning_details=[detail("text", text="c", index=1, signature="s2")]),
        delta("stop", content="hi"),
        DONE,
    )
    assert [event.text for event in events if isinstance(event, ReasoningChunk)] == ["a", "b", "c"]
    signatures = [json.loads(event.signature or "") for event in events if isinstance(event, ReasoningDone)]
    assert [each["details"][0]["signature"] for each in signatures] == ["s1", "s2"]


@pytest.mark.parametrize(
    "other",
    [
        {"index": 1},
        {"type": "reasoning.other"},
        {"id": "b"},
        # What follows a signature is not signed by it.
        {"signature": None},
    ],
)
def test_where_another_piece_of_thinking_begins(other: Json) -> None:
    first = detail("text", text="a", id="a", signature="s")
    events = read(delta(reasoning_details=[first, first | {"text": "b"} | other]), delta("stop", content="hi"), DONE)
    assert sum(isinstance(event, ReasoningDone) for event in events) == 2


def test_repeated_content_changes_nothing() -> None:
    first = detail("text", text="a", id="a")
    last = detail("text", text="b", format=None, id=None, signature="s")
    events = read(
        delta(reasoning="a", reasoning_details=[first]),
        delta(reasoning="b", reasoning_details=[last]),
        delta(reasoning_details=[detail("text", text="", signature="s")]),
        delta("stop", content="hi"),
        DONE,
    )
    kept = {"type": "reasoning.text", "format": "some-v1", "index": 0, "id": "a", "signature": "s"}
    assert thought(events) == ("ab", {"field": "reasoning_details", "details": [kept]})


def test_encrypted_reasoning_may_precede_its_text() -> None:
    secret = detail("encrypted", data="xyz")
    events = read(
        delta(reasoning_details=[secret]),
        delta(reasoning="a", reasoning_details=[detail("text", text="a")]),
        delta("stop", content="hi"),
        DONE,
    )
    text = {"type": "reasoning.text", "format": "some-v1", "index": 0}
    assert thought(events) == ("a", {"field": "reasoning_details", "details": [secret, text]})


def test_details_repeating_the_text_are_blocks() -> None:
    pieces = [detail("text", text="a"), detail("text", text="b", index=1)]
    events = read(delta(reasoning="ab", reasoning_details=pieces), delta("stop", content="hi"), DONE)
    assert [event.text for event in events if isinstance(event, ReasoningChunk)] == ["a", "b"]


def test_encrypted_reasoning_without_text() -> None:
    secret = detail("encrypted", data="xyz")
    events = read(delta(content="hi"), delta(content="", reasoning_details=[secret]), STOP, DONE)
    assert events == [
        *text_block(),
        ReasoningStarted("1"),
        ReasoningDone("1", json.dumps({"field": "reasoning_details", "details": [secret]}, separators=(",", ":"))),
        TextDone("0"),
        Finished("stop", "stop"),
    ]


def test_thinking_that_differs_from_its_details() -> None:
    pieces = [detail("text", text="half", signature="s"), detail("text", text="of it", index=1)]
    events = read(delta(reasoning="all of it", reasoning_details=pieces), STOP, DONE)
    shown, kept = thought(events)
    assert shown == "all of it"
    assert [each["index"] for each in kept["details"]] == [0, 1]


def test_litellm_reasoning() -> None:
    events = read(
        delta(reasoning_content="hm", thinking_blocks=[{"type": "thinking", "thinking": "hm", "signature": None}]),
        delta(thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "sig"}]),
        delta("stop", content="hi"),
        DONE,
    )
    kept = {"type": "thinking", "signature": "sig"}
    assert thought(events) == ("hm", {"field": "thinking_blocks", "details": [kept]})


def test_mistral_content_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]}]
    events = read(
        delta(content=parts),
        delta(content=[{"type": "thinking", "thinking": "!"}, {"type": "text", "text": "hi"}]),
        delta("stop", content=[{"type": "text", "text": ""}, {"type": "reference", "reference_ids": [1]}]),
        DONE,
    )
    assert events == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningChunk("0", "!"),
        ReasoningDone("0"),
        *text_block(block="1"),
        TextDone("1"),
        Unread("reference"),
        Finished("stop", "stop"),
    ]


# -- calls ----------------------------------------------------------------------------------

WHOLE = [
    ToolCallStarted("c1", "read"),
    ToolCallChunk("c1", '{"a": 1}'),
    ToolCallDone("c1"),
    Finished("calls", "tool_calls"),
]


def test_a_call_in_pieces() -> None:
    assert read(
        called(call("read", "", index=0, id="c1", type="function")),
        called(call(None, '{"a', index=0)),
        called(call(None, '": 1}', index=0)),
        CALLS,
        DONE,
    ) == [
        ToolCallStarted("c1", "read"),
        ToolCallChunk("c1", '{"a'),
        ToolCallChunk("c1", '": 1}'),
        ToolCallDone("c1"),
        Finished("calls", "tool_calls"),
    ]


@pytest.mark.parametrize(
    "events",
    [
        [called(call("read", '{"a": 1}', index=0, id="c1")), CALLS],
        [called(call("read", '{"a": 1}', index=1, id="c1")), CALLS],
        [called(call("read", '{"a": 1}', id="c1")), CALLS],
        [called(call("read", '{"a": 1}', index=0, id="c1"), reason="tool_calls")],
        [called(call("read", {"a": 1}, index=0, id="c1")), CALLS],
        # The name comes late, or again; the whole call comes again.
        [called({"index": 0, "id": "c1"}), called(call("read", '{"a": 1}', index=0)), CALLS],
        [called(call("read", "", index=0, id="c1")), called(call("read", '{"a": 1}', index=0, id="c1")), CALLS],
        [called(call("read", "", index=0, id="c1")), called(call("", '{"a": 1}', index=0, id="")), CALLS],
        [called(call("read", '{"a": 1}', index=0, id="c1"))] * 2 + [CALLS],
        [called({"index": 0}), called({"index": 0, "id": "c1"}), called(call("read", '{"a": 1}', index=0)), CALLS],
        [called(call(None, '{"a": 1}', index=0, id="c1")), called(call("read", index=0)), CALLS],
        [called(call("read", "", index=0, id="c1")), called(call("read", '{"a": 1}', index=0)), CALLS],
        # Each piece has an id of its own.
        [called(call("read", '{"a"', index=0, id="c1")), called(call(None, ": 1}", index=0, id="c2")), CALLS],
        [called(call("read", '{"a": 1}', index=0, id="c1")), called(call(None, index=0)), CALLS],
    ],
)
def test_a_call_in_all_its_forms(events: list[Json]) -> None:
    actual = read(*events, DONE)
    assert [e for e in actual if not isinstance(e, ToolCallChunk)] == [
        e for e in WHOLE if not isinstance(e, ToolCallChunk)
    ]
    pieces = [event.text for event in actual if isinstance(event, ToolCallChunk)]
    assert all(pieces)
    assert json.loads("".join(pieces)) == {"a": 1}


def test_unindexed_pieces_belong_to_the_last_call() -> None:
    events = read(called(call("read", "", id="c1")), called(call(None, '{"a": 1}')), CALLS, DONE)
    assert events == WHOLE


def test_details_differ_by_index_or_id() -> None:
    events = read(
        called(call("read", "", index=0, id="a"), call("write", "", index=1, id="b")),
        called(call(None, '{"b": 1}', index=1), call(None, '{"a": 1}', index=0)),
        CALLS,
        DONE,
    )
    assert arguments_of(events) == {"a": '{"a": 1}', "b": '{"b": 1}'}
    events = read(
        called(call("read", "", id="a"), call("write", "", id="b")),
        called(call(None, '{"b": 1}', id="b"), call(None, '{"a": 1}', id="a")),
        CALLS,
        DONE,
    )
    assert arguments_of(events) == {"a": '{"a": 1}', "b": '{"b": 1}'}


def test_pieces_of_calls_may_be_mixed() -> None:
    events = read(
        called(call("read", '{"a"', index=0, id="a")),
        called(call("write", '{"b"', index=1, id="b")),
        called(call(None, ": 1}", index=0)),
        called(call(None, ": 1}", index=1)),
        CALLS,
        DONE,
    )
    assert arguments_of(events) == {"a": '{"a": 1}', "b": '{"b": 1}'}


def arguments_of(events: list[StreamEvent]) -> dict[str, str]:
    """The arguments of the calls that are done."""
    actual: dict[str, str] = {}
    for done in (event for event in events if isinstance(event, ToolCallDone)):
        streamed = "".join(event.text for event in events if isinstance(event, ToolCallChunk) and event.id == done.id)
        actual[done.id] = streamed if done.arguments is None else done.arguments
    return actual


@pytest.mark.parametrize(
    "calls",
    [
        # All with the same index; the same id again; neither index nor id.
        [call("read", '{"n": 1}', index=0, id="a"), call("read", '{"n": 2}', index=0, id="b")],
        [call("read", '{"n": 1}', index=0, id="a"), call("read", '{"n": 2}', index=1, id="a")],
        [call("read", '{"n": 1}', id="a"), call("read", '{"n": 2}', id="a")],
        [call("read", '{"n": 1}'), call("read", '{"n": 2}')],
        [call("read", '{"n": 1}', index=0), call("read", '{"n": 2}', index=0)],
        [call("read", '{"n": 1}', index=0), call("read", "", index=0), call(None, '{"n": 2}', index=0)],
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_two_calls_stay_two(calls: list[Json], together: bool) -> None:
    events = [called(*calls)] if together else [called(each) for each in calls]
    actual = arguments_of(read(*events, CALLS, DONE))
    assert len(actual) == 2
    assert list(actual.values()) == ['{"n": 1}', '{"n": 2}']


def test_a_call_is_done_when_another_begins() -> None:
    events = read(
        called(call("read", '{"n": 1}', index=0, id="a")),
        called(call("read", "", index=1, id="b")),
        called(call(None, "too late", index=0)),
        called(call("read", "", index=2, id="c")),
        CALLS,
        DONE,
    )
    assert events[:6] == [
        ToolCallStarted("a", "read"),
        ToolCallChunk("a", '{"n": 1}'),
        ToolCallDone("a"),
        ToolCallStarted("b", "read"),
        ToolCallStarted("c", "read"),
        ToolCallDone("b", "{}"),
    ]


# As the end of a piece, in the middle of one, alone; braces and quotes in strings; white space around it.
CLOSING: tuple[tuple[str, ...], ...] = (
    ('{"a": 1}',),
    ('{"a"', ": 1", "}"),
    ("{", '"a": {"b": [1, {}]}', "}"),
    ('{"a": "}', '{"', ', "b": "\\', '"}"', "}"),
    ('{"a": "\\\\', '"', "}"),
    (' {"a"', ": 1} ", "\n"),
)


@pytest.mark.parametrize("pieces", CLOSING)
def test_call_ends_where_its_object_closes(pieces: tuple[str, ...]) -> None:
    decoder = wire(PLAIN).decoder("text/event-stream")
    assert decoder is not None
    decoder.feed(stream(called(call("read", "", index=0, id="a"))))
    text = "".join(pieces)
    sent, is_done = "", False
    for piece in pieces:
        events = decoder.feed(stream(called(call(None, piece, index=0))))
        sent += piece
        is_done = is_done or ToolCallDone("a") in events
        assert is_done == (sent.strip() == text.strip())


def test_calls_end_in_their_order() -> None:
    first = [called(call("read", '{"n":', index=0, id="a")), called(call("read", '{"n": 2}', index=1, id="b"))]
    last = called(call(None, " 1}", index=0))
    events = read(*first, last, CALLS, DONE)
    assert [event.id for event in events if isinstance(event, ToolCallDone)] == ["a", "b"]
    # Both when the first one closes, not at the end of the response.
    assert events.index(ToolCallDone("b")) < events.index(Finished("calls", "tool_calls"))
    assert events[-3:-1] == [ToolCallDone("a"), ToolCallDone("b")]


def test_arguments_after_their_end_are_counted() -> None:
    late = called(call(None, '{"n": 2}', index=0))
    events = read(
        called(call("read", '{"n": 1}', index=0, id="a")), late, called(call(None, " ", index=0)), CALLS, DONE
    )
    assert arguments_of(events) == {"a": '{"n": 1}'}
    assert Unread("late arguments") in events


@given(
    arguments=st.dictionaries(st.text(), st.recursive(st.text() | st.integers(), st.lists, max_leaves=8), min_size=1),
    cuts=st.lists(st.integers(0, 200)),
)
def test_call_never_ends_before_its_arguments(arguments: Json, cuts: list[int]) -> None:
    text = json.dumps(arguments)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    events = read(*(called(call("read", piece, index=0, id="a")) for piece in pieces), CALLS, DONE)
    assert arguments_of(events) == {"a": text}
    assert events[-2:] == [ToolCallDone("a"), Finished("calls", "tool_calls")]


def test_an_empty_object_may_be_only_the_beginning() -> None:
    events = read(called(call("read", "{}", index=0, id="a")), called(call("read", "", index=1, id="b")), CALLS, DONE)
    assert events[2:4] == [ToolCallStarted("b", "read"), ToolCallDone("a")]


def test_name_starts_an_unindexed_call() -> None:
    events = read(called(call("read", "")), called(call("write", '{"n": 1}')), CALLS, DONE)
    assert [event.tool for event in events if isinstance(event, ToolCallStarted)] == ["read", "write"]
    assert list(arguments_of(events).values()) == ["{}", '{"n": 1}']


@pytest.mark.parametrize(
    "deltas",
    [
        # In pieces, the last of them with the arguments or before them.
        [call("lo", "", index=0, id="a"), call("ok", "", index=0), call(None, '{"n": 1}', index=0)],
        [call("lo", "", index=0, id="a"), call("ok", '{"n": 1}', index=0)],
        [
            call("l", index=0, id="a"),
            call("oo", index=0, id="a"),
            call("k", '{"n"', index=0),
            call("", ": 1}", index=0),
        ],
        [call("lo", id="a"), call("ok", '{"n": 1}', id="a")],
        # Whole in each delta, or all of it so far.
        [
            call("look", '{"n"', index=0, id="a"),
            call("look", ": ", index=0, id="a"),
            call("look", "1}", index=0, id="a"),
        ],
        [call("look", "", index=0, id="a"), call("look", '{"n": 1}', index=0), call("look", "", index=0)],
        [call("look", '{"n": 1}', index=0, id="a"), call("look", "", index=0, id="a")],
        [call("lo", "", index=0, id="a"), call("look", '{"n": 1}', index=0, id="a")],
    ],
)
def test_a_name_in_several_deltas(deltas: list[Json]) -> None:
    events = read(*[called(each) for each in deltas], CALLS, DONE)
    assert [event for event in events if isinstance(event, ToolCallStarted)] == [ToolCallStarted("a", "look")]
    assert arguments_of(events) == {"a": '{"n": 1}'}


def test_an_id_that_comes_late() -> None:
    events = read(called(call("read", "", index=0)), called(call("read", '{"a": 1}', index=0, id="c1")), CALLS, DONE)
    assert arguments_of(events) == {"0": '{"a": 1}'}


@pytest.mark.parametrize("arguments", ["", "null", None, " "])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    events = read(called(call("read", arguments, index=0, id="c1")), CALLS, DONE)
    assert events[-2:] == [ToolCallDone("c1", "{}"), Finished("calls", "tool_calls")]


def test_calls_override_the_finish_reason() -> None:
    assert read(called(call("read", "{}", index=0, id="c1")), STOP, DONE)[-1] == Finished("calls", "stop")


def test_a_truncated_call_is_not_done() -> None:
    events = read(
        called(call("read", '{"n": 1}', index=0, id="a")),
        called(call("write", '{"n', index=1, id="b")),
        delta("length"),
        DONE,
    )
    assert arguments_of(events) == {"a": '{"n": 1}'}
    assert events[-1] == Finished("length", "length")


def test_whole_call_at_the_token_limit() -> None:
    events = read(called(call("read", '{"n": 1}', index=0, id="a")), delta("length"), DONE)
    assert arguments_of(events) == {"a": '{"n": 1}'}


@pytest.mark.parametrize("arguments", ["", '{"a": }', "[]", '"}"'])
def test_incomplete_arguments_at_the_token_limit(arguments: str) -> None:
    assert arguments_of(read(called(call("read", arguments, index=0, id="a")), delta("length"), DONE)) == {}


def test_broken_arguments_reach_the_tool() -> None:
    assert arguments_of(read(called(call("read", '{"n', index=0, id="a")), CALLS, DONE)) == {"a": '{"n'}


def test_call_without_an_id_gets_one() -> None:
    assert read(called(call("read", '{"a": 1}', index=0)), CALLS, DONE)[0] == ToolCallStarted("0", "read")


def test_a_call_without_a_name() -> None:
    events = read(called({"index": 0, "id": "c1", "function": {"arguments": "{}"}}), CALLS, DONE)
    assert events[:3] == [ToolCallStarted("c1", ""), ToolCallChunk("c1", "{}"), ToolCallDone("c1")]


def test_a_call_waits_for_its_name() -> None:
    events = read(
        called({"index": 0, "id": "a", "function": {"arguments": '{"n": 1}'}}),
        called(call("read", '{"n": 2}', index=1, id="b")),
        CALLS,
        DONE,
    )
    assert events[:2] == [ToolCallStarted("b", "read"), ToolCallChunk("b", '{"n": 2}')]
    assert arguments_of(events) == {"a": '{"n": 1}', "b": '{"n": 2}'}


def test_the_one_call_from_before_there_were_tools() -> None:
    events = read(
        delta(function_call={"name": "read", "arguments": ""}),
        delta(function_call={"arguments": '{"a": 1}'}),
        delta("function_call"),
        DONE,
    )
    assert events == [
        ToolCallStarted("0", "read"),
        ToolCallChunk("0", '{"a": 1}'),
        ToolCallDone("0"),
        Finished("calls", "function_call"),
    ]


def test_empty_members_are_ignored() -> None:
    empty: Json = {
        "function_call": {"name": "", "arguments": ""},
        "refusal": "",
        "tool_calls": None,
        "audio": {"id": ""},
    }
    first = {"choices": [{"index": 0, "delta": {"content": "hi", **empty}}]}
    assert read(first, STOP, DONE) == [*text_block(), TextDone("0"), Finished("stop", "stop")]


def test_thinking_ends_where_a_call_begins() -> None:
    events = read(delta(reasoning="hm"), called(call("read", "{}", index=0, id="c1")), CALLS, DONE)
    assert events[2:4] == [ReasoningDone("0"), ToolCallStarted("c1", "read")]


def test_google_text_signature_follows_the_text() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    events = read(delta(content="hi"), delta("stop", extra_content=extra), DONE)
    assert events == [
        *text_block(),
        ProviderItem("1", "extra_content", '{"google":{"thought_signature":"sig"}}'),
        TextDone("0"),
        Finished("stop", "stop"),
    ]
    thinking = delta(content="hi", extra_content={"google": {"thought": True}})
    assert read(thinking, STOP, DONE) == read(delta(content="hi"), STOP, DONE)


def test_google_call_signature_precedes_the_call() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    events = read(called(call("read", "{}", index=0, id="c1", extra_content=extra)), CALLS, DONE)
    assert events[:2] == [
        ProviderItem("0", "extra_content", '{"google":{"thought_signature":"sig"}}'),
        ToolCallStarted("c1", "read"),
    ]


# -- sources, images, other people's tools ------------------------------------------------------

PAGE = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "content": "x" * 500}}
CITED = Citation(url="https://a.example", title="A", raw='{"type":"url_citation","url_citation":{"url":"https://a.example","title":"A"}}')  # fmt: skip


def test_sources_before_and_after_their_text() -> None:
    expected = [TextStarted("0"), Cited("0", CITED), TextChunk("0", "hi"), TextDone("0"), Finished("stop", "stop")]
    assert read(delta(content="", annotations=[PAGE]), delta(content="hi"), STOP, DONE) == expected
    late = read(delta(content="hi"), delta(annotations=[PAGE]), STOP, DONE)
    assert late == [*text_block(), Cited("0", CITED), TextDone("0"), Finished("stop", "stop")]


def test_sources_belong_to_the_current_text() -> None:
    flat: Json = {"type": "url_citation", "url": "https://a.example/" + "a" * 300, "title": "A", "start_index": 3}
    events = read(delta(content="hi", annotations=[flat]), delta(reasoning="hm"), delta(content="ho"), STOP, DONE)
    raw = json.dumps(flat, separators=(",", ":"))
    assert events[2] == Cited("0", Citation(url=flat["url"], title="A", raw=raw))


def test_sources_after_thinking_that_came_after_the_text() -> None:
    events = read(delta(content="hi"), delta(reasoning="hm"), delta(annotations=[PAGE]), STOP, DONE)
    assert Cited("0", CITED) in events
    assert events[-2] == TextDone("0")


def test_a_repeated_url_list_is_cited_once() -> None:
    lists = {
        "citations": ["https://a.example", "https://b.example"],
        "search_results": [{"url": "https://b.example", "title": "B", "snippet": "b" * 300}],
    }
    # Some repeat them, or one of them.
    for again in ("citations", "search_results"):
        assert read(delta(content="hi") | lists, STOP) == read(
            delta(content="hi") | lists, STOP | {again: lists[again]}
        )
    assert read(delta(content="hi") | lists, STOP) == read(delta(content="hi") | lists, STOP | lists)
    events = read(delta(content="hi") | lists, STOP | lists)
    assert events == [
        *text_block(),
        Cited("0", Citation(url="https://a.example", raw='{"url":"https://a.example"}')),
        Cited("0", Citation(url="https://b.example", title="B", raw='{"url":"https://b.example","title":"B"}')),
        TextDone("0"),
        Finished("stop", "stop"),
    ]


def test_results_of_a_search_are_sources_by_themselves() -> None:
    results = {"search_results": [{"url": "https://b.example", "title": "B"}, {"title": "nowhere"}]}
    cited = [event for event in read(delta("stop", content="hi") | results, DONE) if isinstance(event, Cited)]
    assert [event.citation.title for event in cited] == ["B"]


def test_listed_sources_are_not_repeated() -> None:
    events = read(delta(content="hi", annotations=[PAGE]), STOP | {"citations": ["https://a.example"]}, DONE)
    assert sum(isinstance(event, Cited) for event in events) == 1


def test_sources_of_no_text_are_counted() -> None:
    assert read(delta("stop", annotations=[PAGE]), DONE) == [Unread("citation"), Finished("stop", "stop")]


def test_images_are_items_of_the_hosts_own() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    events = read(delta(content="hi"), delta(images=[image]), delta(content="!"), STOP, DONE)
    assert events == [
        *text_block(),
        ProviderItem("1", "image", json.dumps(image, separators=(",", ":"))),
        TextDone("0"),
        *text_block("!", "2"),
        TextDone("2"),
        Finished("stop", "stop"),
    ]


def test_item_ends_preceding_reasoning() -> None:
    events = read(delta(reasoning="hm"), delta(images=[{}]), STOP, DONE)
    assert events[2:4] == [ReasoningDone("0"), ProviderItem("1", "image", "{}")]


def test_groq_tool_work_is_one_item_each() -> None:
    started = {"index": 0, "type": "python", "arguments": "{}"}
    events = read(
        delta(executed_tools=[started]),
        delta(executed_tools=[started | {"output": "1"}]),
        delta(executed_tools=[started | {"index": 1}]),
        delta("stop", content="hi"),
        DONE,
    )
    items = [event for event in events if isinstance(event, ProviderItem)]
    assert [item.kind for item in items] == ["executed_tool", "executed_tool"]
    assert [json.loads(item.data).get("output") for item in items] == ["1", None]


# -- what is wrong, and what is unknown -----------------------------------------------------------


def test_unknown_parts_are_counted() -> None:
    events = read(
        delta(content="hi", new_member="x", other=None),
        delta(new_member={"a": 1}),
        {"object": "chat.progress"},
        {"choices": [{"index": 1, "delta": {"content": "another answer"}}]},
        STOP,
        DONE,
    )
    unread = [event for event in events if isinstance(event, Unread)]
    assert unread == [Unread("chat.progress"), Unread("choice"), Unread("new_member", 2)]
    assert isinstance(events[-1], Finished)


def test_empty_events_are_not_counted() -> None:
    azure = {"choices": [], "id": "", "object": "", "prompt_filter_results": [{"prompt_index": 0}]}
    assert read(azure, {"x_groq": {"id": "req"}}, delta("stop", content="hi"), DONE) == read(
        delta("stop", content="hi"), DONE
    )


def test_unknown_events_are_counted_by_type() -> None:
    body = b'event: strange\ndata: {"a": 1}\n\n' + stream({"type": "odd"}, {"a": 1}, delta("stop", content="hi"), DONE)
    unread = [event for event in decode(body, 0) if isinstance(event, Unread)]
    assert unread == [Unread("message"), Unread("odd"), Unread("strange")]


def test_a_ping() -> None:
    assert read({"type": "ping"}, delta("stop", content="hi"), DONE)[0] == Ping()
    assert decode(b"event: ping\ndata: {}\n\n" + stream(delta("stop", content="hi"), DONE), 0)[0] == Ping()


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"message": "Rate limited", "code": 429}}, RateLimited),
        ({"error": {"code": 400, "message": "maximum context length is 10 tokens"}} | STOP, ContextOverflow),
        ({"error": {"type": "server_error", "message": "down"}}, Overloaded),
        ({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, InvalidRequest),
        ({"x_groq": {"error": {"message": "down", "type": "server_error"}}, "choices": []}, Overloaded),
        ({"choices": [{"delta": {}, "error": {"code": 502, "message": "down"}, "finish_reason": "error"}]}, Overloaded),
        ({"choices": [{"delta": {}, "error": {"code": 502, "message": "down"}}]}, Overloaded),
        ({"error": {"code": "content_filter", "message": "filtered", "status": 400}}, ContentFiltered),
        ({"detail": "maximum context length is 10 tokens"}, ContextOverflow),
    ],
)
def test_error_in_the_middle_keeps_earlier_events(event: Json, kind: type[ProviderError]) -> None:
    before, failure = failing(delta(content="hi"), event, DONE)
    assert before == text_block()
    assert type(failure) is kind


def test_an_error_event() -> None:
    body = (
        stream(delta(content="hi")) + b'event: error\ndata: {"error": {"message": "no", "code": "tool_use_failed"}}\n\n'
    )
    decoder = wire(PLAIN).decoder("text/event-stream")
    assert decoder is not None
    assert decoder.feed(body) == text_block()
    with pytest.raises(InvalidRequest, match="no"):
        decoder.close()


def test_an_error_event_in_any_form() -> None:
    decoder = wire(PLAIN).decoder("text/event-stream")
    assert decoder is not None
    with pytest.raises(ProviderError, match="it broke"):
        decoder.feed(b'event: error\ndata: {"message": "it broke"}\n\n')


@pytest.mark.parametrize("reason", ["error", "network_error", "insufficient_system_resource"])
def test_an_aborted_answer_is_retryable(reason: str) -> None:
    before, failure = failing(delta(content="hi"), delta(reason), DONE)
    assert before == text_block()
    assert failure.retryable


def test_error_after_the_finish_reason() -> None:
    assert type(failing(delta("length", content="hi"), {"error": {"code": 500, "message": "down"}})[1]) is Overloaded


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [None]},
        {"choices": [{"delta": []}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": [None, 3], "reasoning": [], "reasoning_details": [3]}}]},
        {"choices": [{"delta": {"content": [3], "refusal": {}, "annotations": [{}], "executed_tools": [3]}}]},
        {"choices": "many", "usage": 3, "x_groq": 4},
        {"choices": [{"delta": {"tool_calls": [{"index": "0", "id": 7, "function": "f"}]}, "finish_reason": 5}]},
        {},
    ],
)
def test_wrong_shapes_are_harmless(event: Json) -> None:
    events = read(event, delta("stop", content="hi"), DONE)
    assert "".join(each.text for each in events if isinstance(each, TextChunk)) == "hi"
    assert isinstance(events[-1], Finished)


WORDS = (
    *("choices", "delta", "message", "content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"),
    *("tool_calls", "function", "name", "arguments", "id", "index", "type", "text", "usage", "error", "x_groq"),
    *("prompt_tokens", "prompt_tokens_details", "finish_reason", "annotations", "citations", "search_results"),
    *("executed_tools", "extra_content", "google", "images", "audio", "function_call", "refusal", "url", "detail"),
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["thinking", "stop"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=15,
)
EVENTS = st.builds(
    lambda delta, more: {"choices": [{"index": 0, "delta": delta}], **more},
    st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=4),
    st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=1),
)


@given(events=st.lists(EVENTS, max_size=4), body=st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=4))
def test_any_input_is_answer_or_typed_error(events: list[Json], body: Json) -> None:
    for use_body, content_type in (
        (stream(*events, DONE), "text/event-stream"),
        (json.dumps(body).encode(), "application/json"),
    ):
        decoder = wire(PLAIN).decoder(content_type)
        assert decoder is not None
        with suppress(ProviderError):
            decoder.feed(use_body)
            while decoder.close():
                pass
            assert decoder.is_over


def test_an_event_that_is_no_json() -> None:
    before, failure = failing(delta(content="hi"), "{")
    assert before == text_block()
    assert type(failure) is ProviderProtocolError


# -- documents ------------------------------------------------------------------------------------


def test_a_document() -> None:
    calls = [call("read", '{"a": 1}', id="c1", type="function"), call("read", '{"a": 2}', id="c1", type="function")]
    body = message("tool_calls", content="hi", reasoning_content="hm", tool_calls=calls)
    assert document(body | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}) == [
        ReasoningStarted("0"),
        ReasoningChunk("0", "hm"),
        ReasoningDone("0"),
        TextStarted("1"),
        TextChunk("1", "hi"),
        ToolCallStarted("c1", "read"),
        ToolCallChunk("c1", '{"a": 1}'),
        ToolCallDone("c1"),
        ToolCallStarted("c1.3", "read"),
        ToolCallChunk("c1.3", '{"a": 2}'),
        ToolCallDone("c1.3"),
        UsageReported(Usage(input=3, output=2)),
        TextDone("1"),
        Finished("calls", "tool_calls"),
    ]


def test_a_document_with_an_empty_reason() -> None:
    assert document(message("", content="hi"))[-1] == Finished("stop", "")


def test_a_document_without_a_message_was_filtered() -> None:
    body = {"choices": [{"index": 0, "finish_reason": "content_filter"}]}
    assert document(body) == [Finished("content_filter", "content_filter")]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": "content_filter", "message": "filtered", "status": 400}}, ContentFiltered),
        ({"object": "error", "message": "bad", "code": 400}, InvalidRequest),
        ({"detail": "no such thing"}, ProviderError),
        ({"choices": []}, ProviderProtocolError),
        (message("error"), Overloaded),
        ({"choices": [{"error": {"code": 502, "message": "down"}}]}, Overloaded),
    ],
)
def test_a_document_that_is_no_answer(body: Json, kind: type[ProviderError]) -> None:
    decoder = wire(PLAIN).decoder("application/json")
    assert decoder is not None
    decoder.feed(json.dumps(body).encode())
    with pytest.raises(ProviderError) as failure:
        while decoder.close():
            pass
    assert isinstance(failure.value, kind)
    assert failure.value.retryable is (kind in {ProviderProtocolError, Overloaded, ProviderError})


def test_a_document_with_an_error_and_a_message() -> None:
    decoder = wire(PLAIN).decoder("application/json")
    assert decoder is not None
    decoder.feed(json.dumps(message(content="hi") | {"error": {"code": 502, "message": "down"}}).encode())
    assert decoder.close() == text_block()
    with pytest.raises(Overloaded):
        decoder.close()


def test_other_content_types_are_no_answers() -> None:
    assert wire(PLAIN).decoder("text/html") is None
    assert wire(PLAIN).decoder("") is not None


def test_llama_cpp_reports_an_error_after_a_200() -> None:
    decoder = wire(PLAIN).decoder("text/event-stream")
    assert decoder is not None
    error = {"code": 400, "message": "the request exceeds the available context size", "type": "invalid_request_error"}
    with pytest.raises(ContextOverflow):
        decoder.feed(b"error: " + json.dumps(error).encode() + b"\n\n")
