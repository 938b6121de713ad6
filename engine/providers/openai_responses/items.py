"""The items of a Responses answer while they are streamed, one class for each kind.

An item grows by deltas and is closed with the whole item; `close` emits what the deltas lacked. Data that must be sent
back to the host is kept with it: encrypted reasoning and its position as JSON in `ReasoningDone.signature`; the `phase`
of a message in a `ProviderItem` after its text; the work of hosted tools whole, in a `ProviderItem`.
"""

from __future__ import annotations

from collections import Counter, deque

import attrs

from engine.core.llm_types import (
    Cited,
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
)
from engine.core.messages import Citation
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, text, whole_characters

# The types of parts of messages and reasoning, and the member with their text.
CHANNELS = {"output_text": "text", "refusal": "refusal", "summary_text": "text", "reasoning_text": "text"}
PHASE = "phase"


@attrs.define(eq=False)
class ResponseItem:
    """The base of all items; by itself it emits nothing.

    Attributes:
        kind: its type.
        name: the prefix of its blocks' ids; for a call, its id.
        facts: the item as announced.
        done_event: the event that held its arguments whole.
        is_over: whether it is closed.
        refusal: the text of a refusal.
    """

    kind: str
    name: str
    facts: Json
    done_event: Json = attrs.field(factory=dict[str, object], init=False)
    is_over: bool = attrs.field(default=False, init=False)
    refusal: str = attrs.field(default="", init=False)

    def refuse(self, words: str) -> None:
        """Append to the refusal."""
        self.refusal += words

    @property
    def own_id(self) -> str:
        """The host's own id."""
        return text(self.facts, "id")

    def open(self, out: list[StreamEvent]) -> None:
        """Start the item."""

    def grow(self, channel: str, index: int, piece: str, out: list[StreamEvent]) -> None:
        """Read a delta."""

    def cite(self, index: int, annotation: object, out: list[StreamEvent]) -> None:
        """Add a citation to the text at *index*."""

    def close(self, facts: Json, out: list[StreamEvent]) -> None:
        """Close with the whole item. Idempotent."""
        if not self.is_over:
            self.is_over = True
            self._close(facts, out)

    def close_unfinished(self, out: list[StreamEvent], *, is_complete: bool) -> None:
        """End the item with the response, complete or truncated, unless it is closed."""
        if not self.is_over:
            self.is_over = True
            self._close_unfinished(out, is_complete=is_complete)

    def _close(self, facts: Json, out: list[StreamEvent]) -> None:
        pass

    def _close_unfinished(self, out: list[StreamEvent], *, is_complete: bool) -> None:
        pass


# -- messages and reasoning -----------------------------------------------------------


@attrs.define(eq=False)
class _Block:
    """A part of a message or of reasoning."""

    id: str
    channel: str
    pieces: list[str] = attrs.field(factory=list[str])
    citations: int = 0
    replacement: str | None = None


@attrs.define(eq=False)
class TextItem(ResponseItem):
    """A message or reasoning: a list of texts. A refusal is only reported at the end of the response."""

    _ignored: Counter[str]
    _blocks: list[_Block] = attrs.field(factory=list[_Block], init=False)
    _by_place: dict[tuple[str, int], _Block] = attrs.field(factory=dict[tuple[str, int], _Block], init=False)

    def grow(self, channel: str, index: int, piece: str, out: list[StreamEvent]) -> None:
        """Append to the text at *index* of *channel*."""
        if not piece:
            return
        block = self._by_place.get((channel, index))
        if block is None:
            block = self._by_place[channel, index] = self._begin(channel, out)
        block.pieces.append(piece)
        if channel == "output_text":
            out.append(TextChunk(block.id, piece))
        elif channel != "refusal":
            out.append(ReasoningChunk(block.id, piece))

    def cite(self, index: int, annotation: object, out: list[StreamEvent]) -> None:
        """Add a citation to the text at *index*."""
        place = ("output_text", index)
        if place not in self._by_place:
            self._by_place[place] = self._begin("output_text", out)
        _cite(self._by_place[place], annotation, out)

    def _begin(self, channel: str, out: list[StreamEvent]) -> _Block:
        block = _Block(f"{self.name}.{len(self._blocks)}", channel)
        self._blocks.append(block)
        if channel == "output_text":
            out.append(TextStarted(block.id))
        elif channel != "refusal":
            out.append(ReasoningStarted(block.id))
        return block

    def _close(self, facts: Json, out: list[StreamEvent]) -> None:
        """Emit what was not streamed. Parts are matched by order: indexes in deltas may differ."""
        # A summary and the reasoning itself are lists of their own.
        parts = [as_object(part) for name in ("summary", "content") for part in as_list(facts.get(name))]
        streamed = {channel: deque(b for b in self._blocks if b.channel == channel) for channel in CHANNELS}
        for part in parts:
            channel = text(part, "type")
            if channel not in CHANNELS:
                self._ignored[f"{self.kind} {channel}"] += 1
                continue
            full_text = text(part, CHANNELS[channel])
            # An empty part that was not streamed needs no block.
            if not streamed[channel] and not full_text:
                continue
            block = streamed[channel].popleft() if streamed[channel] else self._begin(channel, out)
            _emit_rest(block, full_text, out)
            for annotation in as_list(part.get("annotations"))[block.citations :]:
                _cite(block, annotation, out)
        self._end(facts, out, self._signature(facts))

    def _close_unfinished(self, out: list[StreamEvent], *, is_complete: bool) -> None:
        self._end(self.facts, out, None)

    def _end(self, facts: Json, out: list[StreamEvent], signature: str | None) -> None:
        thoughts = [block for block in self._blocks if block.channel not in {"output_text", "refusal"}]
        # Encrypted reasoning without a summary has no text, but has to be kept.
        if signature is not None and not thoughts:
            thoughts = [self._begin("reasoning", out)]
        for block in self._blocks:
            if block.channel == "output_text":
                out.append(TextDone(block.id, block.replacement))
            elif block.channel == "refusal":
                self.refuse("".join(block.pieces))
            else:
                out.append(ReasoningDone(block.id, signature if block is thoughts[-1] else None))
        self._emit_phase(facts, out)

    def _emit_phase(self, facts: Json, out: list[StreamEvent]) -> None:
        """Emit the phase of a message (commentary, final answer), which the host wants back with its text."""
        phase = text(facts, PHASE) or text(self.facts, PHASE)
        if phase and any(block.channel == "output_text" for block in self._blocks):
            out.append(ProviderItem(f"{self.name}.{PHASE}", PHASE, dumps({PHASE: phase})))

    def _signature(self, facts: Json) -> str | None:
        """Return the data that the host needs to accept its reasoning again; None if there is none.

        It is attached to the item's last part, and lists the parts before it. A summary without the reasoning is of no
        use to the host.
        """
        parts = [block.channel for block in self._blocks]
        encrypted = text(facts, "encrypted_content")
        if self.kind != "reasoning" or not (encrypted or "reasoning_text" in parts):
            return None
        kept = {"id": text(facts, "id"), "encrypted_content": encrypted, "parts": parts}
        return dumps({name: value for name, value in kept.items() if value})


