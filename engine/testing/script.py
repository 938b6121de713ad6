"""Scripts: what a pretended model says, item by item.

An `Answer` is what comes back for one request: stream events in order, and
between them what a real host does to its clients: it pauses, breaks off, fails.
The same script drives the in-memory model and the loopback HTTP server.

    answer = [
        *text("Let me look.", pieces=3),
        *call("read", '{"path": "a.py"}', id="c1"),
        Pause(0.5),
        *done("calls"),
    ]

A builder makes one block. Ids need to be unique in one answer only: name them
when an answer has two blocks of a kind.
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
    """The host is silent for so many seconds."""

    seconds: float


@attrs.frozen
class Break:
    """The connection ends here, without a goodbye."""

    message: str = "the connection was dropped"


@attrs.frozen
class Fail:
    """The host reports this error: instead of an answer, or in the middle of one."""

    error: ProviderError


@attrs.frozen
class HttpFailure:
    """The host answers with this status; only an answer's first item can.

    In memory, where there is no HTTP, the adapter's own classification of the
    status, headers and body is what is raised.
    """

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


ScriptItem = StreamEvent | Pause | Break | Fail | HttpFailure
Answer = Sequence[ScriptItem]


def cut(whole: str, pieces: int) -> list[str]:
    """Cut *whole* into at most *pieces* pieces of about one length; none is empty."""
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
    """Return a block of thinking that streams in *pieces* pieces."""
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
    """Return the end of an answer: its usage, if given, and why it stopped."""
    finished = Finished(reason, raw)
    return (finished,) if usage is None else (UsageReported(usage), finished)


def spread(items: Iterable[ScriptItem], seconds: float) -> tuple[ScriptItem, ...]:
    """Return *items* with a pause of *seconds* before each, as a slow host sends them."""
    return tuple(entry for item in items for entry in (Pause(seconds), item))
