"""Decodes the stream of the Anthropic Messages API.

A response is `message_start`, then content blocks, each `content_block_start`, deltas, `content_block_stop`; then
`message_delta` with the stop reason and the usage, and `message_stop`. `ping` may come anywhere; `error` ends the
stream. Blocks are distinguished by their index. A block of a kind without an event of ours (the work of hosted tools)
is collected and emitted whole, as JSON.

Usage is merged, later numbers over earlier ones: `message_delta` counts from the start of the response, may correct
`message_start`, and may omit unchanged numbers.

Proxies lose the start of a text, or put a second message behind the first: what was written is kept.

A call whose block was never stopped gets no `ToolCallDone`, so that it is not taken for complete: the token limit can
cut a response there.
"""

from __future__ import annotations

from collections import Counter

import attrs

from engine.core.errors import ProviderProtocolError
from engine.core.llm_types import (
    Cited,
    Finished,
    Ping,
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
    UsageReported,
)
from engine.core.messages import Citation, FinishReason, Usage
from engine.providers.wire.decoding import UniqueIds
from engine.providers.wire.untrusted_json import Json, as_list, as_object, count, dumps, loads, number, text

FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    # A hosted tool runs long: the turn is to be sent back unchanged, and the model continues it.
    "pause_turn": "pause",
    "compaction": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}


# The kind of block that a delta can't belong to: its own block was never announced.
_MIXED_UP: dict[str, str] = {"text_delta": "thinking", "thinking_delta": "text"}


@attrs.define(eq=False)
class _Block:
    kind: str
    id: str
    content: Json
    signature: str = ""
    arguments: list[str] = attrs.field(factory=list[str])


