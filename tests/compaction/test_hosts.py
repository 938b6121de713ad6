"""Too large a request, from end to end: real hosts on the loopback, each in its own wire format (T7, T11, T23)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final, final

import attrs
import pytest
import trio

import engine
from engine.core.events import CompactionEnded, CompactionStarted, LoopContinued
from engine.core.messages import UserMessage
from engine.providers.registry import resolve
from engine.testing.invariants import check_events, check_transcript
from engine.testing.loopback import Connection, LoopbackServer, ReceivedRequest
from tests.support.histories import summary, words

ORIGINAL = "Write a parser. Never use regular expressions."
OTHERS: Final[Mapping[str, object]] = {"model": "m", "id": "1", "object": "chat.completion.chunk", "created": 1}


def sse(*payloads: Mapping[str, object], named: bool = False) -> bytes:
    lines = [f"event: {p['type']}\n" if named else "" for p in payloads]
    return "".join(
        f"{line}data: {json.dumps(payload)}\n\n" for line, payload in zip(lines, payloads, strict=True)
    ).encode()


def anthropic(said: str) -> bytes:
    begun = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "m",
        "usage": {"input_tokens": 0},
    }
    return sse(
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
        named=True,
    )


def chat(said: str) -> bytes:
    delta = {
        **OTHERS,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": said}, "finish_reason": None}],
    }
    end = {**OTHERS, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return sse(delta, end) + b"data: [DONE]\n\n"


def responses(said: str) -> bytes:
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
    content = [{"type": "output_text", "text": said, "annotations": []}]
    whole = {"id": "r", "status": "completed", "output": [{**item, "content": content}]}
    return sse(
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": said},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "content": content}},
        {"type": "response.completed", "response": whole},
        named=True,
    )


def gemini(said: str) -> bytes:
    part = {"content": {"role": "model", "parts": [{"text": said}]}, "index": 0, "finishReason": "STOP"}
    return sse({"candidates": [part]})


@attrs.frozen
class Wire:
    """A host: its model, its variables, its answers, and what it says of too large a request."""

    model: str
    variables: tuple[str, str]
    answer: Callable[[str], bytes]
    refusal: Mapping[str, object]


WIRES = {
    "messages": Wire(
        "anthropic/claude-sonnet-4-5",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        anthropic,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
        },
    ),
    "chat": Wire(
        "groq/llama-3.3-70b-versatile",
        ("GROQ_API_KEY", "GROQ_BASE_URL"),
        chat,
        {"error": {"message": "Please reduce the length of the messages.", "code": "context_length_exceeded"}},
    ),
    "responses": Wire(
        "openai/gpt-5",
        ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        responses,
        {"error": {"message": "Your input exceeds the context window.", "code": "context_length_exceeded"}},
    ),
    "gemini": Wire(
        "google/gemini-2.5-pro",
        ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
        gemini,
        {
            "error": {
                "code": 400,
                "status": "INVALID_ARGUMENT",
                "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            }
        },
    ),
}


@final
class Host(LoopbackServer):
    """Refuses what is longer than *most* bytes; counts nothing.

    Attributes:
        refused: how often it did.
        summaries: how often it was asked for one.
    """

    def __init__(self, wire: Wire, most: int) -> None:
        super().__init__(largest_piece=None, seed=0)
        self.wire, self.most = wire, most
        self.refused = self.summaries = 0

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        self.requests.append(request)
        kind, status = "application/json", "400 Bad Request"
        if len(request.body) > self.most:
            self.refused += 1
            body = json.dumps(self.wire.refusal).encode()
        else:
            kind, status = "text/event-stream", "200 OK"
            is_summary = b"You keep the record of a conversation" in request.body
            self.summaries += is_summary
            said = summary(facts="- the port is 8021") if is_summary else words(1_500, f"answer {len(self.requests)}")
            body = self.wire.answer(said)
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        await connection.send(head.encode() + body)
        return True


@pytest.mark.parametrize("name", WIRES)
async def test_t11_rejected_long_request_is_shortened(name: str) -> None:
    wire = WIRES[name]
    host = Host(wire, most=60_000)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(host.serve)
        key, base = wire.variables
        model = resolve(wire.model, {key: "any", base: url})
        async with engine.open_engine(model=model) as eng:
            session = await eng.create_session(cwd="/opt")
            prompts = [ORIGINAL, *(f"question {n}: {words(800, str(n))}" for n in range(12))]
            reasons: list[str] = []
            for prompt in prompts:
                async with session.prompt(prompt) as turn:
                    seen = [event async for event in turn]
                assert (turn.result.stop_reason, turn.result.detail) == ("completed", "")
                assert check_events(seen) == []
                reasons += [event.reason for event in seen if isinstance(event, LoopContinued)]
                started = [event.trigger for event in seen if isinstance(event, CompactionStarted)]
                ended = [event.outcome for event in seen if isinstance(event, CompactionEnded)]
                assert ended == ["compacted"] * len(started)
            assert check_transcript(session.state.transcript) == []
            users = [m.text for m in session.state.transcript if isinstance(m, UserMessage) and m.origin == "user"]
            assert (users[0], users[-1]) == (ORIGINAL, prompts[-1])
            last = host.requests[-1].body.decode()
            assert "the port is 8021" in last
            assert "Never use regular expressions." in last
        assert host.refused == 1, "it is told once how much it takes"
        assert reasons[0] == "reactive_compact_retry"
        assert set(reasons[1:]) == {"compacted"}, "after that, it is foreseen"
        assert host.summaries > len(reasons) - 1
        await model.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")
