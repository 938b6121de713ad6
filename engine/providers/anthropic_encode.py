"""The neutral transcript as a request to the Anthropic Messages API.

The API wants turns of user and assistant by turns, a user's first; the results of
an assistant's calls at the very start of the turn after it, each call with one and
no result without its call; no empty text; no thinking that it has not signed, and
none at the end of a turn. A transcript is already true to most of that. What it
may still lack is repaired here rather than refused, since a session whose every
request is refused is lost: a call without a result gets one which says so, a
result without a call is left out, and so is a hosted tool's work of which one half
is missing. Anything that would change what was *said* is not repaired: a
transcript that begins with the model, or ends with it other than by a pause, is a
`ConfigError`. (To end with the model's text is a prefill, which asks it to go on in
mid-sentence. No transcript of ours means that, and newer models refuse it.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import attrs

from engine.errors import ConfigError
from engine.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    ImagePart,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
    UserPart,
)
from engine.model import ModelRequest, ToolChoice, ToolSchema
from engine.providers.jsonvalue import Json, as_object, dumps, loads, text

PREFIX = "anthropic/"

_TOOL_CHOICE: dict[ToolChoice, str] = {"auto": "auto", "none": "none", "required": "any"}
_IMAGE_TYPES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_THINKING = {"thinking", "redacted_thinking"}
_SAFE_ID = re.compile(r"(?!x-)[A-Za-z0-9_-]+")
_UNSAFE_IN_TOOL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_TOOL = 128


def encode(request: ModelRequest) -> bytes:
    """Return the body for *request*; raise `ConfigError` for a transcript that can't be one."""
    turns = _turns(request)
    body: Json = {
        "model": request.model.removeprefix(PREFIX),
        "max_tokens": request.max_output,
        "stream": True,
    }
    if request.system.strip():
        body["system"] = request.system
    if tools := _tools(request, turns):
        choice = request.tool_choice if request.tools else "none"
        body |= {"tools": tools, "tool_choice": {"type": _TOOL_CHOICE[choice]}}
    if request.output_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": _schema(request.output_schema, "output")}}
    body["messages"] = [{"role": turn.role, "content": turn.blocks} for turn in turns]
    # A lone surrogate has no UTF-8, and its escape is refused as invalid: "?" it is.
    return dumps(body).encode("utf-8", "replace")


def wire_id(call_id: str) -> str:
    """Return *call_id* in the characters that the API allows; different ids stay different.

    Almost all ids pass unchanged. One that has other characters, or looks as if it
    had been through here already, is spelt out behind an `x-`.
    """
    if _SAFE_ID.fullmatch(call_id):
        return call_id
    return "x-" + "".join(char if char.isascii() and char.isalnum() else f"_{ord(char):x}_" for char in call_id)


# -- turns ---------------------------------------------------------------------


@attrs.define(eq=False)
class _Turn:
    role: str
    blocks: list[Json]
    paused: bool = False


@attrs.define(eq=False)
class _Turns:
    """Gathers blocks into turns; a call's result waits for the end of its results."""

    turns: list[_Turn] = attrs.field(factory=list[_Turn])
    calls: Sequence[CallPart] = ()
    results: dict[str, CallResult] = attrs.field(factory=dict[str, CallResult])

    def add(self, role: str, blocks: list[Json], *, paused: bool = False) -> None:
        if not blocks:
            return
        if not self.turns or self.turns[-1].role != role:
            self.turns.append(_Turn(role, []))
        self.turns[-1].blocks += blocks
        self.turns[-1].paused = paused

    def take_results(self, results: Iterable[CallResult]) -> None:
        for result in results:
            self.results.setdefault(result.call_id, result)

    def answer_calls(self) -> None:
        self.add("user", [_result_block(call, self.results.get(call.call_id)) for call in self.calls])
        self.calls = ()
        self.results.clear()


def _turns(request: ModelRequest) -> list[_Turn]:
    gathered = _Turns()
    for message in request.transcript:
        match message:
            case ResultsMessage():
                gathered.take_results(message.results)
            case UserMessage():
                gathered.answer_calls()
                gathered.add("user", list(_user_blocks(message.parts)))
            case AssistantMessage():
                gathered.answer_calls()
                blocks = [block for part in message.parts for block in _assistant_blocks(part, request)]
                gathered.add("assistant", blocks, paused=message.finish == "pause")
                gathered.calls = message.calls
            case _:
                assert_never(message)
    gathered.answer_calls()
    return _checked(_pruned(gathered.turns))


def _pruned(turns: list[_Turn]) -> list[_Turn]:
    """Take away what may not stand where it stands, and the turns that this empties."""
    pruned = _Turns()
    for turn in turns:
        if turn.role == "assistant":
            is_open = turn.paused and turn is turns[-1]
            turn.blocks = _without_halves(turn.blocks, may_be_open=is_open)
            while turn.blocks and turn.blocks[-1]["type"] in _THINKING:
                turn.blocks.pop()
        pruned.add(turn.role, turn.blocks, paused=turn.paused)
    return pruned.turns


