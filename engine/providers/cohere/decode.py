"""Decodes responses of Cohere's chat API (version 2).

A stream is `message-start`; content blocks of text or thinking, each `content-start`, deltas, `content-end`; calls in
the same three steps, preceded by the tool plan in deltas; and `message-end` with the reason and the usage.
`citation-start` comes in the middle of the text that it refers to; one that refers to a plan or a thought moves to the
next text, or to a new one.

The plan is not text: it is collected and emitted as a provider item.

A call is complete if it has ended and its arguments are JSON. If they are not, the finish reason decides: either the
token limit cut them, or the model wrote invalid JSON (then the call is emitted, to be answered by an error).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from engine.core.errors import ProviderProtocolError
from engine.core.llm_types import (
    Cited,
    Finished,
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
from engine.providers.failures.error_body import stream_failure
from engine.providers.wire.decoding import UniqueIds
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, is_object, loads, number, text

TOOL_PLAN = "tool_plan"

FINISH_REASONS: Mapping[str, FinishReason] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "TOOL_CALL": "calls",
    "MAX_TOKENS": "length",
    "ERROR_LIMIT": "overflow",
    "ERROR_TOXIC": "content_filter",
}
# Finish reasons that mean an error.
_FAILED = {"ERROR", "TIMEOUT"}
# Characters: longer values in a citation's source are the document itself.
_LONGEST_FACT = 200


@attrs.define(eq=False)
class _Call:
    id: str
    arguments: list[str] = attrs.field(factory=list[str])


@attrs.define(eq=False)
class CohereReader:
    """Turns one response's events into stream events.

    Attributes:
        host: the host, for error messages.
        is_over: whether the response is complete.
        ignored: how many events were not recognised, by kind.
    """

    host: str = "Cohere"
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    # Whether each open block is text, and its id.
    _blocks: dict[int, tuple[bool, str]] = attrs.field(factory=dict[int, tuple[bool, str]], init=False)
    _calls: dict[int, _Call] = attrs.field(factory=dict[int, _Call], init=False)
    _invalid_calls: list[_Call] = attrs.field(factory=list[_Call], init=False)
    _ids: UniqueIds = attrs.field(factory=UniqueIds, init=False)
    _plan: list[str] = attrs.field(factory=list[str], init=False)
    _pending_citations: list[Citation] = attrs.field(factory=list[Citation], init=False)
    _has_calls: bool = attrs.field(default=False, init=False)
    # What Cohere calls the answer.
    _name: str = attrs.field(default="", init=False)

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event; its type is a member of it."""
        kind = text(event, "type") or name
        match kind:
            case "content-delta":
                self._extend(event, out)
            case "tool-plan-delta":
                self._plan.append(text(_message(event), TOOL_PLAN))
            case "tool-call-delta":
                self._add_arguments(event, out)
            case "message-end":
                self._finish(as_object(event.get("delta")), out)
            case "error" | "stream-error":
                raise stream_failure(self.host, event)
            # An error in the middle of the stream has no type.
            case _ if "type" not in event and text(event, "message"):
                raise stream_failure(self.host, event)
            case _:
                self._read_edge(kind, event, out)

    def _read_edge(self, kind: str, event: Json, out: list[StreamEvent]) -> None:
        """Read a start or an end event."""
        message = _message(event)
        match kind:
            case "content-start":
                self._open(_index(event), as_object(message.get("content")), out)
            case "content-end":
                self._close(_index(event), out)
            case "citation-start":
                for citation in _objects(message.get("citations")):
                    self._cite(citation, out)
            case "tool-call-start":
                for call in _objects(message.get("tool_calls")):
                    self._begin_call(_index(event), call, out)
            case "tool-call-end":
                self._end_call(_index(event), out)
            case "message-start":
                self._name = text(event, "id")
            case "citation-end" | "debug":
                pass
            case _:
                self.ignored[kind] += 1

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a response that was not streamed."""
        if not as_object(document.get("message")) and "finish_reason" not in document:
            raise ProviderProtocolError(f"{self.host} sent JSON that is not a message")
        self._name = text(document, "id")
        message = as_object(document.get("message"))
        for index, content in enumerate(as_list(message.get("content"))):
            self._open(index, as_object(content), out)
            # Texts stay open, so that citations find them.
            if not self._blocks[index][0]:
                self._close(index, out)
        for citation in _objects(message.get("citations")):
            self._cite(citation, out)
        for index in list(self._blocks):
            self._close(index, out)
        self._plan.append(text(message, TOOL_PLAN))
        for index, call in enumerate(_objects(message.get("tool_calls"))):
            self._begin_call(index, call, out)
            self._end_call(index, out)
        self._finish(document, out)

    def end(self, out: list[StreamEvent]) -> None:
        """Do nothing: a response without `message-end` is incomplete."""

    # -- content ----------------------------------------------------------------------

    def _open(self, index: int, content: Json, out: list[StreamEvent]) -> None:
        self._close(index, out)
        self._emit_plan(out)
        is_text = content.get("type") != "thinking"
        new = self._ids.new()
        self._blocks[index] = (is_text, new)
        out.append(TextStarted(new) if is_text else ReasoningStarted(new))
        if is_text:
            out += [Cited(new, citation) for citation in self._pending_citations]
            self._pending_citations.clear()
        self._grow(index, content, out)

    def _extend(self, event: Json, out: list[StreamEvent]) -> None:
        index = _index(event)
        content = as_object(_message(event).get("content"))
        if index not in self._blocks:
            self._open(index, {"type": "thinking" if "thinking" in content else "text"}, out)
        self._grow(index, content, out)

    def _grow(self, index: int, content: Json, out: list[StreamEvent]) -> None:
        is_text, block = self._blocks[index]
        if piece := text(content, "text" if is_text else "thinking"):
            out.append(TextChunk(block, piece) if is_text else ReasoningChunk(block, piece))

    def _close(self, index: int, out: list[StreamEvent]) -> None:
        if (entry := self._blocks.pop(index, None)) is not None:
            is_text, block = entry
            out.append(TextDone(block) if is_text else ReasoningDone(block))

    def _cite(self, raw: Json, out: list[StreamEvent]) -> None:
        citation = _citation(raw)
        texts = {index: block for index, (is_text, block) in self._blocks.items() if is_text}
        block = texts.get(number(raw, "content_index", -1)) or next(reversed(texts.values()), None)
        if block is None:
            self._pending_citations.append(citation)
        else:
            out.append(Cited(block, citation))

    # -- calls ------------------------------------------------------------------------

    def _emit_plan(self, out: list[StreamEvent]) -> None:
        plan = "".join(self._plan)
        self._plan.clear()
        if plan:
            out.append(ProviderItem(self._ids.new(), TOOL_PLAN, dumps({TOOL_PLAN: plan})))

    def _begin_call(self, index: int, raw: Json, out: list[StreamEvent]) -> None:
        self._end_call(index, out)
        self._emit_plan(out)
        function = as_object(raw.get("function"))
        call = _Call(self._ids.new(text(raw, "id")))
        self._calls[index] = call
        self._has_calls = True
        out.append(ToolCallStarted(call.id, text(function, "name")))
        _append_arguments(call, function, out)

    def _add_arguments(self, event: Json, out: list[StreamEvent]) -> None:
        call = self._calls.get(_index(event))
        if call is None:
            raise ProviderProtocolError(f"{self.host}: arguments for a call that is not open", retryable=True)
        for raw in _objects(_message(event).get("tool_calls")):
            _append_arguments(call, as_object(raw.get("function")), out)

    def _end_call(self, index: int, out: list[StreamEvent]) -> None:
        call = self._calls.pop(index, None)
        if call is None:
            return
        arguments = "".join(call.arguments)
        if not arguments.strip():
            out.append(ToolCallDone(call.id, "{}"))
        elif _is_json(arguments):
            out.append(ToolCallDone(call.id))
        else:
            self._invalid_calls.append(call)

    # -- the end ----------------------------------------------------------------------

    def _finish(self, end: Json, out: list[StreamEvent]) -> None:
        for index in list(self._blocks):
            self._close(index, out)
        self._emit_plan(out)
        # Citations of a plan or a thought, and no text came after it.
        if self._pending_citations:
            self._open(-1, {}, out)
            self._close(-1, out)
        if usage := as_object(end.get("usage")):
            out.append(UsageReported(_usage(usage)))
        raw = text(end, "finish_reason")
        if raw in _FAILED:
            raise stream_failure(self.host, {"type": raw, "message": text(end, "error")})
        reason = FINISH_REASONS.get(raw, "unknown")
        if reason in {"stop", "calls"}:
            reason = "calls" if self._has_calls else "stop"
            out += [ToolCallDone(call.id) for call in self._invalid_calls]
        out.append(Finished(reason, raw or None, response_id=self._name))
        self.is_over = True


def _index(event: Json) -> int:
    return number(event, "index", -1)


def _message(event: Json) -> Json:
    return as_object(as_object(event.get("delta")).get("message"))


def _objects(value: object) -> list[Json]:
    """Return the objects of a list; a stream has a single one without a list."""
    return [as_object(each) for each in (as_list(value) or [value]) if each]


def _append_arguments(call: _Call, function: Json, out: list[StreamEvent]) -> None:
    if piece := text(function, "arguments"):
        call.arguments.append(piece)
        out.append(ToolCallChunk(call.id, piece))


def _is_json(document: str) -> bool:
    try:
        loads(document)
    except ValueError:
        return False
    return True


def _citation(raw: Json) -> Citation:
    sources = _objects(raw.get("sources"))
    source = sources[0] if sources else {}
    document = as_object(source.get("document"))
    return Citation(
        url=text(document, "url"),
        title=text(document, "title") or text(source, "id"),
        quote=text(raw, "text"),
        raw=dumps(raw | {"sources": [_without_body(source) for source in sources]}),
    )


def _without_body(source: Json) -> Json:
    """Return a source without its text, which every citation would repeat."""
    return {name: _drop_long_values(value) if is_object(value) else value for name, value in source.items()}


def _drop_long_values(facts: Json) -> Json:
    return {name: value for name, value in facts.items() if not isinstance(value, str) or len(value) <= _LONGEST_FACT}


def _usage(raw: Json) -> Usage:
    tokens = as_object(raw.get("tokens")) or as_object(raw.get("billed_units"))
    # `tokens` counts what the model processed; `billed_units` may be less.
    cached = _count(raw, "cached_tokens")
    return Usage(
        input=max(0, _count(tokens, "input_tokens") - cached),
        output=_count(tokens, "output_tokens"),
        cache_read=cached,
        reasoning=_count(tokens, "reasoning_tokens"),
    )


def _count(parent: Json, name: str) -> int:
    """Return a token count, which Cohere's types declare as a float."""
    value: object = parent.get(name)
    return max(0, int(value)) if isinstance(value, (int, float)) and value == value // 1 else 0
