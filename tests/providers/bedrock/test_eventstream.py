"""AWS event streams at any chunk boundaries and with any corruption."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable, Mapping
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ProviderProtocolError, RateLimited
from engine.core.llm_types import StreamEvent, TextChunk, TextStarted
from engine.providers.bedrock.decode import BedrockReader
from engine.providers.bedrock.eventstream import (
    DAMAGED,
    EventMessage,
    EventStreamFraming,
    EventStreamParser,
    HeaderValue,
)
from engine.providers.wire.decoding import StreamDecoder
from engine.providers.wire.sse import ServerSentEvent


def header(name: str, kind: int, value: bytes) -> bytes:
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + value


def string(name: str, value: str) -> bytes:
    return header(name, 7, struct.pack(">H", len(value.encode())) + value.encode())


def strings(**headers: str) -> bytes:
    return b"".join(string(":" + name.replace("_", "-"), value) for name, value in headers.items())


def message(headers: bytes, payload: bytes, *, headers_length: int | None = None, length: int | None = None) -> bytes:
    total = len(headers) + len(payload) + 16 if length is None else length
    lengths = struct.pack(">II", total, len(headers) if headers_length is None else headers_length)
    start = lengths + struct.pack(">I", crc32(lengths)) + headers + payload
    return start + struct.pack(">I", crc32(start))


def event(kind: str, payload: object) -> bytes:
    return message(strings(message_type="event", event_type=kind), json.dumps(payload).encode())


def parse(pieces: Iterable[bytes]) -> tuple[list[EventMessage], ProviderProtocolError | None]:
    parser = EventStreamParser()
    return [actual for piece in pieces for actual in parser.feed(piece)], parser.failure


def one(headers: bytes) -> Mapping[str, HeaderValue]:
    (actual,), failure = parse([message(headers, b"")])
    assert failure is None
    return actual.headers


# -- what is in a message ----------------------------------------------------------------


def test_a_message() -> None:
    (actual,), failure = parse([message(string("a", "b") + string("é", ""), b"\x00payload")])
    assert actual == EventMessage({"a": "b", "é": ""}, b"\x00payload")
    assert failure is None


def test_a_message_may_be_empty() -> None:
    assert parse([message(b"", b"")]) == ([EventMessage({}, b"")], None)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (0, b"", True),
        (1, b"", False),
        (2, b"\xff", -1),
        (3, b"\x7f\xff", 32_767),
        (4, b"\x80\x00\x00\x00", -(2**31)),
        (5, b"\x00" * 7 + b"\x05", 5),
        (6, b"\x00\x02\xff\x00", b"\xff\x00"),
        (7, b"\x00\x02\xc3\xa9", "é"),
        (8, b"\x00\x00\x01\x8b\xcf\xe5\x68\x00", 1_700_000_000_000),
        (9, UUID(int=7).bytes, UUID(int=7).bytes),
    ],
)
def test_the_values_of_headers(kind: int, raw: bytes, value: HeaderValue) -> None:
    assert one(header("h", kind, raw) + string("next", "x")) == {"h": value, "next": "x"}


def test_a_text_that_is_none() -> None:
    (actual,), _ = parse([message(header("h", 0, b""), b"")])
    assert (actual.text("h"), actual.text("absent")) == ("", "")


# -- damage ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (message(header("h", 10, b""), b""), "unknown value type 10"),
        (message(header("h", 4, b"\x00"), b""), "the headers of a message are invalid"),
        (message(header("h", 7, b"\x00"), b""), "the headers of a message are invalid"),
        (message(header("h", 7, b"\x00\x09short"), b""), "exceeds its message"),
        (message(header("h", 9, b"\x00"), b""), "exceeds its message"),
        (message(header("h", 7, b"\x00\x01\xff"), b""), "the headers of a message are invalid"),
        (message(b"\x05ab", b""), "the headers of a message are invalid"),
        (message(header("", 0, b""), b""), "has no name"),
        (message(string("a", "x") + string("a", "y"), b""), "a duplicate one"),
        (message(string("a", "x"), b"", headers_length=1_000), "invalid lengths"),
        (message(b"", b"", headers_length=200_000, length=300_000), "invalid lengths"),
        (message(b"", b"", length=15), "invalid lengths"),
        (message(b"", b"", length=32 * 1024 * 1024), "invalid lengths"),
    ],
)
def test_format_violations(stream: bytes, words: str) -> None:
    whole = message(b"", b"whole")
    messages, failure = parse([whole + stream + whole])
    assert messages == [EventMessage({}, b"whole")]
    assert failure is not None
    assert words in str(failure)
    assert failure.retryable


def test_damaged_length_is_not_awaited() -> None:
    parser = EventStreamParser()
    damaged = bytearray(message(b"", b"x"))
    damaged[1] ^= 0x40  # four megabytes
    parser.feed(bytes(damaged[:11]))
    assert parser.failure is None
    parser.feed(bytes(damaged[11:12]))
    assert parser.failure is not None


def streams() -> st.SearchStrategy[list[bytes]]:
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
    headers = st.dictionaries(names, names, max_size=4).map(lambda d: b"".join(string(k, v) for k, v in d.items()))
    return st.lists(st.builds(message, headers, st.binary(max_size=60)), min_size=1, max_size=5)


@given(streams(), st.data())
def test_any_cut_gives_the_same(stream: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    expected = [actual for each in stream for actual in parse([each])[0]]
    assert len(expected) == len(stream)
    assert parse(pieces) == (expected, None)
    assert parse(whole[i : i + 1] for i in range(len(whole))) == (expected, None)


@given(streams(), st.data())
def test_any_flipped_byte_is_seen(stream: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(b"".join(stream))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    before = next(number for number in range(len(stream)) if place < len(b"".join(stream[: number + 1])))
    messages, failure = parse([bytes(whole)])
    assert messages == [actual for each in stream[:before] for actual in parse([each])[0]]
    assert failure is not None
    again, same = parse(bytes(whole[i : i + 3]) for i in range(0, len(whole), 3))
    assert (again, str(same)) == (messages, str(failure))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything(data: bytes) -> None:
    parse([data])
    parse([message(data, b"")])


@given(streams())
def test_reader_agrees_with_botocore(stream: list[bytes]) -> None:
    theirs = pytest.importorskip("botocore.eventstream").EventStreamBuffer()
    theirs.add_data(b"".join(stream))
    assert [(actual.headers, actual.payload) for actual in parse(stream)[0]] == [(m.headers, m.payload) for m in theirs]


def test_large_message_in_pieces_is_linear() -> None:
    stream = message(b"", b"x" * 8_000_000)
    start = time.process_time()
    assert len(parse(stream[i : i + 100] for i in range(0, len(stream), 100))[0]) == 1
    # It takes a fraction of a second; to copy what came before with each piece would be 320 GB.
    assert time.process_time() - start < 5


# -- as events -----------------------------------------------------------------------------


def frames(*pieces: bytes) -> list[ServerSentEvent]:
    framing = EventStreamFraming()
    return [*(frame for piece in pieces for frame in framing.feed(piece)), *framing.close()]


def test_events_are_named_by_their_type() -> None:
    empty = message(strings(message_type="event", event_type="b"), b"")
    assert frames(event("a", {"é": 1}) + empty) == [ServerSentEvent("a", '{"\\u00e9": 1}'), ServerSentEvent("b", "{}")]


@pytest.mark.parametrize(
    ("headers", "payload", "expected"),
    [
        (
            strings(message_type="exception", exception_type="throttlingException"),
            b'{"message":"slow down"}',
            ServerSentEvent(":throttlingException", '{"message":"slow down"}'),
        ),
        (
            strings(message_type="exception", exception_type="x"),
            b"no json",
            ServerSentEvent(":x", '{"message":"no json"}'),
        ),
        (strings(message_type="exception"), b"", ServerSentEvent(":exception", '{"message":""}')),
        (
            strings(message_type="error", error_code="InternalError", error_message="é"),
            b"",
            ServerSentEvent(":InternalError", '{"message":"é"}'),
        ),
        (strings(message_type="error"), b"", ServerSentEvent(":error", '{"message":""}')),
    ],
)
def test_unknown_messages(headers: bytes, payload: bytes, expected: ServerSentEvent) -> None:
    assert frames(message(headers, payload)) == [expected]


def test_corruption_is_reported_once_and_last() -> None:
    first, reported = frames(event("a", {}) + b"x" * 20, event("b", {}), b"more")
    assert first == ServerSentEvent("a", "{}")
    assert reported.event == DAMAGED
    assert "the CRC of a prelude is wrong" in reported.data


def test_half_a_message_is_none() -> None:
    assert frames(event("a", {})[:-1]) == []


# -- in a decoder -------------------------------------------------------------------------


def decoder() -> StreamDecoder:
    return StreamDecoder(BedrockReader(), EventStreamFraming())


HELLO = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hello"}})
MESSAGE: list[StreamEvent] = [TextStarted("0"), TextChunk("0", "hello")]


def test_messages_before_corruption_are_kept() -> None:
    stream = HELLO + b"\x00" * 40
    for size in (1, 7, len(HELLO) + 5, len(stream)):
        reading, kept = decoder(), list[StreamEvent]()
        with pytest.raises(ProviderProtocolError, match="AWS Bedrock: the event stream is corrupted") as caught:
            for start in range(0, len(stream), size):
                kept += reading.feed(stream[start : start + size])
            reading.close()
        assert caught.value.retryable
        assert kept == MESSAGE
        with pytest.raises(ProviderProtocolError):
            reading.feed(HELLO)


def test_an_exception_reaches_the_one_who_classifies() -> None:
    thrown = message(
        strings(message_type="exception", exception_type="throttlingException"), b'{"message":"Too many tokens"}'
    )
    reading = decoder()
    assert reading.feed(HELLO + thrown) == MESSAGE
    with pytest.raises(RateLimited, match="Too many tokens") as caught:
        reading.feed(b"")
    assert caught.value.retryable
