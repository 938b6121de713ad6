"""Recorded requests to the Bedrock Converse API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

import attrs

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import Effort, ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.bedrock.encode import encoder
from engine.providers.bedrock.wire import wire
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import MediaKind, Quirks, thinking_budget
from engine.providers.wire.untrusted_json import dumps
from engine.providers.wire.wire_format import WireEncoder
from tests.conformance.requests.request_reader import (
    Json,
    RequestReader,
    settlement_of,
)

# What a turn, an option or the table of hosts decides; the rest goes through as `extra_body`.
KEPT = {
    *("modelId", "messages", "system", "inferenceConfig", "toolConfig", "outputConfig"),
    "additionalModelRequestFields",
}


@attrs.define
class ConverseRequest(RequestReader):
    """A request to the Bedrock Converse API, read as a transcript."""

    @property
    def model(self) -> str:
        return unquote(urlsplit(self.url).path.split("/")[2])

    def check_path(self, request: ModelRequest) -> None:
        path = wire(self.quirks()).path(request)
        assert path.startswith(f"/model/{request.model.partition('/')[2].split(':')[0]}")

    def read_messages(self) -> None:
        for message in self.left["messages"]:
            message["content"] = [block for block in message["content"] if self.can_hold(block)]
            if message["role"] == "assistant":
                self.read_answer(message["content"])
            else:
                self.read_user(message["content"])

    def can_hold(self, block: Json) -> bool:
        """Tell whether a transcript can hold a block; take out of it what it can't."""
        (kind,) = block
        if kind == "toolResult":
            content = [part for part in block[kind]["content"] if self.can_hold(part)]
            block[kind]["content"] = content or [{"text": "(no output)"}]
        if kind in {"document", "image", "video"} and "bytes" not in block[kind]["source"]:
            self.omitted.add("a file somewhere else, or in another form")
            return False
        if kind == "document":
            self.omit(block[kind], "citations", "the wish for citations")
            block[kind]["format"] = "pdf"  # others are never sent: they are text to us
        if kind not in {
            "text",
            "json",
            "image",
            "document",
            "video",
            "cachePoint",
            "toolUse",
            "toolResult",
            "reasoningContent",
        }:
            self.omitted.add(f"a {kind}")
            return False
        return True

    def read_user(self, blocks: list[Json]) -> None:
        results = [block["toolResult"] for block in blocks if "toolResult" in block]
        if results:
            made = tuple(self.result(result) for result in results)
            self.messages.append(ResultsMessage(id=MessageId("r"), results=made))
        parts = tuple(self.user_part(block) for block in blocks if not block.keys() & {"toolResult", "cachePoint"})
        if parts:
            self.messages.append(UserMessage(id=MessageId("u"), parts=parts))

    def user_part(self, block: Json) -> UserPart:
        (kind,) = block
        if kind in {"text", "json"}:
            return TextPart(id=PartId("t"), text=block["text"] if kind == "text" else dumps(block["json"]))
        data, form = block[kind]["source"]["bytes"], block[kind]["format"]
        if kind == "image":
            return ImagePart(media_type=f"image/{form}", data=data)
        media_type = f"video/{form}" if kind == "video" else "application/pdf"
        return FilePart(media_type=media_type, data=data, name=block[kind].get("name", ""))

    def result(self, result: Json) -> CallResult:
        parts = [self.user_part(part) for part in result["content"]]
        status = "error" if result.get("status") == "error" else "completed"
        settlement = settlement_of(parts, status=status)
        return CallResult(call_id=CallId(result["toolUseId"]), tool="", settlement=settlement)

    def read_answer(self, blocks: list[Json]) -> None:
        parts = tuple(part for block in blocks for part in self.answer_part(block))
        model = f"bedrock/{self.model}"
        self.messages.append(AssistantMessage(id=MessageId("a"), parts=parts, model=model, finish="stop"))

    def answer_part(self, block: Json) -> Iterator[AssistantPart]:
        model = f"bedrock/{self.model}"
        match block:
            case {"text": text}:
                yield TextPart(id=PartId("t"), text=text)
            case {"reasoningContent": {"reasoningText": thought}}:
                signature = thought.get("signature")
                if signature is None:
                    self.omitted.add("a thought that nobody signed")
                yield ReasoningPart(id=PartId("r"), text=thought["text"], signature=signature, model=model)
            case {"reasoningContent": {"redactedContent": data}}:
                yield ReasoningPart(id=PartId("r"), text="", redacted=data, model=model)
            case {"toolUse": {"type": "server_tool_use"}} | {"toolResult": _}:
                yield ProviderPart(id=PartId("h"), kind=next(iter(block)), data=dumps(block), model=model)
            case {"toolUse": use}:
                call_id, arguments = CallId(use["toolUseId"]), dumps(use["input"])
                yield CallPart(id=PartId("c"), call_id=call_id, tool=use["name"], arguments=arguments)
            case _:
                pass

    def request(self) -> ModelRequest:
        body = self.left
        config = body.get("inferenceConfig") or {}
        self.omit(config, "stopSequences", "stop sequences")
        self.omit(config, "topP", "a top_p")
        answer = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure", {}).get("jsonSchema")
        choice = (body.get("toolConfig") or {}).get("toolChoice") or {}
        if "tool" in choice:
            self.omitted.add("the choice of one tool")
        return ModelRequest(
            model=f"bedrock/{self.model}",
            system="".join(block.get("text", "") for block in body.get("system") or []),
            transcript=Transcript(self.messages),
            tools=tuple(self.tools()),
            tool_choice="required" if "any" in choice else "auto",
            max_output=config.get("maxTokens") or 64_000,
            output_schema=answer["schema"] if answer else None,
            options=ModelOptions(
                effort=self.effort(),
                temperature=config.get("temperature"),
                cache="5m" if '"cachePoint"' in json.dumps(body) else "off",
            ),
        )

    def tools(self) -> Iterator[ToolSchema]:
        config = self.left.get("toolConfig") or {}
        for tool in config.get("tools") or []:
            if "toolSpec" in tool:
                spec = tool["toolSpec"]
                self.omit(spec, "strict", "a strict tool")
                schema = json.dumps(spec["inputSchema"]["json"])
                yield ToolSchema(name=spec["name"], description=spec.get("description") or "", schema=schema)
            elif "cachePoint" not in tool:
                self.omitted.add("a tool of the host")

    def effort(self) -> Effort | None:
        """Return the effort whose budget is the one that was asked for."""
        fields = self.left.get("additionalModelRequestFields") or {}
        # One client has a name for it that only Bedrock knows.
        if "reasoning_config" in fields:
            fields["thinking"] = fields.pop("reasoning_config")
        for name in [name for name in fields if name != "thinking"]:
            self.omit(fields, name, f"the field {name}")
        budget = fields.get("thinking", {}).get("budget_tokens")
        if not budget:
            self.omit(fields, "thinking", "thinking without a budget")
        efforts = [effort for effort in get_args(Effort) if budget and thinking_budget(effort, 200_000) == budget]
        if budget and not efforts:
            fields["thinking"]["budget_tokens"] = thinking_budget("low", 200_000)
            self.omitted.add("a budget without a name of ours")
            return "low"
        return efforts[0] if efforts else None

    def quirks(self) -> Quirks:
        rest = {name: value for name, value in self.left.items() if name not in KEPT}
        return attrs.evolve(
            quirks_of(BY_NAME["bedrock"], self.model),
            # They may be from before, or of a model that was asked in vain.
            user_media=frozenset(get_args(MediaKind)),
            result_media=frozenset(get_args(MediaKind)),
            output="native",
            forced_tools=True,
            # What our caution adds or leaves out, others find out by being refused.
            assistant_after_results=False,
            calls_alone=False,
            extra_body=json.dumps(rest) if rest else "",
        )

    def encoder(self) -> WireEncoder:
        return encoder(self.quirks())

    def meaning(self, body: Json) -> Any:
        return meaning(body, like=self.left)


