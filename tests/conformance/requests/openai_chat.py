"""Recorded requests to Chat Completions APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import attrs

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    FilePart,
    ImagePart,
    MediaPart,
    ReasoningPart,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.openai_chat.encode import encoder
from engine.providers.wire.quirks import MediaKind, Quirks, ReasoningField
from engine.providers.wire.untrusted_json import dumps
from engine.providers.wire.wire_format import WireEncoder
from tests.conformance.requests.request_reader import (
    NO_ARGUMENTS,
    Json,
    RequestReader,
    arguments_meaning,
    open_schema,
    settlement_of,
    tool_schema,
)

EVERYTHING = frozenset(get_args(MediaKind))
# What we say of our own accord, where the other client says nothing.
OURS = {"stream", "stream_options", "max_tokens", "tool_choice"}
CAPS = ("max_completion_tokens", "max_tokens")
# What a turn decides, or an option, or the table of hosts: the rest goes through as `extra_body`.
KEPT = OURS | {"model", "messages", "tools", "response_format", "temperature", *CAPS}
LEGACY = ("functions", "function_call")
THOUGHTS: tuple[ReasoningField, ...] = ("reasoning_content", "reasoning", "reasoning_details")


@attrs.define
class ChatRequest(RequestReader):
    """A request to a Chat Completions API, read as a transcript."""

    system: list[str] = attrs.field(factory=list[str], init=False)

    def read_messages(self) -> None:
        self.left = {name: value for name, value in self.left.items() if value is not None}
        for name in LEGACY:
            self.omit(self.left, name, "functions from before there were tools")
        spoken = [message for message in self.left["messages"] if message["role"] not in {"system", "developer"}]
        if spoken and spoken[0]["role"] != "user":
            self.left["messages"].insert(
                self.left["messages"].index(spoken[0]), {"role": "user", "content": "(not in the recording)"}
            )
            self.omitted.add("a beginning without a user")
        self.left["messages"] = [message for message in self.left["messages"] if self.read(message)]
        if not self.left.get("tools"):
            self.left.pop("tools", None)
        if not isinstance(self.left.get("tool_choice", ""), str):
            self.omit(self.left, "tool_choice", "the choice of one tool")
        form = self.left.get("response_format", {"json_schema": {"schema": {}}})
        if "schema" not in form.get("json_schema", {}):
            self.omit(self.left, "response_format", "an answer in another form than text or by a schema")
        if not 0 <= self.left.get("temperature", 0) <= 2:
            self.omit(self.left, "temperature", "a temperature that no model has")

    @property
    def model(self) -> str:
        return f"host/{self.body['model']}"

    def read(self, message: Json) -> bool:
        """Take a message; tell whether it can be members."""
        self.omit(message, "name", "the name of a speaker")
        self.omit(message, "cache_control", "a cache marker of a message as a whole")
        match message["role"]:
            case "system" | "developer":
                return self.read_system(message)
            case "user":
                if not message.get("tool_calls"):
                    message.pop("tool_calls", None)
                parts = tuple(self.user_parts(message))
                self.messages.append(UserMessage(id=MessageId("u"), parts=parts))
                return bool(parts)
            case "assistant":
                return self.read_answer(message)
            case "tool":
                return self.read_result(message)
            case role:
                self.omitted.add(f"a message of the role {role}")
                return False

    def read_system(self, message: Json) -> bool:
        if self.messages or self.system:
            self.omitted.add("a second system prompt")
            return False
        self.system += [part["text"] for part in parts_of(message["content"])]
        return True

    def user_parts(self, message: Json) -> list[UserPart]:
        out: list[UserPart] = []
        parts, message["content"] = parts_of(message["content"]), list[Json]()
        for part in parts:
            self.omit(part, "cache_control", "a cache marker in another place")
            self.omit(part, "prompt_cache_breakpoint", "a cache marker in another place")
            if part["type"] == "text":
                out.append(TextPart(id=PartId("t"), text=part["text"]))
            elif (media := self.media(part)) is not None:
                out.append(media)
            else:
                continue
            message["content"].append(part)
        return out

    def media(self, part: Json) -> MediaPart | None:
        held = part.get(part["type"])
        facts: Json = held if isinstance(held, dict) else {"url": held}
        url: str = facts.get("url") or facts.get("file_data") or ""
        if part["type"] not in {"image_url", "file", "video_url"}:
            self.omitted.add(f"a part of the kind {part['type']}")
            return None
        if not url.startswith("data:"):
            self.omitted.add("a file somewhere else")
            return None
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if part["type"] == "image_url":
            part["image_url"] = {"url": url}
            return ImagePart(media_type=media_type, data=data)
        return FilePart(media_type=media_type, data=data, name=facts.get("filename") or "")

    def read_answer(self, message: Json) -> bool:
        parts: list[AssistantPart] = []
        self.omit(message, "annotations", "annotations")
        self.omit(message, "refusal", "a refusal")
        if message.get("reasoning") == message.get("reasoning_content"):
            message.pop("reasoning", None)  # the same thought twice
        thought = message.get("reasoning_content") or message.get("reasoning")
        if thought:
            parts.append(ReasoningPart(id=PartId("r"), text=thought, model=self.model))
        parts += self.thoughts(message)
        for part in parts_of(message.get("content")):
            self.omit(part, "cache_control", "a cache marker in another place")
            match part["type"]:
                case "text":
                    parts.append(TextPart(id=PartId("t"), text=part["text"]))
                case "thinking":
                    thought = "".join(piece["text"] for piece in part["thinking"])
                    parts.append(ReasoningPart(id=PartId("r"), text=thought, model=self.model))
                case kind:
                    self.omitted.add(f"a part of the kind {kind}")
                    message["content"].remove(part)
        calls = [call for call in message.get("tool_calls") or [] if "function" in call]
        if len(calls) < len(message.get("tool_calls") or []):
            self.omitted.add("a call of another kind than a function's")
        message["tool_calls"] = calls
        for call in calls:
            function = call["function"]
            if not isinstance(function["arguments"], str):
                function["arguments"] = json.dumps(function["arguments"])
            parts.append(
                CallPart(
                    id=PartId("c"),
                    call_id=CallId(call["id"]),
                    tool=function["name"],
                    arguments=function["arguments"],
                    provider_id=call["id"],
                )
            )
        self.messages.append(AssistantMessage(id=MessageId("a"), parts=tuple(parts), model=self.model, finish="stop"))
        if not any(isinstance(part, (TextPart, CallPart)) for part in parts):
            self.omitted.add("an answer of nothing")
            return False
        return True

    def thoughts(self, message: Json) -> Iterator[ReasoningPart]:
        """Yield the details of thinking as our own decoder would have kept them."""
        for detail in message.get("reasoning_details") or []:
            visible = detail.get("text") or detail.get("summary") or ""
            rest = {name: value for name, value in detail.items() if name not in {"text", "summary"}}
            signature = dumps({"field": "reasoning_details", "details": [rest]})
            yield ReasoningPart(id=PartId("r"), text=visible, signature=signature, model=self.model)

    def read_result(self, message: Json) -> bool:
        if not any(isinstance(each, AssistantMessage) for each in self.messages[-2:]):
            self.omitted.add("a result without its call")
            return False
        parts = self.user_parts(message)
        self.add_result(message["tool_call_id"], settlement_of(parts))
        return True

    def request(self) -> ModelRequest:
        body = self.left
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        return ModelRequest(
            model=self.model,
            system="".join(self.system),
            transcript=Transcript(self.messages),
            tools=tuple(self.tools()),
            tool_choice=body.get("tool_choice") or "auto",
            max_output=next((body[name] for name in CAPS if name in body), 8_192),
            output_schema=json.dumps(schema) if schema else None,
            options=ModelOptions(temperature=body.get("temperature")),
        )

    def tools(self) -> Iterator[ToolSchema]:
        for tool in self.left.get("tools") or []:
            if tool["type"] != "function":
                continue
            function = tool["function"]
            if function.get("strict"):
                self.omitted.add("a strict tool")
            yield tool_schema(function)

    def quirks(self) -> Quirks:
        """A host that takes what the client has sent."""
        body = self.left
        members = {name for message in body["messages"] for name in message if message["role"] == "assistant"}
        thinks = any(
            part["type"] == "thinking" for message in body["messages"] for part in parts_of(message.get("content"))
        )
        extra = {name: value for name, value in body.items() if name not in KEPT}
        extra["tools"] = [tool for tool in body.get("tools") or [] if tool["type"] != "function"]
        fields: tuple[ReasoningField, ...] = (*(name for name in THOUGHTS if name in members), "")
        return Quirks(
            user_media=EVERYTHING,
            result_media=EVERYTHING,
            max_tokens_field=next((name for name in CAPS if name in body), "max_tokens"),
            system_role="developer" if body["messages"][0]["role"] == "developer" else "system",
            stream_usage="stream_options" in body,
            reasoning_field="content" if thinks else fields[0],
            extra_body=json.dumps(extra),
        )

    def encoder(self) -> WireEncoder:
        return encoder(self.quirks())

    def meaning(self, body: Json) -> Any:
        return meaning(body, like=self.left)


def parts_of(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def meaning(body: Json, *, like: Json) -> Json:
    """What a body means: the same for all ways to say it, and without what *like* says nothing of and we always say."""
    out = {name: value for name, value in body.items() if name in like or name not in OURS}
    # A stream tells what a document does; and to choose a tool freely is what models do.
    out.pop("stream", None)
    if out.get("tool_choice") == "auto":
        out.pop("tool_choice")
    names: dict[str, str] = {}
    messages = [message_meaning(message, names) for message in body["messages"]]
    # A call without a result gets one from us; results are in the order of their calls.
    out["messages"] = [message for message in messages if message["text"] != "(noresultwasrecorded)"]
    out["messages"] = in_call_order(out["messages"])
    if tools := out.get("tools"):
        out["tools"] = sorted(map(tool_meaning, tools), key=lambda tool: str(tool["name"]))
    if "response_format" in out:
        out["response_format"] = open_schema(out["response_format"]["json_schema"]["schema"])
    return out


def in_call_order(messages: list[Json]) -> list[Json]:
    """The same messages, with results that stand together in the order of their names."""
    out: list[Json] = []
    for message in messages:
        place = len(out)
        while (
            message["role"] == "tool" and out[place - 1]["role"] == "tool" and out[place - 1]["call"] > message["call"]
        ):
            place -= 1
        out.insert(place, message)
    return out


def message_meaning(message: Json, names: dict[str, str]) -> Json:
    def renamed(own: str) -> str:
        """Ids only have to be the same in both places."""
        return names.setdefault(own, f"call {len(names)}")

    out: Json = {"role": message["role"]}
    out |= {name: message[name] for name in THOUGHTS if message.get(name)}
    if calls := message.get("tool_calls"):
        out["calls"] = [
            (renamed(call["id"]), call["function"]["name"], arguments_meaning(call["function"]["arguments"]))
            for call in calls
        ]
    if "tool_call_id" in message:
        out["call"] = renamed(message["tool_call_id"])
    parts = [part for part in parts_of(message.get("content")) if part.get("text") != ""]
    texts = [part["text"].strip() for part in parts if part["type"] == "text"]
    out["text"] = "".join("".join(texts).split())
    out["media"] = [part for part in parts if part["type"] != "text"]
    if message["role"] == "tool" and not parts:
        out["text"] = "(nooutput)"
    return out


def tool_meaning(tool: Json) -> Json:
    if tool["type"] != "function":
        return {"name": tool["type"], "tool": tool}
    function = tool["function"]
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or NO_ARGUMENTS,
    }
