"""Recorded traffic of Gemini and of Vertex: answers against what the SDK reads, requests and what goes back against ours."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import (
    Cited,
    Finished,
    ModelOptions,
    ModelRequest,
    ReasoningChunk,
    ReasoningDone,
    StreamEvent,
    TextChunk,
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
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.gemini.encode import UNSIGNED, encoder
from engine.providers.gemini.wire import wire
from engine.providers.hosts.table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.vertex_anthropic import wire as vertex_anthropic
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.wire_format import WireFormat
from tests.conformance.answers import Part, sorted_out

pytestmark = pytest.mark.conformance

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[4] / "shared") / "wire"
ABSENT = pytest.param(
    None, marks=pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the folder that has it")
)
Json = dict[str, Any]


def recordings() -> Iterator[tuple[Path, Json]]:
    for path in sorted(WIRE.glob("*/*.request.json")):
        record = json.loads(path.read_text())
        if record["protocol"] == "gemini" or record["host"] == "vertex-anthropic":
            yield path, record


def parameters(*, answers: bool, claude: bool | None = None) -> list[Any]:
    """Return a parameter for each recording: of answers or of requests, of Claude's, of Gemini's, of both."""
    found = [
        path
        for path, record in recordings()
        if (record["response"]["status"] == 200 if answers else record["request"]["body"])
        and (claude is None or claude == (record["protocol"] != "gemini"))
    ]
    return [pytest.param(path, id=path.name.removesuffix(".request.json")) for path in found] or [ABSENT]


# -- answers -------------------------------------------------------------------------


def format_of(record: Json) -> WireFormat:
    return wire(Quirks()) if record["protocol"] == "gemini" else vertex_anthropic.wire(Quirks())


def decode(record: Json, body: bytes, seed: int) -> list[StreamEvent]:
    content_type = record["response"]["headers"]["content-type"].partition(";")[0]
    decoder = format_of(record).decoder(content_type)
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


def read(path: Path, seed: int = 0) -> tuple[Json, list[StreamEvent]]:
    record = json.loads(path.read_text())
    return record, decode(record, (path.parent / record["response"]["body_file"]).read_bytes(), seed)


def usage_of(expected: Json, protocol: str) -> Json:
    """The usage as we say it: of the prompt what came from no cache, and what tools read; output with thinking."""
    raw = {name: count or 0 for name, count in expected["usage"].items()}
    if protocol != "gemini":
        return raw
    tools = expected["usage_raw"].get("toolUsePromptTokenCount", 0)
    return {**raw, "input": raw["input"] - raw["cache_read"] + tools, "output": raw["output"] + raw["reasoning"]}


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("path", parameters(answers=True))
def test_a_recorded_answer(path: Path, seed: int) -> None:
    record, events = read(path, seed)
    expected = json.loads(path.with_name(path.name.replace(".request.", ".expected.")).read_text())
    assert "".join(e.text for e in events if isinstance(e, TextChunk)) == expected["text"]
    assert "".join(e.text for e in events if isinstance(e, ReasoningChunk)) == expected["reasoning"]
    started = [e for e in events if isinstance(e, ToolCallStarted)]
    assert [e.tool for e in started] == [call["name"] for call in expected["tool_calls"]]
    for start, call in zip(started, expected["tool_calls"], strict=True):
        # An id of ours says that it is.
        assert start.id == call["id"] if call["id"] else start.id.startswith("#")
    if record["protocol"] == "gemini":
        ends = {e.id: json.loads(e.arguments or "") for e in events if isinstance(e, ToolCallDone)}
        assert [ends[start.id] for start in started] == [call["arguments"] for call in expected["tool_calls"]]
    (finished,) = (e for e in events if isinstance(e, Finished))
    assert events[-1] == finished
    assert finished.raw == expected["finish_reason_raw"]
    assert (finished.reason == "calls") is bool(started)
    usages = [attrs.asdict(e.usage) for e in events if isinstance(e, UsageReported)]
    assert usages[-1] == usage_of(expected, record["protocol"])
    assert len([e for e in events if isinstance(e, Cited)]) == expected["extra"].get("citations", 0)
    signed = [e for e in events if isinstance(e, ReasoningDone) and e.signature]
    assert len(signed) == expected["extra"].get("signatures", 0)


@pytest.mark.parametrize("path", parameters(answers=True, claude=False))
def test_what_the_model_said_goes_back_as_it_said_it(path: Path) -> None:
    """Each signature stands on its part again; nothing is lost but thoughts that nobody signed."""
    record, events = read(path)
    expected = json.loads(path.with_name(path.name.replace(".request.", ".expected.")).read_text())
    calls = [(call["name"], call["arguments"]) for call in expected["tool_calls"]]
    body = (path.parent / record["response"]["body_file"]).read_text()
    said = as_said([part for event in events_in(body) for part in parts_in(event)], calls)
    assert sent_back(sorted_out(events).parts) == said


def events_in(body: str) -> list[Json]:
    """The events of a recorded body, whatever its framing, read in the simplest way."""
    if body.lstrip().startswith(("[", "{")):
        document = json.loads(body)
        return document if isinstance(document, list) else [document]
    return [json.loads(line.removeprefix("data:")) for line in body.splitlines() if line.startswith("data:")]


def parts_in(event: Json) -> list[Json]:
    candidates = event.get("candidates") or [{}]
    parts: list[Json] = candidates[0].get("content", {}).get("parts", [])
    return parts


def as_said(parts: Sequence[Json], calls: Sequence[tuple[str, Json]]) -> list[Json]:
    """The parts of an answer in a row: texts without a signature joined, calls whole, thoughts without one left out."""
    said: list[Json] = []
    left = list(calls)
    for part in parts:
        if part.get("thought") or part == {"text": ""}:
            assert "thoughtSignature" not in part
        elif "functionCall" in part:
            if part["functionCall"].get("name"):  # else more of the call before it
                name, arguments = left.pop(0)
                signature = {"thoughtSignature": part["thoughtSignature"]} if "thoughtSignature" in part else {}
                said.append({"functionCall": {"name": name, "args": arguments}} | signature)
        elif said and part.keys() == {"text"} == said[-1].keys():
            said[-1] = {"text": said[-1]["text"] + part["text"]}
        else:
            said.append(part)
    return said


def sent_back(parts: Sequence[Part]) -> list[Json]:
    """What a request says that the model said, given the parts that a turn made of its answer."""
    answer = AssistantMessage(id=MessageId("a"), parts=tuple(map(transcript_part, parts)), model="google/m")
    hello = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("p"), text="hi"),))
    request = ModelRequest(model="google/m", system="", transcript=Transcript([hello, answer, hello]))
    contents: list[Json] = json.loads(bytes(encoder(Quirks()).encode(request)))["contents"]
    sent = [part for content in contents if content["role"] == "model" for part in content["parts"]]
    for part in sent:
        part.get("functionCall", {}).pop("id", None)
    return sent


def transcript_part(part: Part) -> AssistantPart:
    part_id = PartId("p")
    match part.kind:
        case "text":
            return TextPart(id=part_id, text=part.text)
        case "reasoning":
            return ReasoningPart(id=part_id, text=part.text, signature=part.signature, model="google/m")
        case "call":
            call_id = CallId(f"call{part.provider_id}")
            return CallPart(id=part_id, call_id=call_id, tool=part.tool, arguments=part.text, complete=part.complete)
        case _:
            return ProviderPart(id=part_id, kind=part.item, data=part.text, model="google/m")


# -- requests ------------------------------------------------------------------------


@pytest.mark.parametrize("path", parameters(answers=False, claude=False))
def test_a_recorded_request(path: Path) -> None:
    """A request of another client, read as a transcript and sent by us, means the same.

    What a transcript can't say is left out of the comparison, and told by a skip once the rest agrees.
    """
    record = json.loads(path.read_text())
    reading = Reading(record["host"], camel(record["request"]["body"]), record["request"]["url"])
    request = reading.request()
    ours: Json = json.loads(bytes(encoder(reading.quirks()).encode(request)))
    assert meaning(ours, like=reading.body) == meaning(reading.body, like=reading.body)
    if reading.outside:
        pytest.skip(f"agrees, but for what a transcript can't say: {', '.join(sorted(reading.outside))}")


@pytest.mark.parametrize("path", parameters(answers=False, claude=True))
def test_a_recorded_request_for_claude(path: Path) -> None:
    """Vertex wants the version in the body, and the model nowhere in it."""
    record = json.loads(path.read_text())
    theirs = record["request"]["body"]
    host = BY_NAME["vertex-anthropic"]
    model = re.search(r"/models/([^/:]+)", record["request"]["url"])
    assert model is not None
    assert record["request"]["url"].rpartition(":")[2] == host.path.rpartition(":")[2]
    request = ModelRequest(
        model=f"vertex-anthropic/{model[1]}",
        system="".join(block["text"] for block in theirs["system"]),
        transcript=Transcript(claude_messages(theirs["messages"])),
        tools=tuple(
            ToolSchema(name=tool["name"], description=tool["description"], schema=json.dumps(tool["input_schema"]))
            for tool in theirs.get("tools", [])
        ),
        max_output=theirs["max_tokens"],
    )
    quirks = attrs.evolve(quirks_of(host, model[1]), marks="")
    ours = json.loads(bytes(vertex_anthropic.encoder(quirks).encode(request)))
    # To allow several calls at once is what it does by itself; a result may be a text, or a list of one.
    theirs.get("tool_choice", {}).pop("disable_parallel_tool_use", None)
    for block in (block for message in theirs["messages"] for block in message["content"]):
        if block["type"] == "tool_result":
            (told,) = block["content"]
            block["content"] = told["text"]
    assert ours == theirs


def claude_messages(messages: Sequence[Json]) -> Iterator[Message]:
    tools: dict[str, str] = {}
    for number, message in enumerate(messages):
        said: list[AssistantPart] = []
        results: list[CallResult] = []
        for block in message["content"]:
            match block["type"]:
                case "text":
                    said.append(TextPart(id=PartId("p"), text=block["text"]))
                case "tool_use":
                    tools[block["id"]] = block["name"]
                    call = CallPart(
                        id=PartId("p"), call_id=block["id"], tool=block["name"], arguments=json.dumps(block["input"])
                    )
                    said.append(call)
                case _:
                    told = Settlement(status="completed", text=block["content"][0]["text"])
                    results.append(
                        CallResult(call_id=block["tool_use_id"], tool=tools[block["tool_use_id"]], settlement=told)
                    )
        message_id = MessageId(str(number))
        if results:
            yield ResultsMessage(id=message_id, results=tuple(results))
        elif message["role"] == "user":
            yield UserMessage(id=message_id, parts=tuple(part for part in said if isinstance(part, TextPart)))
        else:
            yield AssistantMessage(id=message_id, parts=tuple(said), model="m")


# What is no name of the API's: its keys are somebody else's.
OPAQUE = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}


def camel(value: Any) -> Any:
    """A body with all its names in camel case: the API takes both."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = {name: re.sub(r"_([a-z])", lambda found: found[1].upper(), name) for name in value}
    return {names[name]: item if names[name] in OPAQUE else camel(item) for name, item in value.items()}


