"""Recorded traffic of chat hosts: their answers against what the official SDKs read, the requests against ours."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from engine.core.errors import (
    AuthFailed,
    ContentFiltered,
    ContextOverflow,
    InvalidRequest,
    MediaTooLarge,
    ModelNotFound,
    Overloaded,
    ProviderError,
    QuotaExhausted,
    RateLimited,
)
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import (
    Cited,
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
    MediaPart,
    Message,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    Usage,
    UserMessage,
    UserPart,
)
from engine.providers.openai_chat.encode import encoder
from engine.providers.openai_chat.wire import wire
from engine.providers.wire.quirks import MediaKind, Quirks, ReasoningField
from engine.providers.wire.untrusted_json import dumps
from engine.providers.wire.wire_format import HttpReply

pytestmark = pytest.mark.conformance

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[4] / "shared") / "wire"
ABSENT = pytest.param(
    None, marks=pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the folder that has it")
)
PROTOCOLS = {"openai-chat", "groq-chat", "mistral-chat"}
EVERYTHING = frozenset(get_args(MediaKind))
Json = dict[str, Any]


def recordings() -> Iterator[tuple[Path, Json]]:
    for path in sorted(WIRE.glob("*/*.request.json")):
        record = json.loads(path.read_text())
        if record["protocol"] in PROTOCOLS:
            yield path, record


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.request.json')}"


# -- answers ----------------------------------------------------------------------------


def answers() -> list[Any]:
    found = [path for path, record in recordings() if record["response"]["status"] == 200]
    return [pytest.param(path, id=name_of(path)) for path in found] or [ABSENT]


def loaded(path: Path) -> tuple[Json, bytes, Json]:
    record: Json = json.loads(path.read_text())
    body = (path.parent / record["response"]["body_file"]).read_bytes()
    expected: Json = json.loads(path.with_name(path.name.replace(".request.", ".expected.")).read_text())
    return record, body, expected


def quirks_for(record: Json, expected: Json) -> Quirks:
    """How the host counts, by the README's table."""
    host = record["host"]
    model = (record["request"]["body"] or {}).get("model") or expected["extra"].get("model") or ""
    return Quirks(reasoning_apart=host == "xai", cached_apart=host == "azure" and "grok" in model)


def decode(record: Json, body: bytes, quirks: Quirks, seed: int) -> tuple[list[StreamEvent], ProviderError | None]:
    streamed = record["response"]["body_file"].endswith(".sse")
    decoder = wire(quirks).decoder("text/event-stream" if streamed else "application/json")
    assert decoder is not None
    events: list[StreamEvent] = []
    rng, start = random.Random(seed), 0
    try:
        while start < len(body):
            size = len(body) if seed == 0 else rng.choice((1, 2, 7, 100, 1_000))
            events += decoder.feed(body[start : start + size])
            start += size
        while more := decoder.close():
            events += more
    except ProviderError as error:
        return events, error
    assert decoder.is_over
    return events, None


def calls(events: list[StreamEvent]) -> list[Json]:
    found: list[Json] = []
    for start in (event for event in events if isinstance(event, ToolCallStarted)):
        text = "".join(event.text for event in events if isinstance(event, ToolCallChunk) and event.id == start.id)
        ends = [event for event in events if isinstance(event, ToolCallDone) and event.id == start.id]
        whole = ends[0].arguments if ends and ends[0].arguments is not None else text
        found.append({"id": start.id, "name": start.tool, "arguments": json.loads(whole) if ends else text})
    return found


def usage_of(expected: Json, quirks: Quirks) -> Usage | None:
    """The usage by the README's table: `input` without what a cache had to do with, `output` with thinking."""
    raw = {name: count or 0 for name, count in (expected["usage"] or {}).items()}
    if not any(raw.values()):
        return None
    cached = 0 if quirks.cached_apart else raw["cache_read"] + raw["cache_write"]
    return Usage(
        input=max(0, raw["input"] - cached),
        output=raw["output"] + (raw["reasoning"] if quirks.reasoning_apart else 0),
        cache_read=raw["cache_read"],
        cache_write=raw["cache_write"],
        reasoning=raw["reasoning"],
    )


