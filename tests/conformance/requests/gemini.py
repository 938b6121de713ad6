"""Recorded requests to the Gemini API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelOptions, ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.gemini.encode import UNSIGNED, encoder
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireEncoder
from tests.conformance.requests.request_reader import (
    Json,
    RequestReader,
)

# What is no name of the API's: its keys are somebody else's.
OPAQUE = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}


def camel(value: Any) -> Any:
    """A body with all its names in camel case: the API takes both."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = {name: re.sub(r"_([a-z])", lambda match: match[1].upper(), name) for name in value}
    return {names[name]: item if names[name] in OPAQUE else camel(item) for name, item in value.items()}


# What a turn, an option or the table of hosts says; the rest goes through as `extra_body`.
KEPT = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
KNOWN_CONFIG = {"maxOutputTokens", "temperature", "thinkingConfig", "responseMimeType", "responseSchema"}


@attrs.define
class GeminiRequest(RequestReader):
    """A request to the Gemini API, read as a transcript."""

    _calls: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]], init=False)

    def read_messages(self) -> None:
        self.left = camel(self.left)
        self.messages = list(self._messages())

    @property
    def model(self) -> str:
        match = re.search(r"/models/([^/:]+)", self.url)
        assert match is not None
        return match[1]

    def quirks(self) -> Quirks:
        extra: Json = {name: value for name, value in self.left.items() if name not in KEPT}
        config = self.left.get("generationConfig", {})
        extra["generationConfig"] = {name: value for name, value in config.items() if name not in KNOWN_CONFIG}
        if hosted := [tool for tool in self.left.get("tools", []) if "functionDeclarations" not in tool]:
            extra["tools"] = hosted
        if "includeServerSideToolInvocations" in self.left.get("toolConfig", {}):
            extra["toolConfig"] = self.left["toolConfig"]
        # Native, although the table offers a tool for the answer where these models can't have both.
        quirks = quirks_of(BY_NAME["vertex" if self.record["host"] == "vertex" else "google"], self.model)
        return attrs.evolve(quirks, output="native", extra_body=json.dumps(extra))

    def request(self) -> ModelRequest:
        config: Json = self.left.get("generationConfig", {})
        schema = config.get("responseSchema")
        declared = [tool for tools in self.left.get("tools", []) for tool in tools.get("functionDeclarations", [])]
        return ModelRequest(
            model=f"google/{self.model}",
            system="".join(part["text"] for part in self.left.get("systemInstruction", {}).get("parts", [])),
            transcript=Transcript(self.messages),
            tools=tuple(map(self._tool, declared)),
            max_output=config.get("maxOutputTokens", 8_192),
            output_schema=None if schema is None else json.dumps(lowered(schema)),
            options=ModelOptions(temperature=config.get("temperature"), effort=self._effort(config)),
        )

    def _effort(self, config: Json) -> Any:
        thinking: Json = config.get("thinkingConfig", {})
        if thinking.pop("thinkingBudget", None) is not None:
            self.omitted.add("a number of tokens to think with")
        return thinking["thinkingLevel"].lower() if "thinkingLevel" in thinking else None

    def _tool(self, tool: Json) -> ToolSchema:
        schema = tool.get("parametersJsonSchema", tool.get("parameters"))
        return ToolSchema(name=tool["name"], description=tool["description"] or "", schema=json.dumps(lowered(schema)))

    def _messages(self) -> Iterator[Message]:
        for number, content in enumerate(self.left["contents"]):
            message_id = MessageId(str(number))
            if content["role"] == "model":
                parts = tuple(part for each in content["parts"] for part in self._model_parts(each))
                yield AssistantMessage(id=message_id, parts=parts, model=f"google/{self.model}")
            elif "functionResponse" in content["parts"][0]:
                results = tuple(self._result(part["functionResponse"]) for part in content["parts"])
                yield ResultsMessage(id=message_id, results=results)
            else:
                if content["role"] != "user":
                    self.omitted.add("a role that there is not")
                    content["role"] = "user"
                yield UserMessage(id=message_id, parts=tuple(map(user_part, content["parts"])))

    def _model_parts(self, part: Json) -> Iterator[AssistantPart]:
        kind = "call" if "functionCall" in part else "text"
        if signature := part.get("thoughtSignature"):
            text = json.dumps({"on": kind, "signature": signature})
            yield ReasoningPart(id=PartId("p"), text="", signature=text, model=f"google/{self.model}")
        if kind == "text":
            yield TextPart(id=PartId("p"), text=part["text"])
        else:
            call: Json = part["functionCall"]
            call_id = call.get("id", f"call-{len(self._calls)}")
            self._calls.append((call["name"], call_id))
            yield CallPart(
                id=PartId("p"), call_id=CallId(call_id), tool=call["name"], arguments=json.dumps(call["args"])
            )

    def _result(self, response: Json) -> CallResult:
        place = next(i for i, (name, _) in enumerate(self._calls) if name == response["name"])
        name, call_id = self._calls.pop(place)
        media = [part["inlineData"] for part in response.get("parts", []) if "inlineData" in part]
        if len(media) < len(response.get("parts", [])):
            self.omitted.add("a file somewhere else")
            response["parts"] = [part for part in response["parts"] if "inlineData" in part]
        settlement = Settlement(
            status="completed",
            text=next(iter(response["response"].values()), ""),
            images=tuple(ImagePart(media_type=each["mimeType"], data=each["data"]) for each in media),
        )
        return CallResult(call_id=CallId(call_id), tool=name, settlement=settlement)

    def encoder(self) -> WireEncoder:
        return encoder(self.quirks())

    def meaning(self, body: Json) -> Any:
        return meaning(body, like=self.left)


