"""Encodes a transcript for Cohere's chat API (version 2).

The API refuses text content together with calls: the text is sent as the tool plan. It accepts either a plan or thinking. A
result is a document, so that the answer can cite it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import attrs

from engine.core.llm_types import CacheLifetime, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    AssistantPart,
    CallPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    UserPart,
)
from engine.providers.cohere.decode import TOOL_PLAN
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, TurnWriter, members, tools_member
from engine.providers.wire.extra_body import merge_json, parse_extra_body
from engine.providers.wire.normalize_transcript import (
    AssistantItem,
    CallWithResult,
    ResultsItem,
    TranscriptItem,
    UserItem,
    arguments_of,
    safe_id,
    schema_of,
)
from engine.providers.wire.quirks import Quirks, thinking_budget
from engine.providers.wire.untrusted_json import Json, loads_object, text, to_bytes
from engine.providers.wire.wire_format import bare_model_name

# "auto" is the default.
_TOOL_CHOICE: dict[ToolChoice, str] = {"required": "REQUIRED", "none": "NONE"}
_TURNS = TurnWriter()


def encoder(quirks: Quirks) -> Encoder[CohereState]:
    """Return an encoder for one model."""
    return Encoder(CohereDialect(quirks), quirks)


@attrs.frozen
class CohereState:
    """The role of the open message, to which parts may be added, and whether there was any message."""

    role: str | None = None
    has_messages: bool = False


@attrs.frozen
class CohereDialect:
    """Writes requests of Cohere's chat API."""

    quirks: Quirks

    def start(self) -> CohereState:
        """Return the state before the first item."""
        return CohereState()

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps."""
        pieces = [Piece("model", b'{"model":%s,"stream":true' % to_bytes(bare_model_name(request)))]
        if form := self._response_format(request):
            pieces.append(Piece("output", b"," + members({"response_format": form})))
        pieces += tools_member(request.tools, [_tool(tool) for tool in request.tools])
        pieces.append(Piece("messages", b',"messages":['))
        if request.system.strip():  # a message always follows
            pieces.append(Piece("system", to_bytes({"role": "system", "content": request.system}) + b","))
        return pieces

    def add(self, state: CohereState, item: TranscriptItem) -> tuple[CohereState, list[EncodedChunk]]:
        """Encode an item as one or more messages."""
        match item:
            case UserItem():
                opened = state.role if state.has_messages else None
                before = b"," if state.has_messages and state.role is None else b""
                role, chunks = _TURNS.write(opened, "user", [(_user_block(part), False) for part in item.parts])
                chunks[0] = EncodedChunk(before + chunks[0].data)
                return CohereState(role, has_messages=True), chunks
            case AssistantItem():
                message = _assistant_message(item)
                return self._write_messages(state, [message] if message else [])
            case ResultsItem():
                return self._write_messages(state, [_result_message(each) for each in item.answered])
            case _:
                assert_never(item)

    def closing(self, state: CohereState, request: ModelRequest) -> bytes:
        """Return the part that may change between steps."""
        body: Json = {"max_tokens": request.max_output}
        if request.tools and request.tool_choice in _TOOL_CHOICE:
            body["tool_choice"] = _TOOL_CHOICE[request.tool_choice]
        if thinking := self._thinking(request):
            body["thinking"] = thinking
        requested = request.options.temperature if self.quirks.temperature else None
        temperature = self.quirks.default_temperature if requested is None else min(1.0, requested)
        settings = {"temperature": temperature, "p": self.quirks.default_top_p, "k": self.quirks.default_top_k}
        body |= {name: value for name, value in settings.items() if value is not None}
        body = merge_json(
            body, parse_extra_body(self.quirks, "model", "stream", "messages", "tools", "response_format")
        )
        return _TURNS.close(state.role) + b"]," + members(body) + b"}"

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Return the bytes unchanged: Cohere caches without markers."""
        return data

    def _write_messages(self, state: CohereState, messages: Sequence[Json]) -> tuple[CohereState, list[EncodedChunk]]:
        if not messages:
            return state, []
        before = _TURNS.close(state.role) + (b"," if state.has_messages else b"")
        chunks = [
            EncodedChunk((b"," if number else before) + to_bytes(message)) for number, message in enumerate(messages)
        ]
        return CohereState(None, has_messages=True), chunks

    def _response_format(self, request: ModelRequest) -> Json:
        # Refused together with tools: the answer is only validated afterwards.
        if request.output_schema is None or request.tools or self.quirks.output == "tool":
            return {}
        return {"type": "json_object", "json_schema": schema_of(request.output_schema, "output")}

    def _thinking(self, request: ModelRequest) -> Json:
        effort = request.options.effort
        if effort is None or not self.quirks.thinking_budget:
            return {}
        if effort == "none":
            return {"type": "disabled"}
        budget = thinking_budget(effort, request.max_output)
        return {} if budget is None else {"type": "enabled", "token_budget": budget}


def _user_block(part: UserPart) -> Json:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}


def _assistant_message(item: AssistantItem) -> Json:
    calls = [_call(call) for call in item.calls]
    content = [block for part in item.parts if (block := _block(part)) is not None]
    message: Json = {"role": "assistant"}
    if calls:
        return message | {"tool_calls": calls} | _plan_or_thoughts(item, content)
    if not any(block["type"] == "text" for block in content):
        return {}  # thinking without an answer
    return message | {"content": content}


def _plan_or_thoughts(item: AssistantItem, content: Sequence[Json]) -> Json:
    """Return what goes with calls. The API accepts only one of the two; the user has read the plan."""
    if plan := "\n".join(filter(None, map(_plan_text, item.parts))):
        return {"tool_plan": plan}
    thoughts = [block for block in content if block["type"] == "thinking"]
    return {"content": thoughts} if thoughts else {}


def _block(part: AssistantPart) -> Json | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ReasoningPart():
            return {"type": "thinking", "thinking": part.text} if part.text.strip() else None
        case CallPart() | ProviderPart():
            return None
        case _:
            assert_never(part)


def _plan_text(part: AssistantPart) -> str:
    """Return the text of *part* that belongs to the tool plan."""
    if isinstance(part, TextPart):
        return part.text
    if not isinstance(part, ProviderPart) or part.kind != TOOL_PLAN:
        return ""
    return text(loads_object(part.data), TOOL_PLAN)


def _call(call: CallPart) -> Json:
    function = {"name": call.tool, "arguments": arguments_of(call)}
    return {"id": safe_id(call.call_id), "type": "function", "function": function}


def _result_message(answered: CallWithResult) -> Json:
    data = {"error" if answered.is_error else "content": answered.text}
    content: list[Json] = [{"type": "document", "document": {"data": data}}]
    return {"role": "tool", "tool_call_id": safe_id(answered.call.call_id), "content": content}


def _tool(tool: ToolSchema) -> Json:
    schema = schema_of(tool.schema, f"tool {tool.name!r}")
    return {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": schema}}
