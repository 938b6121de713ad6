"""Structured output for hosts without a schema for the answer: the answer is a tool call.

The model is offered one more tool, whose arguments are the answer, and is forced to call some tool. Its arguments are
streamed as text, so callers see an ordinary answer.
"""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.llm_types import (
    Finished,
    ModelRequest,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    ToolSchema,
)
from engine.providers.wire.wire_format import Body, WireDecoder, WireEncoder, WireFormat

ANSWER_TOOL: Final = "submit_answer"
_DESCRIPTION: Final = (
    "Gives your final answer, once all other work is done. Call it exactly once, and nothing after it."
)


def with_answer_tool(wire: WireFormat) -> WireFormat:
    """Return *wire* for a host that supports no schema for the answer."""

    def encoder() -> WireEncoder:
        return _Encoder(wire.encoder())

    def decoder(content_type: str, request: ModelRequest | None = None) -> WireDecoder | None:
        inner = wire.decoder(content_type, request)
        return None if inner is None else _Decoder(inner)

    return attrs.evolve(wire, encoder=encoder, decoder=decoder)


def offer_answer(request: ModelRequest) -> ModelRequest:
    """Return *request* with the schema of its answer as a tool. Raises `ConfigError` for a tool of the same name."""
    if request.output_schema is None:
        return request
    if any(tool.name == ANSWER_TOOL for tool in request.tools):
        raise ConfigError(
            f"the tool name {ANSWER_TOOL!r} is reserved: this host needs it for structured answers; rename your tool"
        )
    answer = ToolSchema(name=ANSWER_TOOL, description=_DESCRIPTION, schema=request.output_schema)
    # Also where `tool_choice` was "none": calling this tool is the only way to answer.
    return attrs.evolve(request, tools=(*request.tools, answer), tool_choice="required", output_schema=None)


@attrs.define(eq=False)
class _Encoder:
    _inner: WireEncoder

    def encode(self, request: ModelRequest) -> Body:
        return self._inner.encode(offer_answer(request))


@attrs.define(eq=False)
class _Decoder:
    _inner: WireDecoder
    _answers: set[str] = attrs.field(factory=set[str], init=False)
    _has_streamed: set[str] = attrs.field(factory=set[str], init=False)
    _has_calls: bool = attrs.field(default=False, init=False)

    @property
    def is_over(self) -> bool:
        return self._inner.is_over

    def feed(self, data: bytes) -> list[StreamEvent]:
        return [out for event in self._inner.feed(data) for out in self._read(event)]

    def close(self) -> list[StreamEvent]:
        return [out for event in self._inner.close() for out in self._read(event)]

    def _read(self, event: StreamEvent) -> list[StreamEvent]:
        match event:
            case ToolCallStarted() if event.tool == ANSWER_TOOL:
                self._answers.add(event.id)
                return [TextStarted(_text_id(event.id))]
            case ToolCallStarted():
                self._has_calls = True
                return [event]
            case ToolCallChunk() if event.id in self._answers:
                self._has_streamed.add(event.id)
                return [TextChunk(_text_id(event.id), event.text)]
            case ToolCallDone() if event.id in self._answers:
                # Some wire formats deliver short arguments only with the end of the call.
                rest = event.arguments if event.id not in self._has_streamed else None
                return [*([TextChunk(_text_id(event.id), rest)] if rest else []), TextDone(_text_id(event.id))]
            # To the caller it is an ordinary end: the call was the answer.
            case Finished() if event.reason == "calls" and self._answers and not self._has_calls:
                return [attrs.evolve(event, reason="stop")]
            case _:
                return [event]


def _text_id(call: str) -> str:
    return f"answer {call}"
