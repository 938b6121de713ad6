"""The lines of a file, for `engine.tools.search.python_search`: which of them match, as ripgrep sees it."""

from __future__ import annotations

import codecs
import errno
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, Final

import attrs

from engine.tools.search.rust_classes import seen_by_rust

MAX_LINE_BYTES: Final = 16_777_216
MAX_WHOLE_BYTES: Final = 134_217_728

_BLOCK_BYTES: Final = 65_536
_UTF16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@attrs.frozen
class Line:
    """A line of a file.

    Attributes:
        number: counted from 1.
        offset: where it begins, in bytes.
        column: where the first match in it begins, in bytes, counted from 1; 0: nothing matches.
        text: without the line end.
    """

    number: int
    offset: int
    column: int
    text: bytes


@attrs.frozen
class NulFound:
    """The file is binary, so none of it counts."""

    offset: int


def lacks(file: BinaryIO, text: bytes) -> bool:
    """Tell whether a small file can't match, because the plain text that is searched for is nowhere in it."""
    if not text:
        return False
    data = file.read(_BLOCK_BYTES)
    file.seek(0)
    return len(data) < _BLOCK_BYTES and data[:2] not in _UTF16 and text not in data


def with_context(lines: Iterator[Line | NulFound], before: int, after: int) -> Iterator[Line | NulFound]:
    """Yield the lines that match and those around them."""
    waiting: deque[Line] = deque(maxlen=before)
    following = 0
    for line in lines:
        if isinstance(line, NulFound):
            yield line
        elif line.column:
            yield from waiting
            waiting.clear()
            yield line
            following = after
        elif following:
            yield line
            following -= 1
        elif before:
            waiting.append(line)


def matches_by_line(regex: re.Pattern[str], file: BinaryIO) -> Iterator[Line | NulFound]:
    """Yield all lines of a file, until its first NUL."""
    offset = 0
    for number, line in enumerate(_lines(_utf8(file)), 1):
        nul = line.find(b"\0")
        if nul >= 0:
            yield NulFound(offset + nul)
            return
        text, seen = _decoded(line)
        match = regex.search(seen)
        if match and match.start() == len(text) and text.endswith("\n"):
            match = None  # that is where the next line begins
        column = len(_encoded(text[: match.start()])) + 1 if match else 0
        yield Line(number, offset, column, line.removesuffix(b"\n"))
        offset += len(line)


def matches_in_whole(regex: re.Pattern[str], file: BinaryIO) -> Iterator[Line | NulFound]:
    """Yield all lines of a file; a match may span several."""
    data = b"".join(_bounded(_utf8(file)))
    nul = data.find(b"\0", 0, _BLOCK_BYTES)
    if nul >= 0:
        yield NulFound(nul)
        return
    if not data:
        return
    starts = [0, *(found.end() for found in re.finditer(rb"\n", data))]
    if starts[-1] == len(data):
        starts.pop()
    columns: dict[int, int] = {}
    for low, high in _spans(regex, *_decoded(data)):
        first, last = bisect_right(starts, low) - 1, bisect_right(starts, max(low, high - 1)) - 1
        if low >= len(data) and low > 0 and data.endswith(b"\n"):
            continue  # behind the last line end there is no line
        columns.setdefault(first, low - starts[first] + 1)
        for index in range(first + 1, last + 1):
            columns.setdefault(index, columns[first])
    for index, begin in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(data)
        text = data[begin:end].removesuffix(b"\n")
        yield Line(index + 1, begin, columns.get(index, 0), text)


def _decoded(data: bytes) -> tuple[str, str]:
    """Return a text, and what takes its place when a pattern is searched for in it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="surrogateescape")
        return text, seen_by_rust(text)
    return text, text


def _spans(regex: re.Pattern[str], text: str, seen: str) -> Iterator[tuple[int, int]]:
    """Yield where the matches are, in bytes."""
    chars = position = 0
    for match in regex.finditer(seen):
        position += len(_encoded(text[chars : match.start()]))
        chars = match.start()
        yield position, position + len(_encoded(text[match.start() : match.end()]))


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; a giant one in pieces."""
    parts: list[bytes] = []
    for block in blocks:
        *lines, rest = block.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line, b"\n"))
            parts.clear()
        parts.append(rest)
        if len(parts) * _BLOCK_BYTES > MAX_LINE_BYTES:
            yield b"".join(parts)
            parts.clear()
    if any(parts):
        yield b"".join(parts)


def _bounded(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks of a file that has to be held as a whole. Raises `OSError` for a giant."""
    size = 0
    for block in blocks:
        size += len(block)
        if size > MAX_WHOLE_BYTES:
            raise OSError(errno.EFBIG, "too large to be searched as a whole")
        yield block


def _utf8(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file's bytes as UTF-8: without a byte order mark, and UTF-16 if its mark says so."""
    block = file.read(_BLOCK_BYTES)
    encoding = _UTF16.get(block[:2])
    if encoding is None:
        yield block.removeprefix(codecs.BOM_UTF8)
        while block := file.read(_BLOCK_BYTES):
            yield block
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    block = block[2:]
    while block:
        yield decoder.decode(block).encode("utf-8", "replace")
        block = file.read(_BLOCK_BYTES)
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
