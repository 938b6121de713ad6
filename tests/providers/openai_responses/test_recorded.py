"""Recorded traffic of the Responses API: its answers against what the official SDK reads, its requests against ours."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

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
    TextDone,
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
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
    UserPart,
)
from engine.providers.hosts.table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.openai_responses.encode import encoder
from engine.providers.openai_responses.wire import wire
from engine.providers.wire.quirks import MediaKind, Quirks
from engine.providers.wire.untrusted_json import dumps

pytestmark = pytest.mark.conformance

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[4] / "shared") / "wire"
ABSENT = pytest.param(
    None, marks=pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the folder that has it")
)
EVERYTHING = frozenset(get_args(MediaKind))
Json = dict[str, Any]


def recordings() -> Iterator[tuple[Path, Json]]:
    for path in sorted(WIRE.glob("*/*.request.json")):
        record = json.loads(path.read_text())
        if record["protocol"] == "openai-responses":
            yield path, record


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.request.json')}"


# -- answers -------------------------------------------------------------------------


def answers() -> list[Any]:
    found = [path for path, record in recordings() if record["response"]["status"] == 200]
    return [pytest.param(path, id=name_of(path)) for path in found] or [ABSENT]


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


def texts(events: list[StreamEvent]) -> str:
    """All text; what a block's end says of it counts."""
    blocks: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextChunk):
            blocks[event.id] = blocks.get(event.id, "") + event.text
        elif isinstance(event, TextDone) and event.text is not None:
            blocks[event.id] = event.text
    return "".join(blocks.values())


def calls(events: list[StreamEvent]) -> list[Json]:
    found: list[Json] = []
    for start in (event for event in events if isinstance(event, ToolCallStarted)):
        text = "".join(event.text for event in events if isinstance(event, ToolCallChunk) and event.id == start.id)
        (end,) = (event for event in events if isinstance(event, ToolCallDone) and event.id == start.id)
        arguments = json.loads(end.arguments if end.arguments is not None else text)
        found.append({"id": start.id, "name": end.tool or start.tool, "arguments": arguments})
    return found


def expected_call(call: Json) -> Json:
    # Free text is shown as the only argument of an object.
    arguments = {"input": call["arguments_raw"]} if call.get("kind") == "custom" else call["arguments"]
    return {"id": call["id"], "name": call["name"], "arguments": arguments}


def usage_of(expected: Json) -> Json:
    """The usage as we say it: `input` is what no cache had to do with."""
    raw = {name: count or 0 for name, count in expected["usage"].items()}
    return {**raw, "input": raw["input"] - raw["cache_read"] - raw["cache_write"]}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("path", answers())
def test_a_recorded_answer(path: Path, seed: int) -> None:
    record = json.loads(path.read_text())
    expected = json.loads(path.with_name(path.name.replace(".request.", ".expected.")).read_text())
    events = decode(record, (path.parent / record["response"]["body_file"]).read_bytes(), seed)
    extra: Json = expected["extra"]
    assert texts(events) == expected["text"]
    assert "".join(e.text for e in events if isinstance(e, ReasoningChunk)) == expected["reasoning"]
    assert calls(events) == [expected_call(call) for call in expected["tool_calls"]]
    (finished,) = (event for event in events if isinstance(event, Finished))
    assert events[-1] == finished
    assert (finished.raw, finished.detail) == (expected["finish_reason_raw"], extra.get("refusal", ""))
    usages = [attrs.asdict(event.usage) for event in events if isinstance(event, UsageReported)]
    assert usages[-1:] == ([usage_of(expected)] if expected["usage_raw"] else [])
    assert len([e for e in events if isinstance(e, Cited)]) == extra.get("citations", 0)
    signatures = [json.loads(e.signature) for e in events if isinstance(e, ReasoningDone) and e.signature]
    assert len([s for s in signatures if "encrypted_content" in s]) == extra.get("signatures", 0)
    items = {(e.kind, json.loads(e.data).get("id")) for e in events if isinstance(e, ProviderItem)}
    assert items >= {(call["name"], call["id"]) for call in extra.get("server_tool_calls", [])}
    phases = [json.loads(e.data)["phase"] for e in events if isinstance(e, ProviderItem) and e.kind == "phase"]
    assert phases == [phase for phase in extra.get("phases", []) if phase]


# -- requests ------------------------------------------------------------------------


def requests() -> list[Any]:
    found = [path for path, record in recordings() if (record["request"]["body"] or {}).get("input")]
    return [pytest.param(path, id=name_of(path)) for path in found] or [ABSENT]


