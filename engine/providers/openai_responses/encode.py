"""Encodes a transcript for the OpenAI Responses API.

The API takes one flat list of items, and is sent all of it every time: nothing is stored there (`store: false`), so its
own item ids mean nothing to it later, and are dropped unless the host needs them. Reasoning is sent back encrypted,
right before what it led to: a message may not end with reasoning. The system prompt is the first item and not
`instructions`, because only items are certain to be cached.

Deferred tools are no part of `tools`: the model searches for them with a search that the engine runs, and the answer to
it, an item, holds their definitions, grouped by server. So what a request begins with has nothing of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, assert_never

import attrs

from engine.core.llm_types import TOOL_SEARCH, CacheLifetime, ModelRequest, ToolSchema
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
from engine.providers.openai_responses.items import CHANNELS, PHASE
from engine.providers.wire.encoding import EncodedChunk, Encoder, Piece, members, tools_member
from engine.providers.wire.extra_body import merge_json, parse_extra_body
from engine.providers.wire.normalize_transcript import (
    AssistantItem,
    CallWithResult,
    ResultsItem,
    TranscriptItem,
    UserItem,
    arguments_of,
    safe_id,
    safe_tool,
    schema_of,
)
from engine.providers.wire.quirks import Quirks, nearest_effort
from engine.providers.wire.schema_dialects import adapt
from engine.providers.wire.strict_schema import close_schema
from engine.providers.wire.untrusted_json import Json, as_list, loads_object, text, to_bytes
from engine.providers.wire.wire_format import bare_model_name

# The API refuses a lower cap.
_MIN_OUTPUT = 16
_LONGEST_CACHE_KEY = 64
# Members after the input, because they may change between steps.
_CLOSING_MEMBERS = {"max_output_tokens", "tool_choice"}
# It refuses a file without a name.
_FILE_NAMES = {"application/pdf": "document.pdf"}
# The API refuses some members of its own image items (`action`, `size`).
_ACCEPTED_MEMBERS = {"image_generation_call": {"type", "id", "status", "result", "revised_prompt"}}


@attrs.frozen
class Written:
    """What was written so far.

    Attributes:
        items: how many items.
        namespaces: of the tools that results of searches have defined, by name.
    """

    items: int = 0
    namespaces: Mapping[str, str] = attrs.field(factory=dict[str, str])


def encoder(quirks: Quirks) -> Encoder[Written]:
    """Return an encoder for one model."""
    return Encoder(ResponsesDialect(quirks, parse_extra_body(quirks, "input")), quirks)


@attrs.frozen
class ResponsesDialect:
    """Writes requests of the Responses API.

    Attributes:
        quirks: the host's.
        extra: members that are merged into the body.
    """

    quirks: Quirks
    extra: Json

    def start(self) -> Written:
        """Return the state before the first item."""
        return Written()

    def opening(self, request: ModelRequest) -> list[Piece]:
        """Return the part that stays the same between steps."""
        extra = {name: value for name, value in self.extra.items() if name not in _CLOSING_MEMBERS}
        more_tools = as_list(extra.pop("tools", None))
        # Nothing is stored at the host: the transcript is the engine's.
        head: Json = {"model": bare_model_name(request), "stream": True, "store": False}
        pieces = [Piece("model", b"{" + members(merge_json(head | self._settings(request), extra)))]
        listed = [tool for tool in request.tools if not tool.deferred]
        write = self._tool if len(listed) == len(request.tools) else self._searching_tool
        pieces += tools_member(listed, [write(tool) for tool in listed], more_tools)
        return [*pieces, Piece("system", b',"input":[' + self._system_item(request))]

    def add(self, state: Written, item: TranscriptItem) -> tuple[Written, list[EncodedChunk]]:
        """Encode an item as items of the API."""
        namespaces = state.namespaces
        match item:
            case UserItem():
                written = [_message("user", [_user_part(part) for part in item.parts])]
            case AssistantItem():
                written = _AnswerWriter(self.quirks, namespaces, item.defers).write(item.parts)
            case ResultsItem():
                written = list(chain.from_iterable(self._outputs(each, defers=item.defers) for each in item.answered))
                found = chain.from_iterable(each.found for each in item.answered)
                namespaces = {**namespaces, **{tool.name: safe_tool(tool.server) for tool in found}}
            case _:
                assert_never(item)
        chunks = [
            EncodedChunk((b"," if number else b"") + to_bytes(each)) for number, each in enumerate(written, state.items)
        ]
        return Written(state.items + len(chunks), namespaces), chunks

    def closing(self, state: Written, request: ModelRequest) -> bytes:
        """Return the part that may change between steps."""
        body: Json = {}
        if self.quirks.max_tokens_field:
            body["max_output_tokens"] = max(_MIN_OUTPUT, request.max_output)
        if request.tools or self.extra.get("tools"):
            body["tool_choice"] = request.tool_choice
        body |= {name: value for name, value in self.extra.items() if name in _CLOSING_MEMBERS}
        return b"]," + members(body) + b"}" if body else b"]}"

    def mark(self, data: bytes, lifetime: CacheLifetime) -> bytes:
        """Return the chunk unchanged: the host caches without markers."""
        return data

    def _settings(self, request: ModelRequest) -> Json:
        options, quirks = request.options, self.quirks
        body: Json = {}
        if quirks.system_role == "instructions":
            body["instructions"] = request.system
        if quirks.encrypted_reasoning:
            body["include"] = ["reasoning.encrypted_content"]
        if reasoning := self._reasoning(request):
            body["reasoning"] = reasoning
        if words := self._text(request):
            body["text"] = words
        body |= self._sampling(options.temperature)
        if quirks.cache_key_field and request.session_id:
            # It only groups requests for the cache, so truncation does no harm.
            body[quirks.cache_key_field] = request.session_id[:_LONGEST_CACHE_KEY]
        # Only some models keep a cache that long.
        if quirks.long_cache and options.cache == "1h":
            body["prompt_cache_retention"] = "24h"
        if request.tools:
            body["parallel_tool_calls"] = True
        return body

    def _sampling(self, temperature: float | None) -> Json:
        effective = self.quirks.default_temperature if temperature is None else temperature
        sampling = {"temperature": effective if self.quirks.temperature else None, "top_p": self.quirks.default_top_p}
        return {name: value for name, value in sampling.items() if value is not None}

    def _reasoning(self, request: ModelRequest) -> Json:
        quirks = self.quirks
        body: Json = {}
        if quirks.effort_field and (effort := request.options.effort or quirks.default_effort):
            body["effort"] = nearest_effort(effort, quirks.efforts)
        if quirks.reasoning_summary:
            body["summary"] = "auto"
        return body

    def _text(self, request: ModelRequest) -> Json:
        body: Json = {"verbosity": self.quirks.verbosity} if self.quirks.verbosity else {}
        if request.output_schema is not None:
            schema = adapt(schema_of(request.output_schema, "output"), self.quirks.schema)
            closed = close_schema(schema)
            form = {"type": "json_schema", "name": "answer", "schema": closed or schema, "strict": closed is not None}
            body["format"] = form
        return body

    def _tool(self, tool: ToolSchema) -> Json:
        schema = adapt(schema_of(tool.schema, f"tool {tool.name!r}"), self.quirks.schema)
        body: Json = {"type": "function", "name": tool.name, "description": tool.description, "parameters": schema}
        # By default the API treats every tool as strict and rewrites its schema.
        return body | ({"strict": False} if self.quirks.strict_tools else {})

    def _searching_tool(self, tool: ToolSchema) -> Json:
        """Encode a tool of a request with deferred ones: the search for them is a tool of the API's own, run by us."""
        document = self._tool(tool)
        if tool.name != TOOL_SEARCH:
            return document
        own = {name: document[name] for name in ("description", "parameters")}
        return {"type": "tool_search", "execution": "client"} | own

    def _outputs(self, answered: CallWithResult, *, defers: bool) -> Iterator[Json]:
        """Encode a result. That of a search holds tools and no text: a text follows as a message."""
        if not (defers and answered.call.tool == TOOL_SEARCH):
            yield _output(answered)
            return
        groups: dict[str, list[Json]] = {}
        for tool in answered.found:
            groups.setdefault(safe_tool(tool.server), []).append(self._tool(tool) | {"defer_loading": True})
        tools = [_namespace(name, functions) for name, functions in groups.items()]
        yield _search_item("tool_search_output", answered.call, {"tools": tools})
        if not tools:
            yield _message("user", [{"type": "input_text", "text": f"({TOOL_SEARCH}: {answered.text})"}])

    def _system_item(self, request: ModelRequest) -> bytes:
        """Return the system item and a comma; empty if there is none, or it is not an item."""
        if self.quirks.system_role == "instructions" or not request.system.strip():
            return b""
        part: Json = {"type": "input_text", "text": request.system}
        if self.quirks.marks_system and request.options.cache != "off":
            part["prompt_cache_breakpoint"] = {"mode": "explicit"}
        return to_bytes(_message(self.quirks.system_role, [part])) + b","


