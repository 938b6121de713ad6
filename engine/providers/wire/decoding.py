"""Decoders shared by all wire formats: bytes in, stream events out, errors in order.

A wire format supplies a `Reader`, which knows what an event means. A decoder splits the bytes into frames, hands the
reader one event at a time, and keeps the promises of `WireDecoder`: wherever the bytes are cut, no event before an
error is lost, and after an error every call raises it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from typing import Protocol, final

import attrs

from engine.core.errors import ConnectionBroken, ErrorInfo, ProviderError, ProviderProtocolError
from engine.core.llm_types import Finished, StreamEvent, Unread
from engine.providers.wire.sse import ServerSentEvent, SseParser
from engine.providers.wire.untrusted_json import Json, as_object, loads

# What a second message of the Anthropic format consists of.
_MESSAGE_EVENTS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    }
)
_LARGEST_DOCUMENT = 64 * 1024 * 1024
# A host that never stops would fill the memory, with one event as well as with many.
_LARGEST_STREAM = 128 * 1024 * 1024
# Names of unread events are shown to people: a few, and short.
_MOST_UNREAD = 16
_LONGEST_UNREAD = 64


class Reader(Protocol):
    """Turns a wire format's events into stream events. One per response.

    Each method appends to *out* and raises `ProviderError`; events appended before the error are kept. Once `is_over`
    is true, only the parts of another message are read: proxies put one behind the first.

    Attributes:
        host: the host, for error messages.
        is_over: whether the response is complete.
        ignored: how many events, blocks and items were not recognised, by kind.
    """

    host: str
    is_over: bool
    ignored: Counter[str]

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event; *name* is its type where the framing has one, else "message"."""
        ...

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a response that was not streamed, and end it."""
        ...

    def end(self, out: list[StreamEvent]) -> None:
        """End the response at `[DONE]` or at the end of the bytes. Leaves `is_over` false if it is incomplete."""
        ...


class Framing(Protocol):
    """Splits bytes into named events; `SseParser` is one."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that *data* completes."""
        ...

    def close(self) -> list[ServerSentEvent]:
        """Return the event at the end of the bytes, if it is complete."""
        ...


@attrs.define(eq=False, repr=False)
class _Decoder(ABC):
    """What both decoders do: read the end of the response, and raise an error again at every later call."""

    _reader: Reader
    _size: int = attrs.field(default=0, init=False)
    _failure: ProviderError | None = attrs.field(default=None, init=False)

    @property
    def is_over(self) -> bool:
        """Whether the response is complete."""
        return self._reader.is_over

    @property
    def ignored(self) -> Counter[str]:
        """How many events were not recognised, by kind."""
        return self._reader.ignored

    def close(self) -> list[StreamEvent]:
        """Return the last events, at the end of the bytes."""
        if self._failure is not None:
            raise self._failure
        out: list[StreamEvent] = []
        if self.is_over:
            return out
        try:
            self._finish(out)
        except ProviderError as failure:
            self._fail(failure, out)
        return _with_unread(self._reader, out)

    @abstractmethod
    def _finish(self, out: list[StreamEvent]) -> None:
        """Append the last events; raise `ProviderError` if the response is incomplete."""

    def _fail(self, failure: ProviderError, out: list[StreamEvent]) -> None:
        # Events before the error are returned now; the next call raises it.
        self._failure = failure
        if not out:
            raise failure


@final
@attrs.define(eq=False, repr=False)
class StreamDecoder(_Decoder):
    """Decodes a stream of events."""

    _framing: Framing

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

    def _finish(self, out: list[StreamEvent]) -> None:
        with suppress(ProviderProtocolError):  # an event cut in two, not a protocol error
            self._read(self._framing.close(), out)
        if not self.is_over:
            _end(self._reader, out)

    def _read(self, frames: list[ServerSentEvent], out: list[StreamEvent]) -> None:
        reader = self._reader
        for frame in frames:
            if reader.is_over:
                self._read_late(frame, out)
                continue
            if frame.data == "[DONE]":
                _end(reader, out)
                return
            reader.read(frame.event, _parse_event(frame.data, reader.host), out)

    def _read_late(self, frame: ServerSentEvent, out: list[StreamEvent]) -> None:
        """Read a frame after the end of the response, if it is a part of another message."""
        with suppress(ValueError):
            event = as_object(loads(frame.data))
            if event.get("type") in _MESSAGE_EVENTS:
                self._reader.read(frame.event, event, out)


@final
@attrs.define(eq=False, repr=False)
class DocumentDecoder(_Decoder):
    """Decodes a response that was not streamed: one JSON document."""

    _pieces: list[bytes] = attrs.field(factory=list[bytes], init=False)

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Buffer *data*: a document is parsed when it is complete."""
        if self._failure is not None:
            raise self._failure
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _LARGEST_DOCUMENT:
            self._failure = _too_large(self._reader)
            raise self._failure
        return []

    def _finish(self, out: list[StreamEvent]) -> None:
        self._reader.read_document(_parse_document(b"".join(self._pieces), self._reader.host), out)
        if not self.is_over:
            raise truncated_answer(self._reader.host)


@attrs.define(eq=False, repr=False)
class UniqueIds:
    """Ids of calls and blocks that are unique within a response."""

    _used: set[str] = attrs.field(factory=set[str], init=False)

    def new(self, own: str = "") -> str:
        """Return the host's *own* id of a call, else a number; a repeated one gets a number appended."""
        number = len(self._used)
        new = own or str(number)
        while new in self._used:
            new = f"{own}.{number}"
            number += 1
        self._used.add(new)
        return new


def decoder_for(reader: Reader, content_type: str) -> StreamDecoder | DocumentDecoder | None:
    """Return a decoder for *content_type*: server-sent events, or one JSON document; None for another type.

    A response without a content type is read as a stream.
    """
    match content_type:
        case "text/event-stream" | "":
            return StreamDecoder(reader, SseParser())
        case "application/json":
            return DocumentDecoder(reader)
        case _:
            return None


def _too_large(reader: Reader) -> ProviderProtocolError:
    return ProviderProtocolError(f"{reader.host}: the response is too large")


def truncated_answer(host: str) -> ConnectionBroken:
    """Return the error for a stream that ended early."""
    return ConnectionBroken(
        f"{host}: the stream ended in the middle of the response",
        retryable=True,
        info=ErrorInfo(code="connection_lost"),
    )


def _end(reader: Reader, out: list[StreamEvent]) -> None:
    reader.end(out)
    if not reader.is_over:
        raise truncated_answer(reader.host)


def _with_unread(reader: Reader, out: list[StreamEvent]) -> list[StreamEvent]:
    """Report unread events before the final event."""
    if reader.is_over and reader.ignored and out and isinstance(out[-1], Finished):
        out[-1:-1] = [Unread(kind, count) for kind, count in sorted(_limit_kinds(reader.ignored).items())]
    return out


def _limit_kinds(ignored: Counter[str]) -> Counter[str]:
    """Return *ignored* with shortened names; kinds beyond the first few are counted together."""
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
        raise ProviderProtocolError(f"{host}: an event of the stream is not valid JSON", retryable=True) from error


def _parse_document(data: bytes, host: str) -> Json:
    try:
        return as_object(loads(data))
    except ValueError as error:
        raise truncated_answer(host) from error
