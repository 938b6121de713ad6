"""Checks what a provider sends before any of it is used: a wrong type must not get into the record, nor a text without end.

A provider is foreign code and may be untyped. A batch is good up to its first event that does not match
`engine.core.llm_types`; the good part is kept, the rest is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, get_args

import attrs

from engine.core.errors import ProviderProtocolError
from engine.core.llm_types import (
    STREAM_EVENT_TYPES,
    Finished,
    ProviderItem,
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
from engine.core.settings import AnswerLimits

# Checked by hand and not by a validator on the classes: those are built by the engine's own decoders as well, once for
# each delta, and there the type checker has done the work.
_FINISH_REASONS: tuple[str, ...] = get_args(FinishReason)
_COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
_TEXTS: dict[type, tuple[str, ...]] = {
    TextStarted: ("id",),
    TextChunk: ("id", "text"),
    TextDone: ("id",),
    ReasoningStarted: ("id",),
    ReasoningChunk: ("id", "text"),
    ReasoningDone: ("id",),
    ToolCallStarted: ("id", "tool"),
    ToolCallChunk: ("id", "text"),
    ToolCallDone: ("id",),
    ProviderItem: ("id", "kind", "data"),
    Finished: ("detail", "response_id", "response_model"),
}
_OPTIONAL_TEXTS: dict[type, tuple[str, ...]] = {
    TextDone: ("text",),
    ReasoningDone: ("signature", "redacted"),
    ToolCallDone: ("arguments", "tool"),
    Finished: ("raw",),
}


def check_batch(batch: object) -> tuple[Sequence[StreamEvent], ProviderProtocolError | None]:
    """Return the events of *batch* up to the first that is wrong, and what is wrong with it."""
    if not isinstance(batch, Sequence) or isinstance(batch, (str, bytes)):
        problem = f"`receive` must return a sequence of stream events, not {type(batch).__name__}"
        return (), ProviderProtocolError(f"the provider broke its protocol: {problem}")
    events = cast("Sequence[StreamEvent]", batch)
    for index, event in enumerate(events):
        # The hot path, written out: nearly all events are deltas. `type(...) is` is exact, so a subclass takes the long way.
        if type(event) is TextChunk and type(event.text) is str and type(event.id) is str:
            continue
        wrong = _wrong(event)
        if wrong is not None:
            # What came before is good text that the user has paid for, and may hold calls that are complete.
            return events[:index], ProviderProtocolError(f"the provider broke its protocol: {wrong}")
    return events, None


@attrs.define(eq=False, repr=False)
class AnswerMeter:
    """Measures one answer against its limits."""

    _limits: AnswerLimits
    _chars: int = attrs.field(default=0, init=False)
    _calls: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _longest: int = attrs.field(default=0, init=False)

    @property
    def chars(self) -> int:
        """How many characters have come."""
        return self._chars

    def take(self, batch: Sequence[StreamEvent]) -> tuple[Sequence[StreamEvent], str]:
        """Return the events of *batch* that the limits allow, and which limit the next one exceeds; empty: none."""
        most = self._limits.chars
        for index, event in enumerate(batch):
            # The hot path, as in `check_batch`: nearly all events are deltas of text.
            if type(event) is TextChunk and self._chars + len(event.text) <= most:
                self._chars += len(event.text)
                continue
            self._measure(event)
            if excess := self._excess():
                return batch[:index], excess
        return batch, ""

    def _excess(self) -> str:
        limits = self._limits
        if self._chars > limits.chars:
            return f"the answer has more than {limits.chars:,} characters"
        if len(self._calls) > limits.calls:
            return f"the answer has more than {limits.calls:,} calls"
        if self._longest > limits.call_chars:
            return f"the arguments of a call have more than {limits.call_chars:,} characters"
        return ""

    def _measure(self, event: StreamEvent) -> None:
        match event:
            case TextChunk() | ReasoningChunk():
                self._chars += len(event.text)
            case ToolCallStarted():
                self._calls.setdefault(event.id, 0)
            case ToolCallChunk():
                self._chars += len(event.text)
                self._grow_call(event.id, self._calls.get(event.id, 0) + len(event.text))
            case ToolCallDone() if event.arguments is not None:
                # It repeats what was streamed, or stands alone.
                self._grow_call(event.id, max(self._calls.get(event.id, 0), len(event.arguments)))
            case TextDone() if event.text is not None:
                self._chars = max(self._chars, len(event.text))
            case ProviderItem():
                self._chars += len(event.data)
            case _:
                pass

    def _grow_call(self, call_id: str, size: int) -> None:
        self._calls[call_id] = size
        self._longest = max(self._longest, size)


def _wrong(event: object) -> str | None:
    # A subclass counts as its base: an adapter may add fields of its own.
    kind = next((event_type for event_type in STREAM_EVENT_TYPES if isinstance(event, event_type)), None)
    if kind is None:
        return f"a stream holds events of `engine.core.llm_types`, not {type(event).__name__}"
    for name in _TEXTS.get(kind, ()):
        value: object = getattr(event, name)
        if not isinstance(value, str):
            return f"{kind.__name__}.{name} must be a str, not {type(value).__name__}"
    for name in _OPTIONAL_TEXTS.get(kind, ()):
        value = getattr(event, name)
        if value is not None and not isinstance(value, str):
            return f"{kind.__name__}.{name} must be a str or None, not {type(value).__name__}"
    if isinstance(event, Finished) and event.reason not in _FINISH_REASONS:
        return f"Finished.reason must be one of {', '.join(_FINISH_REASONS)}, not {event.reason!r}"
    return _wrong_usage(event.usage) if isinstance(event, UsageReported) else None


def _wrong_usage(usage: object) -> str | None:
    if not isinstance(usage, Usage):
        return f"UsageReported.usage must be a Usage, not {type(usage).__name__}"
    for name in _COUNTS:
        count: object = getattr(usage, name)
        # Not `isinstance`: True is an int as well, and would be added to a budget.
        if type(count) is not int or count < 0:
            return f"Usage.{name} must be an int of at least 0, not {count!r}"
    return None
