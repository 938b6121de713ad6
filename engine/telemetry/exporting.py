"""`Exporting`: the providers of spans and metrics, as the rest of this folder uses them.

Everything of OpenTelemetry that may raise is called through it. A fault there is reported once, and no turn notices it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from engine.core.exception_groups import describe
from engine.core.version import __version__
from engine.telemetry.content_filter import ContentFilter
from engine.telemetry.conventions import Convention
from engine.telemetry.instruments import Meters

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

T = TypeVar("T")
Attributes = Mapping[str, "str | int | float | bool | tuple[str, ...]"]

SCOPE: Final = "engine"
# Of spans that another process had begun, and that get back the ids they had there.
REOPENING_SCOPE: Final = "engine.reopened"
_REOPENING: Final = Lock()
_log: Final = logging.getLogger("engine.telemetry")
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_BAGGAGE: Final = W3CBaggagePropagator()


@attrs.frozen(kw_only=True)
class TelemetryOptions:
    """What spans contain, and who else may join a trace.

    Attributes:
        content: prompts, answers, arguments and results are exported, without what looks like a key.
        children: commands of the bash tool get the trace in their environment.
        user: the value of `user.id`; empty: there is none.
    """

    content: bool = False
    children: bool = False
    user: str = ""


@attrs.define(eq=False)
class Exporting:
    """Makes spans and metrics.

    Attributes:
        options: what spans contain.
        names: the convention.
        content: makes content fit for export.
        meters: the metrics.
    """

    options: TelemetryOptions
    names: Convention
    content: ContentFilter
    meters: Meters
    _tracer: Tracer
    _reopening: Tracer
    _has_failed: bool = attrs.field(default=False, init=False)

    @classmethod
    def of(
        cls,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
        options: TelemetryOptions,
        names: Convention,
    ) -> Exporting:
        """Return what uses these providers; None: nothing of that kind is made."""
        provider = trace.NoOpTracerProvider() if tracers is None else tracers

        def tracer(scope: str) -> Tracer:
            return provider.get_tracer(scope, __version__, schema_url=names.schema_url)

        # Of different names: the SDK returns the same tracer for the same name.
        own, reopening = tracer(SCOPE), tracer(REOPENING_SCOPE)
        return cls(options, names, ContentFilter(), Meters.of(meters, names), own, reopening)

    def start(
        self,
        name: str,
        parent: Context,
        at: float,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        traceparent: str = "",
    ) -> Span:
        """Start a span. With *traceparent*, it is the one with those ids, which another process had begun."""

        def begin(tracer: Tracer, *links: Link) -> Span:
            return tracer.start_span(name, parent, kind, dict(attributes), links=links, start_time=nanoseconds(at))

        original = span_context(traceparent)
        if original is None:
            return begin(self._tracer)
        if not hasattr(self._reopening, "id_generator"):
            # Not the SDK's tracer: the span gets ids of its own.
            return begin(self._reopening, Link(original))
        # Locked: the provider has one such tracer, and another engine with it may run in another thread.
        with _REOPENING:
            self._reopening.id_generator = _SameIds(original)  # pyright: ignore[reportAttributeAccessIssue]  # the SDK's
            return begin(self._reopening)

    def guarded(self, work: Callable[[], T]) -> T | None:
        """Return what *work* returns; None if it raised, which is reported once."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # OpenTelemetry's, or ours: no turn may fail because it is watched
            if not self._has_failed:
                self._has_failed = True
                _log.warning("telemetry failed, and is incomplete from now on: %s", describe(error))
            return None


@attrs.frozen
class _SameIds:
    """The ids of a span that exists already (the SDK's `IdGenerator`)."""

    _original: SpanContext

    def generate_span_id(self) -> int:
        return self._original.span_id

    def generate_trace_id(self) -> int:
        return self._original.trace_id

    def is_trace_id_random(self) -> bool:
        return bool(self._original.trace_flags & TraceFlags.RANDOM_TRACE_ID)


def nanoseconds(seconds: float) -> int:
    """Return a time as OpenTelemetry counts it."""
    return int(seconds * 1e9)


def recorded_ids(span: Span) -> str:
    """Return the ids to record of a span of ours, as W3C writes them; empty if it will not be exported."""
    # Without a provider or a sample, a span may have the ids of the one above it.
    return traceparent_of(span) if span.is_recording() else ""


def traceparent_of(span: Span) -> str:
    """Return a span's ids as W3C writes them; empty if it has none."""
    # Written here, not by the propagator: each call has one.
    own = span.get_span_context()
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}" if own.is_valid else ""


def context_of(headers: Mapping[str, str]) -> Context:
    """Return the context that W3C headers name; an empty one if they name none."""
    return _BAGGAGE.extract(dict(headers), _PROPAGATOR.extract(dict(headers), Context()))


def span_context(traceparent: str) -> SpanContext | None:
    """Return the ids in a `traceparent`; None if there are none."""
    if not traceparent:
        return None
    found = trace.get_current_span(context_of({"traceparent": traceparent})).get_span_context()
    return found if found.is_valid else None


def environment_of(context: Context) -> Mapping[str, str]:
    """Return the variables by which a process joins a trace."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers, context)
    _BAGGAGE.inject(headers, context)
    return {name.upper(): value for name, value in headers.items()}