@pytest.mark.parametrize("path", answers())
def test_a_recorded_answer(path: Path) -> None:
    record, body, expected = loaded(path)
    quirks = quirks_for(record, expected)
    events, error = decode(record, body, quirks, 0)
    for seed in (1, 2):
        cut, failed = decode(record, body, quirks, seed)
        assert cut == events
        assert str(failed) == str(error)
    check_end(events, error, expected)
    assert "".join(event.text for event in events if isinstance(event, TextChunk)) == expected["text"]
    assert "".join(event.text for event in events if isinstance(event, ReasoningChunk)) == expected["reasoning"]
    check_calls(calls(events), expected["tool_calls"])
    usages = [event.usage for event in events if isinstance(event, UsageReported)]
    assert (usages[-1] if usages else None) in {usage_of(expected, quirks), Usage() if usages else None}
    check_extra(events, expected["extra"])


def check_end(events: list[StreamEvent], error: ProviderError | None, expected: Json) -> None:
    finished = [event for event in events if isinstance(event, Finished)]
    if expected["error"] is not None:
        assert type(error) is MEANING[expected["error"]["meaning"]]
        assert not finished
        return
    assert error is None
    assert [(each.raw or None) for each in finished] == [expected["finish_reason_raw"] or None]
    assert events[-1] is finished[0]
    assert finished[0].detail == expected["extra"].get("refusal", "")
    has_calls = any(isinstance(event, ToolCallDone) for event in events)
    assert (finished[0].reason == "calls") is has_calls


def check_calls(ours: list[Json], expected: list[Json]) -> None:
    # One host sends a call of nothing with every answer: nobody can run that.
    named = [call for call in expected if call["name"]]
    assert [call["name"] for call in ours] == [call["name"] for call in named]
    for mine, theirs in zip(ours, named, strict=True):
        assert mine["id"]
        assert theirs["id"] in {None, mine["id"]}
        assert mine["arguments"] == (theirs["arguments_raw"] if theirs["arguments"] is None else theirs["arguments"])


def check_extra(events: list[StreamEvent], extra: Json) -> None:
    dones = [event for event in events if isinstance(event, ReasoningDone)]
    assert sum(bool(event.signature) for event in dones) == extra.get("signatures", 0)
    assert sum(isinstance(event, Cited) for event in events) == extra.get("citations", 0)
    tools = [json.loads(event.data) for event in events if isinstance(event, ProviderItem)]
    assert {tool["type"] for tool in tools if "type" in tool} >= {
        call["name"] for call in extra.get("server_tool_calls", ())
    }


# -- errors -----------------------------------------------------------------------------

MEANING: dict[str, type[ProviderError]] = {
    "auth": AuthFailed,
    "billing": QuotaExhausted,
    "content_filter": ContentFiltered,
    "invalid_request": InvalidRequest,
    "not_found": ModelNotFound,
    "overflow": ContextOverflow,
    "overloaded": Overloaded,
    "rate_limit": RateLimited,
    "server_error": Overloaded,
}


def errors() -> list[Any]:
    found = [path for path, record in recordings() if record["response"]["status"] != 200]
    return [pytest.param(path, id=name_of(path)) for path in found] or [ABSENT]


@pytest.mark.parametrize("path", errors())
def test_a_recorded_error(path: Path) -> None:
    record, body, expected = loaded(path)
    response = record["response"]
    headers = {name.lower(): value for name, value in response["headers"].items()}
    error = wire(Quirks()).failure(HttpReply(status=response["status"], headers=headers, body=body), 0.0)
    # Of a picture that it can't read, the engine knows better what to do about it.
    assert type(error) in {MEANING[expected["error"]["meaning"]], MediaTooLarge}
    assert error.status == expected["error"]["status"]
    assert " ".join(expected["error"]["message"].split())[:500] in str(error)


# -- requests ---------------------------------------------------------------------------


def requests() -> list[Any]:
    found = [path for path, record in recordings() if (record["request"]["body"] or {}).get("messages")]
    return [pytest.param(path, id=name_of(path)) for path in found] or [ABSENT]


@pytest.mark.parametrize("path", requests())
def test_a_recorded_request(path: Path) -> None:
    """The same conversation, encoded by us, means what the other client has sent."""
    reading = Reading(json.loads(path.read_text())["request"]["body"])
    if not reading.messages or isinstance(reading.messages[-1], AssistantMessage):
        pytest.skip("ends with the model's own words: no transcript does")
    request = reading.request()
    ours: Json = json.loads(bytes(encoder(reading.quirks()).encode(request)))
    assert meaning(ours, like=reading.left) == meaning(reading.left, like=reading.left)
    if reading.outside:
        pytest.skip(f"agrees, but for what a transcript can't say: {', '.join(sorted(reading.outside))}")


