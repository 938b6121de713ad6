from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConnectionBroken, ProviderError, ProviderProtocolError
from engine.core.llm_types import (
    STREAM_EVENT_TYPES,
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
from engine.core.messages import Citation, Usage
from engine.nursery.stream_parser import CloseCall, CloseItem, Grow, OpenBlock, Restart, StreamParser
from engine.providers.openai_responses.decode import ResponsesReader
from engine.providers.wire.decoding import decoder_for
from engine.providers.wire.untrusted_json import dumps
from engine.testing.fakes import CountingIds

Json = dict[str, Any]


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def event(kind: str, **fields: Any) -> Json:
    return {"type": f"response.{kind}", **fields}


def added(index: int, item: Json) -> Json:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, item: Json) -> Json:
    return event("output_item.done", output_index=index, item=item)


def says(index: int, *pieces: str, kind: str = "output_text", **place: Any) -> list[Json]:
    where = place or {"content_index": 0}
    return [event(f"{kind}.delta", output_index=index, delta=piece, **where) for piece in pieces]


def message(*texts: str, **fields: Any) -> Json:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts, **fields}


def call(arguments: str, **fields: Any) -> Json:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "read",
        "arguments": arguments,
        **fields,
    }


def completed(*output: Json, **fields: Any) -> Json:
    return event("completed", response={"status": "completed", "output": list(output), **fields})


MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
CALL = call("", status="in_progress")
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
STOPPED = Finished("stop", "completed")
CALLED = Finished("calls", "completed")


def decode(
    chunks: Iterable[bytes], content_type: str = "text/event-stream"
) -> tuple[list[StreamEvent], Exception | None]:
    """Decode as the HTTP shell does: until the end, or the error."""
    decoder = decoder_for(ResponsesReader(), content_type)
    assert decoder is not None
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


def document(**fields: Any) -> list[StreamEvent]:
    decoded, error = decode([json.dumps(fields).encode()], "application/json")
    assert error is None
    return decoded


def signature(**kept: Any) -> str:
    return dumps(kept)


# -- text ----------------------------------------------------------------------------


def test_text_with_its_usage_and_end() -> None:
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 15},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    created = event("created", response={"status": "in_progress"})
    text = [added(0, MESSAGE), *says(0, "a", "", "b"), done(0, message("ab"))]
    assert whole(created, *text, completed(message("ab"), usage=usage)) == [
        TextStarted("0.0"),
        TextChunk("0.0", "a"),
        TextChunk("0.0", "b"),
        TextDone("0.0"),
        UsageReported(Usage(input=5, output=9, cache_read=30, cache_write=15, reasoning=4)),
        STOPPED,
    ]


A_B = [TextStarted("0.0"), TextChunk("0.0", "ab"), TextDone("0.0"), STOPPED]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([completed(message("ab"))], id="only the last event has it"),
        pytest.param([added(0, MESSAGE), completed(message("ab"))], id="announced, and told at the end"),
        pytest.param([done(0, message("ab")), completed()], id="the last event has no items"),
        pytest.param([done(0, message("ab")), completed(message("ab"))], id="no deltas"),
        pytest.param([*says(0, "ab"), completed()], id="nothing but deltas"),
        pytest.param([*says(0, "ab"), completed(message("ab", id="other"))], id="another id at the end"),
        pytest.param([*says(0, "ab", content_index=1), done(0, message("ab")), completed()], id="parts count from 1"),
        pytest.param(
            [{"type": "response.output_text.delta", "delta": "ab"}, done(0, message("ab")), completed()],
            id="no indexes",
        ),
        pytest.param(
            [
                added(0, MESSAGE),
                *says(0, "ab", item_id="x"),
                done(0, message("ab", id="y")),
                completed(message("ab", id="z")),
            ],
            id="a new id each time",
        ),
        pytest.param([*says(0, "ab"), done(0, message()), completed()], id="told as a whole without its text"),
    ],
)
def test_hosts_leave_out_one_or_the_other(events: list[Json]) -> None:
    assert whole(*events) == A_B


def test_the_unstreamed_rest_follows_the_item() -> None:
    assert whole(*says(0, "a"), done(0, message("abc", "d")), completed()) == [
        TextStarted("0.0"),
        TextChunk("0.0", "a"),
        TextChunk("0.0", "bc"),
        TextStarted("0.1"),
        TextChunk("0.1", "d"),
        TextDone("0.0"),
        TextDone("0.1"),
        STOPPED,
    ]


