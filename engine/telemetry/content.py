"""Content of spans: messages, arguments and results, as JSON of the conventions. Only where the user asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from engine.core.llm_types import ModelRequest
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    FinishReason,
    Message,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    UserMessage,
)
from engine.telemetry.content_filter import LONGEST, ContentFilter, newest_that_fit

# Of one text in a list of messages: a long result must leave room for the question that it answers.
_LONGEST_TEXT = LONGEST // 4


def input_messages(request: ModelRequest, scrub: ContentFilter) -> str:
    """Return the newest messages of a request that fit into an attribute, as JSON."""
    newest_first = (request.transcript[index] for index in range(len(request.transcript) - 1, -1, -1))
    return f"[{', '.join(newest_that_fit(text for each in newest_first for text in _message(each, scrub)))}]"


def system_instructions(request: ModelRequest, scrub: ContentFilter) -> str:
    """Return the system prompt as JSON."""
    return f"[{_json(_text(scrub, request.system, LONGEST // 2))}]"


def output_messages(parts: Sequence[AssistantPart], finish: FinishReason | None, scrub: ContentFilter) -> str:
    """Return an answer as JSON."""
    shown = _of_assistant(parts, scrub)
    kept = newest_that_fit(_json(part) for part in reversed(shown))
    return f'[{{"role": "assistant", "parts": [{", ".join(kept)}], "finish_reason": {_json(finish or "")}}}]'


def _message(message: Message, scrub: ContentFilter) -> Iterator[str]:
    match message:
        case UserMessage():
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            yield _json({"role": "user", "parts": [_text(scrub, text) for text in texts]})
        case AssistantMessage():
            yield _json({"role": "assistant", "parts": _of_assistant(message.parts, scrub)})
        case ResultsMessage():
            # One after the other, so that a few long results do not push out all of them.
            for result in reversed(message.results):
                part = {
                    "type": "tool_call_response",
                    "id": result.call_id,
                    "response": scrub.text(result.settlement.text)[:_LONGEST_TEXT],
                }
                yield _json({"role": "tool", "parts": [part]})


def _of_assistant(parts: Sequence[AssistantPart], scrub: ContentFilter) -> list[dict[str, str]]:
    shown: list[dict[str, str]] = []
    for part in parts:
        match part:
            case TextPart():
                shown.append(_text(scrub, part.text))
            case ReasoningPart() if part.text:
                shown.append({**_text(scrub, part.text), "type": "reasoning"})
            case CallPart():
                arguments = scrub.text(part.arguments)[:_LONGEST_TEXT]
                shown.append({"type": "tool_call", "id": part.call_id, "name": part.tool, "arguments": arguments})
            case _:
                pass  # a host's own item
    return shown


def _text(scrub: ContentFilter, text: str, longest: int = _LONGEST_TEXT) -> dict[str, str]:
    return {"type": "text", "content": scrub.text(text)[:longest]}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
