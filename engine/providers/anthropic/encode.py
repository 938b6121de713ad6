"""Encodes a transcript for the Anthropic Messages API.

The API requires alternating turns of user and assistant, the user first; results at the start of the turn after their
calls; no thinking that it has not signed, and none at the end of a turn. Half of a hosted tool's work is dropped. The
`TranscriptNormalizer` repairs everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import attrs

from engine.core.llm_types import CacheLifetime, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    AssistantPart,
    CallPart,
    ImagePart,
    MediaPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    UserPart,
)
from engine.providers.wire.claude_thinking import TurnThinking, config_effort, may_force, thinking_config
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, TurnWriter, members
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
from engine.providers.wire.quirks import MIN_BUDGET, Quirks
from engine.providers.wire.untrusted_json import Json, as_list, as_object, loads_object, number, text, to_bytes
from engine.providers.wire.wire_format import bare_model_name

_TOOL_CHOICE: dict[ToolChoice, str] = {"auto": "auto", "none": "none", "required": "any"}
# Thinking may not carry a cache marker, and may not end a turn.
_THINKING = {"thinking", "redacted_thinking"}
# The member that `extra_body` must not set.
MESSAGES = "messages"
# Members after the messages, because they may change between steps.
_CLOSING_MEMBERS = {"max_tokens", "thinking", "temperature", "top_p", "top_k", "tool_choice"}
_TURNS = TurnWriter()
_PLACEHOLDER_TOOL: Json = {"name": "unavailable", "description": "Not offered.", "input_schema": {"type": "object"}}


def encoder(quirks: Quirks) -> Encoder[AnthropicState]:
    """Return an encoder for one model."""
    return Encoder(AnthropicDialect(quirks, parse_extra_body(quirks, MESSAGES)), quirks)


@attrs.frozen
class AnthropicState:
    """The state of the encoded transcript.

    Attributes:
        role: the role of the open turn.
        has_calls: whether there was a call.
        thinking: how the open assistant turn began; the response continues it in the same way.
    """

    role: str | None = None
    has_calls: bool = False
    thinking: TurnThinking = ""


@attrs.frozen
class AnthropicDialect:
    """Writes requests of the Messages API.

    Attributes:
        extra: members that are merged into the body.
    """

    quirks: Quirks
    extra: Json

    def start(self) -> AnthropicState:
        """Return the state before the first item."""
        return AnthropicState()

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps."""
        # Anthropic's default lifetime; writing to the cache for an hour costs twice the input price instead of 1.25.
        marker = self._marker(request.options.cache or "5m")
        extra = {name: value for name, value in self.extra.items() if name not in _CLOSING_MEMBERS}
        # Hosted tools, such as web search, that the user has put into `extra_body`.
        hosted = [tool for tool in map(as_object, as_list(extra.pop("tools", None))) if tool]
        settings = merge_json({"stream": True} | self._output_config(request), extra)
        pieces = [
            Piece("model", b'{"model":' + to_bytes(bare_model_name(request))),
            Piece("settings", b"," + members(settings)),
        ]
        if request.tools or hosted:
            pieces += _tools(request.tools, hosted, marker)
        if request.system.strip():
            block: Json = {"type": "text", "text": request.system} | ({"cache_control": marker} if marker else {})
            pieces.append(Piece("system", b',"system":' + to_bytes([block])))
        return [*pieces, Piece("messages", b',"messages":[')]

    def add(self, state: AnthropicState, item: TranscriptItem) -> tuple[AnthropicState, list[EncodedChunk]]:
        """Encode an item as blocks of a turn."""
        match item:
            case UserItem():
                # After results, the turn that asked for them goes on.
                thinking: TurnThinking = state.thinking if state.role == "user" else ""
                role, chunks = _TURNS.write(state.role, "user", [(_user_block(part), True) for part in item.parts])
                return attrs.evolve(state, role=role, thinking=thinking), chunks
            case AssistantItem():
                return self._add_assistant(state, item)
            case ResultsItem():
                role, chunks = _TURNS.write(state.role, "user", [(_result_block(each), True) for each in item.answered])
                return attrs.evolve(state, role=role), chunks
            case _:
                assert_never(item)

    def _add_assistant(self, state: AnthropicState, item: AssistantItem) -> tuple[AnthropicState, list[EncodedChunk]]:
        blocks = _assistant_blocks(item)
        thinking = state.thinking
        if blocks and not thinking:
            thinking = "on" if blocks[0]["type"] in _THINKING else "off"
        if thinking == "off" and self.quirks.thinking_budget:
            blocks = [block for block in blocks if block["type"] not in _THINKING]
        marked = [(block, block["type"] not in _THINKING) for block in blocks]
        role, chunks = _TURNS.write(state.role, "assistant", marked)
        # Only a turn that the response continues counts: with calls to answer, or paused.
        is_open = item.is_paused or bool(item.calls)
        after = AnthropicState(role, state.has_calls or bool(item.calls), thinking if is_open else "")
        return after, chunks

    def closing(self, state: AnthropicState, request: ModelRequest) -> bytes:
        """Return the part that may change between steps."""
        body: Json = {"max_tokens": request.max_output}
        body |= self._tool_choice(state, request)
        thinking = thinking_config(
            self.quirks,
            state.thinking,
            request.options.effort,
            request.max_output,
            is_forced=bool(request.tools) and request.tool_choice == "required" and self.quirks.forced_tools,
        )
        if thinking:
            body["thinking"] = thinking
            if budget := number(thinking, "budget_tokens", 0):
                # A turn that goes on keeps a budget, which counts towards the output.
                body["max_tokens"] = max(request.max_output, budget + MIN_BUDGET)
        if thinking.get("type") in {None, "disabled"}:
            body |= self._sampling(request.options.temperature)
        body = merge_json(body, {name: value for name, value in self.extra.items() if name in _CLOSING_MEMBERS})
        return _TURNS.close(state.role) + b"]," + members(body) + b"}"

    def _tool_choice(self, state: AnthropicState, request: ModelRequest) -> Json:
        if request.tools or self.extra.get("tools"):
            is_refused = request.tool_choice == "required" and not may_force(self.quirks, state.thinking)
            return {"tool_choice": {"type": _TOOL_CHOICE["auto" if is_refused else request.tool_choice]}}
        if state.has_calls:
            # The API refuses a transcript with calls unless a tool is declared.
            return {"tools": [_PLACEHOLDER_TOOL], "tool_choice": {"type": "none"}}
        return {}

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Add a cache marker to a block."""
        return data[:-1] + b"," + members({"cache_control": self._marker(lifetime)}) + b"}"

    def _output_config(self, request: ModelRequest) -> Json:
        config: Json = {}
        if request.output_schema is not None and self.quirks.output == "native":
            # Nested in `output_config` since structured output left beta; it was `output_format` before.
            config["format"] = {"type": "json_schema", "schema": schema_of(request.output_schema, "output")}
        effort = config_effort(self.quirks, request.options.effort)
        if effort is not None:
            config["effort"] = effort
        return {"output_config": config} if config else {}

    def _sampling(self, temperature: float | None) -> Json:
        quirks = self.quirks
        temperature_value = temperature if quirks.temperature else None
        # Other vendors allow temperatures up to 2; this API refuses more than 1.
        effective = quirks.default_temperature if temperature_value is None else min(1.0, temperature_value)
        settings = {"temperature": effective, "top_p": quirks.default_top_p, "top_k": quirks.default_top_k}
        return {name: value for name, value in settings.items() if value is not None}

    def _marker(self, lifetime: CacheLifetime) -> Json:
        if not self.quirks.marks or lifetime == "off":
            return {}
        return {"type": "ephemeral"} | ({"ttl": "1h"} if lifetime == "1h" and self.quirks.long_cache else {})


# -- blocks --------------------------------------------------------------------


def _user_block(part: UserPart) -> Json:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return _media_block(part)


def _media_block(part: MediaPart) -> Json:
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    if isinstance(part, ImagePart):
        # The signature covers the text, so both are sent back unchanged.
        return {"type": "image", "source": source}
    return {"type": "document", "source": source} | ({"title": part.name} if part.name else {})


def _assistant_blocks(item: AssistantItem) -> list[Json]:
    blocks = [block for part in item.parts for block in _blocks(part)]
    blocks = _drop_unpaired(blocks, may_be_open=item.is_paused)
    # "The final block in an assistant message cannot be `thinking`."
    while blocks and blocks[-1]["type"] in _THINKING:
        blocks.pop()
    return blocks


def _blocks(part: AssistantPart) -> Iterator[Json]:
    match part:
        case TextPart():
            yield {"type": "text", "text": part.text}
        case ReasoningPart():
            if part.redacted:
                yield {"type": "redacted_thinking", "data": part.redacted}
            elif part.signature:
                yield {"type": "thinking", "thinking": part.text, "signature": part.signature}
        case CallPart():
            yield {
                "type": "tool_use",
                "id": safe_id(part.call_id),
                "name": part.tool,
                "input": loads_object(arguments_of(part)),
            }
        case ProviderPart():
            yield from _provider_block(part)
        case _:
            assert_never(part)


def _provider_block(part: ProviderPart) -> Iterator[Json]:
    block = loads_object(part.data)
    if "type" in block:
        yield block


def _drop_unpaired(blocks: list[Json], *, may_be_open: bool) -> list[Json]:
    """Drop a hosted tool's call without its result, and a result without its call.

    The last call of a paused turn has no result yet: the host continues it.
    """
    call_ids = {text(block, "id") for block in blocks if _is_hosted_call(block)}
    result_ids = {text(block, "tool_use_id") for block in blocks if _is_hosted_result(block)}

    def is_paired(block: Json) -> bool:
        if _is_hosted_call(block):
            return may_be_open or text(block, "id") in result_ids
        return not _is_hosted_result(block) or text(block, "tool_use_id") in call_ids

    return [block for block in blocks if is_paired(block)]


def _is_hosted_call(block: Json) -> bool:
    return text(block, "type").endswith("_tool_use")


def _is_hosted_result(block: Json) -> bool:
    return text(block, "type").endswith("_tool_result")


def _result_block(answered: CallWithResult) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": safe_id(answered.call.call_id)}
    if answered.is_error:
        block["is_error"] = True
    if answered.found:
        # The API shows their schemas here, in the place of the text.
        return block | {"content": [{"type": "tool_reference", "tool_name": one.name} for one in answered.found]}
    content = answered.text
    if not answered.media:
        return block | {"content": content}
    # A blank text block is refused, and so is an empty list.
    first = [{"type": "text", "text": content}] if content.strip() else []
    return block | {"content": [*first, *(_media_block(part) for part in answered.media)]}


def _tools(tools: Sequence[ToolSchema], hosted: Sequence[Json], marker: Json) -> list[Piece]:
    """Encode our tools, then the hosted ones, the cache marker of the last one as a separate piece, and deferred tools."""
    listed = [tool for tool in tools if not tool.deferred]
    documents = [*((f"tool {tool.name}", _tool(tool)) for tool in listed), *(("tools", tool) for tool in hosted)]
    pieces = [
        Piece(label, (b"}," if number else b"") + to_bytes(document)[:-1])
        for number, (label, document) in enumerate(documents)
    ]
    # A piece of its own, because the last tool gets it: with the marker, adding a tool would change two pieces.
    end = b"," + members({"cache_control": marker}) if marker else b""
    # After the marker, which the API refuses on a deferred tool: they are no part of what is cached.
    deferred = [
        Piece(f"tool {tool.name}", b"," + to_bytes(_tool(tool) | {"defer_loading": True}))
        for tool in tools
        if tool.deferred
    ]
    return [Piece("tools", b',"tools":['), *pieces, Piece("tools", end + b"}"), *deferred, Piece("tools", b"]")]


def _tool(tool: ToolSchema) -> Json:
    schema = schema_of(tool.schema, f"tool {tool.name!r}")
    return {"name": tool.name, "description": tool.description, "input_schema": schema}
