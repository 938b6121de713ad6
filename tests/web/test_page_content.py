"""What came from the web: kinds, characters, compression."""

import gzip
import time
import tracemalloc
import zlib

import pytest

from engine.core.errors import ToolError
from engine.web.page_content import decoded, kind_of, unpacked

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("data", "told", "kind", "media_type"),
    [
        (b"x", "Text/HTML; charset=x", "html", "text/html"),
        (b"x", "application/xhtml+xml", "html", "application/xhtml+xml"),
        (b"x", "text/markdown", "text", "text/markdown"),
        (b"x", "application/ld+json", "text", "application/ld+json"),
        (b"x", "image/svg+xml", "text", "image/svg+xml"),
        (PNG, "image/jpeg", "image", "image/png"),
        (PNG, "application/pdf", "image", "image/png"),
        (b"RIFF....WEBP", "", "image", "image/webp"),
        (b"%PDF-1.7", "application/octet-stream", "pdf", "application/pdf"),
        (b"%PDF-1.7", "text/plain", "text", "text/plain"),
        (b"\n <HTML>", "", "html", "text/html"),
        (b"x", "binary/octet-stream", "text", "text/plain"),
        (b"\xff\xfex\0", "", "text", "text/plain"),
        (b"x\0", "", "other", "unknown type"),
        (b"\xff", "application/octet-stream", "other", "application/octet-stream"),
        (b"x", "application/zip", "other", "application/zip"),
        (b"x", "image/png", "other", "image/png"),
        (b"", "", "text", "text/plain"),
    ],
)
def test_kinds(data: bytes, told: str, kind: str, media_type: str) -> None:
    assert kind_of(data, told) == (kind, media_type)


@pytest.mark.parametrize(
    ("data", "content_type", "text"),
    [
        (b"\xef\xbb\xbfa\xc3\xa9", "text/plain; charset=latin1", "aé"),
        (b"\xfe\xff\0a", "", "a"),
        (b"\x80\xe9", "text/plain;charset=US-ASCII", "€é"),
        (b"\xcf\xf0\xe8", "text/plain; x=y; CHARSET='windows-1251'", "При"),
        (b"\x83\x65", "text/plain; charset=Shift_JIS", "テ"),
        (b'<meta http-equiv=a content="text/html; charset=gb2312">\xc4\xe3', "text/html", "你"),
        (b'<?xml version="1.0" encoding="iso-8859-2"?>\xb3', "text/xml", "ł"),
        (b"\xe9", "text/plain; charset=nonsense", "é"),
        (b"\xc3\xa9", "text/plain; charset=zip", "é"),
        (b"\xc3\xa9", "text/plain; charset=unicode_escape", "é"),
        (b"\xc3\xa9", "text/plain; charset=../../x", "é"),
        (b"\xc3\xa9", "text/plain; charset=" + "x" * 1_000, "é"),
        (b"\xc3\xa9", "text/plain; charset=\0", "é"),
    ],
)
def test_characters(data: bytes, content_type: str, text: str) -> None:
    assert decoded(data, content_type).endswith(text)


@pytest.mark.parametrize("label", ["idna", "punycode", "utf-7", "rot13", "hex", "undefined", "raw_unicode_escape"])
def test_encodings_that_are_not_to_be_had(label: str) -> None:
    assert decoded(b"a" * 200_000, f"text/plain; charset={label}") == "a" * 200_000


def test_a_bomb_takes_no_room() -> None:
    bomb = gzip.compress(bytes(100_000_000))
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(ToolError, match="larger than the limit"):
            unpacked(bomb, "gzip", 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(ToolError, match="too many parts"):
        unpacked(gzip.compress(b"") * 200_000, "gzip", 1_000_000)
    assert time.process_time() - start < 5


def test_exactly_the_limit_is_not_too_much() -> None:
    assert len(unpacked(zlib.compress(bytes(1_000)), "deflate", 1_000)) == 1_000
    assert unpacked(b"", "gzip", 10) == b""
    assert unpacked(zlib.compress(b"x") + b"rubbish", "deflate", 10) == b"x"
