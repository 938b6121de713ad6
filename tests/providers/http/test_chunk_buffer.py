"""Merged HTTP chunks: h11 reads the same content from both forms."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.http.chunk_buffer import ChunkMerger

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: Chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(data), extension, data)


def merged(*pieces: bytes) -> list[bytes]:
    merger = ChunkMerger()
    return [merger.feed(piece) for piece in pieces]


# -- what is merged ---------------------------------------------------------------------


def test_data_of_one_read_is_one_chunk() -> None:
    body = chunk(b"a") + chunk(b"bc") + chunk(b"d" * 300)
    assert merged(HEAD, body, END) == [HEAD, chunk(b"abc" + b"d" * 300), END]
    assert merged(HEAD + body + END) == [HEAD + chunk(b"abc" + b"d" * 300) + END]
    assert merged(HEAD + body, chunk(b"e") + END) == [HEAD + chunk(b"abc" + b"d" * 300), chunk(b"e") + END]


def test_many_heads_may_precede_the_answer() -> None:
    early = b"HTTP/1.1 103 Early\r\n\r\n"
    assert merged(early * 5_000 + HEAD + chunk(b"a") + chunk(b"b")) == [early * 5_000 + HEAD + chunk(b"ab")]
    assert merged(early * 5_000 + HEAD[:9], HEAD[9:] + END) == [early * 5_000 + HEAD[:9], HEAD[9:] + END]


def test_no_byte_of_an_event_waits_for_another() -> None:
    half = chunk(b"first") + b"f\r\nthe s"
    assert merged(HEAD, half, b"econd", b" hal", b"f", b"\r", b"\n") == [
        HEAD,
        chunk(b"firstthe s"),
        chunk(b"econd"),
        chunk(b" hal"),
        chunk(b"f"),
        b"",
        b"",
    ]


def test_a_size_in_pieces_waits_for_its_end() -> None:
    assert merged(HEAD, b"1", b"0", b"\r", b"\n" + b"x" * 16 + b"\r\n0", b"\r\n\r\n") == [
        HEAD,
        b"",
        b"",
        b"",
        chunk(b"x" * 16),
        END,
    ]


def test_extensions_and_zeros_before_a_size_are_allowed() -> None:
    assert merged(HEAD + chunk(b"a", b" ;x=y") + b"001\r\nb\r\n" + END) == [HEAD + chunk(b"ab") + END]


def test_bytes_after_the_last_chunk_stay() -> None:
    assert merged(HEAD + chunk(b"a") + b"0\r\nx-trailer: 1\r\n\r\n", b"5\r\nmore\r\n") == [
        HEAD + chunk(b"a") + b"0\r\nx-trailer: 1\r\n\r\n",
        b"5\r\nmore\r\n",
    ]


@pytest.mark.parametrize("size", range(1, len(HEAD), 13))
def test_a_head_in_pieces(size: int) -> None:
    stream = HEAD + chunk(b"a") + chunk(b"b") + END
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    reported = b"".join(merged(*pieces))
    assert reported.startswith(HEAD)
    assert reported.endswith(END)


def test_next_answer_has_a_head_again() -> None:
    merger = ChunkMerger()
    for _ in range(2):
        merger.expect_answer()
        assert merger.feed(HEAD + chunk(b"a") + chunk(b"b") + END) == HEAD + chunk(b"ab") + END


def test_an_interim_answer_comes_before_the_answer() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\ntransfer-encoding: none\r\n\r\n"
    stream = interim + interim + HEAD + chunk(b"a") + chunk(b"b")
    assert merged(stream) == [interim + interim + HEAD + chunk(b"ab")]
    assert merged(interim, HEAD + chunk(b"a") + chunk(b"b")) == [interim, HEAD + chunk(b"ab")]


# -- what is not ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-transfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\n\n",
        b"no HTTP at all",
        b"x" * 70_000 + b"\r\n\r\n",
    ],
    ids=lambda head: head[:40].decode(),
)
def test_any_other_body_goes_through(head: bytes) -> None:
    body = chunk(b"a") + chunk(b"b")
    assert merged(head + body, body) == [head + body, body]


@pytest.mark.parametrize(
    "nonsense", [b"xyz\r\n", b"-1\r\n", b"0x1\r\na\r\n", b"\r\n", b"1_0\r\n", b"f" * 70, b"f" * 16 + b"\r\n"]
)
def test_nonsense_is_left_for_its_reader_to_judge(nonsense: bytes) -> None:
    assert merged(HEAD + chunk(b"a") + nonsense, b"more") == [HEAD + chunk(b"a") + nonsense, b"more"]


@pytest.mark.parametrize("broken", [b"1\r\nab\r\n", b"1\r\na5\r\n", b"1\r\na\r5\r\n"])
def test_a_chunk_that_does_not_end_is_refused(broken: bytes) -> None:
    for cut in range(1, len(broken)):
        reported = b"".join(merged(HEAD, broken[:cut], broken[cut:]))
        assert reported.startswith(HEAD + chunk(b"a") + b"!\r\n")


# -- what h11 reads from it --------------------------------------------------------------------


def read(pieces: Iterable[bytes]) -> tuple[bytes, str]:
    """Return the body that h11 reads, and how it ended."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    body = b""
    try:
        for piece in [*pieces, b""]:
            connection.receive_data(piece)
            while (event := connection.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    body += event.data
                elif not isinstance(event, h11.Response | h11.InformationalResponse):
                    return body, type(event).__name__
    except h11.RemoteProtocolError as error:
        return body, type(error).__name__
    return body, "unfinished"


def cut(stream: bytes, cuts: Sequence[float]) -> list[bytes]:
    edges = [0, *sorted(int(place * len(stream)) for place in cuts), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges) if a < b]


HEADS = st.sampled_from(
    [HEAD, HEAD, HEAD, b"HTTP/1.1 103 Early\r\n\r\n" + HEAD, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"]
)
CHUNKS = st.lists(
    st.builds(chunk, st.binary(min_size=1, max_size=30), st.sampled_from([b"", b"", b";a=b"]))
    | st.sampled_from([b"A\r\n0123456789\r\n", b"01\r\n\n\r\n", chunk(b"\r\n"), chunk(b"5\r\nx\r\n")]),
    max_size=8,
).map(b"".join)
BREAKS = st.sampled_from([b"", b"", b"", b"xyz\r\n", b"1\r\nab\r\n", b"-1\r\n", b"\r\n", b"5\r\nab"])


@given(
    head=HEADS,
    chunks=CHUNKS,
    broken=BREAKS,
    end=st.sampled_from([END, END, b"", b"0\r\nx: y\r\n\r\n"]),
    cuts=st.lists(st.floats(0, 1), max_size=10),
)
def test_buffered_reads_are_equal(head: bytes, chunks: bytes, broken: bytes, end: bytes, cuts: list[float]) -> None:
    pieces = cut(head + chunks + broken + end, cuts)
    returned = [piece for piece in merged(*pieces) if piece]
    assert read(returned) == read(pieces)


@given(st.binary(max_size=60), st.lists(st.floats(0, 1), max_size=5))
def test_buffered_reads_of_any_bytes_are_equal(body: bytes, cuts: list[float]) -> None:
    pieces = cut(HEAD + body, cuts)
    returned = [piece for piece in merged(*pieces) if piece]
    assert read(returned) == read(pieces)
