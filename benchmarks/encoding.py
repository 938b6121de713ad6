"""Figure `encoding`: what it costs to write a request, early and late in a long session."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import ModelRequest, ToolSchema
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    ResultsMessage,
    Settlement,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.models.quirks_lookup import quirks_of
from engine.providers.registry import wire_format
from engine.providers.wire.wire_format import WireEncoder

STEPS = 1_000
HISTORY = 2_000_000
EARLY = (5, 25)
LATE = (900, 1_000)
SHORT_SESSIONS = 20
ROUNDS = 5
MODELS = {
    "Anthropic": "anthropic/claude-sonnet-4-5",
    "OpenAI Responses": "openai/gpt-5.2",
    "OpenAI chat": "openai-chat/gpt-5.2",
    "Gemini": "google/gemini-2.5-pro",
    "Bedrock": "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
TOOLS = tuple(
    ToolSchema(
        name=f"tool_{n}",
        description="Does something, and says how it went. " * 10,
        schema='{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}',
    )
    for n in range(20)
)
SYSTEM = "You are a careful engineer. " * 400


def encoder_of(model: str) -> WireEncoder:
    """Return what writes the requests to *model*."""
    name, _, own_name = model.partition("/")
    host = BY_NAME[name]
    return wire_format(host, quirks_of(host, own_name)).encoder()


def exchange(step: int, model: str) -> tuple[AssistantMessage, ResultsMessage]:
    """Return a call and its result, such that a thousand of them are the history."""
    call = CallPart(
        id=PartId("c"), call_id=CallId(f"call_{step}"), tool="tool_1", arguments='{"path": "src/module.py"}'
    )
    said = TextPart(id=PartId("t"), text=f"Step {step}: let me look.")
    result = Settlement(status="completed", text="naïve line of a file\n" * (HISTORY // STEPS // 22))
    return (
        AssistantMessage(id=MessageId("a"), parts=(said, call), model=model),
        ResultsMessage(
            id=MessageId("r"), results=(CallResult(call_id=call.call_id, tool=call.tool, settlement=result),)
        ),
    )


def request_of(transcript: Transcript, model: str) -> ModelRequest:
    return ModelRequest(model=model, system=SYSTEM, transcript=transcript, tools=TOOLS, session_id="s")


def per_step(model: str, window: tuple[int, int]) -> float:
    """Return the mean CPU seconds of an encoding in a window of a session's steps; its result is not copied."""
    encoder = encoder_of(model)
    said = UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("p"), text="go"),))
    transcript = Transcript([said])
    took = 0.0
    for step in range(window[1]):
        request = request_of(transcript, model)
        began = time.process_time()
        encoder.encode(request)
        took += time.process_time() - began if step >= window[0] else 0.0
        transcript = transcript.append(*exchange(step, model))
    return took / (window[1] - window[0])


def early(model: str) -> float:
    """Return the cost of an encoding around step 10: the mean over several sessions."""
    return sum(per_step(model, EARLY) for _ in range(SHORT_SESSIONS)) / SHORT_SESSIONS


def late(model: str) -> float:
    """Return the cost of an encoding near the end of a long session."""
    gc.collect()
    return per_step(model, LATE)


def anew(model: str) -> float:
    """Return what it costs to write the last request of such a session with nothing kept."""
    transcript = Transcript([UserMessage(id=MessageId("u"), parts=(TextPart(id=PartId("p"), text="go"),))])
    for step in range(STEPS):
        transcript = transcript.append(*exchange(step, model))
    request = request_of(transcript, model)
    began = time.process_time()
    body = encoder_of(model).encode(request)
    took = time.process_time() - began
    assert len(body) > HISTORY
    return took


def measure() -> list[Row]:
    rows: list[Row] = []
    for name, model in MODELS.items():
        early(model)
        at_10, at_1000 = interleaved(ROUNDS, bound(early, model), bound(late, model))
        growth = median(after / before for before, after in zip(at_10, at_1000, strict=True))
        rows.append(
            Row(
                name=f"encoding: {name}, a step with 2 MB of history, versus step 10",
                measured=seconds(median(at_1000)),
                baseline=seconds(median(at_10)),
                ratio=growth,
                target="ratio ≤ 1.50",
                ok=growth <= 1.5,
            )
        )
        if name == "Anthropic":
            whole = min(anew(model) for _ in range(ROUNDS))
            rows.append(
                Row(
                    name=f"encoding: {name}, the same, versus writing it anew",
                    measured=seconds(median(at_1000)),
                    baseline=seconds(whole),
                    ratio=median(at_1000) / whole,
                )
            )
    return rows


def bound(function: Callable[[str], float], model: str) -> Callable[[], float]:
    return lambda: function(model)


FIGURE = Figure(
    name="encoding",
    about="the cost of writing a request, flat from step 10 to step 1,000 and 2 MB of history",
    measure=measure,
    workload=lambda: late(MODELS["Anthropic"]),
)