def test_last_value_counts() -> None:
    assert whole(*says(0, "drfat"), done(0, message("draft")), completed())[2] == TextDone("0.0", "draft")


def test_split_character_is_joined() -> None:
    halves = says(0, "a\ud83d", "\ude00")
    assert whole(*halves, done(0, message("a😀b")), completed())[1:] == [
        TextChunk("0.0", "a\ud83d"),
        TextChunk("0.0", "\ude00"),
        TextChunk("0.0", "b"),
        TextDone("0.0"),
        STOPPED,
    ]
    pieces = says(0, '{"a":"\ud83d', '\ude00"}', kind="function_call_arguments")
    assert whole(added(0, CALL), *pieces, done(0, call('{"a":"😀"}')), completed())[-2] == ToolCallDone("call_1")


def test_items_that_only_the_last_event_has() -> None:
    other = message("c", id="msg_2")
    assert whole(done(0, message("ab")), completed(other, message("ab")))[3:] == [
        TextStarted("1.0"),
        TextChunk("1.0", "c"),
        TextDone("1.0"),
        STOPPED,
    ]


def test_items_that_the_last_event_lacks_are_kept() -> None:
    # The indexes have a gap, and so the places in the last list are others.
    streamed = [*says(0, "a"), done(0, message("a")), *says(2, "b"), done(2, message("b", id="msg_2"))]
    assert whole(*streamed, completed(message("b", id="msg_2"))) == [
        TextStarted("0.0"),
        TextChunk("0.0", "a"),
        TextDone("0.0"),
        TextStarted("1.0"),
        TextChunk("1.0", "b"),
        TextDone("1.0"),
        STOPPED,
    ]


def without_index(event: Json) -> Json:
    return {name: value for name, value in event.items() if name != "output_index"}


@pytest.mark.parametrize("is_announced", [True, False])
@pytest.mark.parametrize("has_done", [True, False])
@pytest.mark.parametrize("has_index", [True, False])
def test_hosts_that_do_not_count_their_items(*, is_announced: bool, has_done: bool, has_index: bool) -> None:
    thinks = says(0, "t", kind="reasoning_text")
    pieces = says(0, "{ }", kind="function_call_arguments")
    spoken = [*says(0, "a"), *([done(0, message("a"))] if has_done else [])]
    requested = [*([added(0, CALL)] if is_announced else []), *pieces, done(0, call("{ }"))]
    events = [*thinks, *spoken, *requested]
    events = events if has_index else [without_index(each) for each in events]
    answer = parts_of(whole(*events, completed()))
    own_id = "call_1" if is_announced else "2"
    assert answer == [
        ["reasoning", "", "t", None, ()],
        ["text", "", "a", None, ()],
        ["call", "read", "{ }", own_id, True],
    ]


def test_items_in_one_place() -> None:
    events = [done(0, message("a")), done(0, message("b")), added(0, MESSAGE), done(0, call("{}")), completed()]
    assert parts_of(whole(*events)) == [
        ["text", "", "a", None, ()],
        ["text", "", "b", None, ()],
        ["call", "read", "{}", "call_1", True],
    ]


def test_a_phase_is_kept_after_its_message() -> None:
    first, second = message("a", phase="commentary"), message("b", id="msg_2", phase="final_answer")
    assert whole(done(0, first), done(1, second), completed(first, second)) == [
        TextStarted("0.0"),
        TextChunk("0.0", "a"),
        TextDone("0.0"),
        ProviderItem("0.phase", "phase", '{"phase":"commentary"}'),
        TextStarted("1.0"),
        TextChunk("1.0", "b"),
        TextDone("1.0"),
        ProviderItem("1.phase", "phase", '{"phase":"final_answer"}'),
        STOPPED,
    ]


def test_a_refusal_is_the_reason_and_no_text() -> None:
    refused = {**MESSAGE, "content": [{"type": "refusal", "refusal": "I won't."}]}
    finished = [Finished("refusal", "completed", "I won't.")]
    assert whole(*says(0, "I wo", "n't.", kind="refusal"), done(0, refused), completed(refused)) == finished
    assert whole(*says(0, "I wo", "n't.", kind="refusal"), completed()) == finished
    assert whole(completed(refused)) == finished


