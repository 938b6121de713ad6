"""What all decoders share: bytes to events, in order, and failures without loss.

A wire format brings a `Reader`, which knows what an event means. What is here turns
bytes into events of one of three framings, hands them to the reader one by one, and
keeps the promises of `WireDecoder`: however the bytes are cut, nothing that came
before a failure is lost, and after a failure there is nothing but the failure.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Protocol

import attrs

from engine.core.errors import ConnectionBroken, ProviderError, ProviderProtocolError
from engine.core.llm_types import Finished, StreamEvent, Unread
from engine.providers.wire.sse import ServerSentEvent, SseParser
from engine.providers.wire.untrusted_json import Json, as_object, loads

_LARGEST_DOCUMENT = 64 * 1024 * 1024
# A host that never stops would fill the memory, with one event as well as with many.
_LARGEST_STREAM = 128 * 1024 * 1024
# What is not understood is told to people: a few names, none of them long.
_MOST_UNREAD = 16
_LONGEST_UNREAD = 64


class Reader(Protocol):
    """Makes stream events of a wire format's events. One for each answer.

    Each method adds to *out*, and raises `ProviderError` for what goes wrong; what was
    added before is kept. After `is_over` is true nothing more is read.

    Attributes:
        host: whose answer it is, for error texts.
        is_over: the answer has come to its proper end.
        ignored: events, blocks and items that were not understood, by kind.
    """

    host: str
    is_over: bool
    ignored: Counter[str]

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Take an event of a stream; *name* is its type where the framing gives one, else "message"."""
        ...

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Take a whole answer that was not streamed, and end it."""
        ...

    def end(self, out: list[StreamEvent]) -> None:
        """The stream has ended, by `[DONE]` or with the bytes: end the answer, if it can be whole.

        If it can't, leave `is_over` false.
        """
        ...


class Framing(Protocol):
    """Cuts bytes into named events; `SseParser` is one."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that *data* completes."""
        ...

    def close(self) -> list[ServerSentEvent]:
        """Return an event that the bytes ended in, if there is one."""
        ...


@attrs.define(eq=False)
class StreamDecoder:
    """Decodes a stream of events."""

    _reader: Reader
    _framing: Framing
    _size: int = attrs.field(default=0, init=False)
    _failure: ProviderError | None = attrs.field(default=None, init=False)

    @property
    def is_over(self) -> bool:
        """Whether the answer has come to its proper end."""
        return self._reader.is_over

    @property
    def ignored(self) -> Counter[str]:
        """What was not understood, by kind."""
        return self._reader.ignored

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Return the events that *data* completes."""
        if self._failure is not None:
            raise self._failure
        out: list[StreamEvent] = []
        self._size += len(data)
        try:
            self._read(self._framing.feed(data), out)
            if self._size > _LARGEST_STREAM and not self.is_over:
                raise _too_large(self._reader)
        except ProviderError as failure:
            self._fail(failure, out)
        return _with_unread(self._reader, out)

    def close(self) -> list[StreamEvent]:
        """Return what is left at the end of the bytes."""
        if self._failure is not None:
            raise self._failure
        out: list[StreamEvent] = []
        if self.is_over:
            return out
        try:
            with suppress(ProviderProtocolError):  # no lie of the host, but an event cut in two
                self._read(self._framing.close(), out)
            if not self.is_over:
                _end(self._reader, out)
        except ProviderError as failure:
            self._fail(failure, out)
        return _with_unread(self._reader, out)

    def _read(self, frames: list[ServerSentEvent], out: list[StreamEvent]) -> None:
        reader = self._reader
        for frame in frames:
            if reader.is_over:
                return
            if frame.data == "[DONE]":
                _end(reader, out)
                return
            reader.read(frame.event, _parse_event(frame.data, reader.host), out)

    def _fail(self, failure: ProviderError, out: list[StreamEvent]) -> None:
        self._failure = failure
        if not out:
            raise failure


@attrs.define(eq=False)
class DocumentDecoder:
    """Decodes an answer that was not streamed: one JSON document."""

    _reader: Reader
    _pieces: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _size: int = attrs.field(default=0, init=False)
    _failure: ProviderError | None = attrs.field(default=None, init=False)

    @property
    def is_over(self) -> bool:
        """Whether the document was read."""
        return self._reader.is_over

    @property
    def ignored(self) -> Counter[str]:
        """What was not understood, by kind."""
        return self._reader.ignored

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Keep *data*; nothing can be told before the end."""
        if self._failure is not None:
            raise self._failure
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _LARGEST_DOCUMENT:
            self._failure = _too_large(self._reader)
            raise self._failure
        return []

    def close(self) -> list[StreamEvent]:
        """Return all events of the document."""
        if self._failure is not None:
            raise self._failure
        out: list[StreamEvent] = []
        if self.is_over:
            return out
        try:
            self._reader.read_document(_parse_document(b"".join(self._pieces), self._reader.host), out)
            if not self.is_over:
                raise truncated_answer(self._reader.host)
        except ProviderError as failure:
            self._failure = failure
            if not out:
                raise
        return _with_unread(self._reader, out)


def decoder_for(reader: Reader, content_type: str) -> StreamDecoder | DocumentDecoder | None:
    """Return a decoder for an answer of *content_type*: server-sent events, or one JSON document.

    An answer that does not say what it is, is taken for a stream.
    """
    match content_type:
        case "text/event-stream" | "":
            return StreamDecoder(reader, SseParser())
        case "application/json":
            return DocumentDecoder(reader)
        case _:
            return None


def _too_large(reader: Reader) -> ProviderProtocolError:
    return ProviderProtocolError(f"{reader.host}: the answer is larger than anything sensible")


def truncated_answer(host: str) -> ConnectionBroken:
    """Return the error for an answer that has no end."""
    return ConnectionBroken(f"{host}: the stream ended in the middle of the answer", retryable=True)


def _end(reader: Reader, out: list[StreamEvent]) -> None:
    reader.end(out)
    if not reader.is_over:
        raise truncated_answer(reader.host)


def _with_unread(reader: Reader, out: list[StreamEvent]) -> list[StreamEvent]:
    """Tell, before the answer's last event, what was not understood in it."""
    if reader.is_over and reader.ignored and out and isinstance(out[-1], Finished):
        out[-1:-1] = [Unread(kind, count) for kind, count in sorted(_limit_kinds(reader.ignored).items())]
    return out


def _limit_kinds(ignored: Counter[str]) -> Counter[str]:
    """Return *ignored* with short names, and all kinds beyond a few counted as one."""
    if len(ignored) <= _MOST_UNREAD and all(len(kind) <= _LONGEST_UNREAD for kind in ignored):
        return ignored
    shown: Counter[str] = Counter()
    for kind, count in sorted(ignored.items()):
        short = kind if len(kind) <= _LONGEST_UNREAD else f"{kind[:_LONGEST_UNREAD]}…"
        shown[short if short in shown or len(shown) < _MOST_UNREAD else "others"] += count
    return shown


def _parse_event(data: str | bytes, host: str) -> Json:
    try:
        return as_object(loads(data))
    except ValueError as error:
        raise ProviderProtocolError(f"{host}: an event of the stream is no JSON", retryable=True) from error


def _parse_document(data: bytes, host: str) -> Json:
    try:
        return as_object(loads(data))
    except ValueError as error:
        raise truncated_answer(host) from error
