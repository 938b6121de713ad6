"""Incremental encoding: the bytes of request N are a prefix of request N+1.

Hosts cache the beginning of a request, so a session's requests must only grow at the end. A `Dialect` encodes each
transcript item once; the bytes are kept with the transcript's lineage, so a step costs only what it adds. Members
that vary between steps (the output cap, the tool choice) come after the messages. Cache markers move, so they are
inserted into the last chunks when the body is assembled: one at the end, where the next request will read from the
cache, and one before the model's last message, where the previous request wrote to it.

The cache only saves time: a body is a pure function of its request, so a session resumed in another process sends the
same bytes.

The state between two items is the dialect's own immutable value. Items that only the end of the transcript completes
(a call without a result, a paused message) are encoded from a copy of that state, so nothing has to be undone.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Generic, Protocol, TypeVar

import attrs

from engine.core.llm_types import CacheLifetime, ModelRequest, ToolSchema
from engine.core.messages import Transcript
from engine.core.value_base import Value
from engine.providers.wire.normalize_transcript import AssistantItem, TranscriptItem, TranscriptNormalizer
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.untrusted_json import Json, to_bytes
from engine.providers.wire.wire_format import Body

S = TypeVar("S")

# Chunks are joined into blocks of this size: a body of many small pieces is slow to send.
_BLOCK_BYTES = 64 * 1024
# Bounds for an engine that serves many sessions.
_MAX_SESSIONS = 4_096
_MAX_OPENINGS = 64
_MAX_CACHED_BYTES = 256 * 1024 * 1024


@attrs.frozen(eq=False, repr=False)
class Piece(Value):
    """A labelled part of a request's opening; labels are shown to people: `"system"`, `"tool read"`."""

    label: str
    data: bytes


@attrs.frozen(eq=False, repr=False)
class EncodedChunk(Value):
    """The bytes of a block or a message, including the separator before it.

    Attributes:
        data: the bytes.
        can_be_marked: whether a cache marker can follow it.
    """

    data: bytes
    can_be_marked: bool = False


class Dialect(Protocol[S]):
    """How a wire format writes a request. Pure; made for one model."""

    def opening(self, request: ModelRequest) -> Sequence[Piece]:
        """Return the request up to its first message, which stays the same between steps.

        Must not depend on the transcript, the output cap or the choice of tools.
        """
        ...

    def start(self) -> S:
        """Return the state before the first item."""
        ...

    def add(self, state: S, item: TranscriptItem) -> tuple[S, list[EncodedChunk]]:
        """Return the state after *item*, and its bytes. A pure function of its arguments."""
        ...

    def closing(self, state: S, request: ModelRequest) -> bytes:
        """Return the end of the request, after its last message."""
        ...

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Return a chunk's bytes with a cache marker at the end."""
        ...


@attrs.define(eq=False, repr=False)
class _EncodedChunks(Generic[S]):
    """Chunks that are not yet packed into blocks, and the state after them.

    Attributes:
        answered_mark: index of the last markable chunk before the model's last message.
    """

    state: S
    chunks: list[EncodedChunk] = attrs.field(factory=list[EncodedChunk])
    answered_mark: int | None = None

    def write(self, items: Iterable[TranscriptItem], dialect: Dialect[S]) -> None:
        for item in items:
            if isinstance(item, AssistantItem):
                # Here ended the previous request, so here the host has written to its cache.
                self.answered_mark = self.last_markable()
            self.state, chunks = dialect.add(self.state, item)
            self.chunks += chunks

    def last_markable(self) -> int | None:
        places = range(len(self.chunks) - 1, -1, -1)
        return next((place for place in places if self.chunks[place].can_be_marked), None)

    def copy(self) -> _EncodedChunks[S]:
        return _EncodedChunks(self.state, [*self.chunks], self.answered_mark)