def test_sources() -> None:
    web = {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 1}
    file = {"type": "file_citation", "filename": "b.md", "index": 3}
    note = event("output_text.annotation.added", output_index=0, content_index=0, annotation_index=0, annotation=web)
    item = message("ab")
    item["content"][0]["annotations"] = [web, file]
    expected = [
        TextStarted("0.0"),
        TextChunk("0.0", "ab"),
        Cited("0.0", Citation(url="https://a.b", title="A", raw=signature(**web))),
        Cited("0.0", Citation(title="b.md", raw=signature(**file))),
        TextDone("0.0"),
        STOPPED,
    ]
    assert whole(*says(0, "ab"), note, done(0, item), completed(item)) == expected
    assert whole(completed(item)) == expected


# -- thinking ------------------------------------------------------------------------


def test_thinking_goes_back_with_its_last_part() -> None:
    item = {
        **REASONING,
        "encrypted_content": "enc",
        "summary": [{"type": "summary_text", "text": t} for t in ("a", "b")],
    }
    first = says(0, "a", kind="reasoning_summary_text", summary_index=0)
    second = says(0, "b", kind="reasoning_summary_text", summary_index=1)
    kept = signature(id="rs_1", encrypted_content="enc", parts=["summary_text", "summary_text"])
    assert whole(added(0, REASONING), *first, *second, done(0, item), completed(item)) == [
        ReasoningStarted("0.0"),
        ReasoningChunk("0.0", "a"),
        ReasoningStarted("0.1"),
        ReasoningChunk("0.1", "b"),
        ReasoningDone("0.0"),
        ReasoningDone("0.1", kept),
        STOPPED,
    ]


def test_a_summary_stands_before_the_thinking_itself() -> None:
    item = {
        **REASONING,
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": "t"}],
    }
    expected = [
        ReasoningStarted("0.0"),
        ReasoningChunk("0.0", "s"),
        ReasoningStarted("0.1"),
        ReasoningChunk("0.1", "t"),
        ReasoningDone("0.0"),
        ReasoningDone("0.1", signature(id="rs_1", parts=["summary_text", "reasoning_text"])),
        STOPPED,
    ]
    assert whole(done(0, item), completed(item)) == expected
    assert document(status="completed", output=[item]) == expected


def test_redacted_thinking_keeps_its_position() -> None:
    item = {**REASONING, "encrypted_content": "enc"}
    assert whole(done(0, item), done(1, message("a")), completed())[:3] == [
        ReasoningStarted("0.0"),
        ReasoningDone("0.0", signature(id="rs_1", encrypted_content="enc")),
        TextStarted("1.0"),
    ]


def test_unreturnable_reasoning_has_no_signature() -> None:
    assert whole(done(0, REASONING), completed(REASONING)) == [STOPPED]
    summed_up = {**REASONING, "summary": [{"type": "summary_text", "text": "s"}]}
    assert whole(done(0, summed_up), completed())[2] == ReasoningDone("0.0")
    cut = [*says(0, "s", kind="reasoning_text"), event("incomplete", response={"status": "incomplete"})]
    assert whole(*cut)[2] == ReasoningDone("0.0")


# -- calls ---------------------------------------------------------------------------


def test_a_call() -> None:
    pieces = says(0, '{"a"', ":1}", kind="function_call_arguments")
    item = call('{"a":1}')
    assert whole(added(0, CALL), *pieces, done(0, item), completed(item)) == [
        ToolCallStarted("call_1", "read"),
        ToolCallChunk("call_1", '{"a"'),
        ToolCallChunk("call_1", ":1}"),
        ToolCallDone("call_1"),
        CALLED,
    ]


@pytest.mark.parametrize(
    ("events", "arguments"),
    [
        pytest.param([added(0, CALL), done(0, call(""))], "{}", id="none"),
        pytest.param([done(0, call('{"a":1}'))], '{"a":1}', id="not streamed"),
        pytest.param([added(0, CALL), completed(call('{"a":1}'))], '{"a":1}', id="told at the end"),
        pytest.param(
            [
                added(0, CALL),
                *says(0, "{", kind="function_call_arguments"),
                event("function_call_arguments.done", output_index=0, arguments="{ }"),
            ],
            "{ }",
            id="its arguments whole, but not the item",
        ),
        pytest.param(
            [added(0, CALL), *says(0, "{", kind="function_call_arguments"), done(0, call("{ }"))],
            "{ }",
            id="streamed in part",
        ),
    ],
)
def test_a_calls_arguments(events: list[Json], arguments: str) -> None:
    ends = [e for e in whole(*events, completed()) if not isinstance(e, ToolCallChunk)]
    assert ends == [ToolCallStarted("call_1", "read"), ToolCallDone("call_1", arguments), CALLED]