@pytest.mark.parametrize("path", requests())
def test_a_recorded_request(path: Path) -> None:
    """A request of another client, read as a transcript and sent by us, means the same.

    What a transcript can't say is left out of the comparison, and told by a skip once the rest agrees.
    """
    record = json.loads(path.read_text())
    theirs: Json = record["request"]["body"]
    if any(theirs.get(name) for name in STORED):
        pytest.skip("goes on with what the host has stored: no transcript does")
    reading = Reading(record["host"], theirs)
    request, quirks = reading.request(), reading.quirks()
    if isinstance(request.transcript[-1], AssistantMessage):
        pytest.skip("ends with an answer to what only the host calls: no transcript does")
    ours: Json = json.loads(bytes(encoder(quirks).encode(request)))
    assert meaning(ours, like=theirs) == meaning(reading.left, like=theirs)
    if reading.outside:
        pytest.skip(f"agrees, but for what a transcript can't say: {', '.join(sorted(reading.outside))}")


STORED = ("previous_response_id", "conversation", "prompt")
NO_ARGUMENTS = {"type": "object", "properties": {}}
# What we say of our own accord, where the other client says nothing.
OURS = {"stream", "store", "include", "reasoning", "max_output_tokens", "tool_choice", "parallel_tool_calls"}
# What a turn decides, or an option, or the table of hosts: the rest goes through as `extra_body`.
KNOWN = OURS | {"model", "input", "instructions", "tools", "text", "temperature", "prompt_cache_key"}


@attrs.define
class Reading:
    """Reads a body as what the engine would have been given to send it.

    Attributes:
        body: as it was sent.
        left: the same without what can't be said.
        outside: what that was.
    """

    host: str
    body: Json
    left: Json = attrs.field(init=False)
    outside: set[str] = attrs.field(factory=set[str], init=False)
    system: list[str] = attrs.field(factory=list[str], init=False)
    role: Literal["system", "developer"] = attrs.field(default="system", init=False)
    messages: list[Message] = attrs.field(factory=list[Message], init=False)
    answer: list[AssistantPart] = attrs.field(factory=list[AssistantPart], init=False)

    def __attrs_post_init__(self) -> None:
        self.left = json.loads(json.dumps(self.body))
        if isinstance(self.left["input"], str):
            self.left["input"] = [{"role": "user", "content": self.left["input"]}]
        first = self.left["input"][0]
        if first.get("role") == "assistant" or first.get("type", "message") != "message":
            self.left["input"].insert(0, {"role": "user", "content": "(not in the recording)"})
            self.outside.add("a beginning without a user")
        self.left["input"] = [item for item in self.left["input"] if self.read(item)]
        self.end_answer()

    @property
    def model(self) -> str:
        return f"host/{self.body['model']}"

    def drop(self, parent: Json, name: str, what: str) -> None:
        if parent.pop(name, None) is not None:
            self.outside.add(what)

    def read(self, item: Json) -> bool:
        """Take an item; tell whether it can be said."""
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
            self.drop(item, "namespace", "the namespace of a call")
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
            self.outside.add("a second system prompt")
            return False
        self.role = "developer" if item["role"] == "developer" else "system"
        self.system += [part["text"] for part in parts_of(item)]
        return True

    def read_answer(self, item: Json) -> None:
        said = [part for part in parts_of(item) if part["type"] == "output_text"]
        if len(said) < len(parts_of(item)):
            self.outside.add("a refusal")
        item["content"] = [{"type": "output_text", "text": part["text"]} for part in said]
        self.answer += [TextPart(id=PartId("t"), text=part["text"]) for part in said]
        # It ends the message, whatever it says.
        phase = {"phase": item["phase"]} if item.get("phase") else {}
        self.answer.append(ProviderPart(id=PartId("i"), kind="phase", data=dumps(phase), model=self.model))

    def user_parts(self, item: Json) -> list[UserPart]:
        found: list[UserPart] = []
        parts = parts_of(item)
        item["content"] = []
        for part in parts:
            self.drop(part, "prompt_cache_breakpoint", "a cache marker in a message")
            if part["type"] == "input_text":
                found.append(TextPart(id=PartId("t"), text=part["text"]))
            elif (media := self.media(part)) is not None:
                found.append(media)
            else:
                continue
            item["content"].append(part)
        return found

    def media(self, part: Json) -> MediaPart | None:
        url: str = part.get("image_url") or part.get("file_data") or ""
        if not url.startswith("data:"):
            self.outside.add("a file somewhere else")
            return None
        media_type, _, data = url.removeprefix("data:").partition(";base64,")
        if part["type"] == "input_image":
            return ImagePart(media_type=media_type, data=data)
        return FilePart(media_type=media_type, data=data, name=part["filename"])

    def read_result(self, item: Json) -> bool:
        if not any(isinstance(each, AssistantMessage) for each in self.messages[-2:]):
            self.outside.add("a result without its call")
            return False
        output, text, media = item["output"], "", list[MediaPart]()
        if isinstance(output, str):
            text = output
        else:
            found = self.user_parts({"content": output})
            item["output"] = [part for part in output if part["type"] == "input_text" or self.media(part)]
            text = "".join(part.text for part in found if isinstance(part, TextPart))
            media = [part for part in found if not isinstance(part, TextPart)]
            item["output"] = item["output"] or "(no output)"
        settlement = Settlement(
            status="completed",
            text=text,
            images=tuple(part for part in media if isinstance(part, ImagePart)),
            files=tuple(part for part in media if isinstance(part, FilePart)),
        )
        result = CallResult(call_id=CallId(item["call_id"]), tool="", settlement=settlement)
        if self.messages and isinstance(last := self.messages[-1], ResultsMessage):
            self.messages[-1] = attrs.evolve(last, results=(*last.results, result))
        else:
            self.messages.append(ResultsMessage(id=MessageId("r"), results=(result,)))
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
            self.drop(body, "temperature", "a temperature that no model has")
        if (body.get("max_output_tokens") or 16) < 16:
            self.drop(body, "max_output_tokens", "fewer tokens than the host allows")
        if isinstance(body.get("tool_choice"), dict):
            self.drop(body, "tool_choice", "the choice of one tool")
        if body["reasoning"].get("effort") not in get_args(Effort):
            self.drop(body["reasoning"], "effort", "an effort without a name of ours")
        if "schema" not in (body["text"].get("format") or {}):
            self.drop(body["text"], "format", "an answer in another form than text or by a schema")

    def tools(self) -> Iterator[ToolSchema]:
        for tool in self.left.get("tools") or []:
            if tool["type"] == "function":
                self.drop(tool, "defer_loading", "a tool that is loaded late")
                if tool.get("strict"):
                    self.outside.add("a strict tool")
                schema = json.dumps(tool.get("parameters") or NO_ARGUMENTS)
                yield ToolSchema(name=tool["name"], description=tool.get("description") or "", schema=schema)

    def quirks(self) -> Quirks:
        """The host's own, with what the client chose otherwise."""
        row = BY_NAME.get(self.host, BY_NAME["openai"])
        body = self.left
        extra = {name: value for name, value in body.items() if name not in KNOWN}
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


