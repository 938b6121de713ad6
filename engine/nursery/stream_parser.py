"""The stream parser: stream events in, commands out. Pure; it runs nothing.

Blocks of text, thinking and calls may interleave; each is identified by its kind and stream id. A violation of the
provider's own protocol is repaired and counted as a *slip*, never fatal: a delta before its start opens the block, a
second start is ignored, a block left open is closed at the end. Refusing such a stream would throw away an answer that is
paid for; hosts differ in their slips, and change them without notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, assert_never

import attrs

from engine.core.events import PartKind
from engine.core.ids import CallId, PartId
from engine.core.lazy import regex
from engine.core.llm_types import (
    Cited,
    Finished,
    Ping,
    PrefixBroken,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    Unread,
    UsageReported,
    is_credible,
)
from engine.core.messages import Citation, FinishReason, Usage
from engine.core.value_base import Value

# The first half of a character outside the basic plane (a high surrogate), with the second half if that follows directly.
_FIRST_HALF: Final = regex("[\ud800-\udbff][\udc00-\udfff]?")


@attrs.frozen(eq=False, repr=False)
class OpenBlock(Value):
    """Announce a part; a call part is announced with its call."""

    part_id: PartId
    kind: PartKind
    call_id: CallId | None = None
    tool: str = ""


@attrs.frozen(eq=False, repr=False)
class Grow(Value):
    """Append text to an open part."""

    part_id: PartId
    text: str


@attrs.frozen(eq=False, repr=False)
class Restart(Value):
    """Empty an open part: what was streamed was wrong."""

    part_id: PartId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CloseBlock(Value):
    """End a part of text or thinking; its text is what has grown."""

    part_id: PartId
    kind: Literal["text", "reasoning"]
    signature: str | None = None
    redacted: str | None = None
    citations: tuple[Citation, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CloseCall(Value):
    """End a call's part: its arguments are whole, or were cut off."""

    part_id: PartId
    call_id: CallId
    tool: str
    provider_id: str
    complete: bool


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CloseItem(Value):
    """A provider's own item, which begins and ends at once."""

    part_id: PartId
    kind: str
    data: str


Command = OpenBlock | Grow | Restart | CloseBlock | CloseCall | CloseItem
_BlockKind = Literal["text", "reasoning", "call"]


@attrs.define(eq=False, repr=False)
class _Block:
    """An open block.

    Attributes:
        chunks: the arguments of a call so far; its end may repeat them, or say something else.
        half: the first half of a character that a host has cut in two.
    """

    part_id: PartId
    call_id: CallId | None = None
    tool: str = ""
    chunks: list[str] = attrs.field(factory=list[str])
    half: str = ""
    citations: list[Citation] = attrs.field(factory=list[Citation])


