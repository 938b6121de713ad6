"""The inverse of `engine.providers.anthropic.wire`: from stream events to the bytes that a host would send."""

# ruff: noqa: A002 -- an id is called `id` here as in the events

from __future__ import annotations

from typing import assert_never

import attrs

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    MediaTooLarge,
    ModelNotFound,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    SignatureRejected,
)
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
)
from engine.core.messages import Citation, FinishReason, Usage
from engine.providers.wire.untrusted_json import as_object, dumps, loads
from engine.testing.script import HttpFailure

Block = dict[str, object]

_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "calls": "tool_use",
    "length": "max_tokens",
    "pause": "pause_turn",
    "refusal": "refusal",
    "content_filter": "refusal",
    "overflow": "model_context_window_exceeded",
    "unknown": "unknown",
}
# The status, the type, and the wording by which the adapters recognise the error.
_ERRORS: dict[type[ProviderError], tuple[int, str, str]] = {
    AuthFailed: (401, "authentication_error", ""),
    RateLimited: (429, "rate_limit_error", ""),
    Overloaded: (529, "overloaded_error", ""),
    QuotaExhausted: (402, "billing_error", ""),
    ModelNotFound: (404, "not_found_error", ""),
    InvalidRequest: (400, "invalid_request_error", ""),
    ContextOverflow: (400, "invalid_request_error", "prompt is too long: "),
    MediaTooLarge: (413, "request_too_large", "image exceeds the maximum size: "),
    ContentFiltered: (400, "invalid_request_error", "Output blocked by content filtering policy: "),
    SignatureRejected: (400, "invalid_request_error", "Invalid `signature` in `thinking` block: "),
}
# Any other error: a status that hosts do not use.
_UNFORESEEN = (418, "unforeseen_error", "")
# For events of a block that was never opened: a faulty host may send them.
_NO_SUCH_BLOCK = 9_999


