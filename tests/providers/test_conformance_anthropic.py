"""Recorded answers of the Anthropic Messages API, against what the official SDK reads from them."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import AuthFailed, ContextOverflow, Overloaded, ProviderError, RateLimited
from engine.messages import Usage
from engine.model import (
    Finished,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    StreamEvent,
    TextChunk,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.providers.anthropic import MESSAGES
from engine.providers.wire import HttpReply

pytestmark = pytest.mark.conformance

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "wire"
REQUESTS = sorted(WIRE.glob("anthropic*/*.request.json"))
ABSENT = pytest.param(
    None, marks=pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the shared folder")
)
MEANING: dict[str, type[ProviderError]] = {
    "auth": AuthFailed,
    "billing": ProviderError,
    "invalid_request": ProviderError,
    "not_found": ProviderError,
    "overflow": ContextOverflow,
    "overloaded": Overloaded,
    "rate_limit": RateLimited,
    "server_error": Overloaded,
}

# Three answers that their source had glued into one stream. The SDK mixes up their blocks, which have the same
# indexes; for us the first `message_stop` is the end.
GLUED = {"vercelai-anthropic-tool-search-deferred-bm25-0", "vercelai-anthropic-tool-search-deferred-regex-0"}


def load(request: Path) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    record = json.loads(request.read_text())
    body = (request.parent / record["response"]["body_file"]).read_bytes()
    expected = json.loads(request.with_name(request.name.replace(".request.", ".expected.")).read_text())
    return record, body, expected


def name_of(request: Path) -> str:
    return request.name.removesuffix(".request.json")


def is_streamed(request: Path) -> bool:
    return str(json.loads(request.read_text())["response"]["body_file"]).endswith(".sse")


def cases(*, streamed: bool) -> list[Any]:
    found = [path for path in REQUESTS if is_streamed(path) == streamed and name_of(path) not in GLUED]
    return [pytest.param(path, id=name_of(path)) for path in found] or [ABSENT]


def decode(body: bytes, seed: int | None) -> list[StreamEvent]:
    decoder = MESSAGES.decoder()
    events = [event for piece in cut(body, seed) for event in decoder.feed(piece)]
    while more := decoder.close():
        events += more
    assert decoder.is_over
    return events


def cut(body: bytes, seed: int | None) -> Iterator[bytes]:
    rng = random.Random(seed)
    start = 0
    while start < len(body):
        size = len(body) if seed is None else rng.choice((1, 2, 7, 100, 1_000))
        yield body[start : start + size]
        start += size


def joined(events: Iterable[StreamEvent], kind: type[TextChunk | ReasoningChunk]) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def calls(events: list[StreamEvent]) -> list[dict[str, Any]]:
    """The calls as expected.json has them; the arguments of one that was cut as far as they came, as text."""
    found: list[dict[str, Any]] = []
    for start in (event for event in events if isinstance(event, ToolCallStarted)):
        text = "".join(e.text for e in events if isinstance(e, ToolCallChunk) and e.id == start.id)
        dones = [e for e in events if isinstance(e, ToolCallDone) and e.id == start.id]
        whole = json.loads(dones[0].arguments or text) if dones else text
        found.append({"id": start.id, "name": start.tool, "arguments": whole})
    return found


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("request_file", cases(streamed=True))
def test_a_recorded_stream(request_file: Path, seed: int | None) -> None:
    _, body, expected = load(request_file)
    events = decode(body, seed)
    assert joined(events, TextChunk) == expected["text"]
    assert joined(events, ReasoningChunk) == expected["reasoning"]
    check_calls(calls(events), expected["tool_calls"])
    finished = [event for event in events if isinstance(event, Finished)]
    assert finished[-1].raw == expected["finish_reason_raw"]
    assert events[-1] == finished[-1]
    check_usage([event.usage for event in events if isinstance(event, UsageReported)][-1], expected["usage"])
    check_extra(events, expected["extra"])


@pytest.mark.parametrize("name", sorted(GLUED) if REQUESTS else [ABSENT])
def test_glued_answers_are_read_one_by_one(name: str) -> None:
    _, body, expected = load(next(path for path in REQUESTS if name_of(path) == name))
    first, *rest = [part for part in body.split(b"event: message_start\n") if part]
    assert joined(decode(body, None), TextChunk) == joined(decode(b"event: message_start\n" + first, None), TextChunk)
    parts = [decode(b"event: message_start\n" + part, 1) for part in (first, *rest)]
    assert expected["text"] == joined(parts[0], TextChunk) + joined(parts[-1], TextChunk)
    assert [call["id"] for part in parts for call in calls(part)] == [call["id"] for call in expected["tool_calls"]]
    assert [part[-1] for part in parts][-1] == Finished("stop", expected["finish_reason_raw"])


def check_calls(ours: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [(c["id"], c["name"]) for c in ours] == [(c["id"], c["name"]) for c in expected]
    for mine, theirs in zip(ours, expected, strict=True):
        if isinstance(mine["arguments"], str):  # cut by the token limit: the SDK completes it as well as it can
            assert mine["arguments"].startswith("{")
            assert next(iter(theirs["arguments"])) in mine["arguments"]
        else:
            assert mine["arguments"] == theirs["arguments"]


def check_usage(ours: Usage, expected: dict[str, int | None]) -> None:
    got = {name: getattr(ours, name) for name in ("input", "output", "cache_read", "cache_write", "reasoning")}
    assert got == {name: expected[name] or 0 for name in got}


def check_extra(events: list[StreamEvent], extra: dict[str, Any]) -> None:
    dones = [event for event in events if isinstance(event, ReasoningDone)]
    if "signatures" in extra:
        assert len([d for d in dones if d.signature]) == extra["signatures"]
    if "redacted" in extra:
        assert len([d for d in dones if d.redacted]) == extra["redacted"]
    ordinary = {"text", "thinking", "redacted_thinking", "tool_use"}
    items = [event for event in events if isinstance(event, ProviderItem)]
    assert [item.kind for item in items] == [kind for kind in extra["blocks"] if kind not in ordinary]
    server_calls = [json.loads(item.data) for item in items if item.kind == "server_tool_use"]
    for ours, theirs in zip(server_calls, extra.get("server_tool_calls", []), strict=False):
        assert (ours["id"], ours["name"], ours["input"]) == (theirs["id"], theirs["name"], theirs["arguments"])


@pytest.mark.parametrize("request_file", cases(streamed=False))
def test_a_recorded_error(request_file: Path) -> None:
    record, body, expected = load(request_file)
    if expected["error"] is None:
        pytest.skip("an answer that was not streamed: the engine never asks for one")
    response = record["response"]
    error = MESSAGES.failure(HttpReply(status=response["status"], headers=response["headers"], body=body), 0.0)
    assert type(error) is MEANING[expected["error"]["meaning"]]
    assert error.status == expected["error"]["status"]
    assert not error.retryable
    assert expected["error"]["message"] in str(error)


def error_rows() -> list[Any]:
    if not (WIRE / "errors.json").is_file():
        return [ABSENT]
    rows = json.loads((WIRE / "errors.json").read_text())["errors"]
    return [pytest.param(row, id=str(row["id"])) for row in rows if row["provider"] == "anthropic"]


@pytest.mark.parametrize("row", error_rows())
def test_a_reported_error(row: dict[str, Any]) -> None:
    if row["where"] == "sse-event":
        with pytest.raises(MEANING[row["meaning"]]):
            MESSAGES.decoder().feed(row["body"].encode())
        return
    body = json.dumps(row["body"]).encode()
    error = MESSAGES.failure(HttpReply(status=row["status"], headers=row.get("headers") or {}, body=body), 0.0)
    assert type(error) is MEANING[row["meaning"]]
