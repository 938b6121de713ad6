"""Decodes the OpenAI Chat Completions stream of all its hosts.

An event holds a *delta* of a message: pieces of text, of reasoning, of calls. The finish reason comes in the last
delta, or twice; the usage with it, after it or in each event; and sometimes an error after both. So the response ends
with `[DONE]`, or at the end of the bytes if there was a finish reason.

The same reasoning may come in up to three members, as text (`reasoning_content`, `reasoning`) and as details: it counts
once. A response that was not streamed has a message with the same members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.errors import ProviderProtocolError
from engine.core.llm_types import (
    Finished,
    Ping,
    StreamEvent,
    UsageReported,
)
from engine.core.messages import FinishReason
from engine.providers.failures.error_body import stream_failure
from engine.providers.openai_chat.blocks import AnswerBlocks
from engine.providers.openai_chat.calls import CallAssembler
from engine.providers.openai_chat.reasoning import FIELDS
from engine.providers.openai_chat.usage import usage_of
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.sse import ServerSentEvent, SseParser
from engine.providers.wire.untrusted_json import Json, as_list, as_object, is_object, number, text

DONE: Final = "[DONE]"
FINISH_REASONS: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "calls",
    "tool_use": "calls",
    "function_call": "calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "model_context_window_exceeded": "overflow",
}
# Finish reasons that mean an error; `insufficient_system_resource` is DeepSeek's.
_FAILED = {"error", "network_error", "insufficient_system_resource", "abort"}

# The hot path: nearly all deltas have no other members.
_PLAIN_MEMBERS = frozenset({"role", "content"})
# Members of a delta that are ignored: bookkeeping, or read elsewhere.
_SILENT_MEMBERS = frozenset(
    {
        *("role", "content", "name", "channel", "token_id", "index", "id", "object", "recipient", "prefix"),
        *("thought_signature", "provider_metadata", "provider_specific_fields", "cache_control", "tool_call_id"),
        *("reasoning_content", "reasoning", *FIELDS),
    }
)
_RARE_MEMBERS = frozenset({"error", "x_groq", "citations", "search_results"})


class DoneParser:
    """Splits bytes into events, and names the one that ends a chat stream."""

    def __init__(self) -> None:
        self._parser = SseParser(reads_errors=True)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Return the events that *data* completes."""
        return [_name_done(event) for event in self._parser.feed(data)]

    def close(self) -> list[ServerSentEvent]:
        """Return the event at the end of the bytes, if it is complete."""
        return [_name_done(event) for event in self._parser.close()]


def _name_done(event: ServerSentEvent) -> ServerSentEvent:
    return ServerSentEvent(DONE, "{}") if event.data == DONE else event