# What a turn, an option or the table of hosts says; the rest goes through as `extra_body`.
KNOWN = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
KNOWN_CONFIG = {"maxOutputTokens", "temperature", "thinkingConfig", "responseMimeType", "responseSchema"}


@attrs.define
class Reading:
    """Reads a body as what the engine would have been given to send it.

    Attributes:
        body: as it was sent, without what can't be said.
        outside: what that was.
    """

    host: str
    body: Json
    url: str
    outside: set[str] = attrs.field(factory=set[str])
    _calls: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])

    @property
    def model(self) -> str:
        found = re.search(r"/models/([^/:]+)", self.url)
        assert found is not None
        return found[1]

    def quirks(self) -> Quirks:
        extra: Json = {name: value for name, value in self.body.items() if name not in KNOWN}
        config = self.body.get("generationConfig", {})
        extra["generationConfig"] = {name: value for name, value in config.items() if name not in KNOWN_CONFIG}
        if hosted := [tool for tool in self.body.get("tools", []) if "functionDeclarations" not in tool]:
            extra["tools"] = hosted
        if "includeServerSideToolInvocations" in self.body.get("toolConfig", {}):
            extra["toolConfig"] = self.body["toolConfig"]
        # Native, although the table offers a tool for the answer where these models can't have both.
        known = quirks_of(BY_NAME["vertex" if self.host == "vertex" else "google"], self.model)
        return attrs.evolve(known, output="native", extra_body=json.dumps(extra))

    def request(self) -> ModelRequest:
        config: Json = self.body.get("generationConfig", {})
        schema = config.get("responseSchema")
        declared = [tool for tools in self.body.get("tools", []) for tool in tools.get("functionDeclarations", [])]
        return ModelRequest(
            model=f"google/{self.model}",
            system="".join(part["text"] for part in self.body.get("systemInstruction", {}).get("parts", [])),
            transcript=Transcript(self._messages()),
            tools=tuple(map(self._tool, declared)),
            max_output=config.get("maxOutputTokens", 8_192),
            output_schema=None if schema is None else json.dumps(lowered(schema)),
            options=ModelOptions(temperature=config.get("temperature"), effort=self._effort(config)),
        )

    def _effort(self, config: Json) -> Any:
        thinking: Json = config.get("thinkingConfig", {})
        if thinking.pop("thinkingBudget", None) is not None:
            self.outside.add("a number of tokens to think with")
        return thinking["thinkingLevel"].lower() if "thinkingLevel" in thinking else None

    def _tool(self, tool: Json) -> ToolSchema:
        schema = tool.get("parametersJsonSchema", tool.get("parameters"))
        return ToolSchema(name=tool["name"], description=tool["description"] or "", schema=json.dumps(lowered(schema)))

    def _messages(self) -> Iterator[Message]:
        for number, content in enumerate(self.body["contents"]):
            message_id = MessageId(str(number))
            if content["role"] == "model":
                parts = tuple(part for said in content["parts"] for part in self._said(said))
                yield AssistantMessage(id=message_id, parts=parts, model=f"google/{self.model}")
            elif "functionResponse" in content["parts"][0]:
                results = tuple(self._result(part["functionResponse"]) for part in content["parts"])
                yield ResultsMessage(id=message_id, results=results)
            else:
                if content["role"] != "user":
                    self.outside.add("a role that there is not")
                    content["role"] = "user"
                yield UserMessage(id=message_id, parts=tuple(map(user_part, content["parts"])))

    def _said(self, part: Json) -> Iterator[AssistantPart]:
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
            self.outside.add("a file somewhere else")
            response["parts"] = [part for part in response["parts"] if "inlineData" in part]
        told = Settlement(
            status="completed",
            text=next(iter(response["response"].values()), ""),
            images=tuple(ImagePart(media_type=each["mimeType"], data=each["data"]) for each in media),
        )
        return CallResult(call_id=CallId(call_id), tool=name, settlement=told)


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
    known = {name: value for name, value in schema.items() if name not in {"property_ordering", "propertyOrdering"}}
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else lowered(value)
        for name, value in known.items()
        if not (name == "required" and not value)
    }


