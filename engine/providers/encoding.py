"""Requests whose bytes only ever grow at their end.

A host caches the beginning of a request, so request N+1 has to begin with the bytes of
request N. Here that is how bodies are made: a `Dialect` writes each item once, the
bytes are kept with the transcript's lineage, and a step costs what it adds. What varies
from step to step (the output cap, the choice of tools) comes after the messages; cache
markers, which move, are put into the last pieces when the body is put together.

The state between two items is a value of the dialect's own. What the end of the
transcript completes for now (a call without its result, a paused answer) is written
from that state and forgotten, so nothing has to be taken back.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import attrs

from engine.messages import Transcript
from engine.model import CacheLifetime, ModelRequest, ToolSchema
from engine.providers.items import Arranger, Item
from engine.providers.jsonvalue import Json, to_bytes
from engine.providers.quirks import Quirks
from engine.providers.wire import Body

S = TypeVar("S")

_BLOCK = 64 * 1024
_SESSIONS = 4_096
_KEPT_BYTES = 256 * 1024 * 1024


@attrs.frozen
class Piece:
    """A part of a request's opening, with a name for people: `"system"`, `"tool read"`."""

    label: str
    data: bytes


@attrs.frozen
class Chunk:
    """The bytes of a block or a message, the separator before it among them.

    Attributes:
        data: the bytes.
        can_be_marked: whether a cache marker may stand at its end.
    """

    data: bytes
    can_be_marked: bool = False


class Dialect(Protocol[S]):
    """How a wire format writes a request. Pure; made for one model."""

    def opening(self, request: ModelRequest) -> Sequence[Piece]:
        """Return the request up to its first message: what stays the same from step to step.

        It must not depend on the transcript, the output cap or the choice of tools.
        """
        ...

    def start(self) -> S:
        """Return the state before the first item."""
        ...

    def add(self, state: S, item: Item) -> tuple[S, list[Chunk]]:
        """Return the state after *item*, and its bytes. Must depend on nothing else."""
        ...

    def closing(self, state: S, request: ModelRequest) -> bytes:
        """Return the rest of the request after its last message."""
        ...

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Return the bytes of a chunk with a cache marker at its end."""
        ...


@attrs.define(eq=False)
class _History(Generic[S]):
    """What is encoded of one lineage."""

    arranger: Arranger
    state: S
    messages: int = 0
    blocks: list[bytes] = attrs.field(factory=list[bytes])
    recent: list[Chunk] = attrs.field(factory=list[Chunk])
    # Of `recent`, where the last request had its marker: the end of what the host has read.
    marked: int | None = None
    size: int = 0
    used: int = 0

    def extend(self, transcript: Transcript, dialect: Dialect[S]) -> None:
        for position in range(self.messages, len(transcript)):
            for item in self.arranger.feed(transcript[position]):
                self.state, chunks = dialect.add(self.state, item)
                self.recent += chunks
            self.messages = position + 1

    def pack(self) -> bool:
        """Make a block of what will not change any more, if it is long enough: all before the last marker."""
        upto = len(self.recent) if self.marked is None else self.marked
        data = b"".join(chunk.data for chunk in self.recent[:upto])
        if len(data) < _BLOCK:
            return False
        self.blocks.append(data)
        self.size += len(data)
        del self.recent[:upto]
        if self.marked is not None:
            self.marked -= upto
        return True


@attrs.frozen(eq=False)
class _Sent:
    """What the last request of a session began with."""

    opening: tuple[Piece, ...]
    lineage: weakref.ref[object]
    reasoning_from: int


@attrs.define(eq=False)
class Encoder(Generic[S]):
    """Encodes requests for one model."""

    _dialect: Dialect[S]
    _quirks: Quirks
    _histories: weakref.WeakKeyDictionary[object, _History[S]] = attrs.field(
        factory=weakref.WeakKeyDictionary[object, "_History[S]"], init=False
    )
    _sent: OrderedDict[str, _Sent] = attrs.field(factory=OrderedDict[str, "_Sent"], init=False)
    _openings: tuple[object, tuple[Piece, ...], bytes] = attrs.field(default=(None, (), b""), init=False)
    _ticks: itertools.count[int] = attrs.field(factory=itertools.count, init=False)

    def encode(self, request: ModelRequest) -> Body:
        """Return the body for *request*; raise `ConfigError` for a transcript that can't be sent."""
        opening, head = self._opening(request)
        history = self._history(request)
        history.extend(request.transcript, self._dialect)
        state, passing = history.state, list[Chunk]()
        for item in history.arranger.pending():
            state, chunks = self._dialect.add(state, item)
            passing += chunks
        last = self._last_to_mark(history, passing)
        tail = self._tail(history, passing, last, request)
        body = Body(
            pieces=(head, *history.blocks, tail + self._dialect.closing(state, request)),
            broken_at=self._compare(request, opening),
        )
        history.marked = last if last is not None and last < len(history.recent) else history.marked
        if history.pack():
            self._forget_old()
        return body

    def _opening(self, request: ModelRequest) -> tuple[tuple[Piece, ...], bytes]:
        key = (request.model, request.system, request.tools, request.output_schema, request.options, request.session_id)
        if self._openings[0] != key:
            pieces = tuple(self._dialect.opening(request))
            self._openings = (key, pieces, b"".join(piece.data for piece in pieces))
        return self._openings[1], self._openings[2]

    def _history(self, request: ModelRequest) -> _History[S]:
        transcript = request.transcript
        history = self._histories.get(transcript.lineage)
        if (
            history is None
            or history.messages > len(transcript)
            or history.arranger.reasoning_from != request.reasoning_from
        ):
            arranger = Arranger(request.model, self._quirks, request.reasoning_from)
            history = _History(arranger, self._dialect.start())
            self._histories[transcript.lineage] = history
        history.used = next(self._ticks)
        return history

    def _last_to_mark(self, history: _History[S], passing: list[Chunk]) -> int | None:
        if not self._quirks.marks:
            return None
        chunks = [*history.recent, *passing]
        return next((i for i in range(len(chunks) - 1, -1, -1) if chunks[i].can_be_marked), None)

    def _tail(self, history: _History[S], passing: list[Chunk], last: int | None, request: ModelRequest) -> bytes:
        lifetime = request.options.cache or "5m"
        marked = {last, history.marked} - {None} if self._quirks.marks and lifetime != "off" else set[int | None]()
        chunks = [*history.recent, *passing]
        return b"".join(
            self._dialect.mark(chunk.data, lifetime) if i in marked else chunk.data for i, chunk in enumerate(chunks)
        )

    def _compare(self, request: ModelRequest, opening: tuple[Piece, ...]) -> str:
        """Return where the request differs from the beginning of the session's last one; empty: nowhere."""
        if not request.session_id:
            return ""
        before = self._sent.pop(request.session_id, None)
        sent = _Sent(opening, weakref.ref(request.transcript.lineage), request.reasoning_from)
        self._sent[request.session_id] = sent
        if len(self._sent) > _SESSIONS:
            self._sent.popitem(last=False)
        return "" if before is None else _difference(before, sent)

    def _forget_old(self) -> None:
        """Keep the bytes of the sessions used last, as far as memory is meant for them."""
        if sum(history.size for history in self._histories.values()) <= _KEPT_BYTES:
            return
        oldest = min(self._histories.items(), key=lambda item: item[1].used)
        del self._histories[oldest[0]]