@attrs.define(eq=False, repr=False)
class _History(Generic[S]):
    """The encoded part of one lineage."""

    normalizer: TranscriptNormalizer
    written: _EncodedChunks[S]
    messages: int = 0
    blocks: list[bytes] = attrs.field(factory=list[bytes])
    size: int = 0
    used: int = 0

    def matches(self, request: ModelRequest, deferred: Mapping[str, ToolSchema]) -> bool:
        """Return whether *request*, with those *deferred* tools, begins with these bytes."""
        return (
            self.messages <= len(request.transcript)
            and self.normalizer.reasoning_from == request.reasoning_from
            and self.normalizer.model == request.model
            and self.normalizer.deferred == deferred
        )

    def extend(self, transcript: Transcript, dialect: Dialect[S]) -> None:
        for position in range(self.messages, len(transcript)):
            self.written.write(self.normalizer.feed(transcript[position]), dialect)
        self.messages = len(transcript)

    def pack(self, upto: int) -> bool:
        """Join the first *upto* chunks, which are final, into a block if they are long enough."""
        chunks = self.written.chunks
        if sum(len(chunk.data) for chunk in chunks[:upto]) < _BLOCK_BYTES:
            return False
        data = b"".join(chunk.data for chunk in chunks[:upto])
        del chunks[:upto]
        if self.written.answered_mark is not None:
            self.written.answered_mark -= upto
        self.blocks.append(data)
        self.size += len(data)
        return True


@attrs.frozen(eq=False, repr=False)
class _Opening:
    """A request up to its first message.

    Attributes:
        digests: of each piece, its label and a hash of its bytes.
    """

    data: bytes
    digests: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> _Opening:
        """Return what *pieces* make."""
        digests = tuple(_digest(piece.label, hash(piece)) for piece in pieces)
        return cls(b"".join(piece.data for piece in pieces), digests)


@lru_cache(maxsize=4_096)
def _digest(label: str, value: int) -> tuple[str, int]:
    """Return one object for equal pieces: those of thousands of sessions are remembered."""
    return label, value


@attrs.frozen(eq=False, repr=False)
class _SentPrefix:
    """What the opening and lineage of a session's last request were; it keeps neither."""

    digests: tuple[tuple[str, int], ...]
    lineage: weakref.ref[object]
    reasoning_from: int


@attrs.define(eq=False, repr=False)
class Encoder(Generic[S]):
    """Encodes requests for one model."""

    _dialect: Dialect[S]
    _quirks: Quirks
    # Weak keys: a lineage lives as long as a transcript of it, and its bytes with it.
    _histories: weakref.WeakKeyDictionary[object, _History[S]] = attrs.field(
        factory=weakref.WeakKeyDictionary[object, "_History[S]"], init=False
    )
    _openings: OrderedDict[object, _Opening] = attrs.field(factory=OrderedDict[object, "_Opening"], init=False)
    _sent: OrderedDict[str, _SentPrefix] = attrs.field(factory=OrderedDict[str, "_SentPrefix"], init=False)
    _ticks: itertools.count[int] = attrs.field(factory=itertools.count, init=False)

    def encode(self, request: ModelRequest) -> Body:
        """Return the body for *request*; raise `ConfigError` for a transcript that can't be sent."""
        if not self._quirks.defers_tools and any(tool.deferred for tool in request.tools):
            request = attrs.evolve(request, tools=tuple(tool for tool in request.tools if not tool.deferred))
        deferred = {tool.name: tool for tool in request.tools if tool.deferred}
        opening = self._opening(request)
        lineage = request.transcript.lineage
        # Put back only after success: an encoder that raised halfway would lack messages.
        history = self._histories.pop(lineage, None)
        if history is None or not history.matches(request, deferred):
            arranger = TranscriptNormalizer(request.model, self._quirks, request.reasoning_from, deferred)
            history = _History(arranger, _EncodedChunks(self._dialect.start()))
        history.extend(request.transcript, self._dialect)
        # On a copy, since the next request may complete these items differently.
        now = history.written.copy()
        now.write(history.normalizer.pending(), self._dialect)
        tail = self._tail(now, request.options.cache or "5m") + self._dialect.closing(now.state, request)
        body = Body(pieces=(opening.data, *history.blocks, tail), broken_at=self._compare(request, opening))
        history.used = next(self._ticks)
        self._histories[lineage] = history
        if history.pack(self._fixed_chunks(history.written)):
            self._forget_old(history)
        return body

    def _opening(self, request: ModelRequest) -> _Opening:
        key = (request.model, request.system, request.tools, request.output_schema, request.options, request.session_id)
        opening = self._openings.pop(key, None) or _Opening.of(self._dialect.opening(request))
        self._openings[key] = opening
        if len(self._openings) > _MAX_OPENINGS:
            self._openings.popitem(last=False)
        return opening

    def _tail(self, written: _EncodedChunks[S], lifetime: CacheLifetime) -> bytes:
        is_marking = self._quirks.marks and lifetime != "off"
        # At most two markers; Anthropic allows four, and the opening uses up to two.
        marked = {written.answered_mark, written.last_markable()} if is_marking else set[int | None]()
        return b"".join(
            self._dialect.mark(chunk.data, lifetime) if place in marked else chunk.data
            for place, chunk in enumerate(written.chunks)
        )

    def _fixed_chunks(self, written: _EncodedChunks[S]) -> int:
        """Return how many leading chunks will never carry a cache marker."""
        return (written.answered_mark or 0) if self._quirks.marks else len(written.chunks)

    def _compare(self, request: ModelRequest, opening: _Opening) -> str:
        """Return the label of the first part that changed since the session's last request; empty if none."""
        if not request.session_id:
            return ""
        before = self._sent.pop(request.session_id, None)
        # A weak reference: comparing must not keep a history alive.
        sent = _SentPrefix(opening.digests, weakref.ref(request.transcript.lineage), request.reasoning_from)
        self._sent[request.session_id] = sent
        if len(self._sent) > _MAX_SESSIONS:
            self._sent.popitem(last=False)
        return "" if before is None else _changed_part(before, sent)

    def _forget_old(self, current: _History[S]) -> None:
        """Drop the least recently used histories while they exceed the memory limit."""
        # The current one is never dropped: the request being sent needs it.
        while sum(history.size for history in self._histories.values()) > _MAX_CACHED_BYTES:
            lineage, oldest = min(self._histories.items(), key=lambda item: item[1].used)
            if oldest is current:
                return
            del self._histories[lineage]