# What we say of our own accord, where the other client says nothing.
OURS = {"stream", "stream_options", "max_tokens", "tool_choice"}
CAPS = ("max_completion_tokens", "max_tokens")
# What a turn decides, or an option, or the table of hosts: the rest goes through as `extra_body`.
KNOWN = OURS | {"model", "messages", "tools", "response_format", "temperature", *CAPS}
LEGACY = ("functions", "function_call")
THOUGHTS: tuple[ReasoningField, ...] = ("reasoning_content", "reasoning", "reasoning_details")
NO_ARGUMENTS = {"type": "object", "properties": {}}


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
    system: list[str] = attrs.field(factory=list[str], init=False)
    messages: list[Message] = attrs.field(factory=list[Message], init=False)

    def __attrs_post_init__(self) -> None:
        told = json.loads(json.dumps(self.body))
        self.left = {name: value for name, value in told.items() if value is not None}
        for name in LEGACY:
            self.drop(self.left, name, "functions from before there were tools")
        spoken = [message for message in self.left["messages"] if message["role"] not in {"system", "developer"}]
        if spoken and spoken[0]["role"] != "user":
            self.left["messages"].insert(
                self.left["messages"].index(spoken[0]), {"role": "user", "content": "(not in the recording)"}
            )
            self.outside.add("a beginning without a user")
        self.left["messages"] = [message for message in self.left["messages"] if self.read(message)]
        if not self.left.get("tools"):
            self.left.pop("tools", None)
        if not isinstance(self.left.get("tool_choice", ""), str):
            self.drop(self.left, "tool_choice", "the choice of one tool")
        form = self.left.get("response_format", {"json_schema": {"schema": {}}})
        if "schema" not in form.get("json_schema", {}):
            self.drop(self.left, "response_format", "an answer in another form than text or by a schema")
        if not 0 <= self.left.get("temperature", 0) <= 2:
            self.drop(self.left, "temperature", "a temperature that no model has")

    @property
    def model(self) -> str:
        return f"host/{self.body['model']}"

    def drop(self, parent: Json, name: str, what: str) -> None:
        if parent.pop(name, None) is not None:
            self.outside.add(what)

    def read(self, message: Json) -> bool:
        """Take a message; tell whether it can be said."""
        self.drop(message, "name", "the name of a speaker")
        self.drop(message, "cache_control", "a cache marker of a message as a whole")
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
                self.outside.add(f"a message of the role {role}")
                return False

    def read_system(self, message: Json) -> bool:
        if self.messages or self.system:
            self.outside.add("a second system prompt")
            return False
        self.system += [part["text"] for part in parts_of(message["content"])]
        return True

    def user_parts(self, message: Json) -> list[UserPart]:
        found: list[UserPart] = []
        parts, message["content"] = parts_of(message["content"]), list[Json]()
        for part in parts:
            self.drop(part, "cache_control", "a cache marker in another place")
            self.drop(part, "prompt_cache_breakpoint", "a cache marker in another place")
            if part["type"] == "text":
                found.append(TextPart(id=PartId("t"), text=part["text"]))
            elif (media := self.media(part)) is not None:
                found.append(media)
            else:
                continue
            message["content"].append(part)
        return found

    def media(self, part: Json) -> MediaPart | None:
        held = part.get(part["type"])
        facts: Json = held if isinstance(held, dict) else {"url": held}
        url: str = facts.get("url") or facts.get("file_data") or ""
        if part["type"] not in {"image_url", "file", "video_url"}:
            self.outside.add(f"a part of the kind {part['type']}")
            return None
        if not url.startswith("data:"):
            self.outside.add("a file somewhere else")
            return None
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if part["type"] == "image_url":
            part["image_url"] = {"url": url}
            return ImagePart(media_type=media_type, data=data)
        return FilePart(media_type=media_type, data=data, name=facts.get("filename") or "")

    def read_answer(self, message: Json) -> bool:
        parts: list[AssistantPart] = []
        self.drop(message, "annotations", "annotations")
        self.drop(message, "refusal", "a refusal")
        if message.get("reasoning") == message.get("reasoning_content"):
            message.pop("reasoning", None)  # the same thought twice
        thought = message.get("reasoning_content") or message.get("reasoning")
        if thought:
            parts.append(ReasoningPart(id=PartId("r"), text=thought, model=self.model))
        parts += self.thoughts(message)
        for part in parts_of(message.get("content")):
            self.drop(part, "cache_control", "a cache marker in another place")
            match part["type"]:
                case "text":
                    parts.append(TextPart(id=PartId("t"), text=part["text"]))
                case "thinking":
                    thought = "".join(piece["text"] for piece in part["thinking"])
                    parts.append(ReasoningPart(id=PartId("r"), text=thought, model=self.model))
                case kind:
                    self.outside.add(f"a part of the kind {kind}")
                    message["content"].remove(part)
        calls = [call for call in message.get("tool_calls") or [] if "function" in call]
        if len(calls) < len(message.get("tool_calls") or []):
            self.outside.add("a call of another kind than a function's")
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
            self.outside.add("an answer of nothing")
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
            self.outside.add("a result without its call")
            return False
        parts = self.user_parts(message)
        settlement = Settlement(
            status="completed",
            text="".join(part.text for part in parts if isinstance(part, TextPart)),
            images=tuple(part for part in parts if isinstance(part, ImagePart)),
            files=tuple(part for part in parts if isinstance(part, FilePart)),
        )
        result = CallResult(call_id=CallId(message["tool_call_id"]), tool="", settlement=settlement)
        if isinstance(last := self.messages[-1], ResultsMessage):
            self.messages[-1] = attrs.evolve(last, results=(*last.results, result))
        else:
            self.messages.append(ResultsMessage(id=MessageId("r"), results=(result,)))
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
                self.outside.add("a strict tool")
            schema = json.dumps(function.get("parameters") or NO_ARGUMENTS)
            yield ToolSchema(name=function["name"], description=function.get("description") or "", schema=schema)

    def quirks(self) -> Quirks:
        """A host that takes what the client has sent."""
        body = self.left
        said = {name for message in body["messages"] for name in message if message["role"] == "assistant"}
        thinks = any(
            part["type"] == "thinking" for message in body["messages"] for part in parts_of(message.get("content"))
        )
        extra = {name: value for name, value in body.items() if name not in KNOWN}
        extra["tools"] = [tool for tool in body.get("tools") or [] if tool["type"] != "function"]
        fields: tuple[ReasoningField, ...] = (*(name for name in THOUGHTS if name in said), "")
        return Quirks(
            user_media=EVERYTHING,
            result_media=EVERYTHING,
            max_tokens_field=next((name for name in CAPS if name in body), "max_tokens"),
            system_role="developer" if body["messages"][0]["role"] == "developer" else "system",
            stream_usage="stream_options" in body,
            reasoning_field="content" if thinks else fields[0],
            extra_body=json.dumps(extra),
        )


