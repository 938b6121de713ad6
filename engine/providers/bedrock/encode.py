"""Encodes a transcript for the Bedrock Converse API.

One format serves the models of many makers, each of which accepts a part of it. All require alternating turns of user
and assistant, the user first; no blank text; a result for each call in the next turn; and declared tools if there was a
call. Quirks say which models accept the rest: cache points, thinking, a tool choice, text together with calls or
results.

`toolConfig` holds the tool choice, which may change between steps, so it comes after the messages. To a cache it is
still the start of the request, so `opening` lists its tools as labels without bytes.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import assert_never

import attrs

from engine.core.llm_types import CacheLifetime, ModelRequest, ToolSchema
from engine.core.messages import FilePart
from engine.providers.bedrock.content import assistant_blocks, result_block, user_block
from engine.providers.wire.claude_thinking import TurnThinking, config_effort, may_force, thinking_config
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, TurnWriter, members
from engine.providers.wire.extra_body import merge_json, parse_extra_body
from engine.providers.wire.normalize_transcript import AssistantItem, ResultsItem, TranscriptItem, UserItem, schema_of
from engine.providers.wire.quirks import MIN_BUDGET, Quirks, nearest_effort
from engine.providers.wire.untrusted_json import Json, as_object, dumps, number, text, to_bytes

_TURNS = TurnWriter()
_PLACEHOLDER_TOOL = ToolSchema(name="unavailable", description="Not offered.", schema='{"type": "object"}')
# Some models accept no user text together with results, nor right after them.
_FILLER = "Noted."
_SEE_DOCUMENT = "(See the document.)"


def encoder(quirks: Quirks) -> Encoder[BedrockState]:
    """Return an encoder for one model."""
    return Encoder(BedrockDialect(quirks), quirks)


@attrs.frozen
class BedrockState:
    """The state of the encoded transcript.

    Attributes:
        role: the role of the open turn.
        has_calls: whether there was a call.
        has_results: whether the open turn holds results.
        thinking: how the open assistant turn began; the response continues it in the same way.
        documents: the number of documents, whose names must be unique.
    """

    role: str | None = None
    has_calls: bool = False
    has_results: bool = False
    thinking: TurnThinking = ""
    documents: int = 0


@attrs.frozen
class _LaterPiece(Piece):
    """A part of the opening, for a cache, which is written by `closing`."""

    written: bytes = b""


@attrs.frozen
class BedrockDialect:
    """How the Converse API writes a request."""

    quirks: Quirks

    def start(self) -> BedrockState:
        """Return the state before the first item."""
        return BedrockState()

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps."""
        pieces = [Piece("model", b"{")]
        if config := self._output_config(request):
            pieces.append(Piece("output", members({"outputConfig": config}) + b","))
        pieces += [_LaterPiece(f"tool {tool.name}", b"", _tool(tool)) for tool in request.tools]
        if request.system.strip():
            blocks = [{"text": request.system}, *self._marker(request.options.cache or "5m")]
            pieces.append(Piece("system", b'"system":' + to_bytes(blocks) + b","))
        return [*pieces, Piece("messages", b'"messages":[')]

    def add(self, state: BedrockState, item: TranscriptItem) -> tuple[BedrockState, list[EncodedChunk]]:
        """Write an item as blocks of a turn."""
        match item:
            case UserItem():
                return self._add_user(state, item)
            case AssistantItem():
                return self._add_assistant(state, item)
            case ResultsItem():
                names = itertools.count(state.documents + 1)
                blocks = [(result_block(each, names), True) for each in item.answered]
                role, chunks = _TURNS.write(state.role, "user", blocks)
                return attrs.evolve(state, role=role, documents=next(names) - 1, has_results=True), chunks
            case _:
                assert_never(item)

    def closing(self, state: BedrockState, request: ModelRequest) -> bytes:
        """Return the part that may change between steps."""
        tools = request.tools or ((_PLACEHOLDER_TOOL,) if state.has_calls else ())
        must_call = self._must_call(state, request)
        written = self._tool_config(tools, request, must_call=must_call) if tools else b""
        thinking = self._thinking(state, request, must_call=must_call)
        body: Json = {"inferenceConfig": self._inference(request, thinking)}
        if thinking:
            body["additionalModelRequestFields"] = thinking
        body = merge_json(body, parse_extra_body(self.quirks, "messages", "system", "toolConfig", "outputConfig"))
        return _TURNS.close(state.role) + b"]," + written + members(body) + b"}"

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Put a cache point after a block."""
        return b",".join([data, *map(to_bytes, self._marker(lifetime))])

    # -- the messages -----------------------------------------------------------------

    def _add_user(self, state: BedrockState, item: UserItem) -> tuple[BedrockState, list[EncodedChunk]]:
        filler: list[EncodedChunk] = []
        role = state.role
        # After results, the turn that asked for them goes on.
        thinking: TurnThinking = state.thinking if role == "user" else ""
        if state.has_results and self.quirks.assistant_after_results:
            role, filler = _TURNS.write(role, "assistant", [({"text": _FILLER}, False)])
        names = itertools.count(state.documents + 1)
        # After a document no cache point may stand.
        blocks = [(user_block(part, names), not isinstance(part, FilePart)) for part in item.parts]
        if any("document" in block for block, _ in blocks) and not any("text" in block for block, _ in blocks):
            blocks.insert(0, ({"text": _SEE_DOCUMENT}, False))  # refused without a text
        role, chunks = _TURNS.write(role, "user", blocks)
        state = attrs.evolve(state, role=role, documents=next(names) - 1, has_results=False, thinking=thinking)
        return state, [*filler, *chunks]

    def _add_assistant(self, state: BedrockState, item: AssistantItem) -> tuple[BedrockState, list[EncodedChunk]]:
        blocks = assistant_blocks(item)
        if self.quirks.calls_alone and item.calls:
            blocks = _only_calls(blocks)
        if not blocks:  # for example unsigned reasoning: skip the turn
            return state, []
        thinking: TurnThinking = state.thinking or ("on" if "reasoningContent" in blocks[0] else "off")
        if thinking == "off" and self.quirks.thinking_budget:
            blocks = _without_reasoning(blocks)
        role, chunks = _TURNS.write(
            state.role, "assistant", [(block, "reasoningContent" not in block) for block in blocks]
        )
        has_calls = state.has_calls or bool(item.calls)
        # Only a turn that the response continues counts.
        thinking = thinking if item.calls else ""
        return attrs.evolve(state, role=role, has_calls=has_calls, has_results=False, thinking=thinking), chunks

    # -- the rest ---------------------------------------------------------------------

    def _marker(self, lifetime: CacheLifetime) -> list[Json]:
        if not self.quirks.marks or lifetime == "off":
            return []
        point: Json = {"type": "default"}
        if lifetime == "1h" and self.quirks.long_cache:
            point["ttl"] = "1h"
        return [{"cachePoint": point}]

    def _output_config(self, request: ModelRequest) -> Json:
        config: Json = {}
        if request.output_schema is not None and self.quirks.output == "native":
            schema = dumps(schema_of(request.output_schema, "output"))
            structure = {"jsonSchema": {"name": "answer", "schema": schema}}
            config["textFormat"] = {"type": "json_schema", "structure": structure}
        effort = config_effort(self.quirks, request.options.effort)
        if effort is not None:
            config["effort"] = effort
        return config

    def _tool_config(self, tools: tuple[ToolSchema, ...], request: ModelRequest, *, must_call: bool) -> bytes:
        written = [*map(_tool, tools)]
        if self.quirks.mark_tools and request.tools:
            written += map(to_bytes, self._marker(request.options.cache or "5m"))
        choice = b',"toolChoice":{"any":{}}' if must_call else b""
        return b'"toolConfig":{"tools":[' + b",".join(written) + b"]" + choice + b"},"

    def _must_call(self, state: BedrockState, request: ModelRequest) -> bool:
        """Return whether a call is required. The API cannot forbid one."""
        is_required = request.tool_choice == "required" and bool(request.tools)
        return is_required and may_force(self.quirks, state.thinking)

    def _thinking(self, state: BedrockState, request: ModelRequest, *, must_call: bool) -> Json:
        effort = request.options.effort
        if not self.quirks.effort_field:
            thinking = thinking_config(self.quirks, state.thinking, effort, request.max_output, is_forced=must_call)
            return {"thinking": thinking} if thinking else {}
        # The API refuses a forced call together with thinking.
        if effort is None or effort == "none" or must_call:
            return {}
        match self.quirks.effort_field:
            case "reasoning_effort":
                return {"reasoning_effort": nearest_effort(effort, self.quirks.efforts)}
            case "reasoningConfig":
                nearest = nearest_effort(effort, self.quirks.efforts)
                return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": nearest}}
            case _:
                return {}

    def _inference(self, request: ModelRequest, thinking: Json) -> Json:
        quirks = self.quirks
        if text(as_object(thinking.get("reasoningConfig")), "maxReasoningEffort") == "high":
            return {}  # Nova accepts no limits with it
        requested = request.options.temperature if quirks.temperature else None
        temperature = quirks.default_temperature if requested is None else min(1.0, requested)
        budget = number(as_object(thinking.get("thinking")), "budget_tokens", 0)
        # A turn that goes on keeps a budget, which counts towards the output.
        most = max(request.max_output, budget + MIN_BUDGET) if budget else request.max_output
        settings = {"maxTokens": most, "temperature": temperature, "topP": quirks.default_top_p}
        left_out = {"temperature", "topP"} if "thinking" in thinking else set[str]()
        return {name: value for name, value in settings.items() if value is not None and name not in left_out}


@lru_cache(maxsize=512)
def _tool(tool: ToolSchema) -> bytes:
    """Encode a tool; cached, because tools come after the messages and are written in each step."""
    spec: Json = {"name": tool.name, "inputSchema": {"json": schema_of(tool.schema, f"tool {tool.name!r}")}}
    if tool.description.strip():
        spec["description"] = tool.description
    return to_bytes({"toolSpec": spec})


def _without_reasoning(blocks: list[Json]) -> list[Json]:
    return [block for block in blocks if "reasoningContent" not in block]


def _only_calls(blocks: list[Json]) -> list[Json]:
    return [block for block in blocks if "toolUse" in block]
