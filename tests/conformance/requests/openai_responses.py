"""Recorded requests to the OpenAI Responses API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, get_args

import attrs

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import Effort, ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    FilePart,
    ImagePart,
    MediaPart,
    ProviderPart,
    ReasoningPart,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.openai_responses.encode import encoder
from engine.providers.wire.quirks import MediaKind, Quirks
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
STORED = ("previous_response_id", "conversation", "prompt")
# What we say of our own accord, where the other client says nothing.
OURS = {"stream", "store", "include", "reasoning", "max_output_tokens", "tool_choice", "parallel_tool_calls"}
# What a turn decides, or an option, or the table of hosts: the rest goes through as `extra_body`.
KEPT = OURS | {"model", "input", "instructions", "tools", "text", "temperature", "prompt_cache_key"}


@attrs.define
class ResponsesRequest(RequestReader):
    """A request to the OpenAI Responses API, read as a transcript."""

    system: list[str] = attrs.field(factory=list[str], init=False)
    role: Literal["system", "developer"] = attrs.field(default="system", init=False)
    answer: list[AssistantPart] = attrs.field(factory=list[AssistantPart], init=False)

    @staticmethod
    def skip_reason(body: Json) -> str:
        if any(body.get(name) for name in STORED):
            return "continues what the host has stored: no transcript does"
        return ""

    def read_messages(self) -> None:
        if isinstance(self.left["input"], str):
            self.left["input"] = [{"role": "user", "content": self.left["input"]}]
        first = self.left["input"][0]
        if first.get("role") == "assistant" or first.get("type", "message") != "message":
            self.left["input"].insert(0, {"role": "user", "content": "(not in the recording)"})
            self.omitted.add("a beginning without a user")
        self.left["input"] = [item for item in self.left["input"] if self.read(item)]
        self.end_answer()

    @property
    def model(self) -> str:
        return f"host/{self.body['model']}"

    def read(self, item: Json) -> bool:
        """Take an item; tell whether it can be texts."""
        kind = item.get("type") or "message"
        if kind == "message" and item["role"] != "assistant":
            self.end_answer()
            return self.read_message(item)
        if kind == "function_call_output":
            self.end_answer()
            return self.read_result(item)
        if kind == "message":
            self.read_answer(item)
        elif kind == "reasoning":
            self.read_thinking(item)
        elif kind == "function_call":
            self.omit(item, "namespace", "the namespace of a call")
            call = CallPart(
                id=PartId("c"), call_id=CallId(item["call_id"]), tool=item["name"], arguments=item["arguments"]
            )
            self.answer.append(call)
        else:
            self.answer.append(ProviderPart(id=PartId("i"), kind=kind, data=dumps(item), model=self.model))
        return True

    def read_message(self, item: Json) -> bool:
        if item["role"] == "user":
            self.messages.append(UserMessage(id=MessageId("u"), parts=tuple(self.user_parts(item))))
            return bool(item["content"])
        if self.messages or self.system:
            self.omitted.add("a second system prompt")
            return False
        self.role = "developer" if item["role"] == "developer" else "system"
        self.system += [part["text"] for part in parts_of(item)]
        return True

    def read_answer(self, item: Json) -> None:
        texts = [part for part in parts_of(item) if part["type"] == "output_text"]
        if len(texts) < len(parts_of(item)):
            self.omitted.add("a refusal")
        item["content"] = [{"type": "output_text", "text": part["text"]} for part in texts]
        self.answer += [TextPart(id=PartId("t"), text=part["text"]) for part in texts]
        # It ends the message, whatever it says.
        phase = {"phase": item["phase"]} if item.get("phase") else {}
        self.answer.append(ProviderPart(id=PartId("i"), kind="phase", data=dumps(phase), model=self.model))

    def user_parts(self, item: Json) -> list[UserPart]:
        out: list[UserPart] = []
        parts = parts_of(item)
        item["content"] = []
        for part in parts:
            self.omit(part, "prompt_cache_breakpoint", "a cache marker in a message")
            if part["type"] == "input_text":
                out.append(TextPart(id=PartId("t"), text=part["text"]))
            elif (media := self.media(part)) is not None:
                out.append(media)
            else:
                continue
            item["content"].append(part)
        return out

    def media(self, part: Json) -> MediaPart | None:
        url: str = part.get("image_url") or part.get("file_data") or ""
        if not url.startswith("data:"):
            self.omitted.add("a file somewhere else")
            return None
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if part["type"] == "input_image":
            return ImagePart(media_type=media_type, data=data)
        return FilePart(media_type=media_type, data=data, name=part["filename"])

    def read_result(self, item: Json) -> bool:
        if not any(isinstance(each, AssistantMessage) for each in self.messages[-2:]):
            self.omitted.add("a result without its call")
            return False
        output = item["output"]
        parts: list[UserPart] = [TextPart(id=PartId("t"), text=output)] if isinstance(output, str) else []
        if not isinstance(output, str):
            parts = self.user_parts({"content": output})
            item["output"] = [part for part in output if part["type"] == "input_text" or self.media(part)]
            item["output"] = item["output"] or "(no output)"
        self.add_result(item["call_id"], settlement_of(parts))
        return True

    def read_thinking(self, item: Json) -> None:
        parts = [*(item.get("summary") or []), *(item.get("content") or [])]
        kept = {name: item[name] for name in ("id", "encrypted_content") if item.get(name)}
        kept |= {"parts": [part["type"] for part in parts]}
        thoughts = [
            ReasoningPart(id=PartId("r"), text=part["text"], model=self.model) for part in parts or [{"text": ""}]
        ]
        self.answer += [*thoughts[:-1], attrs.evolve(thoughts[-1], signature=dumps(kept))]

    def end_answer(self) -> None:
        if self.answer:
            parts = tuple(self.answer)
            self.messages.append(AssistantMessage(id=MessageId("a"), parts=parts, model=self.model, finish="stop"))
            self.answer = []

    def request(self) -> ModelRequest:
        body = self.left
        body["reasoning"] = body.get("reasoning") or {}
        body["text"] = body.get("text") or {}
        self.drop_odd(body)
        answer: Json | None = body["text"].get("format")
        return ModelRequest(
            model=self.model,
            system=body.get("instructions") or "".join(self.system),
            transcript=Transcript(self.messages),
            tools=tuple(self.tools()),
            tool_choice=body.get("tool_choice") or "auto",
            max_output=body.get("max_output_tokens") or 8_192,
            output_schema=json.dumps(answer["schema"]) if answer else None,
            session_id=body.get("prompt_cache_key") or "",
            options=ModelOptions(effort=body["reasoning"].get("effort"), temperature=body.get("temperature")),
        )

    def drop_odd(self, body: Json) -> None:
        """Leave out what no option of ours can be."""
        if (body.get("temperature") or 0) < 0:
            self.omit(body, "temperature", "a temperature that no model has")
        if (body.get("max_output_tokens") or 16) < 16:
            self.omit(body, "max_output_tokens", "fewer tokens than the host allows")
        if isinstance(body.get("tool_choice"), dict):
            self.omit(body, "tool_choice", "the choice of one tool")
        if body["reasoning"].get("effort") not in get_args(Effort):
            self.omit(body["reasoning"], "effort", "an effort without a name of ours")
        if "schema" not in (body["text"].get("format") or {}):
            self.omit(body["text"], "format", "an answer in another form than text or by a schema")

    def tools(self) -> Iterator[ToolSchema]:
        for tool in self.left.get("tools") or []:
            if tool["type"] == "function":
                self.omit(tool, "defer_loading", "a tool that is loaded late")
                if tool.get("strict"):
                    self.omitted.add("a strict tool")
                yield tool_schema(tool)

    def quirks(self) -> Quirks:
        """The host's own, with what the client chose otherwise."""
        row = BY_NAME.get(self.record["host"], BY_NAME["openai"])
        body = self.left
        extra = {name: value for name, value in body.items() if name not in KEPT}
        if body.get("store"):
            extra["store"] = True
        if others := [each for each in body.get("include") or [] if each != "reasoning.encrypted_content"]:
            extra["include"] = others
        if rest := {name: value for name, value in body["reasoning"].items() if name != "effort"}:
            extra["reasoning"] = rest
        if others := [tool for tool in body.get("tools") or [] if tool["type"] != "function"]:
            extra["tools"] = others
        return attrs.evolve(
            quirks_of(row, self.body["model"]),
            system_role="instructions" if body.get("instructions") else self.role,
            user_media=EVERYTHING,
            result_media=EVERYTHING,
            temperature=True,
            schema="plain",
            effort_field="reasoning.effort",
            efforts=(),
            encrypted_reasoning="reasoning.encrypted_content" in (body.get("include") or []),
            verbosity=body["text"].get("verbosity") or "",
            marks_system=False,
            extra_body=json.dumps(extra),
        )

    def encoder(self) -> WireEncoder:
        return encoder(self.quirks())

    def meaning(self, body: Json) -> Any:
        return meaning(body, like=self.body)


