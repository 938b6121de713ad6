"""What hosts call an answer, and the model that has written it: these wire formats pass it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine.core.llm_types import Finished, StreamEvent
from engine.providers.anthropic.decode import AnthropicReader
from engine.providers.cohere.decode import CohereReader
from engine.providers.gemini.decode import GeminiReader
from engine.providers.openai_chat.decode import OpenAIChatReader
from engine.providers.openai_responses.decode import ResponsesReader
from tests.providers.openai_chat.test_decode import PLAIN

NAMES = {"id": "r1", "model": "m-2026"}
CANDIDATE = {"content": {"parts": [{"text": "Yes."}]}, "finishReason": "STOP"}
CASES: list[tuple[Any, Sequence[dict[str, Any]]]] = [
    (
        AnthropicReader(),
        (
            {"type": "message_start", "message": NAMES},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ),
    ),
    (
        GeminiReader(),
        ({"responseId": "r1", "modelVersion": "m-2026", "candidates": [CANDIDATE]}, {"usageMetadata": {}}),
    ),
    (
        OpenAIChatReader(PLAIN),
        (
            {"id": "", "model": "", "choices": []},
            {**NAMES, "choices": [{"delta": {"content": "Yes."}}]},
            {**NAMES, "choices": [{"delta": {}, "finish_reason": "stop"}]},
        ),
    ),
    (ResponsesReader(), ({"type": "response.completed", "response": {**NAMES, "status": "completed"}},)),
    # It does not say which model has answered.
    (
        CohereReader(),
        (
            {"type": "message-start", "id": "r1", "delta": {"message": {"role": "assistant"}}},
            {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
        ),
    ),
]


@pytest.mark.parametrize(("reader", "events"), CASES, ids=lambda value: type(value).__name__)
def test_finish_names_the_answer(reader: Any, events: Sequence[dict[str, Any]]) -> None:
    out: list[StreamEvent] = []
    for event in events:
        reader.read("", event, out)
    if not any(isinstance(event, Finished) for event in out):
        # Where the end of the stream ends the answer.
        reader.end(out)
    (finished,) = (event for event in out if isinstance(event, Finished))
    assert finished.response_id == "r1"
    assert finished.response_model == ("" if isinstance(reader, CohereReader) else "m-2026")