def _difference(before: _Sent, now: _Sent) -> str:
    if before.opening is not now.opening:
        for old, new in itertools.zip_longest(before.opening, now.opening):
            if old != new:
                piece = new or old
                assert piece is not None
                return piece.label
    if before.lineage() is not now.lineage() or before.reasoning_from != now.reasoning_from:
        return "history"
    return ""


# -- for dialects ---------------------------------------------------------------------


@attrs.frozen
class TurnWriter:
    """Writes blocks into turns of alternating roles.

    Its state is the role of the turn that is open; None before the first. The turn is
    closed by whatever comes after it, so more of the same role only adds to it.

    Attributes:
        content: the name of a turn's list of blocks.
    """

    content: str = "content"

    def write(
        self, state: str | None, role: str, blocks: Sequence[tuple[Json, bool]]
    ) -> tuple[str | None, list[Chunk]]:
        """Return the state and the chunks after *blocks*, each with whether a cache marker may stand at its end."""
        chunks: list[Chunk] = []
        for block, can_be_marked in blocks:
            if role == state:
                before = b","
            else:
                new = b'{"role":"%s","%s":[' % (role.encode(), self.content.encode())
                before = new if state is None else b"]}," + new
                state = role
            chunks.append(Chunk(before + to_bytes(block), can_be_marked))
        return state, chunks

    def close(self, state: str | None) -> bytes:
        """Return what closes the open turn."""
        return b"" if state is None else b"]}"


def members(value: Json) -> bytes:
    """Return the members of an object as JSON, without its braces."""
    return to_bytes(value)[1:-1]


def array(tools: Sequence[ToolSchema], write: Sequence[Json]) -> list[Piece]:
    """Return the pieces of a list of tools, named for them."""
    return [
        Piece(f"tool {tool.name}", (b"," if number else b"") + to_bytes(document))
        for number, (tool, document) in enumerate(zip(tools, write, strict=True))
    ]