# -- items ---------------------------------------------------------------------


def _message(role: str, content: Sequence[Json]) -> Json:
    return {"type": "message", "role": role, "content": content}


def _user_part(part: UserPart) -> Json:
    return {"type": "input_text", "text": part.text} if isinstance(part, TextPart) else _media_part(part)


def _media_part(part: MediaPart) -> Json:
    url = f"data:{part.media_type};base64,{part.data}"
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": url}
    # The API refuses a file without a name.
    name = part.name or _FILE_NAMES.get(part.media_type, "file")
    return {"type": "input_file", "filename": name, "file_data": url}


def _output(answered: CallWithResult) -> Json:
    """Encode a result. The API has no error flag: the text must say so."""
    result_text = answered.text
    output: Any = result_text
    if answered.media:
        first: list[Json] = [{"type": "input_text", "text": result_text}] if result_text.strip() else []
        output = [*first, *(_media_part(part) for part in answered.media)]
    return {"type": "function_call_output", "call_id": safe_id(answered.call.call_id), "output": output}


def _namespace(name: str, functions: Sequence[Json]) -> Json:
    return {"type": "namespace", "name": name, "description": f"The tools of {name}.", "tools": functions}


def _search_item(kind: str, call: CallPart, members: Json) -> Json:
    return {"type": kind, "call_id": safe_id(call.call_id), "execution": "client", "status": "completed"} | members


