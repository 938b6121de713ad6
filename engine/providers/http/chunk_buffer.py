"""Merges HTTP chunks that arrived together.

Hosts send each event of a stream as an HTTP chunk, and httpx passes each one through six generators. When many arrive
at once (a buffering gateway, a busy machine) that dominates the cost of reading a response. So the framing of a chunked
body is rewritten as its bytes arrive: everything that is there becomes one chunk. The content is the same, and no byte
is delayed.

Anything that is not a well-formed chunked body passes unchanged, for the HTTP library to judge.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import attrs

_LINE_END = b"\r\n"
_HEAD_END = b"\r\n\r\n"
_LARGEST_HEAD = 64 * 1024
_LONGEST_SIZE = 64
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
# An invalid chunk header, sent in place of a broken chunk end.
_INVALID_CHUNK = b"!\r\n"


@attrs.define(eq=False, repr=False)
class ChunkMerger:
    """Rewrites the bytes that a server sends over one connection."""

    _state: Literal["head", "size", "chunk", "broken", "untouched"] = attrs.field(default="head", init=False)
    # The start of a head (already returned), or of a chunk's size (not yet returned).
    _partial: bytes = attrs.field(default=b"", init=False)
    # Bytes of the open chunk that are still to come, its line's end among them.
    _left: int = attrs.field(default=0, init=False)

    def expect_answer(self) -> None:
        """Be ready for the head of an answer: a request is on its way."""
        self._state, self._partial, self._left = "head", b"", 0

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to read instead of *data*; empty if more must arrive first."""
        match self._state:
            case "head":
                return self._read_head(data)
            case "size" | "chunk":
                return self._read_body(data)
            case _:
                return data

    def _read_head(self, data: bytes) -> bytes:
        seen = self._partial + data
        start = 0
        # A server may send several interim heads at once.
        while self._state == "head" and (end := seen.find(_HEAD_END, start)) >= 0:
            head, start = seen[start:end], end + len(_HEAD_END)
            if not _is_interim(head):
                self._state = "size" if _is_chunked(head) else "untouched"
        rest = seen[start:]
        if self._state == "head":
            self._partial = rest
            self._state = "head" if len(rest) < _LARGEST_HEAD else "untouched"
            return data
        self._partial = b""
        return data[: len(data) - len(rest)] + (self.feed(rest) if rest else b"")

    def _read_body(self, data: bytes) -> bytes:
        """Merge the chunks in *data*."""
        chunks: list[bytes] = []
        at = 0
        if self._state == "chunk":
            at = self._read_open_chunk(data, 0, chunks)
        else:
            data, self._partial = self._partial + data, b""
        while self._state == "size" and at < len(data):
            line = data.find(_LINE_END, at, at + _LONGEST_SIZE)
            if line < 0 and len(data) - at < _LONGEST_SIZE:
                self._partial = data[at:]
                break
            size = _size_of(data[at:line]) if line >= 0 else 0
            if not size:  # the end of the body, or an invalid size
                self._state = "untouched"
                break
            start = line + len(_LINE_END)
            end = start + size
            if data[end : end + len(_LINE_END)] == _LINE_END:
                chunks.append(data[start:end])
                at = end + len(_LINE_END)
            else:
                self._state, self._left = "chunk", size + len(_LINE_END)
                at = self._read_open_chunk(data, start, chunks)
        match self._state:
            case "untouched":
                return _chunk(chunks) + data[at:]
            case "broken":
                return _chunk(chunks) + _INVALID_CHUNK
            case _:
                return _chunk(chunks)

    def _read_open_chunk(self, data: bytes, at: int, chunks: list[bytes]) -> int:
        """Read an incomplete or badly terminated chunk; return where it stops."""
        piece = data[at : at + self._left]
        inside = max(0, self._left - len(_LINE_END))
        chunks.append(piece[:inside])
        # CR and LF may arrive separately.
        is_well_ended = _LINE_END[-min(self._left, len(_LINE_END)) :].startswith(piece[inside:])
        self._left -= len(piece)
        if not is_well_ended:
            self._state = "broken"
        elif not self._left:
            self._state = "size"
        return at + len(piece)


def _chunk(chunks: list[bytes]) -> bytes:
    data = b"".join(chunks)
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


@lru_cache(maxsize=1_024)
def _size_of(line: bytes) -> int:
    """Return the size of a chunk; 0 for the last one and for an invalid size."""
    size = _SIZE.fullmatch(line)
    return int(size[1], 16) if size else 0


def _is_interim(head: bytes) -> bool:
    return head[8:10] == b" 1"


def _is_chunked(head: bytes) -> bool:
    fields = (line.partition(b":") for line in head.lower().split(_LINE_END)[1:])
    return [value.strip() for name, _, value in fields if name == b"transfer-encoding"] == [b"chunked"]