def user_part(part: Json) -> UserPart:
    if "text" in part:
        return TextPart(id=PartId("p"), text=part["text"])
    data: Json = part["inlineData"]
    kind: type[MediaPart] = ImagePart if data["mimeType"].startswith("image/") else FilePart
    return kind(media_type=data["mimeType"], data=data["data"])


def lowered(schema: Any) -> Any:
    """A schema with its types as JSON Schema writes them, and without an order for properties."""
    if isinstance(schema, list):
        return [lowered(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    ordered = {name: value for name, value in schema.items() if name not in {"property_ordering", "propertyOrdering"}}
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else lowered(value)
        for name, value in ordered.items()
        if not (name == "required" and not value)
    }


def meaning(body: Json, *, like: Json) -> Json:
    """A body as what it means; what *like* says nothing of counts as our own to choose."""
    config: Json = {**body.get("generationConfig", {})}
    expected: Json = like.get("generationConfig", {})
    for old, new in (("responseJsonSchema", "responseSchema"),):
        if old in config:
            config[new] = config.pop(old)
    config = {name: value for name, value in config.items() if name in expected}
    if "responseSchema" in config:
        config["responseSchema"] = lowered(config["responseSchema"])
    if "thinkingConfig" in config:
        config["thinkingConfig"] = {
            name: value.lower() if isinstance(value, str) else value
            for name, value in config["thinkingConfig"].items()
            if name in expected["thinkingConfig"]
        }
    config.pop("topP", None)
    tools: list[Json] = []
    for tool in body.get("tools", []):
        declared = [
            {
                "name": each["name"],
                "description": each["description"] or "",
                "schema": lowered(each.get("parametersJsonSchema", each.get("parameters"))),
            }
            for each in tool.get("functionDeclarations", [])
        ]
        tools.append({"functionDeclarations": declared} if declared else tool)
    rest = {name: value for name, value in body.items() if name not in KEPT}
    system = [part["text"] for part in body.get("systemInstruction", {}).get("parts", [])]
    mode = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode", "AUTO")
    return rest | {
        "config": config,
        "tools": tools,
        "system": system,
        "mode": mode,
        "contents": [
            {
                "role": content["role"],
                "parts": [part_meaning(part) for part in content["parts"] if part != {"text": ""}],
            }
            for content in body["contents"]
        ],
    }


def part_meaning(part: Json) -> Json:
    if "functionResponse" in part:
        # The words of the result are the result, whatever it is called; ids come with us always.
        response: Json = part["functionResponse"]
        texts = [text for text in response["response"].values() if text]
        return {"name": response["name"], "texts": texts, "parts": response.get("parts", [])}
    if "functionCall" in part:
        call: Json = part["functionCall"]
        signature = part.get("thoughtSignature")
        return {"call": (call["name"], call["args"]), "signature": None if signature == UNSIGNED else signature}
    return part