@attrs.define(eq=False)
class _AnswerWriter:
    """Encodes an assistant message as the items it came in."""

    _quirks: Quirks
    _namespaces: Mapping[str, str]
    _defers: bool
    _items: list[Json] = attrs.field(factory=list[Json], init=False)
    _texts: list[Json] = attrs.field(factory=list[Json], init=False)
    _thoughts: list[ReasoningPart] = attrs.field(factory=list[ReasoningPart], init=False)

    def write(self, parts: Sequence[AssistantPart]) -> list[Json]:
        for part in parts:
            self._write(part)
        self._end_message()
        # The API refuses trailing reasoning, which a truncated response leaves.
        while self._items and self._items[-1]["type"] == "reasoning":
            self._items.pop()
        return self._items

    def _write(self, part: AssistantPart) -> None:
        match part:
            case TextPart():
                self._thoughts.clear()
                self._texts.append({"type": "output_text", "text": part.text})
            case ReasoningPart():
                self._end_message()
                self._thoughts.append(part)
                if part.signature is not None:
                    self._items += self._reasoning(part.signature)
                    self._thoughts.clear()
            case CallPart():
                self._end_message()
                self._thoughts.clear()
                self._items.append(self._call(part))
            case ProviderPart() if part.kind == PHASE:
                self._end_message(loads_object(part.data))
            case ProviderPart():
                self._end_message()
                self._thoughts.clear()
                self._items += self._hosted(loads_object(part.data))
            case _:
                assert_never(part)

    def _call(self, part: CallPart) -> Json:
        if self._defers and part.tool == TOOL_SEARCH:
            return _search_item("tool_search_call", part, {"arguments": loads_object(arguments_of(part))})
        call: Json = {"type": "function_call", "call_id": safe_id(part.call_id), "name": part.tool}
        # The host knows a tool that a search has loaded only with its namespace.
        if part.tool in self._namespaces:
            call["namespace"] = self._namespaces[part.tool]
        return call | {"arguments": arguments_of(part)}

    def _end_message(self, phase: Json | None = None) -> None:
        if self._texts:
            self._items.append(_message("assistant", self._texts) | (phase or {}))
            self._texts = []

    def _reasoning(self, signature: str) -> Iterator[Json]:
        """Encode reasoning as the item it came in; nothing for a signature of another format."""
        kept = loads_object(signature)
        channels = [str(channel) for channel in as_list(kept.get("parts"))]
        if not channels and "encrypted_content" not in kept:
            return
        parts = self._reasoning_parts(channels)
        item: Json = {"type": "reasoning", "summary": [part for part in parts if part["type"] == "summary_text"]}
        if content := [part for part in parts if part["type"] == "reasoning_text"]:
            item["content"] = content
        yield item | self._with_id({name: kept[name] for name in ("id", "encrypted_content") if name in kept})

    def _reasoning_parts(self, channels: Sequence[str]) -> list[Json]:
        """Pair the latest thoughts with the channels that their signature lists, and return those of the format."""
        # From the end, where the signature is.
        ends = zip(reversed(channels), reversed(self._thoughts), strict=False)
        return [{"type": channel, "text": thought.text} for channel, thought in ends if channel in CHANNELS][::-1]

    def _hosted(self, item: Json) -> Iterator[Json]:
        if kind := text(item, "type"):
            accepted = _ACCEPTED_MEMBERS.get(kind, item.keys())
            yield self._with_id({name: value for name, value in item.items() if name in accepted})

    def _with_id(self, item: Json) -> Json:
        return item if self._quirks.item_ids else {name: value for name, value in item.items() if name != "id"}