def test_a_name_that_comes_late() -> None:
    assert whole(added(0, call("", name=None)), done(0, call("{}")), completed())[:2] == [
        ToolCallStarted("call_1", ""),
        ToolCallDone("call_1", "{}", "read"),
    ]


@pytest.mark.parametrize(
    "end",
    [
        [],
        [done(0, call('{"a', status="incomplete"))],
        [event("incomplete", response={"output": [call('{"a', status="incomplete")], "status": "incomplete"})],
        [
            event(
                "incomplete", response={"output": [call('{"a')], "incomplete_details": {"reason": "max_output_tokens"}}
            )
        ],
    ],
)
def test_a_truncated_call_is_not_done(end: list[Json]) -> None:
    pieces = says(0, '{"a', kind="function_call_arguments")
    last = event("incomplete", response={"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}})
    events = whole(added(0, CALL), *pieces, *end, *([] if end and "response" in end[-1] else [last]))
    assert events[:-1] == [ToolCallStarted("call_1", "read"), ToolCallChunk("call_1", '{"a')]


def test_ids_are_unique_within_an_answer() -> None:
    twins = [done(0, call("{}")), done(1, call("{}")), done(2, call("{}", call_id=None, id=None))]
    ids = [e.id for e in whole(*twins, completed()) if isinstance(e, ToolCallStarted)]
    assert ids[0] == "call_1"
    assert len(set(ids)) == 3


def test_custom_tool_text_is_an_argument() -> None:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "call_1", "name": "sql", "input": 'say "é"\n'}
    pieces = says(0, "say ", '"é"\n', kind="custom_tool_call_input")
    assert whole(added(0, {**item, "input": ""}), *pieces, done(0, item), completed(item)) == [
        ToolCallStarted("call_1", "sql"),
        ToolCallChunk("call_1", '{"input":"say '),
        ToolCallChunk("call_1", '\\"é\\"\\n'),
        ToolCallDone("call_1", '{"input":"say \\"é\\"\\n"}'),
        CALLED,
    ]
    assert whole(completed(item))[1] == ToolCallDone("call_1", '{"input":"say \\"é\\"\\n"}')


# -- what the host does itself -------------------------------------------------------


def test_hosted_tool_work_is_kept_whole() -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "é"}}
    progress = [
        event("web_search_call.searching", output_index=0, item_id="ws_1"),
        event("code_interpreter_call_code.delta", output_index=0, delta="1"),
        event("mcp_list_tools.in_progress"),
        event("shell_call_output_content.delta", output_index=0, delta={"stdout": "x"}),
    ]
    assert whole(added(0, {**item, "action": None}), *progress, done(0, item), completed(item)) == [
        ProviderItem("0", "web_search_call", signature(**item)),
        STOPPED,
    ]


def test_unknown_parts_are_counted() -> None:
    odd = {**MESSAGE, "content": [{"type": "output_hologram"}]}
    events = whole({"type": "response.new"}, {"type": "response.new"}, {}, done(0, odd), completed())
    assert events == [Unread("None"), Unread("message output_hologram"), Unread("response.new", 2), STOPPED]


# -- the end -------------------------------------------------------------------------


def incomplete(reason: str | None) -> Json:
    details = {"reason": reason} if reason else None
    return event("incomplete", response={"status": "incomplete", "incomplete_details": details})


@pytest.mark.parametrize(
    ("last", "finished"),
    [
        (incomplete("max_output_tokens"), Finished("length", "max_output_tokens")),
        (incomplete("content_filter"), Finished("content_filter", "content_filter")),
        (incomplete("something_new"), Finished("unknown", "something_new")),
        (incomplete(None), Finished("unknown", "incomplete")),
        (event("completed"), STOPPED),
        (event("done", response={"status": "completed"}), STOPPED),
    ],
)
def test_reasons(last: Json, finished: Finished) -> None:
    assert whole(*says(0, "so far"), last) == [
        TextStarted("0.0"),
        TextChunk("0.0", "so far"),
        TextDone("0.0"),
        finished,
    ]


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_an_answer_that_is_not_there_yet(status: str) -> None:
    assert document(status=status, output=[], error=None, usage=None) == [Finished("unknown", status)]


