"""Scripts: the answers of a scripted model, item by item.

An `Answer` is the response to one request: stream events in order, and between them
what a real host does to its clients: it pauses, breaks off, fails. The same script
drives the in-memory model and the loopback HTTP server.

    answer = [
        *text("Let me look.", pieces=3),
        *call("read", '{"path": "a.py"}', id="c1"),
        Pause(0.5),
        *done("calls"),
    ]

A builder makes one block. Ids must be unique within an answer: set them when an
answer has two blocks of one kind.
"""

# ruff: noqa: A002 -- an id is called `id` wherever a script is written

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import attrs

from engine.core.errors import ProviderError
from engine.core.llm_types import (
    Finished,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.core.messages import FinishReason, Usage


@attrs.frozen
class Pause:
    """The host is silent for this many seconds."""

    seconds: float


@attrs.frozen
class Break:
    """The host drops the connection here."""

    message: str = "the connection was dropped"


@attrs.frozen
class Fail:
    """The host reports this error, instead of an answer or in the middle of one."""

    error: ProviderError


@attrs.frozen
class HttpFailure:
    """The host responds with this status; only as the first item of an answer.

    In memory, where there is no HTTP, the error is raised that the adapters make of
    this status, headers and body.
    """

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


ScriptItem = StreamEvent | Pause | Break | Fail | HttpFailure
Answer = Sequence[ScriptItem]


def cut(whole: str, pieces: int) -> list[str]:
    """Cut *whole* into at most *pieces* non-empty pieces of about the same length."""
    # Negated floor division rounds up.
    size = max(1, -(-len(whole) // max(1, pieces)))
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def text(whole: str, *, id: str = "text", pieces: int = 1) -> tuple[StreamEvent, ...]:
    """Return a block of visible text that streams in *pieces* pieces."""
    return (TextStarted(id), *(TextChunk(id, piece) for piece in cut(whole, pieces)), TextDone(id))


def reasoning(
    whole: str,
    *,
    id: str = "reasoning",
    pieces: int = 1,
    signature: str | None = None,
    redacted: str | None = None,
) -> tuple[StreamEvent, ...]:
    """Return a block of reasoning that streams in *pieces* pieces."""
    chunks = (ReasoningChunk(id, piece) for piece in cut(whole, pieces))
    return (ReasoningStarted(id), *chunks, ReasoningDone(id, signature, redacted))


def call(
    tool: str, arguments: str | Mapping[str, object] = "{}", *, id: str, pieces: int = 1
) -> tuple[StreamEvent, ...]:
    """Return a call of *tool*, its *arguments* streaming in *pieces* pieces of JSON."""
    whole = arguments if isinstance(arguments, str) else json.dumps(arguments)
    chunks = (ToolCallChunk(id, piece) for piece in cut(whole, pieces))
    return (ToolCallStarted(id, tool), *chunks, ToolCallDone(id))


def done(
    reason: FinishReason = "stop", *, usage: Usage | None = None, raw: str | None = None
) -> tuple[StreamEvent, ...]:
    """Return the end of an answer: its usage, if any, and the finish reason."""
    finished = Finished(reason, raw)
    return (finished,) if usage is None else (UsageReported(usage), finished)


def spread(items: Iterable[ScriptItem], seconds: float) -> tuple[ScriptItem, ...]:
    """Return *items* with a pause of *seconds* before each, as a slow host sends them."""
    return tuple(entry for item in items for entry in (Pause(seconds), item))
