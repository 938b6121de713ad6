"""Recorded requests to Cohere's chat API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import attrs

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import Effort, ModelOptions, ModelRequest, ToolChoice, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.cohere.encode import encoder
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks, thinking_budget
from engine.providers.wire.wire_format import WireEncoder
from tests.conformance.requests.request_reader import (
    Json,
    RequestReader,
    tool_schema,
)

# What a turn, an option or the table of hosts decides; the rest goes through as `extra_body`.
KEPT = {
    "model",
    "messages",
    "stream",
    "tools",
    "tool_choice",
    "temperature",
    "max_tokens",
    "response_format",
    "thinking",
}
CHOICES: dict[str, ToolChoice] = {"REQUIRED": "required", "NONE": "none"}


@attrs.define
class CohereRequest(RequestReader):
    """A request to Cohere's chat API, read as a transcript."""

    system: str = attrs.field(default="", init=False)

    def read_messages(self) -> None:
        for message in self.left["messages"]:
            match message["role"]:
                case "system":
                    self.system += "".join(block["text"] for block in blocks_of(message))
                case "user":
                    message["content"] = [block for block in blocks_of(message) if self.can_hold(block)]
                    parts = tuple(map(user_part, message["content"]))
                    self.messages.append(UserMessage(id=MessageId("u"), parts=parts))
                case "assistant":
                    parts_of_answer = tuple(self.answer_parts(message))
                    made = AssistantMessage(id=MessageId("a"), parts=parts_of_answer, model=self.model, finish="stop")
                    self.messages.append(made)
                case _:
                    self.read_result(message)

    @property
    def model(self) -> str:
        return f"cohere/{self.body['model']}"

    def can_hold(self, block: Json) -> bool:
        if block["type"] == "text" or block.get("image_url", {}).get("url", "").startswith("data:"):
            return True
        self.omitted.add("a picture somewhere else")
        return False

    def answer_parts(self, message: Json) -> Iterator[AssistantPart]:
        if plan := message.get("tool_plan"):
            data = json.dumps({"tool_plan": plan})
            yield ProviderPart(id=PartId("p"), kind="tool_plan", data=data, model=self.model)
        for block in blocks_of(message):
            if block["type"] == "thinking":
                yield ReasoningPart(id=PartId("r"), text=block["thinking"], model=self.model)
            else:
                yield TextPart(id=PartId("t"), text=block["text"])
        for call in message.get("tool_calls") or []:
            function = call["function"]
            yield CallPart(
                id=PartId("c"), call_id=CallId(call["id"]), tool=function["name"], arguments=function["arguments"]
            )

    def read_result(self, message: Json) -> None:
        self.add_result(message["tool_call_id"], Settlement(status="completed", text=result_text(message)))

    def request(self) -> ModelRequest:
        body = self.left
        form = body.get("response_format") or {}
        if form and "json_schema" not in form:
            self.omitted.add("an answer in JSON without a schema")
        thinking = body.get("thinking") or {}
        budget = thinking.get("token_budget")
        efforts = [effort for effort in get_args(Effort) if budget and thinking_budget(effort, 200_000) == budget]
        if thinking and not efforts and thinking.get("type") != "disabled":
            self.omitted.add("a budget without a name of ours")
            del body["thinking"]
        effort: Effort | None = "none" if thinking.get("type") == "disabled" else efforts[0] if efforts else None
        return ModelRequest(
            model=self.model,
            system=self.system,
            transcript=Transcript(self.messages),
            tools=tuple(tools_of(body)),
            tool_choice=CHOICES.get(body.get("tool_choice", ""), "auto"),
            max_output=body.get("max_tokens") or 64_000,
            output_schema=json.dumps(form["json_schema"]) if "json_schema" in form else None,
            options=ModelOptions(effort=effort, temperature=body.get("temperature")),
        )

    def quirks(self) -> Quirks:
        rest = {name: value for name, value in self.left.items() if name not in KEPT}
        return attrs.evolve(
            quirks_of(BY_NAME["cohere"], self.body["model"]),
            user_media=frozenset({"image"}),
            output="native",
            thinking_budget=True,
            extra_body=json.dumps(rest) if rest else "",
        )

    def encoder(self) -> WireEncoder:
        return encoder(self.quirks())

    def meaning(self, body: Json) -> Any:
        return meaning(body, like=self.left)


def blocks_of(message: Json) -> list[Json]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def user_part(block: Json) -> UserPart:
    if block["type"] == "text":
        return TextPart(id=PartId("t"), text=block["text"])
    media_type, _, data = block["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return ImagePart(media_type=media_type, data=data)


def tools_of(body: Json) -> Iterator[ToolSchema]:
    for tool in body.get("tools") or []:
        yield tool_schema({"parameters": {"type": "object"}} | tool["function"])


def result_text(message: Json) -> str:
    """Return what a result says. A string is a document with that for its content: so the host itself cites it."""
    texts: list[str] = []
    for block in blocks_of(message):
        data = block["text"] if block["type"] == "text" else block["document"]["data"]
        is_wrapped = isinstance(data, dict) and data.keys() <= {"content", "error"}
        texts.append("".join(data.values()) if is_wrapped else data if isinstance(data, str) else json.dumps(data))
    return "".join(texts)


def meaning(body: Json, *, like: Json) -> Json:
    """Return what a body says, in one form: what has several forms in one of them, what goes without saying left out."""
    out: Json = {name: value for name, value in body.items() if name in like or name == "messages"}
    out["messages"] = [plain(message) for message in body["messages"]]
    out["stream"] = True
    for tool in out.get("tools", []):
        tool["function"].setdefault("description", "")
        tool["function"].setdefault("parameters", {"type": "object"})
    return out


def plain(message: Json) -> Json:
    if message["role"] == "tool":
        return message | {"content": result_text(message)}
    content = [block for block in blocks_of(message) if block.get("text") != ""]
    rest = {name: value for name, value in message.items() if name != "content" and value}
    if not message.get("tool_calls"):
        return rest | {"content": content}
    # Words beside calls are refused today; older clients sent them.
    words = [block["text"] for block in content if block["type"] == "text"]
    plan = "\n".join(filter(None, [message.get("tool_plan", ""), *words]))
    return rest | {"tool_plan": plan, "thoughts": [] if plan else content}
