"""`OpenTelemetry`: spans and metrics of an engine, for the providers of its host."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, final

from engine.core.errors import ConfigError
from engine.telemetry.conventions import convention

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from engine.journal.span_port import Record, SessionSpans

MISSING = "telemetry needs OpenTelemetry: pip install 'nursery-engine[otel]'"


@final
class OpenTelemetry:
    """Makes spans and metrics of what an engine's sessions do; pass it as `Ports(telemetry=…)`.

    The providers stay the host's: it flushes them and shuts them down. Their processors must not block. Of the SDK's, use
    `BatchSpanProcessor`: `SimpleSpanProcessor` exports each span in the task that ends it, and the event loop waits.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
        children: bool = False,
        user: str = "",
    ) -> None:
        """Use these providers. Raises `ConfigError` if there are none, or OpenTelemetry is not installed.

        Args:
            tracer_provider: gets the spans; None: none are made.
            meter_provider: gets the metrics; None: none are made.
            content: whether prompts, answers, arguments and results are exported. What looks like a key is taken out
                of them, and an attribute holds at most 32 KiB.
            children: whether commands of the bash tool get `TRACEPARENT`, so that they can join the trace.
            user: the value of `user.id`; empty: there is none.
        """
        if tracer_provider is None and meter_provider is None:
            raise ConfigError("OpenTelemetry needs a tracer_provider, a meter_provider or both")
        try:
            from engine.telemetry.exporting import Exporting, TelemetryOptions
        except ImportError as error:
            raise ConfigError(MISSING) from error
        options = TelemetryOptions(content=content, children=children, user=user)
        self._exporting = Exporting.of(tracer_provider, meter_provider, options, convention(os.environ))

    def follow(self, record: Record, now: Callable[[], float]) -> SessionSpans:
        """Return what makes the spans of a session. Not a checkpoint."""
        from engine.telemetry.session_spans import OtelSpans

        return OtelSpans(self._exporting, record, now)