@attrs.define(eq=False, repr=False)
class OpenAIChatReader:
    """Turns one response's events into stream events.

    Attributes:
        quirks: the host's; `title` is its name.
        host: the same name, for error messages.
        is_over: whether the response is complete.
        ignored: how many events were not recognised, by kind.
    """

    quirks: Quirks
    host: str = attrs.field(init=False)
    is_over: bool = attrs.field(default=False, init=False)
    ignored: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _blocks: AnswerBlocks = attrs.field(factory=AnswerBlocks, init=False)
    _calls: CallAssembler = attrs.field(init=False)
    _tools: dict[int, Json] = attrs.field(factory=dict[int, Json], init=False)
    _refusal: list[str] = attrs.field(factory=list[str], init=False)
    _reason: str | None = attrs.field(default=None, init=False)
    # The host's id of the answer, and its name of the model.
    _source: tuple[str, str] = attrs.field(default=("", ""), init=False)
    _has_choice: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.host = self.quirks.title
        self._calls = CallAssembler(self._blocks.new_id)

    def read(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event."""
        if not self._source[0]:
            # Azure's first event has none.
            self._source = text(event, "id"), text(event, "model")
        choices: object = event.get("choices")
        if choices:
            for choice in as_list(choices):
                self._read_choice(as_object(choice), out)
        # One set operation instead of four look-ups for each event.
        if not _RARE_MEMBERS.isdisjoint(event):
            self._read_rare(event, out)
        usage: object = event.get("usage")
        if usage:
            self._count(usage, out)
        elif not choices:
            self._read_other(name, event, out)

    def read_document(self, document: Json, out: list[StreamEvent]) -> None:
        """Read a response that was not streamed."""
        choice = next((as_object(each) for each in as_list(document.get("choices"))), None)
        if choice is None and _is_error(document):
            raise stream_failure(self.host, document)
        if choice is None:
            raise ProviderProtocolError(f"{self.host}: the response has no message", retryable=True)
        message = as_object(choice.get("message"))
        calls = [as_object(call) for call in as_list(message.get("tool_calls"))]
        # Each is a complete call of its own.
        # Without an index, the assembler would take a second call for a continuation.
        numbered = [call | {"index": number} for number, call in enumerate(calls)]
        self._read_delta(message | {"tool_calls": numbered}, out)
        self._note_reason(choice)
        self._read_rare(document, out)
        # Groq and Perplexity put errors and sources next to the choices.
        self._count(document.get("usage"), out)
        reason: object = choice.get("finish_reason")
        self._reason = reason if isinstance(reason, str) else None
        self._finish(out)

    def end(self, out: list[StreamEvent]) -> None:
        """End a response that had a finish reason: some hosts never send `[DONE]`."""
        if self._reason is not None:
            self._finish(out)

    def _read_choice(self, choice: Json, out: list[StreamEvent]) -> None:
        # A missing index, or null, counts as 0.
        if choice.get("index"):
            self.ignored["choice"] += 1  # a second choice, which was not requested
            return
        delta: object = choice.get("delta")
        if is_object(delta):
            self._read_delta(delta, out)
        elif not self._has_choice:
            # A host without streaming sends one event with the whole message.
            self._read_delta(as_object(choice.get("message")), out)
        # Later events with a whole message repeat it.
        self._has_choice = True
        if choice.get("finish_reason") or "error" in choice:
            self._note_reason(choice)

    def _read_delta(self, delta: Json, out: list[StreamEvent]) -> None:
        is_plain = _PLAIN_MEMBERS.issuperset(delta)
        if not is_plain:
            self._blocks.add_reasoning_delta(delta, out)
        content: object = delta.get("content")
        if content:
            if isinstance(content, str):
                self._blocks.add_text(content, out)
            else:
                self._read_parts(as_list(content), out)
        if not is_plain:
            for name, value in delta.items():
                if value and name not in _SILENT_MEMBERS:
                    self._read_member(name, value, out)

    def _read_member(self, name: str, value: object, out: list[StreamEvent]) -> None:
        match name:
            case "tool_calls":
                self._read_calls(as_list(value), out)
            case "function_call":
                self._calls.read_legacy(value, out)
            case "refusal" if isinstance(value, str):
                self._refusal.append(value)
            case "annotations":
                self._blocks.annotate(as_list(value), out)
            case "executed_tools":
                self._read_tools(as_list(value), out)
            case "images":
                for image in as_list(value):
                    self._blocks.add_item("image", as_object(image), out)
            case "extra_content":
                self._blocks.add_signed_item(value, out)
            case "audio" if not any(as_object(value).values()):
                pass  # Snowflake always sends an empty one
            case _:
                self.ignored[name] += 1

    # A new member of some host: reported, so that it gets noticed.

    def _read_parts(self, parts: list[object], out: list[StreamEvent]) -> None:
        """Read content in Mistral's form: a list that includes reasoning."""
        for part in map(as_object, parts):
            match part.get("type"):
                case "text" | "output_text":
                    if piece := text(part, "text"):
                        self._blocks.add_text(piece, out)
                case "thinking":
                    pieces = as_list(part.get("thinking")) or [{"text": part.get("thinking")}]
                    self._blocks.add_reasoning("".join(text(as_object(piece), "text") for piece in pieces), out)
                case "refusal":
                    self._refusal.append(text(part, "refusal"))
                case other:
                    self.ignored[str(other)] += 1

    def _read_calls(self, deltas: list[object], out: list[StreamEvent]) -> None:
        self._blocks.end_reasoning(out)
        for delta in map(as_object, deltas):
            if "extra_content" in delta:
                # A call's signature is emitted before it.
                self._blocks.add_signed_item(delta["extra_content"], out)
            self._calls.read(delta, out)

    def _read_tools(self, tools: list[object], out: list[StreamEvent]) -> None:
        """Read the work of Groq's own tools, reported at their start and again with their output."""
        for place, tool in enumerate(map(as_object, tools)):
            index = number(tool, "index", place)
            merged = self._tools.pop(index, Json()) | tool
            if "output" in merged:
                self._blocks.add_item("executed_tool", merged, out)
            else:
                self._tools[index] = merged

    def _read_rare(self, event: Json, out: list[StreamEvent]) -> None:
        groq = as_object(event.get("x_groq"))
        self._count(groq.get("usage"), out)
        self._blocks.sources.read_lists(event)
        if error := event.get("error") or groq.get("error"):
            raise stream_failure(self.host, error)

    def _read_other(self, name: str, event: Json, out: list[StreamEvent]) -> None:
        """Read an event without a part of the response."""
        if name == DONE:
            # `[DONE]` without any choice is an empty response, which the turn reports.
            if self._has_choice:
                self._finish(out)
        elif name == "error" or _is_error(event):
            raise stream_failure(self.host, event)
        elif name == "ping" or event.get("type") == "ping":
            out.append(Ping())
        elif "choices" not in event and "x_groq" not in event:
            self.ignored[text(event, "object") or text(event, "type") or name] += 1

    def _count(self, usage: object, out: list[StreamEvent]) -> None:
        if raw := as_object(usage):
            out.append(UsageReported(usage_of(raw, self.quirks)))

    def _note_reason(self, choice: Json) -> None:
        reason = text(choice, "finish_reason")
        if error := choice.get("error"):
            raise stream_failure(self.host, error)
        if reason in _FAILED:
            raise stream_failure(self.host, {"message": f"the response was aborted ({reason})", "code": reason})
        self._reason = reason or self._reason

    def _finish(self, out: list[StreamEvent]) -> None:
        for tool in self._tools.values():
            self._blocks.add_item("executed_tool", tool, out)
        if left := self._blocks.end(out):
            self.ignored["citation"] += left
        reason: FinishReason = FINISH_REASONS.get(self._reason or "stop", "unknown")
        # With any other reason, arguments that look complete may still be cut off.
        is_own_end = reason in {"stop", "calls"}
        self._calls.finish(out, was_cut=not is_own_end)
        if self._calls.late:
            self.ignored["late arguments"] += self._calls.late
        refusal = "".join(self._refusal)
        if refusal:
            reason = "refusal"
        elif is_own_end:
            # Several hosts send "stop" after calls, or "tool_calls" without any.
            reason = "calls" if self._calls.has_any else "stop"
        out.append(Finished(reason, self._reason, refusal, *self._source))
        self.is_over = True


def _is_error(event: Json) -> bool:
    kinds = {str(event.get("object")), str(event.get("type"))}
    return "error" in kinds or bool(event.get("error")) or "detail" in event