def parts_of(item: Json) -> list[Json]:
    content = item["content"]
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    parts: list[Json] = [{"type": kind, "text": content}] if isinstance(content, str) else content
    return parts


def meaning(body: Json, *, like: Json) -> Json:
    """What a body means: the same for all ways to say it, and without what *like* says nothing of and we always say."""
    told = {name: value for name, value in body.items() if value not in (None, [], {})}
    said = {name: value for name, value in told.items() if like.get(name) is not None or name not in OURS}
    names: dict[str, str] = {}
    said["input"] = [item_meaning(item, names) for item in body["input"]]
    # A stream tells what a document does.
    said.pop("stream", None)
    if not said.get("instructions"):
        said.pop("instructions", None)
    if tools := said.get("tools"):
        said["tools"] = sorted(
            (tool_meaning(tool) for tool in tools), key=lambda tool: json.dumps(tool, sort_keys=True)
        )
    if "format" in said.get("text", {}):
        form = said["text"]["format"]
        said["text"] = {**said["text"], "format": {"schema": open_schema(form["schema"])}}
    if "reasoning" in said:
        said["reasoning"] = {name: value for name, value in said["reasoning"].items() if name in like["reasoning"]}
    without_null: Json = without_nulls(said)
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


def arguments_meaning(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:  # broken ones are refused: they go back as none
        return {}


def tool_meaning(tool: Json) -> Json:
    if tool["type"] != "function":
        return tool
    kept = {name: value for name, value in tool.items() if name != "strict"}
    return kept | {"description": tool.get("description") or "", "parameters": tool.get("parameters") or NO_ARGUMENTS}


def open_schema(value: Any) -> Any:
    """A schema without whether its objects may have more, and in which order they are."""
    if isinstance(value, dict):
        return {
            name: sorted(each) if name == "required" else open_schema(each)
            for name, each in value.items()
            if name != "additionalProperties"
        }
    return [open_schema(each) for each in value] if isinstance(value, list) else value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
