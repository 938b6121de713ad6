"""Recorded traffic of Cohere's chat API: its answers against what the official SDK reads, its requests against ours."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

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
    StreamEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    ToolChoice,
    ToolSchema,
    UsageReported,
)
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
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
from engine.providers.cohere.encode import encoder
from engine.providers.cohere.wire import wire
from engine.providers.hosts.table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.wire.quirks import Quirks, thinking_budget

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
        if (record := json.loads(path.read_text()))["protocol"] == "cohere-v2" and fits(record)
    ]
    return found or [ABSENT]


# -- answers -------------------------------------------------------------------------


def decode(record: Json, body: bytes, seed: int) -> list[StreamEvent]:
    streamed = record["response"]["body_file"].endswith(".sse")
    decoder = wire(Quirks()).decoder("text/event-stream" if streamed else "application/json")
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
    raw = {name: count or 0 for name, count in expected["usage"].items()}
    assert usage == raw | {"input": max(0, raw["input"] - raw["cache_read"])}
    assert len([event for event in events if isinstance(event, Cited)]) == extra.get("citations", 0)
    plans = [json.loads(event.data)["tool_plan"] for event in events if isinstance(event, ProviderItem)]
    assert "".join(plans) == extra.get("tool_plan", "")


# -- requests ------------------------------------------------------------------------


@pytest.mark.parametrize("path", cases(lambda record: bool((record["request"]["body"] or {}).get("messages"))))
def test_a_recorded_request(path: Path) -> None:
    """A request of another client, read as a transcript and sent by us, means the same.

    What a transcript can't say is left out of the comparison, and told by a skip once the rest agrees.
    """
    reading = Reading(json.loads(path.read_text())["request"]["body"])
    request = reading.request()
    if not reading.messages or isinstance(reading.messages[-1], AssistantMessage):
        pytest.skip("ends with what only the host can say: no transcript does")
    ours: Json = json.loads(bytes(encoder(reading.quirks()).encode(request)))
    assert meaning(ours, like=reading.left) == meaning(reading.left, like=reading.left)
    if reading.outside:
        pytest.skip(f"agrees, but for what a transcript can't say: {', '.join(sorted(reading.outside))}")


# What a turn decides, or an option, or the table of hosts: the rest goes through as `extra_body`.
KNOWN = {
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
class Reading:
    """Reads a body as what the engine would have been given to send it.

    Attributes:
        body: as it was sent.
        left: the same without what can't be said.
        outside: what that was.
    """

    body: Json
    left: Json = attrs.field(init=False)
    outside: set[str] = attrs.field(factory=set[str], init=False)
    system: str = attrs.field(default="", init=False)
    messages: list[Message] = attrs.field(factory=list[Message], init=False)

    def __attrs_post_init__(self) -> None:
        self.left = json.loads(json.dumps(self.body))
        for message in self.left["messages"]:
            match message["role"]:
                case "system":
                    self.system += "".join(block["text"] for block in blocks_of(message))
                case "user":
                    message["content"] = [block for block in blocks_of(message) if self.can_be_said(block)]
                    parts = tuple(map(user_part, message["content"]))
                    self.messages.append(UserMessage(id=MessageId("u"), parts=parts))
                case "assistant":
                    said = tuple(self.answer_parts(message))
                    made = AssistantMessage(id=MessageId("a"), parts=said, model=self.model, finish="stop")
                    self.messages.append(made)
                case _:
                    self.read_result(message)

    @property
    def model(self) -> str:
        return f"cohere/{self.body['model']}"

    def can_be_said(self, block: Json) -> bool:
        if block["type"] == "text" or block.get("image_url", {}).get("url", "").startswith("data:"):
            return True
        self.outside.add("a picture somewhere else")
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
        settlement = Settlement(status="completed", text=told_by(message))
        result = CallResult(call_id=CallId(message["tool_call_id"]), tool="", settlement=settlement)
        if self.messages and isinstance(last := self.messages[-1], ResultsMessage):
            self.messages[-1] = attrs.evolve(last, results=(*last.results, result))
        else:
            self.messages.append(ResultsMessage(id=MessageId("r"), results=(result,)))

    def request(self) -> ModelRequest:
        body = self.left
        form = body.get("response_format") or {}
        if form and "json_schema" not in form:
            self.outside.add("an answer in JSON without a schema")
        thinking = body.get("thinking") or {}
        budget = thinking.get("token_budget")
        efforts = [effort for effort in get_args(Effort) if budget and thinking_budget(effort, 200_000) == budget]
        if thinking and not efforts and thinking.get("type") != "disabled":
            self.outside.add("a budget without a name of ours")
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
        rest = {name: value for name, value in self.left.items() if name not in KNOWN}
        return attrs.evolve(
            quirks_of(BY_NAME["cohere"], self.body["model"]),
            user_media=frozenset({"image"}),
            output="native",
            thinking_budget=True,
            extra_body=json.dumps(rest) if rest else "",
        )


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
        function = tool["function"]
        schema = json.dumps(function.get("parameters") or {"type": "object"})
        yield ToolSchema(name=function["name"], description=function.get("description") or "", schema=schema)


def told_by(message: Json) -> str:
    """Return what a result says. A string is a document with that for its content: so the host itself cites it."""
    said: list[str] = []
    for block in blocks_of(message):
        data = block["text"] if block["type"] == "text" else block["document"]["data"]
        is_wrapped = isinstance(data, dict) and data.keys() <= {"content", "error"}
        said.append("".join(data.values()) if is_wrapped else data if isinstance(data, str) else json.dumps(data))
    return "".join(said)


def meaning(body: Json, like: Json) -> Json:
    """Return what a body says, in one form: what has several forms in one of them, what goes without saying left out."""
    said: Json = {name: value for name, value in body.items() if name in like or name == "messages"}
    said["messages"] = [plain(message) for message in body["messages"]]
    said["stream"] = True
    for tool in said.get("tools", []):
        tool["function"].setdefault("description", "")
        tool["function"].setdefault("parameters", {"type": "object"})
    return said


def plain(message: Json) -> Json:
    if message["role"] == "tool":
        return message | {"content": told_by(message)}
    content = [block for block in blocks_of(message) if block.get("text") != ""]
    rest = {name: value for name, value in message.items() if name != "content" and value}
    if not message.get("tool_calls"):
        return rest | {"content": content}
    # Words beside calls are refused today; older clients sent them.
    words = [block["text"] for block in content if block["type"] == "text"]
    plan = "\n".join(filter(None, [message.get("tool_plan", ""), *words]))
    return rest | {"tool_plan": plan, "thoughts": [] if plan else content}