def parts_of(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def meaning(body: Json, *, like: Json) -> Json:
    """What a body means: the same for all ways to say it, and without what *like* says nothing of and we always say."""
    said = {name: value for name, value in body.items() if name in like or name not in OURS}
    # A stream tells what a document does; and to choose a tool freely is what models do.
    said.pop("stream", None)
    if said.get("tool_choice") == "auto":
        said.pop("tool_choice")
    names: dict[str, str] = {}
    messages = [message_meaning(message, names) for message in body["messages"]]
    # A call without a result gets one from us; results are in the order of their calls.
    said["messages"] = [message for message in messages if message["text"] != "(noresultwasrecorded)"]
    said["messages"] = in_call_order(said["messages"])
    if tools := said.get("tools"):
        said["tools"] = sorted(map(tool_meaning, tools), key=lambda tool: str(tool["name"]))
    if "response_format" in said:
        said["response_format"] = open_schema(said["response_format"]["json_schema"]["schema"])
    return said


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


def arguments_meaning(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:  # broken ones are refused: they go back as none
        return {}


def tool_meaning(tool: Json) -> Json:
    if tool["type"] != "function":
        return {"name": tool["type"], "tool": tool}
    function = tool["function"]
    return {
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or NO_ARGUMENTS,
    }


def open_schema(value: Any) -> Any:
    """A schema without whether its objects may have more, and in which order they are."""
    if isinstance(value, dict):
        return {
            name: sorted(each) if name == "required" else open_schema(each)
            for name, each in value.items()
            if name != "additionalProperties"
        }
    return [open_schema(each) for each in value] if isinstance(value, list) else value
