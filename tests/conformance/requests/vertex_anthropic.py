"""Recorded requests to Claude on Vertex: the version is in the body, and the model is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    Message,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.vertex_anthropic import wire as vertex_anthropic
from engine.providers.wire.wire_format import WireEncoder
from tests.conformance.requests.request_reader import (
    Json,
    RequestReader,
)

HOST = BY_NAME["vertex-anthropic"]


@attrs.define
class VertexAnthropicRequest(RequestReader):
    """A request to Claude on Vertex, read as a transcript."""

    @property
    def model(self) -> str:
        match = re.search(r"/models/([^/:]+)", self.url)
        assert match is not None
        return match[1]

    def check_path(self, request: ModelRequest) -> None:
        assert self.url.rpartition(":")[2] == HOST.path.rpartition(":")[2]

    def read_messages(self) -> None:
        # Claude makes several calls at once by default; a result may be a text, or a list of one.
        self.left.get("tool_choice", {}).pop("disable_parallel_tool_use", None)
        for block in (block for message in self.left["messages"] for block in message["content"]):
            if block["type"] == "tool_result":
                (text,) = block["content"]
                block["content"] = text["text"]
        self.messages = list(claude_messages(self.left["messages"]))

    def request(self) -> ModelRequest:
        return ModelRequest(
            model=f"vertex-anthropic/{self.model}",
            system="".join(block["text"] for block in self.left["system"]),
            transcript=Transcript(self.messages),
            tools=tuple(
                ToolSchema(name=tool["name"], description=tool["description"], schema=json.dumps(tool["input_schema"]))
                for tool in self.left.get("tools", [])
            ),
            max_output=self.left["max_tokens"],
        )

    def encoder(self) -> WireEncoder:
        return vertex_anthropic.encoder(attrs.evolve(quirks_of(HOST, self.model), marks=""))

    def meaning(self, body: Json) -> Any:
        return body


def claude_messages(messages: Sequence[Json]) -> Iterator[Message]:
    tools: dict[str, str] = {}
    for number, message in enumerate(messages):
        parts: list[AssistantPart] = []
        results: list[CallResult] = []
        for block in message["content"]:
            match block["type"]:
                case "text":
                    parts.append(TextPart(id=PartId("p"), text=block["text"]))
                case "tool_use":
                    tools[block["id"]] = block["name"]
                    call = CallPart(
                        id=PartId("p"), call_id=block["id"], tool=block["name"], arguments=json.dumps(block["input"])
                    )
                    parts.append(call)
                case _:
                    settlement = Settlement(status="completed", text=block["content"])
                    results.append(
                        CallResult(
                            call_id=block["tool_use_id"], tool=tools[block["tool_use_id"]], settlement=settlement
                        )
                    )
        message_id = MessageId(str(number))
        if results:
            yield ResultsMessage(id=message_id, results=tuple(results))
        elif message["role"] == "user":
            yield UserMessage(id=message_id, parts=tuple(part for part in parts if isinstance(part, TextPart)))
        else:
            yield AssistantMessage(id=message_id, parts=tuple(parts), model="m")