@attrs.define(eq=False, repr=False)
class StreamParser:
    """The state of one answer.

    Attributes:
        finish: why the model stopped; None until it is reported.
        response: what its host calls the answer and the model; empty until then.
        usage: the last usage that was reported.
        slips: protocol slips by kind.
        unread: how many events of an unknown kind came, by kind.
        broken_at: where the request first differs from the one before it, so that the host's cache ends there.
    """

    _new_id: Callable[[str], str]
    finish: FinishReason | None = attrs.field(default=None, init=False)
    finish_detail: str = attrs.field(default="", init=False)
    response: tuple[str, str] = attrs.field(default=("", ""), init=False)
    usage: Usage = attrs.field(factory=Usage, init=False)
    slips: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    unread: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    broken_at: str = attrs.field(default="", init=False)
    _open: dict[tuple[_BlockKind, str], _Block] = attrs.field(factory=dict[tuple[_BlockKind, str], _Block], init=False)
    # Of calls alone: a text or a thought may come back under the same id, and is a new part then.
    _closed_calls: set[str] = attrs.field(factory=set[str], init=False)

    def feed(self, events: Iterable[StreamEvent]) -> list[Command]:
        """Return the commands for one batch, in order."""
        out: list[Command] = []
        for event in events:
            # The hot path, without a call to `_feed_one`: nearly all events are deltas of text.
            if type(event) is TextChunk:
                block = self._open.get(("text", event.id))
                if block is None:
                    block = self._open_block("text", event.id, out, slip="delta_before_start")
                if event.text:
                    self._grow(block, event.text, out)
            else:
                self._feed_one(event, out)
        return out

    def end(self) -> list[Command]:
        """Return the commands that close what is open at the end of the stream; a call still open was cut off."""
        out: list[Command] = []
        # In the order in which the blocks were opened, which is the order that the next request must have.
        for (kind, stream_id), block in list(self._open.items()):
            if kind == "call":
                self._close_call(stream_id, block, out, complete=False)
            else:
                # Thinking that was cut off has no signature; each wire format decides whether it can be sent back.
                self._end_half(block, out)
                out.append(CloseBlock(part_id=block.part_id, kind=kind, citations=tuple(block.citations)))
        self._open.clear()
        return out

    def _feed_one(self, event: StreamEvent, out: list[Command]) -> None:
        match event:
            case ReasoningChunk():
                self._grow_reasoning(event, out)
            case ToolCallStarted() | ToolCallChunk() | ToolCallDone():
                self._feed_call(event, out)
            case TextStarted():
                self._start("text", event.id, out)
            case ReasoningStarted():
                self._start("reasoning", event.id, out)
            case TextDone():
                self._end_text(event, out)
            case ReasoningDone():
                self._end_reasoning(event, out)
            case ProviderItem():
                # A part like any other, so that its place among texts and calls is kept.
                part_id = PartId(self._new_id("part"))
                out.append(OpenBlock(part_id, "provider"))
                out.append(CloseItem(part_id=part_id, kind=event.kind, data=event.data))
            case Cited():
                self._cite(event, out)
            case _:
                self._note(event)

    def _note(self, event: UsageReported | PrefixBroken | Unread | Finished | Ping | TextChunk) -> None:
        """Keep what belongs to the answer as a whole."""
        match event:
            case UsageReported():
                # Not added: hosts report a running total, some of them with every chunk.
                if is_credible(event.usage):
                    self.usage = event.usage
                else:
                    self._slip("incredible_usage")
            case PrefixBroken():
                self.broken_at = event.at
            case Unread():
                self.unread[event.kind] = self.unread.get(event.kind, 0) + event.count
            case Finished():
                self._finish(event)
            case Ping() | TextChunk():
                pass
            case _:
                assert_never(event)

    def _grow_reasoning(self, event: ReasoningChunk, out: list[Command]) -> None:
        block = self._open.get(("reasoning", event.id))
        if block is None:
            block = self._open_block("reasoning", event.id, out, slip="delta_before_start")
        if event.text:
            self._grow(block, event.text, out)

    def _end_text(self, event: TextDone, out: list[Command]) -> None:
        block = self._open.get(("text", event.id))
        if block is not None and event.text is not None:
            # The host's last word counts, as it does for a call's arguments.
            self._slip("text_replaced")
            block.half = ""
            out.append(Restart(block.part_id))
            if event.text:
                self._grow(block, event.text, out)
        self._close("text", event.id, CloseBlockFields(), out)

    def _end_reasoning(self, event: ReasoningDone, out: list[Command]) -> None:
        # Redacted thinking has no delta; without its block the host would refuse the next request.
        has_more = event.redacted is not None or event.signature is not None
        if has_more and ("reasoning", event.id) not in self._open:
            self._open_block("reasoning", event.id, out)
        fields = CloseBlockFields(signature=event.signature, redacted=event.redacted)
        self._close("reasoning", event.id, fields, out)

    def _cite(self, event: Cited, out: list[Command]) -> None:
        block = self._open.get(("text", event.id))
        if block is None:
            block = self._open_block("text", event.id, out, slip="delta_before_start")
        block.citations.append(event.citation)

    def _start(self, kind: Literal["text", "reasoning"], stream_id: str, out: list[Command]) -> None:
        if (kind, stream_id) in self._open:
            self._slip("duplicate_start")
        else:
            self._open_block(kind, stream_id, out)

    def _close(
        self, kind: Literal["text", "reasoning"], stream_id: str, fields: CloseBlockFields, out: list[Command]
    ) -> None:
        block = self._open.pop((kind, stream_id), None)
        if block is None:
            self._slip("end_without_start")
            return
        self._end_half(block, out)
        out.append(
            CloseBlock(
                part_id=block.part_id,
                kind=kind,
                signature=fields.signature,
                redacted=fields.redacted,
                citations=tuple(block.citations),
            )
        )

    def _feed_call(self, event: ToolCallStarted | ToolCallChunk | ToolCallDone, out: list[Command]) -> None:
        block = self._open.get(("call", event.id))
        if isinstance(event, ToolCallStarted):
            if block is None:
                self._open_block("call", event.id, out, tool=event.tool)
                return
            self._slip("duplicate_start")
            # The name may come with the second start only.
            block.tool = block.tool or event.tool
            return
        if block is None and event.id in self._closed_calls:
            # A second end, or a late delta: a call of its own would have no name.
            self._slip("after_end")
            return
        if block is None:
            # Some hosts send a call in one piece, as nothing but its end: no slip if that has a name.
            tool = event.tool or "" if isinstance(event, ToolCallDone) else ""
            slip = "" if isinstance(event, ToolCallDone) and tool else "delta_before_start"
            block = self._open_block("call", event.id, out, tool=tool, slip=slip)
        if isinstance(event, ToolCallChunk):
            self._grow_call(block, event.text, out)
        else:
            self._complete_call(block, event, out)

    def _complete_call(self, block: _Block, event: ToolCallDone, out: list[Command]) -> None:
        if event.tool and block.tool and event.tool != block.tool:
            # The first name stays: the call was announced under it.
            self._slip("tool_name_changed")
        block.tool = block.tool or event.tool or ""
        if event.arguments is not None:
            streamed = "".join(block.chunks)
            if event.arguments.startswith(streamed):
                # The whole repeated, or the whole of which only a part was streamed.
                self._grow_call(block, event.arguments[len(streamed) :], out)
            else:
                self._slip("arguments_replaced")
                # Clients have shown what was streamed, so the part is emptied before it grows again.
                block.chunks.clear()
                block.half = ""
                out.append(Restart(block.part_id))
                self._grow_call(block, event.arguments, out)
        self._open.pop(("call", event.id))
        self._close_call(event.id, block, out, complete=True)

    def _grow_call(self, block: _Block, text: str, out: list[Command]) -> None:
        if text:
            block.chunks.append(text)
            self._grow(block, text, out)

    def _grow(self, block: _Block, text: str, out: list[Command]) -> None:
        """Append to a part; half a character, cut by the host between two deltas, waits for its other half.

        A lone surrogate can't be encoded as UTF-8, so it must not get into the journal.
        """
        if block.half or not text.isascii():
            # Only here: most deltas are ASCII, and cost one test.
            text, block.half = block.half + text, ""
            if "\ud800" <= text[-1] <= "\udbff":
                block.half, text = text[-1], text[:-1]
            text = _FIRST_HALF.sub(_joined, text)
        if text:
            out.append(Grow(block.part_id, text))

    def _end_half(self, block: _Block, out: list[Command]) -> None:
        if block.half:
            # The other half never came: the replacement character shows that something is missing.
            out.append(Grow(block.part_id, "\ufffd"))
            block.half = ""

    def _close_call(self, stream_id: str, block: _Block, out: list[Command], *, complete: bool) -> None:
        assert block.call_id is not None
        self._closed_calls.add(stream_id)
        self._end_half(block, out)
        out.append(
            CloseCall(
                part_id=block.part_id,
                call_id=block.call_id,
                tool=block.tool,
                provider_id=stream_id,
                complete=complete,
            )
        )

    def _finish(self, event: Finished) -> None:
        if self.finish is not None:
            # The first reason counts: the loop may depend on it ("length", say), and a later one is vaguer, if anything.
            self._slip("second_finish")
            return
        self.finish = event.reason
        self.finish_detail = event.detail or event.raw or ""
        self.response = event.response_id, event.response_model

    def _open_block(
        self, kind: _BlockKind, stream_id: str, out: list[Command], *, tool: str = "", slip: str = ""
    ) -> _Block:
        if slip:
            self._slip(slip)
        if self.finish is not None:
            # Still taken: text behind a premature finish is text of the answer.
            self._slip("block_after_finish")
        # An id of our own: those of hosts are unique within an answer at best, and the ledger needs one for each call.
        call_id = CallId(self._new_id("call")) if kind == "call" else None
        block = _Block(PartId(self._new_id("part")), call_id, tool)
        self._open[kind, stream_id] = block
        out.append(OpenBlock(block.part_id, kind, call_id, tool))
        return block

    def _slip(self, kind: str) -> None:
        self.slips[kind] = self.slips.get(kind, 0) + 1


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CloseBlockFields(Value):
    """What the end of a block of thinking may carry; hosts demand both back, unchanged."""

    signature: str | None = None
    redacted: str | None = None


def _joined(match: re.Match[str]) -> str:
    """Return the character that two halves make; for a first half alone, the replacement character."""
    halves = match[0]
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le") if len(halves) == 2 else "\ufffd"