def meaning(body: Json, *, like: Json) -> Json:
    """A body as what it means; what *like* says nothing of counts as our own to choose."""
    config: Json = {**body.get("generationConfig", {})}
    wanted: Json = like.get("generationConfig", {})
    for old, new in (("responseJsonSchema", "responseSchema"),):
        if old in config:
            config[new] = config.pop(old)
    config = {name: value for name, value in config.items() if name in wanted}
    if "responseSchema" in config:
        config["responseSchema"] = lowered(config["responseSchema"])
    if "thinkingConfig" in config:
        config["thinkingConfig"] = {
            name: value.lower() if isinstance(value, str) else value
            for name, value in config["thinkingConfig"].items()
            if name in wanted["thinkingConfig"]
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
    known = {name: value for name, value in body.items() if name not in KNOWN}
    system = [part["text"] for part in body.get("systemInstruction", {}).get("parts", [])]
    mode = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode", "AUTO")
    return known | {
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
        told = [text for text in response["response"].values() if text]
        return {"name": response["name"], "told": told, "parts": response.get("parts", [])}
    if "functionCall" in part:
        call: Json = part["functionCall"]
        signature = part.get("thoughtSignature")
        return {"call": (call["name"], call["args"]), "signature": None if signature == UNSIGNED else signature}
    return part
