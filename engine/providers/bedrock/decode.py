"""Decodes responses of the Bedrock Converse API.

A stream is `messageStart`, then content blocks distinguished by their index, then `messageStop` with the reason, and
last `metadata` with the usage. The response is complete after that, or at the end of the bytes if they end between the
two. A call opens with a `contentBlockStart`; text and reasoning have none, so their first delta opens them. A delta of
a kind other than the block's own closes that block and opens the next one. Blocks come in any order of kinds, and some
models leave them open.

The work of the host's own tools (`toolUse` of the type `server_tool_use`, `toolResult`) and images are collected and
emitted whole, as the content block of a request.

A call is complete if its block has stopped and its arguments are JSON. If they are not, the stop reason decides: either
a limit cut them, or the model wrote invalid JSON (then the call is emitted, to be answered by an error).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import attrs

from engine.core.errors import ProviderError, ProviderProtocolError
from engine.core.llm_types import (
    Finished,
    ProviderItem,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.core.messages import FinishReason, Usage
from engine.providers.bedrock.blocks import ConverseBlock
from engine.providers.bedrock.eventstream import DAMAGED
from engine.providers.failures.error_body import stream_failure
from engine.providers.wire.decoding import UniqueIds
from engine.providers.wire.untrusted_json import Json, as_list, as_object, count, dumps, is_object, number, text

FINISH_REASONS: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "model_context_window_exceeded": "overflow",
    "pause_turn": "pause",
    "refusal": "refusal",
}


@attrs.define(eq=False)
class BedrockReader:
    """Turns one response's events into stream events.

    Attributes:
        host: the host, for error messages.
        is_over: whether the response is complete.
        ignored: how many events were not recognised, by kind.
    """

    host: str = "AWS Bedrock"
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _blocks: dict[int, ConverseBlock] = attrs.field(factory=dict[int, ConverseBlock], init=False)
    _invalid_calls: list[ConverseBlock] = attrs.field(factory=list[ConverseBlock], init=False)
    _ids: UniqueIds = attrs.field(factory=UniqueIds, init=False)
    _has_calls: bool = attrs.field(default=False, init=False)
    _stop_reason: str | None = attrs.field(default=None, init=False)
    _has_stopped: bool = attrs.field(default=False, init=False)
    _has_metadata: bool = attrs.field(default=False, init=False)
    _detail: str = attrs.field(default="", init=False)

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event; *name* is its type, or a colon and the type of an exception."""
        match name:
            case "contentBlockDelta":
                self._extend(event, out)
            case "contentBlockStart":
                self._start(event, out)
            case "contentBlockStop":
                self._stop(_index(event), out)
            case "messageStart":
                pass
            case "messageStop":
                self._stop_reason = text(event, "stopReason") or None
                self._has_stopped = True
                self._finish_if_complete(out)
            case "metadata":
                self._read_metadata(event, out)
                self._finish_if_complete(out)
            # An exception in the middle of the stream; the HTTP status was 200.
            case _ if name.startswith(DAMAGED):
                raise self._failure(name.removeprefix(DAMAGED), event)
            case _:
                self.ignored[name] += 1

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a document by replaying its blocks as a stream."""
        message = as_object(as_object(document.get("output")).get("message"))
        if not isinstance(message.get("content"), list):
            raise ProviderProtocolError(f"{self.host} sent JSON that is not a message")
        self._stop_reason = text(document, "stopReason") or None
        contents = as_list(message["content"])
        for index, content in enumerate(contents):
            self._replay_content(index, as_object(content), out)
            # The token limit cuts the last block; nothing else marks it as incomplete.
            is_cut = self._stop_reason == "max_tokens" and index == len(contents) - 1
            if not (is_cut and index in self._blocks and self._blocks[index].kind == "call"):
                self._stop(index, out)
        self._read_metadata(document, out)
        self._finish(out)

    def end(self, out: list[StreamEvent]) -> None:
        """End a response that has stopped: it is complete even without usage."""
        if self._has_stopped:
            self._finish(out)

    # -- blocks -----------------------------------------------------------------------

    def _extend(self, event: Json, out: list[StreamEvent]) -> None:
        index = _index(event)
        for member, value in as_object(event.get("delta")).items():
            match member:
                case "text":
                    block = self._block_of_kind(index, "text", out)
                    if isinstance(value, str) and value:
                        out.append(TextChunk(block.id, value))
                case "reasoningContent":
                    self._block_of_kind(index, "reasoning", out).add_reasoning(as_object(value), out)
                case "citation":
                    self._block_of_kind(index, "text", out).add_citation(as_object(value), out)
                # A delta for a hosted tool's block, which is collected.
                case _ if index in self._blocks and self._blocks[index].member == member:
                    self._blocks[index].add_delta(value, out)
                case "toolUse":
                    raise ProviderProtocolError(f"{self.host}: arguments for a call that is not open", retryable=True)
                case _:
                    self.ignored[member] += 1

    def _block_of_kind(self, index: int, kind: str, out: list[StreamEvent]) -> ConverseBlock:
        """Return the open block at *index* if it is of *kind*, else open one."""
        block = self._blocks.get(index)
        return block if block is not None and block.kind == kind else self._open(index, kind, out)

    def _start(self, event: Json, out: list[StreamEvent]) -> None:
        for member, value in as_object(event.get("start")).items():
            content = as_object(value)
            match member:
                case "toolUse" if content.get("type") != "server_tool_use":
                    kind = "call"
                case "toolUse" | "toolResult" | "image":
                    kind = "item"
                case _:
                    kind = "unknown"
                    self.ignored[member] += 1
            self._open(_index(event), kind, out, member, content)

    def _open(
        self, index: int, kind: str, out: list[StreamEvent], member: str = "", content: Json | None = None
    ) -> ConverseBlock:
        self._stop(index, out)  # some models leave a block open and start another
        content = content or {}
        block = ConverseBlock(
            kind, self._ids.new(text(content, "toolUseId") if kind == "call" else ""), member, content
        )
        self._blocks[index] = block
        match kind:
            case "text":
                out.append(TextStarted(block.id))
            case "reasoning":
                out.append(ReasoningStarted(block.id))
            case "call":
                self._has_calls = True
                out.append(ToolCallStarted(block.id, text(content, "name")))
            case _:
                pass
        return block

    def _stop(self, index: int, out: list[StreamEvent]) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        match block.kind:
            case "text":
                out.append(TextDone(block.id))
            case "reasoning":
                out.append(block.reasoning_done())
            case "call":
                self._end_call(block, out)
            case "item":
                self._emit_item(block, out)
            case _:
                pass

    def _end_call(self, block: ConverseBlock, out: list[StreamEvent]) -> None:
        if block.arguments() is None:
            self._invalid_calls.append(block)
        else:
            out.append(ToolCallDone(block.id, None if block.has_pieces else "{}"))

    def _emit_item(self, block: ConverseBlock, out: list[StreamEvent]) -> None:
        content = block.to_content()
        if content is None:
            self.ignored[block.member] += 1
        else:
            out.append(ProviderItem(block.id, block.member, dumps(content)))

    def _replay_content(self, index: int, content: Json, out: list[StreamEvent]) -> None:
        """Read a block of a document as the events that a stream would have."""
        for member, value in content.items():
            for name, event in _events_of(member, value):
                self.read(name, event | {"contentBlockIndex": index}, out)

    # -- the end ----------------------------------------------------------------------

    def _read_metadata(self, metadata: Json, out: list[StreamEvent]) -> None:
        self._has_metadata = True
        guardrail = as_object(as_object(metadata.get("trace")).get("guardrail"))
        self._detail = " ".join(text(guardrail, "actionReason").split()) or self._detail
        if raw := as_object(metadata.get("usage")):
            out.append(UsageReported(_usage(raw)))

    def _finish_if_complete(self, out: list[StreamEvent]) -> None:
        if self._has_stopped and self._has_metadata:
            self._finish(out)

    def _finish(self, out: list[StreamEvent]) -> None:
        for index in [index for index, block in self._blocks.items() if block.kind != "call"]:
            self._stop(index, out)
        self._blocks.clear()
        reason = FINISH_REASONS.get(self._stop_reason or "", "unknown")
        if reason in {"stop", "calls"}:
            # Some models report "end_turn" after calls.
            reason = "calls" if self._has_calls else "stop"
            out += [ToolCallDone(block.id) for block in self._invalid_calls]
        out.append(Finished(reason, self._stop_reason, self._detail if reason == "content_filter" else ""))
        self.is_over = True

    def _failure(self, kind: str, facts: Json) -> ProviderError:
        message = text(facts, "message") or text(facts, "Message")
        if not kind:
            return ProviderProtocolError(f"{self.host}: {message}", retryable=True)
        return stream_failure(self.host, {"type": kind, "message": message})


def _index(event: Json) -> int:
    return number(event, "contentBlockIndex", -1)


def _events_of(member: str, value: object) -> Iterator[tuple[str, Json]]:
    """Yield the stream events of a document's content block."""
    content = as_object(value)
    match member:
        case "text":
            yield "contentBlockDelta", {"delta": {"text": value}}
        case "reasoningContent":
            yield "contentBlockDelta", {"delta": {member: as_object(content.get("reasoningText")) or content}}
        case "toolUse" | "toolResult" | "image":
            name = {"toolUse": "input", "toolResult": "content", "image": "source"}[member]
            yield "contentBlockStart", {"start": {member: {key: content[key] for key in content if key != name}}}
            yield "contentBlockDelta", {"delta": {member: _delta_of(member, content.get(name))}}
        case "citationsContent":
            yield from (
                ("contentBlockDelta", {"delta": {"citation": each}}) for each in as_list(content.get("citations"))
            )
            yield from (("contentBlockDelta", {"delta": as_object(each)}) for each in as_list(content.get("content")))
        case _:
            yield "contentBlockStart", {"start": {member: content}}


def _delta_of(member: str, value: object) -> object:
    match member:
        case "toolUse":
            return {"input": dumps(value if is_object(value) else {})}
        case "image":
            return {"source": value}
        case _:
            return value


def _usage(raw: Json) -> Usage:
    return Usage(
        input=count(raw, "inputTokens"),
        output=count(raw, "outputTokens"),
        cache_read=count(raw, "cacheReadInputTokens"),
        cache_write=count(raw, "cacheWriteInputTokens"),
    )