def parts_of(item: Json) -> list[Json]:
    content = item["content"]
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    parts: list[Json] = [{"type": kind, "text": content}] if isinstance(content, str) else content
    return parts


def meaning(body: Json, *, like: Json) -> Json:
    """What a body means: the same for all ways to say it, and without what *like* says nothing of and we always say."""
    present = {name: value for name, value in body.items() if value not in (None, [], {})}
    out = {name: value for name, value in present.items() if like.get(name) is not None or name not in OURS}
    names: dict[str, str] = {}
    out["input"] = [item_meaning(item, names) for item in body["input"]]
    # A stream tells what a document does.
    out.pop("stream", None)
    if not out.get("instructions"):
        out.pop("instructions", None)
    if tools := out.get("tools"):
        out["tools"] = sorted((tool_meaning(tool) for tool in tools), key=lambda tool: json.dumps(tool, sort_keys=True))
    if "format" in out.get("text", {}):
        form = out["text"]["format"]
        out["text"] = {**out["text"], "format": {"schema": open_schema(form["schema"])}}
    if "reasoning" in out:
        out["reasoning"] = {name: value for name, value in out["reasoning"].items() if name in like["reasoning"]}
    without_null: Json = without_nulls(out)
    return without_null


def item_meaning(item: Json, names: dict[str, str]) -> Json:
    kind = item.get("type") or "message"
    out = {name: value for name, value in item.items() if name != "id"} | {"type": kind}
    if kind in {"function_call", "function_call_output"}:
        # Ids only have to be the same in both places.
        out["call_id"] = names.setdefault(item["call_id"], f"call {len(names)}")
    if kind == "function_call":
        out["arguments"] = arguments_meaning(item["arguments"])
    if kind == "message":
        out["content"] = [{k: v for k, v in part.items() if k != "detail"} for part in parts_of(item)]
    return out


def tool_meaning(tool: Json) -> Json:
    if tool["type"] != "function":
        return tool
    kept = {name: value for name, value in tool.items() if name != "strict"}
    return kept | {"description": tool.get("description") or "", "parameters": tool.get("parameters") or NO_ARGUMENTS}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
