"""Telemetry: `OpenTelemetry` makes spans and metrics of what an engine does."""

from engine.core.lazy import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engine.journal.trace_context import joining_trace as joining_trace
    from engine.telemetry.open_telemetry import OpenTelemetry as OpenTelemetry
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "engine.journal.trace_context": "joining_trace",
            "engine.telemetry.open_telemetry": "OpenTelemetry",
        },
    )
