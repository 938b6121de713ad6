"""Reads a recorded request of another client as the transcript that the engine would send."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import attrs

from engine.core.ids import CallId, MessageId
from engine.core.llm_types import ModelRequest, ToolSchema
from engine.core.messages import (
    CallResult,
    FilePart,
    ImagePart,
    Message,
    ResultsMessage,
    Settlement,
    TextPart,
    UserPart,
)
from engine.providers.wire.wire_format import WireEncoder

Json = dict[str, Any]
NO_ARGUMENTS = {"type": "object", "properties": {}}


@attrs.define
class RequestReader(ABC):
    """A recorded request, and the same conversation as the engine's.

    Attributes:
        record: the recording.
        left: the request's body without what a transcript cannot hold.
        omitted: what that was.
        messages: the conversation.
    """

    record: Json
    left: Json = attrs.field(init=False)
    omitted: set[str] = attrs.field(factory=set[str], init=False)
    messages: list[Message] = attrs.field(factory=list[Message], init=False)

    def __attrs_post_init__(self) -> None:
        self.left = deepcopy(self.body)
        self.read_messages()

    @staticmethod
    def skip_reason(body: Json) -> str:
        """Return why no transcript can stand for *body*; empty if one can."""
        return ""

    @property
    def body(self) -> Json:
        """The body as it was sent."""
        body: Json = self.record["request"]["body"]
        return body

    @property
    def url(self) -> str:
        """The address it was sent to."""
        return str(self.record["request"]["url"])

    @abstractmethod
    def read_messages(self) -> None:
        """Read `left` into `messages`."""

    @abstractmethod
    def request(self) -> ModelRequest:
        """Return the request that the engine would make."""

    @abstractmethod
    def encoder(self) -> WireEncoder:
        """Return an encoder for a host that accepts what the other client sent."""

    @abstractmethod
    def meaning(self, body: Json) -> Any:
        """Return *body* in one form for all spellings, without what only the engine adds."""

    def check_path(self, request: ModelRequest) -> None:
        """Compare the request's path, where the model's name is a part of it."""
        return

    def omit(self, parent: Json, name: str, what: str) -> None:
        """Remove a member that no transcript can hold."""
        if parent.pop(name, None) is not None:
            self.omitted.add(what)

    def add_result(self, call_id: str, settlement: Settlement) -> None:
        """Add a result to those of the same turn."""
        result = CallResult(call_id=CallId(call_id), tool="", settlement=settlement)
        if self.messages and isinstance(last := self.messages[-1], ResultsMessage):
            self.messages[-1] = attrs.evolve(last, results=(*last.results, result))
        else:
            self.messages.append(ResultsMessage(id=MessageId("r"), results=(result,)))


def settlement_of(parts: Sequence[UserPart], **more: Any) -> Settlement:
    """Return a result that holds *parts*."""
    fields: Json = {"status": "completed"} | more
    return Settlement(
        text="".join(part.text for part in parts if isinstance(part, TextPart)),
        images=tuple(part for part in parts if isinstance(part, ImagePart)),
        files=tuple(part for part in parts if isinstance(part, FilePart)),
        **fields,
    )


def tool_schema(function: Mapping[str, Any]) -> ToolSchema:
    """Return a declared function."""
    schema = json.dumps(function.get("parameters") or NO_ARGUMENTS)
    return ToolSchema(name=function["name"], description=function.get("description") or "", schema=schema)


def arguments_meaning(arguments: str) -> Any:
    """Return arguments parsed; hosts refuse broken ones, so they are sent as none."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def open_schema(value: Any) -> Any:
    """Return a schema without `additionalProperties`, and with `required` in order."""
    if isinstance(value, dict):
        return {
            name: sorted(each) if name == "required" else open_schema(each)
            for name, each in value.items()
            if name != "additionalProperties"
        }
    return [open_schema(each) for each in value] if isinstance(value, list) else value
