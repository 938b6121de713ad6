"""Heads of requests: what is ambiguous or malformed is refused, whatever the bytes."""

from contextlib import suppress

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.control.transport.request_head import BadRequest, RequestHead, parse_head

_HOST = b"Host: localhost:1\r\n"


def head(line: bytes = b"GET / HTTP/1.1", fields: bytes = _HOST) -> bytes:
    return line + b"\r\n" + fields + b"\r\n"


def status_of(data: bytes) -> int:
    with pytest.raises(BadRequest) as caught:
        parse_head(data)
    return caught.value.status


def test_whole_head_is_read() -> None:
    data = head(
        b"POST /v1/sessions/a%20b?after=1&x= HTTP/1.1", _HOST + b"Content-Length: 3\r\nAccept: a\r\naccept: b \r\n"
    )
    assert parse_head(data) == RequestHead(
        method="POST",
        target="/v1/sessions/a%20b?after=1&x=",
        path="/v1/sessions/a b",
        query={"after": "1", "x": ""},
        fields={"host": "localhost:1", "content-length": "3", "accept": "a, b"},
        length=3,
        keep_alive=True,
    )


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head(fields=_HOST + b"Content-Length: 1\r\nContent-Length: 1\r\n"), 400),
        (head(fields=_HOST + b"Content-Length: 1, 1\r\n"), 400),
        (head(fields=_HOST + b"Content-Length: +1\r\n"), 400),
        (head(fields=_HOST + b"Content-Length: -1\r\n"), 400),
        (head(fields=_HOST + b"Content-Length: 0x1\r\n"), 400),
        (head(fields=_HOST + b"Content-Length: \xb2\r\n"), 400),
        (head(fields=_HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 411),
        (head(fields=_HOST + b"Transfer-Encoding: chunked\r\n"), 411),
        (head(fields=_HOST + b"Transfer-Encoding : chunked\r\n"), 400),
        (head(fields=_HOST + b"Transfer-Encoding:\x0bchunked\r\n"), 400),
        (head(fields=_HOST + b" Content-Length: 1\r\n"), 400),
        (head(fields=_HOST + b"X: a\r\n b\r\n"), 400),
        (head(fields=_HOST + b"X: a\rb\r\n"), 400),
        (head(fields=_HOST + b"X: a\nContent-Length: 1\r\n"), 400),
        (head(fields=_HOST + b"X: a\x00\r\n"), 400),
        (head(fields=_HOST + b"X\r\n"), 400),
        (head(fields=_HOST + b": a\r\n"), 400),
        (head(fields=_HOST + _HOST), 421),
        (head(fields=_HOST + b"Origin: a\r\nOrigin: b\r\n"), 400),
        (head(fields=_HOST + b"Authorization: a\r\nAuthorization: b\r\n"), 400),
        (head(fields=b"X: a\r\n" * 101), 431),
        (head(b"GET http://localhost:1/ HTTP/1.1"), 421),
        (head(b"GET //evil/ HTTP/1.1"), 421),
        (head(b"OPTIONS * HTTP/1.1"), 421),
        (head(b"CONNECT a:1 HTTP/1.1"), 421),
        (head(b"GET /a/../b HTTP/1.1"), 400),
        (head(b"GET /a/%2e%2e/b HTTP/1.1"), 400),
        (head(b"GET /a/%2E./b HTTP/1.1"), 400),
        (head(b"GET /a/..%2fb HTTP/1.1"), 400),
        (head(b"GET /a%5c..%5cb HTTP/1.1"), 400),
        (head(b"GET /%00 HTTP/1.1"), 400),
        (head(b"GET /%0d%0a HTTP/1.1"), 400),
        (head(b"GET /%ff HTTP/1.1"), 400),
        (head(b"GET /?a=%ff HTTP/1.1"), 400),
        (head(b"GET /#a HTTP/1.1"), 400),
        (head(b"GET / HTTP/1.2"), 400),
        (head(b"GET / HTTP/2.0"), 400),
        (head(b"GET  / HTTP/1.1"), 400),
        (head(b"GET /\tHTTP/1.1"), 400),
        (head(b"GET / HTTP/1.1 "), 400),
        (head(b"get / HTTP/1.1"), 400),
        (head(b"GET /\xc3\xa4 HTTP/1.1"), 400),
        (b"\r\n" + head(), 400),
        (b"\r\n\r\n", 400),
    ],
)
def test_ambiguous_heads_are_refused(data: bytes, status: int) -> None:
    assert status_of(data) == status


@pytest.mark.parametrize(
    ("fields", "keep_alive"),
    [(b"", True), (b"Connection: close\r\n", False), (b"Connection: Upgrade, Close\r\n", False)],
)
def test_close_is_understood(fields: bytes, keep_alive: bool) -> None:
    assert parse_head(head(fields=_HOST + fields)).keep_alive == keep_alive
    assert not parse_head(head(b"GET / HTTP/1.0", _HOST + fields)).keep_alive


_PIECES = st.sampled_from(
    [
        b"GET / HTTP/1.1",
        b"POST /x HTTP/1.1",
        b"Host: a",
        b"Content-Length: 1",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"a",
    ]
)


@given(st.lists(_PIECES | st.binary(max_size=4), max_size=12))
def test_whatever_the_bytes_h11_reads_the_same(pieces: list[bytes]) -> None:
    data = b"".join(pieces).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    with suppress(BadRequest):
        mine = parse_head(data)
        other = h11.Connection(h11.SERVER)
        other.receive_data(data)
        try:
            event = other.next_event()
        except h11.RemoteProtocolError:
            return  # refused by the second reader
        assert isinstance(event, h11.Request)
        assert (event.method.decode(), event.target.decode()) == (mine.method, mine.target)
        assert [value for name, value in event.headers if name == b"content-length"] in (
            [],
            [str(mine.length).encode()],
            [mine.fields["content-length"].encode()] if "content-length" in mine.fields else [],
        )
