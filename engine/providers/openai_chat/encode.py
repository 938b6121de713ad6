"""Encodes a transcript for a Chat Completions API.

A request is a list of messages: the system prompt, the user's, the model's with its calls, and one for each result. No
two hosts accept quite the same; `Quirks` holds the differences. A message's content comes last, so that a cache marker
can be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import attrs

from engine.core.llm_types import CacheLifetime, ModelRequest, ToolSchema
from engine.core.messages import CallPart
from engine.core.value_base import Value
from engine.providers.openai_chat.content import Content
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, members, tools_member
from engine.providers.wire.extra_body import merge_json, parse_extra_body
from engine.providers.wire.normalize_transcript import (
    AssistantItem,
    ResultsItem,
    TranscriptItem,
    UserItem,
    safe_id,
    schema_of,
)
from engine.providers.wire.quirks import Quirks, nearest_effort
from engine.providers.wire.schema_dialects import adapt
from engine.providers.wire.strict_schema import close_schema
from engine.providers.wire.untrusted_json import Json, as_list, to_bytes
from engine.providers.wire.wire_format import bare_model_name

# OpenAI's limit for `prompt_cache_key`.
_LONGEST_CACHE_KEY = 64
# Put between a result and a user message, and between two user messages, for hosts that refuse these sequences.
_FILLER = "Noted."
_CONTINUE = "Go on."
_PLACEHOLDER_TOOL = ToolSchema(
    name="unavailable", description="Not offered.", schema='{"type":"object","properties":{}}'
)


def encoder(quirks: Quirks) -> Encoder[ChatState]:
    """Return an encoder for one model."""
    return Encoder(OpenAIChatDialect(quirks, parse_extra_body(quirks, "messages")), quirks)


def affinity_headers(quirks: Quirks, request: ModelRequest) -> Mapping[str, str]:
    """Return headers with the session id, by which a host routes requests to the same cache."""
    name = request.session_id
    return dict.fromkeys(quirks.session_headers, name) if name.isascii() and name.isprintable() and name else {}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ChatState(Value):
    """The state of the encoded transcript.

    Attributes:
        last: the role of the last message; empty if there is none.
        calls: the number of calls.
        is_paused: whether the model is to continue the last message.
    """

    last: str = ""
    calls: int = 0
    is_paused: bool = False


@attrs.frozen(eq=False, repr=False)
class OpenAIChatDialect(Value):
    """Writes requests of a Chat Completions API.

    Attributes:
        quirks: the host's.
        extra: members that are merged into the body.
    """

    quirks: Quirks
    extra: Json

    def start(self) -> ChatState:
        """Return the state before the first item."""
        return ChatState()

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps."""
        extra = {name: value for name, value in self.extra.items() if name not in self._closing_names}
        more_tools = as_list(extra.pop("tools", None))
        head: Json = {"model": bare_model_name(request), "stream": True}
        # Without it, OpenAI and most hosts report no usage in a stream.
        if self.quirks.stream_usage:
            head["stream_options"] = {"include_usage": True}
        pieces = [Piece("model", b"{" + members(merge_json(head | self._settings(request), extra)))]
        pieces += tools_member(request.tools, [self._tool(tool) for tool in request.tools], more_tools)
        return [*pieces, Piece("system", b',"messages":[' + self._system(request))]

    def add(self, state: ChatState, item: TranscriptItem) -> tuple[ChatState, list[EncodedChunk]]:
        """Encode an item as messages."""
        match item:
            case UserItem():
                between = self._separator(state)
                message = {"role": "user", "content": self._content.of_user(item.parts)}
                return attrs.evolve(state, last="user", is_paused=False), self._chunks(state, [*between, message])
            case AssistantItem():
                ids = [self._id(call, number) for number, call in enumerate(item.calls, state.calls)]
                body = self._content.of_model(item, ids)
                if not body:
                    return state, []
                calls = state.calls + len(ids)
                after = ChatState(last="assistant", calls=calls, is_paused=item.is_paused)
                return after, self._chunks(state, [{"role": "assistant"} | body])
            case ResultsItem():
                # The results are of the latest calls, so their numbers end where the count stands.
                first = state.calls - len(item.answered)
                messages = [
                    {
                        "role": "tool",
                        "tool_call_id": self._id(answered.call, number),
                        "content": self._content.of_result(answered),
                    }
                    for number, answered in enumerate(item.answered, first)
                ]
                return attrs.evolve(state, last="tool"), self._chunks(state, messages)
            case _:
                assert_never(item)

    def closing(self, state: ChatState, request: ModelRequest) -> bytes:
        """Return the part that may change between steps."""
        # Members of `extra_body` with these names win: the user has put them there.
        body: Json = {}
        if self.quirks.max_tokens_field:
            body[self.quirks.max_tokens_field] = request.max_output
        body |= self._tool_choice(state, request)
        body |= {name: value for name, value in self.extra.items() if name in self._closing_names}
        going_on = self._paused() if state.is_paused else b""
        return going_on + (b"]," + members(body) if body else b"]") + b"}"

    def _tool_choice(self, state: ChatState, request: ModelRequest) -> Json:
        has_tools = bool(request.tools or self.extra.get("tools"))
        if has_tools and request.tool_choice != "auto":
            is_unsupported = request.tool_choice == "required" and not self.quirks.forced_tools
            return {"tool_choice": "auto" if is_unsupported else request.tool_choice}
        if state.calls and self.quirks.stand_in_tool and not has_tools:
            # Such hosts refuse a transcript with calls unless a tool is declared.
            return {"tools": [self._tool(_PLACEHOLDER_TOOL)], "tool_choice": "none"}
        return {}

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Add a cache marker to the last part of a message."""
        return data[: -len(b"}]}")] + b"," + members({"cache_control": self._marker(lifetime)}) + b"}]}"

    # -- the request -------------------------------------------------------------------

    @property
    def _content(self) -> Content:
        return Content(self.quirks)

    @property
    def _closing_names(self) -> frozenset[str]:
        """Members after the messages, because they may change between steps."""
        return frozenset({self.quirks.max_tokens_field, "tool_choice"})

    def _settings(self, request: ModelRequest) -> Json:
        options, quirks = request.options, self.quirks
        body = self._effort(request)
        temperature = options.temperature if options.temperature is not None else quirks.default_temperature
        if quirks.temperature:
            sampling = {"temperature": temperature, "top_p": quirks.default_top_p, "top_k": quirks.default_top_k}
            body |= {name: value for name, value in sampling.items() if value is not None}
        if request.output_schema is not None and quirks.output == "native":
            body["response_format"] = {"type": "json_schema", "json_schema": self._answer(request.output_schema)}
        if quirks.cache_key_field and request.session_id:
            # It only groups requests for the cache, so truncation does no harm.
            body[quirks.cache_key_field] = request.session_id[:_LONGEST_CACHE_KEY]
        return body

    def _effort(self, request: ModelRequest) -> Json:
        effort = request.options.effort or self.quirks.default_effort
        if self.quirks.no_effort_with_tools and (request.tools or self.extra.get("tools")):
            return {"reasoning_effort": "none"}
        if effort is None:
            return {}
        match self.quirks.effort_field:
            case "reasoning_effort":
                return {"reasoning_effort": nearest_effort(effort, self.quirks.efforts)}
            case "reasoning.effort":
                return {"reasoning": {"effort": nearest_effort(effort, self.quirks.efforts)}}
            case "thinking.type":
                return {"thinking": {"type": "disabled" if effort == "none" else "enabled"}}
            case "enable_thinking":
                return {"enable_thinking": effort != "none"}
            case _:
                return {}

    def _answer(self, document: str) -> Json:
        schema = adapt(schema_of(document, "output"), self.quirks.schema)
        # Strict mode requires a closed schema; an open one is sent as a hint only.
        closed = close_schema(schema)
        return {"name": "answer", "schema": closed or schema, "strict": closed is not None}

    def _tool(self, tool: ToolSchema) -> Json:
        schema = adapt(schema_of(tool.schema, f"tool {tool.name!r}"), self.quirks.schema)
        function: Json = {"name": tool.name, "description": tool.description, "parameters": schema}
        # Where a missing field means strict, optional properties would be refused.
        return {"type": "function", "function": function | ({"strict": False} if self.quirks.strict_tools else {})}

    def _system(self, request: ModelRequest) -> bytes:
        """Return the system message and a comma; empty if there is none."""
        # OpenAI's reasoning models want "developer"; most other hosts know only "system".
        if not request.system.strip():
            return b""
        role = "developer" if self.quirks.system_role == "developer" else "system"
        message = to_bytes({"role": role, "content": self._content.of_text(request.system)})
        lifetime = request.options.cache or "5m"
        if self.quirks.marks and lifetime != "off":
            message = self.mark(message, lifetime)
        return message + b","

    def _marker(self, lifetime: CacheLifetime) -> Json:
        return {"type": "ephemeral"} | ({"ttl": "1h"} if lifetime == "1h" and self.quirks.long_cache else {})

    # -- messages ----------------------------------------------------------------------

    def _separator(self, state: ChatState) -> list[Json]:
        """Return the messages required before a user message."""
        refused = {
            "tool": self.quirks.assistant_after_results,
            "user": self.quirks.alternates,
        }
        return [self._assistant_filler(_FILLER)] if refused.get(state.last) else []

    def _assistant_filler(self, words: str) -> Json:
        return {"role": "assistant"} | self._content.empty_reasoning() | {"content": self._content.of_text(words)}

    def _paused(self) -> bytes:
        """Return a user message that asks the model to continue: no host continues an assistant message."""
        return b"," + to_bytes({"role": "user", "content": self._content.of_text(_CONTINUE)})

    def _chunks(self, state: ChatState, messages: list[Json]) -> list[EncodedChunk]:
        out: list[EncodedChunk] = []
        for message in messages:
            comma = b"," if state.last or out else b""
            # A marker needs a part to stand in; a content that is plain text has none.
            is_marked = bool(self.quirks.marks) and isinstance(message["content"], list)
            out.append(EncodedChunk(comma + to_bytes(message), can_be_marked=is_marked))
        return out

    def _id(self, call: CallPart, number: int) -> str:
        """Return the id to send for the call with that number."""
        # Mistral requires exactly nine characters of a-z, A-Z, 0-9.
        return f"{number:09d}" if self.quirks.call_ids == "nine" else safe_id(call.call_id)