def _emit_rest(block: _Block, full_text: str, out: list[StreamEvent]) -> None:
    """Emit the rest of *full_text*; where it differs from the stream, it replaces the text."""
    streamed = whole_characters("".join(block.pieces))
    if not full_text or full_text == streamed:
        return
    if block.channel == "refusal":
        block.pieces = [full_text]
    elif not full_text.startswith(streamed):
        block.replacement = full_text
    else:
        chunk = TextChunk if block.channel == "output_text" else ReasoningChunk
        out.append(chunk(block.id, full_text[len(streamed) :]))


def _cite(block: _Block, annotation: object, out: list[StreamEvent]) -> None:
    block.citations += 1
    if facts := as_object(annotation):
        # Its indexes are positions in the answer; the source is not quoted.
        title = text(facts, "title") or text(facts, "filename")
        out.append(Cited(block.id, Citation(url=text(facts, "url"), title=title, raw=dumps(facts))))


# -- calls ---------------------------------------------------------------------------


@attrs.define(eq=False)
class CallItem(ResponseItem):
    """A call for the engine to run.

    A custom tool takes free text; the engine's calls have JSON. So the text becomes the argument `input` of an object,
    which a tool with one string parameter can read, and which is sent back as an ordinary call of the same name. A search
    that the engine is to run has an object.
    """

    _pieces: list[str] = attrs.field(factory=list[str], init=False)

    def open(self, out: list[StreamEvent]) -> None:
        """Announce the call."""
        # At once, so that the user sees which tool is called.
        out.append(ToolCallStarted(self.name, text(self.facts, "name")))

    def grow(self, channel: str, index: int, piece: str, out: list[StreamEvent]) -> None:
        """Append to the arguments."""
        if piece:
            shown = piece
            if self.kind == "custom_tool_call":
                # JSON around a text that is streamed: the object is closed in `_close`.
                shown = ("" if self._pieces else '{"input":"') + dumps(piece)[1:-1]
            self._pieces.append(piece)
            out.append(ToolCallChunk(self.name, shown))

    def _close(self, facts: Json, out: list[StreamEvent]) -> None:
        # The token limit cut it, so it must not be run.
        if facts.get("status") == "incomplete":
            return
        streamed = whole_characters("".join(self._pieces))
        tool = text(facts, "name") if not text(self.facts, "name") else ""
        if self.kind == "custom_tool_call":
            whole: str | None = dumps({"input": text(facts, "input") or streamed})
        elif self.kind == "tool_search_call":
            whole = dumps(as_object(facts.get("arguments")))
        else:
            arguments = text(facts, "arguments") or streamed or "{}"
            whole = None if arguments == streamed else arguments
        out.append(ToolCallDone(self.name, whole, tool or None))

    def _close_unfinished(self, out: list[StreamEvent], *, is_complete: bool) -> None:
        if is_complete and self.done_event:
            self._close({"name": self.facts.get("name"), "arguments": self.done_event.get("arguments")}, out)


# -- the rest ------------------------------------------------------------------------


@attrs.define(eq=False)
class HostedItem(ResponseItem):
    """The work of a hosted tool, or another item that only the host understands."""

    def _close(self, facts: Json, out: list[StreamEvent]) -> None:
        if self.kind:
            out.append(ProviderItem(self.name, self.kind, dumps(facts)))
