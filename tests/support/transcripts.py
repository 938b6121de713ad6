"""Messages for tests, built from plain texts."""

from __future__ import annotations

from typing import Any

from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FinishReason,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
    UserPart,
)


def part(text: str) -> TextPart:
    return TextPart(id=PartId("p"), text=text)


def user_message(*parts: UserPart | str) -> UserMessage:
    return UserMessage(id=MessageId("u"), parts=tuple(part(p) if isinstance(p, str) else p for p in parts))


def model_message(*parts: AssistantPart | str, model: str, finish: FinishReason | None = "stop") -> AssistantMessage:
    made = tuple(part(p) if isinstance(p, str) else p for p in parts)
    return AssistantMessage(id=MessageId("a"), parts=made, model=model, finish=finish)


def tool_call(call_id: str = "call_1", arguments: str = '{"path": "a"}', **more: Any) -> CallPart:
    fields: dict[str, Any] = {"tool": "read", **more}
    return CallPart(id=PartId("c"), call_id=CallId(call_id), arguments=arguments, **fields)


def result(call_id: str = "call_1", text: str = "done", **more: Any) -> CallResult:
    fields: dict[str, Any] = {"status": "completed", "text": text, **more}
    return CallResult(call_id=CallId(call_id), tool="read", settlement=Settlement(**fields))


def results(*each: CallResult) -> ResultsMessage:
    return ResultsMessage(id=MessageId("r"), results=each)