def test_a_document() -> None:
    item = {**REASONING, "encrypted_content": "enc"}
    usage = {"input_tokens": 3, "output_tokens": 2}
    assert document(status="completed", output=[item, message("hi"), call("{}")], usage=usage) == [
        ReasoningStarted("0.0"),
        ReasoningDone("0.0", signature(id="rs_1", encrypted_content="enc")),
        TextStarted("1.0"),
        TextChunk("1.0", "hi"),
        TextDone("1.0"),
        ToolCallStarted("call_1", "read"),
        ToolCallDone("call_1", "{}"),
        UsageReported(Usage(input=3, output=2)),
        CALLED,
    ]


def test_pings_may_come_anywhere_and_after_the_end() -> None:
    ping = {"type": "ping", "cost": "0"}
    assert whole(ping, {"type": "keepalive"}, completed(), ping) == [Ping(), Ping(), STOPPED]


def test_named_events_and_a_done_mark() -> None:
    stream = b"event: response.completed\n" + sse(completed()) + b"data: [DONE]\n\n"
    assert decode([stream]) == ([STOPPED], None)


def test_background_answers_begin_in_a_queue() -> None:
    assert whole(event("queued", response={"status": "queued"}), completed()) == [STOPPED]


# -- failures ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        {"type": "error", "code": "server_error", "message": "It broke.", "param": None},
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "It broke."}},
        event("failed", response={"status": "failed", "error": {"code": "server_error", "message": "It broke."}}),
        event("completed", response={"status": "failed", "error": {"code": "server_error", "message": "It broke."}}),
    ],
)
def test_an_error_in_the_middle(failure: Json) -> None:
    late = event("failed", response={"status": "failed", "error": {"code": "other", "message": "Late."}})
    events, error = decode([sse(*says(0, "a"), failure, late)])
    assert events == [TextStarted("0.0"), TextChunk("0.0", "a")]
    assert isinstance(error, ProviderError)
    assert not isinstance(error, ProviderProtocolError)
    assert "It broke." in str(error)


def test_failure_reports_usage() -> None:
    failed = {"status": "failed", "error": {"message": "no"}, "usage": {"input_tokens": 3}}
    assert decode([sse(event("failed", response=failed))])[0] == [UsageReported(Usage(input=3))]


def test_a_document_that_is_an_error() -> None:
    for body in ({"error": {"message": "It broke."}}, {"status": "failed", "error": {"message": "It broke."}}):
        events, error = decode([json.dumps(body).encode()], "application/json")
        assert events == []
        assert "It broke." in str(error)


def test_truncated_answer_is_a_broken_connection() -> None:
    stream = sse(*says(0, "kept"))
    for cut_short in (b"", stream, stream + b'data: {"type": "resp', stream + b"data: [DONE]\n\n"):
        events, error = decode([cut_short])
        assert isinstance(error, ConnectionBroken)
        assert events == ([TextStarted("0.0"), TextChunk("0.0", "kept")] if cut_short else [])
    assert isinstance(decode([b"{}"], "application/json")[1], ConnectionBroken)


WORDS = ["response.completed", "message", "reasoning", "function_call", "output_text", "completed", "x", ""]
NAMES = ["type", "item", "output_index", "content_index", "delta", "response", "output", "content", "status", "usage"]
MORE = ["summary", "id", "call_id", "arguments", "text", "annotations", "annotation", "error", "incomplete_details"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*NAMES, *MORE]), inner, max_size=5),
    max_leaves=12,
)
KINDS = [
    *("response.output_text.delta", "response.reasoning_text.delta", "response.function_call_arguments.delta"),
    *("response.refusal.delta", "response.custom_tool_call_input.delta", "response.output_text.annotation.added"),
    *("response.output_item.added", "response.output_item.done", "response.function_call_arguments.done"),
    *("response.completed", "response.incomplete", "response.failed", "error"),
]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from([*NAMES, *MORE]), JSON)), max_size=6))
def test_no_other_error_can_be_raised(events: list[tuple[str, Json]]) -> None:
    for each in decode([sse(*({**fields, "type": kind} for kind, fields in events))])[0]:
        assert isinstance(each, STREAM_EVENT_TYPES)
    for _, fields in events:
        decode([json.dumps(fields).encode()], "application/json")


# -- however it is told, however it is cut -------------------------------------------


def texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def items() -> st.SearchStrategy[list[Json]]:
    """Items of an answer, each with ids of its own."""
    spoken = st.lists(texts(), min_size=1, max_size=2)
    messages = st.builds(lambda each, phase: message(*each, phase=phase), spoken, st.sampled_from([None, "commentary"]))
    thoughts = st.builds(
        lambda s, c, encrypted: {
            **REASONING,
            "summary": [{"type": "summary_text", "text": t} for t in s],
            "content": [{"type": "reasoning_text", "text": t} for t in c],
            "encrypted_content": encrypted,
        },
        st.lists(texts(), max_size=2),
        st.lists(texts(), max_size=2),
        st.sampled_from([None, "enc"]),
    )
    calls = st.builds(lambda text: call(json.dumps({"a": text})), texts())
    hosted = st.just({"type": "web_search_call", "status": "completed"})

    def with_ids(each: list[Json]) -> list[Json]:
        named = [{**item, "id": f"id_{number}"} for number, item in enumerate(each)]
        return [{**item, "call_id": f"call_{n}"} if "call_id" in item else item for n, item in enumerate(named)]

    return st.lists(messages | thoughts | calls | hosted, max_size=5).map(with_ids)


def reported(output: list[Json], *, announced: bool, streamed: bool, whole: bool, at_end: bool, strange: bool) -> bytes:
    """Return the bytes of *output* as a host tells it that has one or the other way."""
    events: list[Json] = []
    for index, item in enumerate(output):
        if announced:
            events.append(
                added(index, {**item, "content": [], "summary": [], "arguments": "", "id": "strange" * strange})
            )
        if streamed and announced:
            events += deltas(index, item)
        if whole:
            events.append(done(index, item))
    events.append(completed(*(output if at_end else [])))
    return sse(*events)


def deltas(index: int, item: Json) -> list[Json]:
    if item["type"] == "function_call":
        return says(index, *item["arguments"], kind="function_call_arguments", item_id="x")
    actual: list[Json] = []
    for number, part in enumerate(item.get("summary", [])):
        actual += says(index, *part["text"], kind="reasoning_summary_text", summary_index=number)
    for number, part in enumerate(item.get("content", [])):
        kind = "output_text" if item["type"] == "message" else "reasoning_text"
        actual += says(index, *part["text"], kind=kind, content_index=number)
    return actual


def parts_of(events: list[StreamEvent]) -> list[list[Any]]:
    """What a turn makes of the events."""
    parser = StreamParser(CountingIds().new)
    parts: dict[str, list[Any]] = {}
    for command in [*parser.feed(events), *parser.end()]:
        match command:
            case OpenBlock():
                parts[command.part_id] = [command.kind, command.tool, ""]
            case Grow():
                parts[command.part_id][2] += command.text
            case Restart():
                parts[command.part_id][2] = ""
            case CloseCall():
                parts[command.part_id][1] = command.tool
                parts[command.part_id] += [command.provider_id, command.complete]
            case CloseItem():
                parts[command.part_id] += [command.kind, command.data]
            case _:
                parts[command.part_id] += [command.signature, command.citations]
    assert parser.slips == {}
    return list(parts.values())


@given(
    output=items(),
    announced=st.booleans(),
    streamed=st.booleans(),
    whole=st.booleans(),
    at_end=st.booleans(),
    strange=st.booleans(),
    cuts=st.lists(st.floats(0, 1), max_size=8),
)
def test_every_form_of_an_answer_reads_alike(
    *, output: list[Json], announced: bool, streamed: bool, whole: bool, at_end: bool, strange: bool, cuts: list[float]
) -> None:
    stream = reported(
        output, announced=announced, streamed=streamed, whole=whole, at_end=at_end or not whole, strange=strange
    )
    edges = [0, *sorted(int(cut * len(stream)) for cut in cuts), len(stream)]
    events, error = decode(stream[a:b] for a, b in itertools.pairwise(edges))
    assert error is None
    parts, expected = parts_of(events), parts_of(document(status="completed", output=output))
    # Told at the end alone, an item comes after all that were announced before.
    assert (parts if whole else sorted(parts, key=repr)) == (expected if whole else sorted(expected, key=repr))
    assert events[-1] == document(status="completed", output=output)[-1]


@given(output=items(), length=st.floats(0, 1), tail=st.sampled_from([b"", b"data: x\n\n", sse({"type": "error"})]))
def test_any_split_gives_equal_events_and_error(output: list[Json], length: float, tail: bytes) -> None:
    stream = reported(output, announced=True, streamed=True, whole=True, at_end=True, strange=False)
    stream = stream[: int(len(stream) * length)] + tail
    expected = decode([stream])
    single = decode(stream[i : i + 1] for i in range(len(stream)))
    assert single[0] == expected[0]
    assert repr(single[1]) == repr(expected[1])
