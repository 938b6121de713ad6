"""Recorded traffic of the Converse API: its answers against what the official SDK reads, its requests against ours."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

import attrs
import pytest

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import (
    Cited,
    Effort,
    Finished,
    ModelOptions,
    ModelRequest,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    StreamEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    ToolSchema,
    UsageReported,
)
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.bedrock.encode import encoder
from engine.providers.bedrock.wire import wire
from engine.providers.hosts.table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import MediaKind, Quirks, thinking_budget
from engine.providers.wire.untrusted_json import dumps

pytestmark = pytest.mark.conformance

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[4] / "shared") / "wire"
ABSENT = pytest.param(
    None, marks=pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the folder that has it")
)
Json = dict[str, Any]


def cases(fits: Callable[[Json], bool]) -> list[Any]:
    found = [
        pytest.param(path, id=path.name.removesuffix(".request.json"))
        for path in sorted(WIRE.glob("*/*.request.json"))
        if (record := json.loads(path.read_text()))["protocol"] == "bedrock-converse" and fits(record)
    ]
    return found or [ABSENT]


# -- answers -------------------------------------------------------------------------


def decode(record: Json, body: bytes, seed: int) -> list[StreamEvent]:
    streamed = record["response"]["body_file"].endswith(".bin")
    decoder = wire(Quirks()).decoder("application/vnd.amazon.eventstream" if streamed else "application/json")
    assert decoder is not None
    events: list[StreamEvent] = []
    rng, start = random.Random(seed), 0
    while start < len(body):
        size = len(body) if seed == 0 else rng.choice((1, 2, 7, 100, 1_000))
        events += decoder.feed(body[start : start + size])
        start += size
    while more := decoder.close():
        events += more
    assert decoder.is_over
    return events


def calls(events: list[StreamEvent]) -> list[Json]:
    found: list[Json] = []
    for start in (event for event in events if isinstance(event, ToolCallStarted)):
        text = "".join(event.text for event in events if isinstance(event, ToolCallChunk) and event.id == start.id)
        ends = [event for event in events if isinstance(event, ToolCallDone) and event.id == start.id]
        found.append({"id": start.id, "name": start.tool, "arguments": json.loads(ends[0].arguments or text)})
    return found


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("path", cases(lambda record: record["response"]["status"] == 200))
def test_a_recorded_answer(path: Path, seed: int) -> None:
    record = json.loads(path.read_text())
    expected = json.loads(path.with_name(path.name.replace(".request.", ".expected.")).read_text())
    events = decode(record, (path.parent / record["response"]["body_file"]).read_bytes(), seed)
    extra: Json = expected["extra"]
    assert "".join(event.text for event in events if isinstance(event, TextChunk)) == expected["text"]
    assert "".join(event.text for event in events if isinstance(event, ReasoningChunk)) == expected["reasoning"]
    assert calls(events) == [
        {name: call[name] for name in ("id", "name", "arguments")} for call in expected["tool_calls"]
    ]
    (finished,) = (event for event in events if isinstance(event, Finished))
    assert events[-1] == finished
    assert finished.raw == expected["finish_reason_raw"]
    (usage,) = (attrs.asdict(event.usage) for event in events if isinstance(event, UsageReported))
    assert usage == {name: count or 0 for name, count in expected["usage"].items()}
    assert len([event for event in events if isinstance(event, Cited)]) == extra.get("citations", 0)
    thoughts = [event for event in events if isinstance(event, ReasoningDone)]
    assert len([thought for thought in thoughts if thought.signature]) == extra.get("signatures", 0)
    assert len([thought for thought in thoughts if thought.redacted]) == extra.get("redacted", 0)
    items = [json.loads(event.data) for event in events if isinstance(event, ProviderItem)]
    hosted = [item["toolUse"] for item in items if "toolUse" in item]
    assert [(use["toolUseId"], use["name"]) for use in hosted] == [
        (call["id"], call["name"]) for call in extra.get("server_tool_calls", [])
    ]


# -- requests ------------------------------------------------------------------------


@pytest.mark.parametrize("path", cases(lambda record: bool((record["request"]["body"] or {}).get("messages"))))
def test_a_recorded_request(path: Path) -> None:
    """A request of another client, read as a transcript and sent by us, means the same.

    What a transcript can't say is left out of the comparison, and told by a skip once the rest agrees.
    """
    record = json.loads(path.read_text())
    reading = Reading(unquote(urlsplit(record["request"]["url"]).path.split("/")[2]), record["request"]["body"])
    request = reading.request()
    if not reading.messages or isinstance(reading.messages[-1], AssistantMessage):
        pytest.skip("ends with what only the host can say: no transcript does")
    ours: Json = json.loads(bytes(encoder(reading.quirks()).encode(request)))
    assert meaning(ours, like=reading.left) == meaning(reading.left, like=reading.left)
    assert wire(reading.quirks()).path(request).startswith(f"/model/{request.model.partition('/')[2].split(':')[0]}")
    if reading.outside:
        pytest.skip(f"agrees, but for what a transcript can't say: {', '.join(sorted(reading.outside))}")


# What a turn decides, or an option, or the table of hosts: the rest goes through as `extra_body`.
KNOWN = {
    *("modelId", "messages", "system", "inferenceConfig", "toolConfig", "outputConfig"),
    "additionalModelRequestFields",
}


@attrs.define
class Reading:
    """Reads a body as what the engine would have been given to send it.

    Attributes:
        model: by its own name.
        body: as it was sent.
        left: the same without what can't be said.
        outside: what that was.
    """

    model: str
    body: Json
    left: Json = attrs.field(init=False)
    outside: set[str] = attrs.field(factory=set[str], init=False)
    messages: list[Message] = attrs.field(factory=list[Message], init=False)

    def __attrs_post_init__(self) -> None:
        self.left = json.loads(json.dumps(self.body))
        for message in self.left["messages"]:
            message["content"] = [block for block in message["content"] if self.can_be_said(block)]
            if message["role"] == "assistant":
                self.read_answer(message["content"])
            else:
                self.read_user(message["content"])

    def drop(self, parent: Json, name: str, what: str) -> None:
        if parent.pop(name, None) is not None:
            self.outside.add(what)

    def can_be_said(self, block: Json) -> bool:
        """Tell whether a transcript can hold a block; take out of it what it can't."""
        (kind,) = block
        if kind == "toolResult":
            content = [part for part in block[kind]["content"] if self.can_be_said(part)]
            block[kind]["content"] = content or [{"text": "(no output)"}]
        if kind in {"document", "image", "video"} and "bytes" not in block[kind]["source"]:
            self.outside.add("a file somewhere else, or in another form")
            return False
        if kind == "document":
            self.drop(block[kind], "citations", "the wish for citations")
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
            self.outside.add(f"a {kind}")
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
        settlement = Settlement(
            status="error" if result.get("status") == "error" else "completed",
            text="".join(part.text for part in parts if isinstance(part, TextPart)),
            images=tuple(part for part in parts if isinstance(part, ImagePart)),
            files=tuple(part for part in parts if isinstance(part, FilePart)),
        )
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
                    self.outside.add("a thought that nobody signed")
                yield ReasoningPart(id=PartId("r"), text=thought["text"], signature=signature, model=model)
            case {"reasoningContent": {"redactedContent": data}}:
                yield ReasoningPart(id=PartId("r"), text="", redacted=data, model=model)
            case {"toolUse": {"type": "server_tool_use"}} | {"toolResult": _}:
                yield ProviderPart(id=PartId("h"), kind=next(iter(block)), data=dumps(block), model=model)
            case {"toolUse": use}:
                call_id, given = CallId(use["toolUseId"]), dumps(use["input"])
                yield CallPart(id=PartId("c"), call_id=call_id, tool=use["name"], arguments=given)
            case _:
                pass

    def request(self) -> ModelRequest:
        body = self.left
        config = body.get("inferenceConfig") or {}
        self.drop(config, "stopSequences", "stop sequences")
        self.drop(config, "topP", "a top_p")
        answer = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure", {}).get("jsonSchema")
        choice = (body.get("toolConfig") or {}).get("toolChoice") or {}
        if "tool" in choice:
            self.outside.add("the choice of one tool")
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
                self.drop(spec, "strict", "a strict tool")
                schema = json.dumps(spec["inputSchema"]["json"])
                yield ToolSchema(name=spec["name"], description=spec.get("description") or "", schema=schema)
            elif "cachePoint" not in tool:
                self.outside.add("a tool of the host")

    def effort(self) -> Effort | None:
        """Return the effort whose budget is the one that was asked for."""
        fields = self.left.get("additionalModelRequestFields") or {}
        # One client has a name for it that only Bedrock knows.
        if "reasoning_config" in fields:
            fields["thinking"] = fields.pop("reasoning_config")
        for name in [name for name in fields if name != "thinking"]:
            self.drop(fields, name, f"the field {name}")
        budget = fields.get("thinking", {}).get("budget_tokens")
        if not budget:
            self.drop(fields, "thinking", "thinking without a budget")
        efforts = [effort for effort in get_args(Effort) if budget and thinking_budget(effort, 200_000) == budget]
        if budget and not efforts:
            fields["thinking"]["budget_tokens"] = thinking_budget("low", 200_000)
            self.outside.add("a budget without a name of ours")
            return "low"
        return efforts[0] if efforts else None

    def quirks(self) -> Quirks:
        rest = {name: value for name, value in self.left.items() if name not in KNOWN}
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


