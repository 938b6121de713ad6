"""Content from the web: decompress it within bounds, detect its kind, decode its text."""

from __future__ import annotations

import codecs
import re
import zlib
from typing import Final, Literal

from engine.core.errors import ToolError

Kind = Literal["html", "text", "image", "pdf", "other"]

# The first bytes of the formats that the model can see.
_SIGNS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS: Final = frozenset(
    {
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/typescript",
        "application/x-httpd-php",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-perl",
        "application/x-python",
        "application/x-sh",
        "application/x-tex",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
# The types that servers declare for unknown files.
_UNKNOWN: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
# Parts of a gzip stream. Servers send one; a page of a million empty parts would keep the thread busy.
_MEMBERS: Final = 100
# As browsers: a page declares its charset in the first kilobyte.
_SNIFFED_BYTES: Final = 1_024
_MARKUP: Final = re.compile(rb"\s*(<!doctype html|<html|<head|<body)", re.IGNORECASE)

# The encodings of the WHATWG standard, under Python's names. No others: some of Python's codecs don't encode text, and
# some need quadratic time.
_ENCODINGS: Final = frozenset(
    [
        "utf-8",
        "utf-16-le",
        "utf-16-be",
        "utf-16",
        "ascii",
        "iso8859-1",
        "iso8859-2",
        "iso8859-3",
        "iso8859-4",
        "iso8859-5",
        "iso8859-6",
        "iso8859-7",
        "iso8859-8",
        "iso8859-10",
        "iso8859-13",
        "iso8859-14",
        "iso8859-15",
        "iso8859-16",
        "cp866",
        "cp874",
        "cp1250",
        "cp1251",
        "cp1252",
        "cp1253",
        "cp1254",
        "cp1255",
        "cp1256",
        "cp1257",
        "cp1258",
        "koi8-r",
        "koi8-u",
        "mac-roman",
        "mac-cyrillic",
        "gb2312",
        "gbk",
        "gb18030",
        "big5",
        "euc_jp",
        "iso2022_jp",
        "shift_jis",
        "euc_kr",
        "cp949",
        "cp932",
    ]
)
# Browsers read these labels as a superset, so pages rely on it.
_READ_AS: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
}
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Bounded repetitions: an unbounded `[^>]*` is quadratic on a page of `<meta`.
_META_CHARSET: Final = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})|^<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.-]{1,40})""",
    re.IGNORECASE,
)


def unpacked(data: bytes, encoding: str, limit: int) -> bytes:
    """Decompress a body. Raises `ToolError` for an unknown encoding, broken data and decompression bombs."""
    match encoding.strip().lower() if data else "":
        case "" | "identity":
            return data
        case "gzip" | "x-gzip":
            return _inflated(data, zlib.MAX_WBITS | 16, limit)
        case "deflate":
            # Officially zlib's format (RFC 9110), but many servers send raw deflate, without the header.
            has_head = len(data) > 1 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
            return _inflated(data, zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS, limit)
        case unknown:
            raise ToolError(f"The answer is compressed by {unknown[:40]!r}, which was not asked for and can't be read.")


def _inflated(data: bytes, window: int, limit: int) -> bytes:
    out = b""
    for _ in range(_MEMBERS):
        inflater = zlib.decompressobj(window)
        try:
            # One byte more than allowed is enough to tell that it is too large.
            out += inflater.decompress(data, limit + 1 - len(out))
        except zlib.error as error:
            raise ToolError(f"The answer is compressed, and broken: {error}.") from error
        if len(out) > limit:
            raise too_large(limit)
        if not inflater.eof:
            raise ToolError("The answer is compressed, and its end is missing.")
        data = inflater.unused_data
        if not data or window <= zlib.MAX_WBITS:  # only gzip has several parts; ignore what follows other formats
            return out
    raise ToolError("The answer is compressed in too many parts.")


def too_large(limit: int) -> ToolError:
    """Return the error for a body larger than *limit* bytes."""
    return ToolError(
        f"It is larger than the limit of {limit // 1_048_576} MiB. Look for a smaller page, or fetch it with bash if "
        "that is allowed."
    )


def kind_of(data: bytes, media_type: str) -> tuple[Kind, str]:
    """Return the kind of *data* and its media type: the declared one, unless its first bytes show another."""
    declared = media_type.partition(";")[0].strip().lower()
    if declared in _HTML:
        return "html", declared
    if declared.startswith("text/") or declared in _TEXTS or declared.endswith(("+json", "+xml", "+yaml")):
        return "text", declared
    # By content, not by type: servers send images as text/plain or octet-stream, and models refuse a wrong media type.
    media = _media_of(data)
    if media:
        return ("pdf" if media == "application/pdf" else "image"), media
    if declared in _UNKNOWN and _looks_like_text(data):
        return ("html", "text/html") if _MARKUP.match(data) else ("text", "text/plain")
    return "other", declared or "unknown type"


def _media_of(data: bytes) -> str:
    """Return the media type of an image or a PDF by its first bytes; empty if it is neither."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for sign, media in _SIGNS if data.startswith(sign)), "")


def _looks_like_text(data: bytes) -> bool:
    if any(data.startswith(mark) for mark, _ in _MARKS):
        return True
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def decoded(data: bytes, content_type: str) -> str:
    """Decode *data*: try the BOM, the HTTP charset, the document's own charset, UTF-8, then a fallback."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    inside = _META_CHARSET.search(data[:_SNIFFED_BYTES])
    labels = [_charset(content_type)]
    if inside is not None:
        labels.append((inside[1] or inside[2]).decode("ascii"))
    for label in labels:
        codec = _encoding_named(label)
        if codec:
            # Wrong bytes are replaced: part of a page is better than none.
            return data.decode(codec, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        # Every byte is a character there, so this never fails.
        return data.decode("cp1252", "replace")


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip("\"'")
    return ""


def _encoding_named(label: str) -> str | None:
    if not label or len(label) > 40 or not label.isascii():
        return None
    try:
        name = codecs.lookup(label.lower()).name
    except (LookupError, ValueError):
        return None
    return _READ_AS.get(name, name) if name in _ENCODINGS else None
