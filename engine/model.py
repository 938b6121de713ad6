"""What goes to a model and what streams back, in no provider's words.

A provider turns a `ModelRequest` into its wire format and its wire format into
`StreamEvent`s. Stream ids are the provider's: they need to be unique only
within one answer.
"""

from __future__ import annotations

from typing import Literal, get_args

import attrs

from engine.messages import FinishReason, Transcript, Usage

ToolChoice = Literal["auto", "none", "required"]


@attrs.frozen(kw_only=True)
class ModelInfo:
    """A model's limits and prices; prices are per million tokens.

    Attributes:
        name: as a user writes it, `provider/model`.
        context: tokens of the window.
        output: tokens of the longest answer.
    """

    name: str
    context: int = 200_000
    output: int = 64_000
    price_input: float = 0.0
    price_output: float = 0.0
    price_cache_read: float = 0.0
    price_cache_write: float = 0.0

    def cost(self, usage: Usage) -> float:
        """Return what *usage* costs."""
        return (
            usage.input * self.price_input
            + usage.output * self.price_output
            + usage.cache_read * self.price_cache_read
            + usage.cache_write * self.price_cache_write
        ) / 1_000_000


@attrs.frozen(kw_only=True)
class ToolSchema:
    """A tool as the model sees it; `schema` is JSON text."""

    name: str
    description: str
    schema: str


@attrs.frozen(kw_only=True)
class ModelRequest:
    """One request, complete."""

    model: str
    system: str
    transcript: Transcript
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_output: int = 8_192
    output_schema: str | None = None
    drop_reasoning: bool = False


# -- what streams back ---------------------------------------------------------


@attrs.frozen
class Ping:
    """The host is alive and has nothing to say. Renews the idle watchdog."""


@attrs.frozen
class TextStarted:
    """A block of visible text opens."""

    id: str


@attrs.frozen
class TextChunk:
    """More visible text."""

    id: str
    text: str


@attrs.frozen
class TextDone:
    """The block is whole."""

    id: str


@attrs.frozen
class ReasoningStarted:
    """A block of thinking opens."""

    id: str


@attrs.frozen
class ReasoningChunk:
    """More thinking."""

    id: str
    text: str


@attrs.frozen
class ReasoningDone:
    """The thinking is whole; the host wants its signature back."""

    id: str
    signature: str | None = None
    redacted: str | None = None


@attrs.frozen
class ToolCallStarted:
    """The model begins to ask for a call."""

    id: str
    tool: str


@attrs.frozen
class ToolCallChunk:
    """More of the call's arguments, as JSON text."""

    id: str
    text: str


@attrs.frozen
class ToolCallDone:
    """The call is whole; `arguments`, if given, replaces what was streamed."""

    id: str
    arguments: str | None = None
    tool: str | None = None


@attrs.frozen
class ProviderItem:
    """Something the provider did or said itself, to be sent back unchanged."""

    id: str
    kind: str
    data: str


@attrs.frozen
class UsageReported:
    """Cumulative usage of this answer; the last one counts."""

    usage: Usage


@attrs.frozen
class Finished:
    """The model has stopped, for that reason."""

    reason: FinishReason
    raw: str | None = None
    detail: str = ""


StreamEvent = (
    Ping
    | TextStarted
    | TextChunk
    | TextDone
    | ReasoningStarted
    | ReasoningChunk
    | ReasoningDone
    | ToolCallStarted
    | ToolCallChunk
    | ToolCallDone
    | ProviderItem
    | UsageReported
    | Finished
)
STREAM_EVENT_TYPES: tuple[type[StreamEvent], ...] = get_args(StreamEvent)