def _changed_part(before: _SentPrefix, now: _SentPrefix) -> str:
    if before.digests is not now.digests:
        labels = {label for label, _ in before.digests}
        for old, new in itertools.zip_longest(before.digests, now.digests):
            if old != new:
                # A known piece in a new position means that the one before it was removed.
                return old[0] if old and (new is None or new[0] in labels) else new[0]
    if before.lineage() is not now.lineage() or before.reasoning_from != now.reasoning_from:
        return "history"
    return ""


# -- helpers for dialects ---------------------------------------------------------------------


@attrs.frozen(eq=False, repr=False)
class TurnWriter(Value):
    """Writes blocks into turns of alternating roles.

    The state is the role of the open turn; None before the first. The next turn closes it, so blocks of the same role
    are simply appended.

    Attributes:
        content: the name of a turn's list of blocks.
    """

    content: str = "content"

    def write(
        self, state: str | None, role: str, blocks: Sequence[tuple[Json, bool]]
    ) -> tuple[str | None, list[EncodedChunk]]:
        """Return the new state and the chunks of *blocks*; each block comes with whether it can be marked."""
        chunks: list[EncodedChunk] = []
        for block, can_be_marked in blocks:
            if role == state:
                before = b","
            else:
                new = b'{"role":"%s","%s":[' % (role.encode(), self.content.encode())
                before = new if state is None else b"]}," + new
                state = role
            chunks.append(EncodedChunk(before + to_bytes(block), can_be_marked))
        return state, chunks

    def close(self, state: str | None) -> bytes:
        """Return the bytes that close the open turn."""
        return b"" if state is None else b"]}"


def members(value: Json) -> bytes:
    """Return the members of an object as JSON, without its braces."""
    return to_bytes(value)[1:-1]


def tools_member(tools: Sequence[ToolSchema], write: Sequence[Json], more: Sequence[object] = ()) -> list[Piece]:
    """Return the member `tools`: *tools*, written as *write*, then *more* from `extra_body`; nothing without any."""
    if not tools and not more:
        return []
    hosted = b",".join(map(to_bytes, more))
    comma = b"," if tools and hosted else b""
    return [Piece("tools", b',"tools":['), *tool_pieces(tools, write), Piece("tools", comma + hosted + b"]")]


def tool_pieces(tools: Sequence[ToolSchema], write: Sequence[Json]) -> list[Piece]:
    """Return one labelled piece for each tool."""
    return [
        Piece(f"tool {tool.name}", (b"," if number else b"") + to_bytes(document))
        for number, (tool, document) in enumerate(zip(tools, write, strict=True))
    ]