def _without_halves(blocks: list[Json], *, may_be_open: bool) -> list[Json]:
    """Leave out a hosted tool's call without its result, and the reverse.

    The last call of a paused turn has none yet: the host goes on with it.
    """
    asked = {text(block, "id") for block in blocks if _is_hosted_call(block)}
    answered = {text(block, "tool_use_id") for block in blocks if _is_hosted_result(block)}

    def is_whole(block: Json) -> bool:
        if _is_hosted_call(block):
            return may_be_open or text(block, "id") in answered
        return not _is_hosted_result(block) or text(block, "tool_use_id") in asked

    return [block for block in blocks if is_whole(block)]


def _is_hosted_call(block: Json) -> bool:
    return text(block, "type").endswith("_tool_use")


def _is_hosted_result(block: Json) -> bool:
    return text(block, "type").endswith("_tool_result")


def _checked(turns: list[_Turn]) -> list[_Turn]:
    if not turns:
        raise ConfigError("nothing to send: the transcript has no text, image or result in it")
    if turns[0].role != "user":
        raise ConfigError("the transcript begins with the model: put a user message before it")
    if turns[-1].role != "user" and not turns[-1].paused:
        raise ConfigError("the transcript ends with the model's own words: append a user message or results")
    return turns


# -- blocks --------------------------------------------------------------------


def _text_block(whole: str) -> Iterator[Json]:
    if whole.strip():
        yield {"type": "text", "text": whole}


def _image_block(image: ImagePart) -> Json:
    if image.media_type not in _IMAGE_TYPES or not image.data:
        return {"type": "text", "text": f"(an image of type {image.media_type} is left out: this model can't read it)"}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _user_blocks(parts: Iterable[UserPart]) -> Iterator[Json]:
    for part in parts:
        match part:
            case TextPart():
                yield from _text_block(part.text)
            case ImagePart():
                yield _image_block(part)
            case _:
                assert_never(part)


def _assistant_blocks(part: AssistantPart, request: ModelRequest) -> Iterator[Json]:
    match part:
        case TextPart():
            yield from _text_block(part.text)
        case ReasoningPart():
            if part.model == request.model and not request.drop_reasoning:
                yield from _thinking_block(part)
        case CallPart():
            yield {
                "type": "tool_use",
                "id": wire_id(part.call_id),
                "name": _wire_tool(part.tool),
                "input": _arguments(part),
            }
        case ProviderPart():
            if _provider(part.model) == _provider(request.model):
                yield from _provider_block(part)
        case _:
            assert_never(part)


def _provider(model: str) -> str:
    return model.rpartition("/")[0]


def _thinking_block(part: ReasoningPart) -> Iterator[Json]:
    if part.redacted is not None:
        yield {"type": "redacted_thinking", "data": part.redacted}
    elif part.signature is not None:
        yield {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _provider_block(part: ProviderPart) -> Iterator[Json]:
    try:
        block = as_object(loads(part.data))
    except ValueError:
        return
    if "type" in block:
        yield block


def _arguments(call: CallPart) -> Json:
    """Return the arguments as an object; broken ones as an empty one, for the result says what was wrong."""
    if not call.complete:
        return {}
    try:
        return as_object(loads(call.arguments, parse_float=_finite, parse_constant=_finite))
    except ValueError:
        return {}


def _finite(literal: str) -> float:
    """Return the number; what Python reads but JSON can't say (NaN, 1e999) is a `ValueError`."""
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(literal)
    return value


def _result_block(call: CallPart, result: CallResult | None) -> Json:
    settlement = result.settlement if result else Settlement(status="aborted", text="(no result was recorded)")
    block: Json = {"type": "tool_result", "tool_use_id": wire_id(call.call_id)}
    if settlement.status != "completed":
        block["is_error"] = True
    images = [_image_block(image) for image in settlement.images]
    told = settlement.text if settlement.text.strip() or images else "(no output)"
    block["content"] = [*_text_block(told), *images] if images else told
    return block


# -- tools ---------------------------------------------------------------------


def _tools(request: ModelRequest, turns: list[_Turn]) -> list[Json]:
    """Return the tools; without any, stand-ins for those in the transcript, which must be declared."""
    if request.tools:
        return [_tool(tool) for tool in request.tools]
    used = {block["name"] for turn in turns for block in turn.blocks if block["type"] == "tool_use"}
    return [{"name": name, "input_schema": {"type": "object"}} for name in sorted(used)]


def _tool(tool: ToolSchema) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": _schema(tool.schema, f"tool {tool.name!r}"),
    }


def _schema(document: str, whose: str) -> Json:
    try:
        schema = as_object(loads(document))
    except ValueError as error:
        raise ConfigError(f"the schema of the {whose} is not valid JSON: {error}") from error
    if not schema:
        raise ConfigError(f"the schema of the {whose} must be a JSON object that is not empty")
    return schema


def _wire_tool(name: str) -> str:
    """Return a name the API allows: another host's model may have asked for anything."""
    return _UNSAFE_IN_TOOL.sub("_", name)[:_LONGEST_TOOL] or "unknown"