def meaning(body: Json, like: Json) -> Json:
    """Return what a body says, in one form: what has several forms in one of them, what goes without saying left out."""
    said: Json = json.loads(json.dumps(body))
    said.pop("modelId", None)
    is_marked = '"cachePoint"' in json.dumps(said)
    said = without_points(said)
    said["messages"] = turns(said["messages"])
    config = said.pop("inferenceConfig", None) or {}
    said["inferenceConfig"] = {
        name: value for name, value in config.items() if name in (like.get("inferenceConfig") or {})
    }
    tools: Json = said.pop("toolConfig", None) or {"tools": []}
    tools["tools"] = [tool for tool in tools["tools"] if "toolSpec" in tool]
    if tools.get("toolChoice", {}).keys() <= {"auto", "tool"}:
        tools.pop("toolChoice", None)
    answer = (said.pop("outputConfig", None) or {}).get("textFormat")
    schema = json.loads(answer["structure"]["jsonSchema"]["schema"]) if answer else None
    return {name: value for name, value in said.items() if value} | {
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
    found: list[Json] = []
    for message in messages:
        blocks = [block for block in map(plain, message["content"]) if block]
        if found and found[-1]["role"] == message["role"]:
            found[-1]["content"] += blocks
        else:
            found.append({"role": message["role"], "content": blocks})
    return found


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