def meaning(body: Json, like: Json) -> Json:
    """Return what a body says, in one form: what has several forms in one of them, what goes without saying left out."""
    plain_body: Json = json.loads(json.dumps(body))
    plain_body.pop("modelId", None)
    is_marked = '"cachePoint"' in json.dumps(plain_body)
    plain_body = without_points(plain_body)
    plain_body["messages"] = turns(plain_body["messages"])
    config = plain_body.pop("inferenceConfig", None) or {}
    plain_body["inferenceConfig"] = {
        name: value for name, value in config.items() if name in (like.get("inferenceConfig") or {})
    }
    tools: Json = plain_body.pop("toolConfig", None) or {"tools": []}
    tools["tools"] = [tool for tool in tools["tools"] if "toolSpec" in tool]
    if tools.get("toolChoice", {}).keys() <= {"auto", "tool"}:
        tools.pop("toolChoice", None)
    answer = (plain_body.pop("outputConfig", None) or {}).get("textFormat")
    schema = json.loads(answer["structure"]["jsonSchema"]["schema"]) if answer else None
    return {name: value for name, value in plain_body.items() if value} | {
        "tools": tools,
        "schema": schema,
        "marked": is_marked,
    }


def without_points(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_points(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_points(each) for each in value if not (isinstance(each, dict) and "cachePoint" in each)]
    return value


def turns(messages: list[Json]) -> list[Json]:
    """Return the turns: messages of one side in a row are one, without thoughts that nobody signed."""
    out: list[Json] = []
    for message in messages:
        blocks = [block for block in map(plain, message["content"]) if block]
        if out and out[-1]["role"] == message["role"]:
            out[-1]["content"] += blocks
        else:
            out.append({"role": message["role"], "content": blocks})
    return out


def plain(block: Json) -> Json | None:
    """Return a block without its document's name, which has to be unique, and without what goes without saying."""
    match block:
        case {"json": value}:
            return {"text": dumps(value)}
        case {"document": document}:
            return {"document": document | {"name": ""}}
        case {"toolResult": result}:
            content = [plain(part) for part in result["content"]]
            kept = {name: value for name, value in result.items() if (name, value) != ("status", "success")}
            return {"toolResult": kept | {"content": content}}
        case {"reasoningContent": {"reasoningText": thought}} if "signature" not in thought:
            return None
        case _:
            return block