@attrs.define(eq=False)
class AnthropicReader:
    """Turns one response's events into stream events.

    Attributes:
        host: the host, for error messages.
        is_over: whether the response is complete.
        ignored: how many events were not recognised or have no neutral form, by kind.
    """

    host: str = "Anthropic"
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _blocks: dict[int, _Block] = attrs.field(factory=dict[int, _Block], init=False)
    _ids: UniqueIds = attrs.field(factory=UniqueIds, init=False)
    _usage: Usage = attrs.field(factory=Usage, init=False)
    _usage_before: Usage = attrs.field(factory=Usage, init=False)
    _has_message: bool = attrs.field(default=False, init=False)
    _second_start: Json | None = attrs.field(default=None, init=False)
    _stop_reason: str | None = attrs.field(default=None, init=False)
    _detail: str = attrs.field(default="", init=False)
    # The host's id of the answer, and its name of the model.
    _source: tuple[str, str] = attrs.field(default=("", ""), init=False)

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a message that was not streamed."""
        # An error in a response with status 200.
        if as_object(document.get("error")):
            from engine.providers.failures.error_body import stream_failure

            raise stream_failure(self.host, document.get("error"))
        if not isinstance(document.get("content"), list):
            raise ProviderProtocolError(f"{self.host} sent JSON that is not a message")
        self._count(document.get("usage"), out)
        self._record_stop(document)
        contents = as_list(document["content"])
        for index, content in enumerate(contents):
            self._open({"index": index, "content_block": content}, out)
            # The token limit cuts the last block; nothing else marks it as incomplete.
            is_cut = self._stop_reason == "max_tokens" and index == len(contents) - 1
            if not is_cut or self._blocks[index].kind != "tool_use":
                self._close(self._blocks.pop(index), out)
        self._finish(out)

    def end(self, out: list[StreamEvent]) -> None:
        """Do nothing: a response without `message_stop` is incomplete."""

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event; its type is a member of it."""
        if self.is_over and not self._resume(event, out):
            return
        match event.get("type"):
            case "content_block_delta":
                self._extend(event, out)
            case "content_block_start":
                # A stop for a block that isn't open changes nothing.
                self._open(event, out)
            case "content_block_stop":
                self._stop_block(_index(event), out)
            case "message_start":
                self._start_message(event, out)
            case "message_delta":
                self._record_stop(self._object(event, "delta"))
                self._count(event.get("usage"), out)
            case "message_stop":
                self._finish(out)
            case "ping":
                out.append(Ping())
            case "error":
                from engine.providers.failures.error_body import stream_failure

                raise stream_failure(self.host, event.get("error"))
            case other:
                self.ignored[str(other)] += 1

    def _stop_block(self, index: int, out: list[StreamEvent]) -> None:
        block = self._blocks.pop(index, None)
        if block is not None:
            self._close(block, out)

    def _start_message(self, event: Json, out: list[StreamEvent]) -> None:
        """Begin a message; a second one in a stream continues the first."""
        if self._has_message:
            self._close_open_blocks(out)
            self._usage_before, self._usage = self._total_usage(), Usage()
        self._has_message = True
        message = self._object(event, "message")
        self._source = text(message, "id"), text(message, "model")
        self._count(message.get("usage"), out)

    def _resume(self, event: Json, out: list[StreamEvent]) -> bool:
        """Whether *event*, after the end of a message, continues the response: another message with content does."""
        kind = event.get("type")
        if kind == "message_start":
            self._second_start = event
        if kind not in {"content_block_start", "content_block_delta"}:
            return False
        self.is_over = False
        if out and isinstance(out[-1], Finished):
            out.pop()
        start, self._second_start = self._second_start, None
        if start is not None:
            self._start_message(start, out)
        return True

    def _extend(self, event: Json, out: list[StreamEvent]) -> None:
        delta = self._object(event, "delta")
        block = self._blocks.get(_index(event))
        if block is None or block.kind == _MIXED_UP.get(text(delta, "type")):
            block = self._open_unannounced(event, text(delta, "type"), out)
        # A chunk was lost in between: the response is useless, but another attempt may succeed.
        if block is None:
            raise ProviderProtocolError(f"{self.host}: a delta for a block that is not open", retryable=True)
        match block.kind, delta.get("type"):
            case "text", "text_delta":
                if piece := text(delta, "text"):
                    out.append(TextChunk(block.id, piece))
            case "thinking", "thinking_delta":
                if piece := text(delta, "thinking"):
                    out.append(ReasoningChunk(block.id, piece))
            case "tool_use", "input_json_delta":
                if piece := text(delta, "partial_json"):
                    block.arguments.append(piece)
                    out.append(ToolCallChunk(block.id, piece))
            case _:
                self._add(block, delta, out)

    def _open_unannounced(self, event: Json, kind: str, out: list[StreamEvent]) -> _Block | None:
        """Open the block of a delta whose start is missing; None if it cannot be used without its start.

        The delta tells all that the start of a text or of thinking tells; the start of a call has its name.
        """
        opened = {"text_delta": "text", "citations_delta": "text", "thinking_delta": "thinking"}.get(kind)
        if opened is None:
            return None
        self._open(event | {"content_block": {"type": opened}}, out)
        return self._blocks[_index(event)]

    def _add(self, block: _Block, delta: Json, out: list[StreamEvent]) -> None:
        """Add a delta that is only emitted with the complete block."""
        match block.kind, delta.get("type"):
            case "text", "citations_delta":
                _cite(block, delta.get("citation"), out)
            case "thinking", "signature_delta":
                block.signature += text(delta, "signature")
            case _, "input_json_delta":
                block.arguments.append(text(delta, "partial_json"))
            case "compaction", "compaction_delta":
                block.content |= {name: value for name, value in delta.items() if name != "type"}
            case _, other:
                self.ignored[str(other)] += 1

    def _open(self, event: Json, out: list[StreamEvent]) -> None:
        content = self._object(event, "content_block")
        index = _index(event)
        kind = text(content, "type")
        # The block before was never stopped.
        if (left_open := self._blocks.pop(index, None)) is not None:
            self._close_unfinished(left_open, out)
        # Ids of calls may be repeated; blocks without an id get a number.
        block = _Block(kind, self._ids.new(text(content, "id") if kind == "tool_use" else ""), content)
        self._blocks[index] = block
        match kind:
            case "text":
                out.append(TextStarted(block.id))
                if piece := text(content, "text"):
                    out.append(TextChunk(block.id, piece))
                for citation in as_list(content.get("citations")):
                    _cite(block, citation, out)
            case "thinking":
                out.append(ReasoningStarted(block.id))
                block.signature = text(content, "signature")
                if piece := text(content, "thinking"):
                    out.append(ReasoningChunk(block.id, piece))
            case "redacted_thinking":
                out.append(ReasoningStarted(block.id))
            case "tool_use":
                out.append(ToolCallStarted(block.id, text(content, "name")))
            # The kinds of hosted tools are emitted whole, when they end.
            case _:
                pass

    def _record_stop(self, delta: Json) -> None:
        self._stop_reason = text(delta, "stop_reason") or self._stop_reason
        explanation = text(as_object(delta.get("stop_details")), "explanation")
        self._detail = explanation or text(delta, "stop_sequence") or self._detail

    def _count(self, usage: object, out: list[StreamEvent]) -> None:
        if raw := as_object(usage):
            self._usage = _merge_usage(self._usage, raw)
            out.append(UsageReported(self._total_usage()))

    def _total_usage(self) -> Usage:
        return self._usage_before + self._usage

    def _close_open_blocks(self, out: list[StreamEvent]) -> None:
        for block in self._blocks.values():
            self._close_unfinished(block, out)
        self._blocks.clear()

    def _finish(self, out: list[StreamEvent]) -> None:
        self._close_open_blocks(out)
        raw = self._stop_reason
        out.append(Finished(FINISH_REASONS.get(raw or "", "unknown"), raw, self._detail, *self._source))
        self.is_over = True

    def _close_unfinished(self, block: _Block, out: list[StreamEvent]) -> None:
        """Close a block that was not stopped, unless its content must be complete."""
        if block.kind in {"text", "thinking", "redacted_thinking"}:
            self._close(block, out)

    def _close(self, block: _Block, out: list[StreamEvent]) -> None:
        match block.kind:
            case "text":
                out.append(TextDone(block.id))
            case "thinking":
                out.append(ReasoningDone(block.id, block.signature or None))
            case "redacted_thinking":
                out.append(ReasoningDone(block.id, redacted=text(block.content, "data") or None))
            case "tool_use":
                # Without deltas, the arguments were in the start event.
                out.append(ToolCallDone(block.id, None if block.arguments else dumps(block.content.get("input") or {})))
            case kind:
                out.append(ProviderItem(block.id, kind, dumps(self._parse_input(block))))

    def _parse_input(self, block: _Block) -> Json:
        streamed = "".join(block.arguments)
        if not streamed:
            return block.content
        try:
            return block.content | {"input": loads(streamed)}
        except ValueError as error:
            raise ProviderProtocolError(
                f"{self.host}: the input of a {block.kind} is not valid JSON", retryable=True
            ) from error

    def _object(self, parent: Json, name: str) -> Json:
        if name not in parent:
            raise ProviderProtocolError(f"{self.host}: an event of the stream has no {name}", retryable=True)
        return as_object(parent[name])


def _cite(block: _Block, citation: object, out: list[StreamEvent]) -> None:
    if facts := as_object(citation):
        title = text(facts, "title") or text(facts, "document_title")
        citation_value = Citation(
            url=text(facts, "url"), title=title, quote=text(facts, "cited_text"), raw=dumps(facts)
        )
        out.append(Cited(block.id, citation_value))


def _index(event: Json) -> int:
    return number(event, "index", -1)


def _merge_usage(usage: Usage, raw: Json) -> Usage:
    return Usage(
        input=count(raw, "input_tokens", usage.input),
        output=count(raw, "output_tokens", usage.output),
        cache_read=count(raw, "cache_read_input_tokens", usage.cache_read),
        cache_write=count(raw, "cache_creation_input_tokens", usage.cache_write),
        reasoning=count(as_object(raw.get("output_tokens_details")), "thinking_tokens", usage.reasoning),
    )