@attrs.define(eq=False)
class AnthropicWriter:
    """Writes one answer. Protocol violations of the script are written too, if the format can express them."""

    model: str
    _has_started: bool = attrs.field(default=False, init=False)
    _usage: Usage = attrs.field(factory=Usage, init=False)
    _blocks: int = attrs.field(default=0, init=False)
    _indexes: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _streamed: set[str] = attrs.field(factory=set[str], init=False)

    def write(self, event: StreamEvent) -> bytes:
        """Return the bytes of *event*; none if the format sends its content later."""
        if isinstance(event, UsageReported):
            self._usage = event.usage
        return self._begin() + self._body(event)

    def write_error(self, error: ProviderError) -> bytes:
        """Return *error* as an event in the middle of an answer."""
        # An unknown type counts as temporary, an invalid request as permanent.
        unforeseen = _UNFORESEEN if error.retryable else _ERRORS[InvalidRequest]
        _, kind, words = _ERRORS.get(type(error), unforeseen)
        return self._begin() + _sse("error", {"error": {"type": kind, "message": f"{words}{error}"}})

    def _begin(self) -> bytes:
        if self._has_started:
            return b""
        # Usage that is reported before the first event is sent with the start, as the host does.
        self._has_started = True
        message: Block = {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(self._usage),
        }
        return _sse("message_start", {"message": message})

    def _body(self, event: StreamEvent) -> bytes:
        match event:
            case Ping():
                return _sse("ping", {})
            case TextStarted() | TextChunk() | TextDone():
                return self._text(event)
            case ReasoningStarted() | ReasoningChunk() | ReasoningDone():
                return self._reasoning(event)
            case ToolCallStarted() | ToolCallChunk() | ToolCallDone():
                return self._call(event)
            case ProviderItem():
                return self._open(event.id, as_object(loads(event.data))) + self._close(event.id)
            case Finished():
                return self._finish(event)
            case Cited():
                return self._delta(event.id, {"type": "citations_delta", "citation": _citation(event.citation)})
            case Unread():
                return b"".join(_sse(event.kind, {}) for _ in range(event.count))
            case UsageReported() | PrefixBroken():  # sent with the end of the answer; an event of the engine alone
                return b""
            case _:
                assert_never(event)

    def _text(self, event: TextStarted | TextChunk | TextDone) -> bytes:
        match event:
            case TextStarted():
                return self._open(event.id, {"type": "text", "text": ""})
            case TextChunk():
                return self._delta(event.id, {"type": "text_delta", "text": event.text})
            case TextDone():
                return self._close(event.id)

    def _reasoning(self, event: ReasoningStarted | ReasoningChunk | ReasoningDone) -> bytes:
        if isinstance(event, ReasoningStarted):  # the block may turn out to be a redacted one
            return b""
        if isinstance(event, ReasoningDone) and event.redacted is not None and event.id not in self._indexes:
            return self._open(event.id, {"type": "redacted_thinking", "data": event.redacted}) + self._close(event.id)
        opened = b""
        if event.id not in self._indexes:
            opened = self._open(event.id, {"type": "thinking", "thinking": "", "signature": ""})
        if isinstance(event, ReasoningChunk):
            return opened + self._delta(event.id, {"type": "thinking_delta", "thinking": event.text})
        signed = b""
        if event.signature is not None:
            signed = self._delta(event.id, {"type": "signature_delta", "signature": event.signature})
        return opened + signed + self._close(event.id)

    def _call(self, event: ToolCallStarted | ToolCallChunk | ToolCallDone) -> bytes:
        match event:
            case ToolCallStarted():
                block: Block = {"type": "tool_use", "id": event.id, "name": event.tool, "input": {}}
                return self._open(event.id, block) + self._arguments(event.id, "")
            case ToolCallChunk():
                return self._arguments(event.id, event.text)
            case ToolCallDone():
                # Arguments may come only with the end of the call.
                late = "" if event.id in self._streamed else event.arguments or ""
                return (self._arguments(event.id, late) if late else b"") + self._close(event.id)
            case _:
                assert_never(event)

    def _open(self, id: str, content: Block) -> bytes:
        self._indexes[id] = self._blocks
        self._blocks += 1
        return _sse("content_block_start", {"index": self._indexes[id], "content_block": content})

    def _delta(self, id: str, delta: Block) -> bytes:
        return _sse("content_block_delta", {"index": self._indexes.get(id, _NO_SUCH_BLOCK), "delta": delta})

    def _arguments(self, id: str, piece: str) -> bytes:
        if piece:
            self._streamed.add(id)
        return self._delta(id, {"type": "input_json_delta", "partial_json": piece})

    def _close(self, id: str) -> bytes:
        return _sse("content_block_stop", {"index": self._indexes.pop(id, _NO_SUCH_BLOCK)})

    def _finish(self, event: Finished) -> bytes:
        delta: Block = {"stop_reason": event.raw or _STOP_REASONS[event.reason], "stop_sequence": None}
        if event.detail:
            delta["stop_details"] = {"type": event.reason, "explanation": event.detail}
        return _sse("message_delta", {"delta": delta, "usage": _usage(self._usage)}) + _sse("message_stop", {})


def as_http(error: ProviderError) -> HttpFailure:
    """Return *error* as an HTTP response; the adapter turns it into the same error."""
    status, kind, words = _ERRORS.get(type(error), _UNFORESEEN)
    headers = [("content-type", "application/json"), ("x-should-retry", "true" if error.retryable else "false")]
    if error.retry_after is not None:
        headers.append(("retry-after", f"{error.retry_after:g}"))
    if error.reset_at is not None:
        headers.append(("anthropic-ratelimit-unified-reset", f"{error.reset_at:.0f}"))
    return HttpFailure(status, error_body(kind, f"{words}{error}"), tuple(headers))


def error_body(kind: str, message: str) -> str:
    """Return the JSON of an HTTP error."""
    return dumps({"type": "error", "error": {"type": kind, "message": message}})


def _citation(citation: Citation) -> Block:
    if citation.raw:
        return as_object(loads(citation.raw))
    kind = "web_search_result_location" if citation.url else "char_location"
    return {"type": kind, "url": citation.url, "title": citation.title, "cited_text": citation.quote}


def _usage(usage: Usage) -> Block:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    }


def _sse(kind: str, payload: Block) -> bytes:
    return f"event: {kind}\ndata: {dumps({'type': kind, **payload})}\n\n".encode("utf-8", "replace")
