"""JSON-RPC without I/O: what is accepted, how batches and ids are kept, and messages in a stream of bytes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.jsonrpc.message_stream import BadFraming, HeaderSplitter, LineSplitter, line_of, with_header
from engine.jsonrpc.rpc_connection import RpcConnection
from engine.jsonrpc.rpc_messages import (
    RpcError,
    RpcFailure,
    RpcNotification,
    RpcRequest,
    RpcResult,
    failure_text,
    notification_text,
    parse_frame,
    request_text,
    result_text,
)
from engine.jsonrpc.strict_json import BadJson, FrameTooLarge, RpcLimits, read_json

LIMITS = RpcLimits()
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
IDS = st.text(max_size=64) | st.integers(-(2**53), 2**53)


def request(key: object, method: str = "m", **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": key, "method": method, **more}


# -- JSON --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        '[{"b":{"a":1,"a":1}}]',
        "NaN",
        "[Infinity]",
        "-Infinity",
        "1e999",
        "",
        "{",
        "'a'",
        "[1,]",
        b"\xff",
        "\ufeff{}",
    ],
)
def test_bad_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(BadJson):
        read_json(text, LIMITS)


@pytest.mark.parametrize("inner", ["", "1"])
def test_nesting_has_a_limit(inner: str) -> None:
    assert read_json("[" * 64 + inner + "]" * 64, LIMITS)
    for text in ("[" * 65 + inner + "]" * 65, "[" * 500_000):
        with pytest.raises(FrameTooLarge):
            read_json(text, LIMITS)


def test_size_has_a_limit() -> None:
    assert read_json(b'"' + b"a" * ((1 << 20) - 2) + b'"', LIMITS)
    with pytest.raises(FrameTooLarge):
        read_json(b'"' + b"a" * ((1 << 20) - 1) + b'"', LIMITS)


# -- messages ----------------------------------------------------------------------------


@given(key=IDS, method=st.text(min_size=1, max_size=20), params=st.dictionaries(st.text(), JSON, max_size=3))
def test_messages_survive_a_round_trip(key: str | int, method: str, params: dict[str, Any]) -> None:
    text = json.dumps(params)
    error = RpcError(-32000, method, params)
    for frame, message in (
        (request_text(key, method, text), RpcRequest(key, method, params)),
        (notification_text(method, text), RpcNotification(method, params)),
        (result_text(key, text), RpcResult(key, params)),
        (failure_text(key, error), RpcFailure(key, error)),
        (failure_text(None, error), RpcFailure(None, error)),
    ):
        assert frame.isascii()
        assert parse_frame(frame, LIMITS).messages == (message,)


@pytest.mark.parametrize("key", [None, 1.5, 1.0, True, {}, [], 2**53 + 1, "a" * 65])
def test_bad_ids_are_refused_without_id(key: object) -> None:
    (answer,) = map(json.loads, RpcConnection().receive(json.dumps(request(key))).replies)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize(
    "message",
    [
        1,
        "a",
        None,
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "m"},
        {"id": 1, "method": "m"},
        request(1, method=""),
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        request(1, params="a"),
        request(1, params=None),
        request(1, result=1),
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "result": 1},
        {"jsonrpc": "2.0", "id": 1, "result": 1, "error": {"code": 1, "message": "a"}},
        {"jsonrpc": "2.0", "id": 1, "error": "a"},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": "a"}},
    ],
)
def test_what_is_no_message_is_answered(message: object) -> None:
    received = RpcConnection().receive(json.dumps(message))
    assert received.messages == ()
    (answer,) = map(json.loads, received.replies)
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["kind"]) == (None, -32600, "request")


def test_broken_json_is_answered() -> None:
    (answer,) = map(json.loads, RpcConnection().receive("{").replies)
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)


# -- a connection ------------------------------------------------------------------------


def test_an_id_in_use_is_refused() -> None:
    connection = RpcConnection()
    connection.receive(json.dumps(request("a")))
    (answer,) = map(json.loads, connection.receive(json.dumps(request("a"))).replies)
    # With its id, it would be the answer to the first request.
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert connection.receive(json.dumps(request(1))).messages
    assert connection.answer("a", "{}") == '{"jsonrpc":"2.0","id":"a","result":{}}'
    assert connection.receive(json.dumps(request("a"))).messages


def test_a_batch_is_answered_once() -> None:
    connection = RpcConnection()
    batch = [request(1), {"jsonrpc": "2.0", "method": "n"}, 7, request(2)]
    received = connection.receive(json.dumps(batch))
    assert [type(message) for message in received.messages] == [RpcRequest, RpcNotification, RpcRequest]
    assert received.replies == ()
    assert connection.answer(2, "2") is None
    text = connection.fail(1, RpcError(-32000, "no"))
    assert text is not None
    assert [answer["id"] for answer in json.loads(text)] == [None, 2, 1]


def test_a_batch_of_errors_is_answered_at_once() -> None:
    (text,) = RpcConnection().receive("[1,2]").replies
    assert [answer["error"]["code"] for answer in json.loads(text)] == [-32600, -32600]


def test_a_batch_of_notifications_is_not_answered() -> None:
    received = RpcConnection().receive('[{"jsonrpc":"2.0","method":"n"}]')
    assert (len(received.messages), received.replies) == (1, ())


@pytest.mark.parametrize("count", [0, 33])
def test_batches_hold_1_to_32(count: int) -> None:
    received = RpcConnection().receive(json.dumps([request(number) for number in range(count)]))
    assert received.messages == ()
    (answer,) = map(json.loads, received.replies)
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


def test_requests_in_flight_have_a_limit() -> None:
    connection = RpcConnection()
    for number in range(64):
        assert connection.receive(json.dumps(request(number))).messages
    (answer,) = map(json.loads, connection.receive(json.dumps(request("more"))).replies)
    assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["retry"]) == ("more", -32001, "later")
    connection.answer(0, "{}")
    assert connection.receive(json.dumps(request("more"))).messages


def test_an_answer_counts_once() -> None:
    one, other = RpcConnection(), RpcConnection()
    key, text = one.request("m", "{}")
    assert other.receive(text).messages == (RpcRequest(key, "m", {}),)
    answer = other.answer(key, "5")
    assert answer is not None
    assert one.pending == {key}
    assert one.receive(answer).messages == (RpcResult(key, 5),)
    assert one.receive(answer).messages == ()
    assert one.pending == frozenset()


def test_an_abandoned_request_gets_no_answer() -> None:
    connection = RpcConnection()
    key, _ = connection.request("m", "{}")
    connection.abandon(key)
    assert connection.receive(result_text(key, "1")).messages == ()


def test_error_answers_are_never_answered() -> None:
    one, other = RpcConnection(), RpcConnection()
    (error,) = one.receive('{"jsonrpc":"2.0","id":1,"result":1,"error":1}').replies
    assert other.receive(error).replies == ()


# -- streams -----------------------------------------------------------------------------


@given(
    texts=st.lists(st.dictionaries(st.text(), JSON, max_size=2), max_size=4),
    cuts=st.lists(st.integers(0, 400), max_size=5),
)
def test_any_split_of_bytes_gives_equal_messages(texts: list[dict[str, Any]], cuts: list[int]) -> None:
    messages = [json.dumps(text) for text in texts]
    for splitter, write in ((LineSplitter(10_000), line_of), (HeaderSplitter(10_000), with_header)):
        stream = b"".join(map(write, messages))
        edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
        pieces = [stream[begin:end] for begin, end in itertools.pairwise(edges)]
        assert [found.decode() for piece in pieces for found in splitter.feed(piece)] == messages


def test_empty_lines_are_skipped() -> None:
    assert LineSplitter(10).feed(b"1234\r\n\n\r\n56\n7") == [b"1234", b"56"]


def test_long_lines_are_refused() -> None:
    for data in (b"12345", b"12345\n"):
        with pytest.raises(FrameTooLarge):
            LineSplitter(4).feed(data)


@pytest.mark.parametrize(
    "header", [b"Length: 1", b"Content-Length: -1", b"Content-Length: 1\r\nContent-Length: 1", b"a" * 5000]
)
def test_bad_headers_are_refused(header: bytes) -> None:
    with pytest.raises(BadFraming):
        HeaderSplitter(100).feed(header + b"\r\n\r\n1")


def test_long_messages_are_refused_by_header() -> None:
    with pytest.raises(FrameTooLarge):
        HeaderSplitter(100).feed(b"content-length: 101\r\n\r\n")
