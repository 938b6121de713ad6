"""Spans kept in memory, and what a test wants to know of them."""

from collections.abc import Iterator, Mapping

import attrs
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from engine.telemetry import OpenTelemetry

Tree = tuple[str, tuple["Tree", ...]]


class RecordedSpans(SpanProcessor):
    """A provider of tracers that keeps every span, also those that never end, and one of meters."""

    def __init__(self) -> None:
        self.begun: list[Span] = []
        self.ended: list[ReadableSpan] = []
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(self)
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def telemetry(self, **options: object) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)  # type: ignore[arg-type]  # a test's

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        del parent_context
        self.begun.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    # -- spans -------------------------------------------------------------------------------

    @property
    def roots(self) -> list[ReadableSpan]:
        return [span for span in self.ended if span.parent is None]

    @property
    def orphans(self) -> list[str]:
        """The spans whose parent was not exported."""
        known = {span.context.span_id for span in self.ended if span.context is not None}
        return [s.name for s in self.ended if s.parent is not None and s.parent.span_id not in known]

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.ended if span.name == name]

    def below(self, span: ReadableSpan) -> Iterator[ReadableSpan]:
        assert span.context is not None
        for each in self.ended:
            if each.parent is not None and each.parent.span_id == span.context.span_id:
                yield each

    def tree(self, span: ReadableSpan | None = None, *, without: frozenset[str] = frozenset()) -> Tree:
        """Return the names below a span, by default the only root, sorted; those of *without* are left out."""
        if span is None:
            (span,) = self.roots
        kept = [self.tree(each, without=without) for each in self.below(span) if each.name not in without]
        return span.name, tuple(sorted(kept))

    # -- metrics -----------------------------------------------------------------------------

    def metrics(self) -> dict[str, list[Mapping[str, object]]]:
        """Return the labels of each metric that was recorded."""
        found: dict[str, list[Mapping[str, object]]] = {}
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = [dict(point.attributes or {}) for point in metric.data.data_points]
        return found


@attrs.frozen
class Facts:
    """What a span says about itself."""

    span: ReadableSpan

    @property
    def error(self) -> object:
        assert (self.span.status.status_code is StatusCode.ERROR) == ("error.type" in (self.span.attributes or {}))
        return (self.span.attributes or {}).get("error.type")

    @property
    def seconds(self) -> float:
        assert self.span.start_time is not None
        assert self.span.end_time is not None
        return (self.span.end_time - self.span.start_time) / 1e9

    def __getitem__(self, name: str) -> object:
        return (self.span.attributes or {}).get(name)
