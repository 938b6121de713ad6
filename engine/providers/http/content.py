"""Detects what a response consists of, regardless of its headers: plain text that is a stream, and compressed bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, final

from engine.core.errors import ProviderProtocolError
from engine.core.llm_types import StreamEvent
from engine.providers.wire.wire_format import WireDecoder

# Compressions that proxies apply although none was accepted.
COMPRESSIONS: Final = frozenset({"gzip", "x-gzip", "deflate"})
# Of one read: a small piece may become a large one.
_LARGEST_PIECE: Final = 1024 * 1024
# zlib's window, with the header of gzip or zlib recognised.
_ANY_HEADER: Final = zlib.MAX_WBITS | 32


@final
class Decompressor:
    """Decompresses gzip or deflate, piece by piece."""

    def __init__(self, encoding: str, host: str) -> None:
        self._encoding = encoding
        self._host = host
        self._inner = zlib.decompressobj(_ANY_HEADER)
        self._is_new = True

    @property
    def pending(self) -> bool:
        """Whether more can be had without more input."""
        return bool(self._inner.unconsumed_tail)

    def feed(self, data: bytes) -> bytes:
        """Return what *data* adds, or a part of it; raise `ProviderProtocolError` if it is invalid."""
        compressed = self._inner.unconsumed_tail + data
        try:
            try:
                out = self._inner.decompress(compressed, _LARGEST_PIECE)
            except zlib.error:
                if not self._is_new or self._encoding != "deflate":
                    raise
                # Some servers send deflate without zlib's header.
                self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
                out = self._inner.decompress(compressed, _LARGEST_PIECE)
        except zlib.error as error:
            raise ProviderProtocolError(
                f"{self._host} sent a response whose header says it is compressed with {self._encoding}, but it is not",
                retryable=True,
            ) from error
        self._is_new = False
        return out


@final
class PlainTextDecoder:
    """Decodes a response that is called plain text: by how it begins, an event stream or a JSON document."""

    def __init__(
        self, decoder: Callable[[str], WireDecoder | None], failure: Callable[[], ProviderProtocolError]
    ) -> None:
        self._choose = decoder
        self._failure = failure
        self._begin = b""
        self._inner: WireDecoder | None = None

    @property
    def is_over(self) -> bool:
        """Whether the response is complete."""
        return self._inner is not None and self._inner.is_over

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Return the events that *data* completes."""
        if self._inner is None:
            self._begin += data
            if not (start := self._begin.lstrip(b"\xef\xbb\xbf \t\r\n")):
                return []
            self._inner = self._decoder_of(start)
            data, self._begin = self._begin, b""
        return self._inner.feed(data)

    def close(self) -> list[StreamEvent]:
        """Return the last events; raise if the response is incomplete, or neither stream nor JSON."""
        if self._inner is None:
            raise self._failure()
        return self._inner.close()

    def _decoder_of(self, start: bytes) -> WireDecoder:
        is_stream = any(start.startswith(field) or field.startswith(start) for field in _FIELDS)
        kind = "text/event-stream" if is_stream else "application/json" if start[:1] in {b"{", b"["} else ""
        inner = self._choose(kind) if kind else None
        if inner is None:
            raise self._failure()
        return inner


_FIELDS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
