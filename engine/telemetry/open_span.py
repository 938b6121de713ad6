"""`OpenSpan`: a span that has not ended, and what is below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import attrs
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

from engine.telemetry import conventions as n
from engine.telemetry.attributes import Value
from engine.telemetry.exporting import nanoseconds

if TYPE_CHECKING:
    from opentelemetry.trace import Span

# What a span gets that is still open when its turn ends. The record closes all of them, so this is for our own mistakes.
LEFT_OPEN: Final = "left_open"


@attrs.define(eq=False)
class OpenSpan:
    """A span that has not ended.

    Attributes:
        context: what is below it.
        began: when it began.
        waited: for how long a person was waited for within it.
    """

    span: Span
    context: Context
    began: float
    waited: float = 0.0

    def end(self, at: float, facts: Mapping[str, Value], error: str) -> None:
        """End it."""
        self.span.set_attributes(facts)
        if error:
            # No description: it might hold what a model or a user wrote.
            self.span.set_attribute(n.ERROR_TYPE, error)
            self.span.set_status(Status(StatusCode.ERROR))
        # A clock may be set back: no span ends before it has begun.
        self.span.end(nanoseconds(max(at, self.began)))


class SpanOpener(Protocol):
    """Opens spans of a turn."""

    def __call__(
        self,
        name: str,
        at: float,
        facts: Mapping[str, Value],
        above: OpenSpan | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        traceparent: str = "",
    ) -> OpenSpan:
        """Open a span, below the turn's unless another one is *above* it; with *traceparent*, it gets these ids back."""
        ...
