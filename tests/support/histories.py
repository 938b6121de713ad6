"""Histories for tests of the context keeper: messages in few words, long texts, summaries that will do."""

# ruff: noqa: A002 -- an id is called `id` wherever a history is written

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import attrs
import trio

from engine.compaction.summary_prompt import SECTIONS
from engine.core.compaction_types import ModelReply
from engine.core.events import SharedContext
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelInfo
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    Message,
    Origin,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    Usage,
    UserMessage,
)
from engine.core.protocols import ContextView
from engine.testing.script import Answer, done, text

INFO = ModelInfo(name="scripted/model", context=20_000, output=2_000)


def words(tokens: int, seed: str = "word") -> str:
    """A text of about so many tokens."""
    each = f"{seed} and some more of it, "
    return (each * (4 * tokens // len(each) + 1))[: 4 * tokens]


def says(
    said: str, *, id: str = "u", origin: Origin = "user", media: Sequence[ImagePart | FilePart] = ()
) -> UserMessage:
    """What the user says."""
    return UserMessage(id=MessageId(id), parts=(*media, TextPart(id=PartId(f"{id}p"), text=said)), origin=origin)


def answers(said: str, *, id: str = "a", calls: Sequence[CallPart] = ()) -> AssistantMessage:
    """What the model says."""
    texts = (TextPart(id=PartId(f"{id}t"), text=said),) if said else ()
    return AssistantMessage(id=MessageId(id), parts=(*texts, *calls), model="scripted/model", finish="stop")


def calls(tool: str, arguments: Mapping[str, object], *, id: str) -> CallPart:
    """A call."""
    return CallPart(id=PartId(f"{id}c"), call_id=CallId(id), tool=tool, arguments=json.dumps(arguments))


def gives(*results: tuple[CallPart, str | Settlement], id: str = "r") -> ResultsMessage:
    """The results of calls."""
    settled = (
        CallResult(
            call_id=call.call_id,
            tool=call.tool,
            settlement=result if isinstance(result, Settlement) else Settlement(status="completed", text=result),
        )
        for call, result in results
    )
    return ResultsMessage(id=MessageId(id), results=tuple(settled))


def exchange(number: int, tool: str, result: str, **arguments: object) -> tuple[AssistantMessage, ResultsMessage]:
    """A step with one call and its result."""
    call = calls(tool, arguments or {"path": f"file{number}.py"}, id=f"call{number}")
    return answers("", id=f"a{number}", calls=[call]), gives((call, result), id=f"r{number}")


def view(messages: Sequence[Message], *, info: ModelInfo = INFO, **more: object) -> ContextView:
    """What a keeper may look at."""
    shown: dict[str, object] = {"last_usage": Usage(), "shared": SharedContext(cwd="/"), "max_output": 1_000, **more}
    return ContextView(transcript=Transcript(messages), model=info, **shown)  # type: ignore[arg-type]  # a test's own shorthand


def summary(**sections: str) -> str:
    """A summary in the right form."""
    told = {name: sections.get(name.replace(" ", "_").lower(), "- none") for name in SECTIONS}
    told["Objective"] = sections.get("objective", "- make it work")
    return "\n\n".join(f"## {name}\n{body}" for name, body in told.items())


def saying(said: str, usage: Usage | None = None) -> Answer:
    """An answer of a model."""
    return [*text(said), *done(usage=usage)]


@attrs.frozen
class Written:
    """A summariser that always says the same."""

    text: str
    info: ModelInfo = INFO

    def new_id(self, kind: str) -> str:
        return kind

    async def ask(self, system: str, text: str, *, max_output: int) -> ModelReply:
        await trio.lowlevel.checkpoint()
        return ModelReply(text=self.text, finish="stop")
