from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.wire.sse import ServerSentEvent, SseParser


def parse(*chunks: bytes) -> list[ServerSentEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def message(data: str) -> ServerSentEvent:
    return ServerSentEvent("message", data)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [message("a")]),
        (b"data:a\n\n", [message("a")]),
        (b"data:  a\n\n", [message(" a")]),
        (b"data: a\r\n\r\n", [message("a")]),
        (b"data: a\r\r", [message("a")]),
        (b"data: a\n\r\n", [message("a")]),
        (b"data: a\ndata: b\n\n", [message("a\nb")]),
        (b"data\n\n", [message("")]),
        (b"data:\n\n", [message("")]),
        (b"data\ndata\n\n", [message("\n")]),
        (b"data: a: b\n\n", [message("a: b")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [ServerSentEvent("x", "a"), message("b")]),
        (b"event: x\nevent:\ndata: a\n\n", [message("a")]),
        (b"event: x\n\ndata: b\n\n", [message("b")]),
        (b": hello\n\ndata: a\n: between\ndata: b\n\n", [message("a\nb")]),
        (b"id: 7\nretry: 10\nnonsense\nother: x\ndata: a\n\n", [message("a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [message("a")]),
        (b"\n\xef\xbb\xbfdata: a\n\n", []),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"Data: a\n\n data: b\n\n", []),
        (b"data: unfinished\n", []),
        (b"data: \xc3\xa9\xff\n\n", [message("é\ufffd")]),
        (b"", []),
        (b"\n\n\n", []),
    ],
)
def test_the_standard_line_by_line(stream: bytes, expected: list[ServerSentEvent]) -> None:
    assert parse(stream) == expected
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == expected


def test_event_arrives_with_its_blank_line() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [message("a")]
    assert parser.feed(b"\ndata: b\r\r") == [message("b")]
    assert parser.feed(b"\n") == []
    assert parser.feed(b"data: c\n\n") == [message("c")]


def test_close_drops_an_unfinished_event() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n\ndata: b") == [message("a")]
    assert parser.close() == [message("b")]
    assert SseParser().close() == []


def test_line_end_may_be_split() -> None:
    stream = b"event: x\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n"
    for cut in range(len(stream) + 1):
        assert parse(stream[:cut], stream[cut:]) == [ServerSentEvent("x", "a\nb"), message("c")]


FRAGMENTS = st.lists(
    st.sampled_from(
        [b"data", b":", b" ", b"\r", b"\n", b"\r\n", b"event", b"x", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xf0\x9f", b"id"]
    ),
    max_size=40,
).map(b"".join)


@given(stream=FRAGMENTS, cuts=st.lists(st.integers(0, 120), max_size=12))
def test_any_split_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*pieces) == parse(stream)


@given(
    events=st.lists(
        st.tuples(st.sampled_from(["message", "x"]), st.text().filter(lambda t: "\r" not in t)), max_size=8
    ),
    ending=st.sampled_from([b"\n", b"\r", b"\r\n"]),
)
def test_written_values_are_read_back(events: list[tuple[str, str]], ending: bytes) -> None:
    stream = b""
    for name, data in events:
        lines = [f"event: {name}", *(f"data: {line}" for line in data.split("\n")), "", ""]
        stream += ending.join(line.encode("utf-8", "replace") for line in lines)
    expected = [ServerSentEvent(name, data.encode("utf-8", "replace").decode()) for name, data in events]
    assert parse(stream) == expected


def test_large_event_in_pieces_is_linear() -> None:
    stream = b"data: " + b"x" * 10_000_000 + b"\n\n"
    pieces = [stream[i : i + 100] for i in range(0, len(stream), 100)]
    start = time.process_time()
    assert len(parse(*pieces)) == 1
    # It takes a fraction of a second; to copy what came before with each piece would be 500 GB.
    assert time.process_time() - start < 5
