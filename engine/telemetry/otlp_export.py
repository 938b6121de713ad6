"""Exports to a collector, as the user's settings and OpenTelemetry's variables say: for commands, which have no host.

An exporter works in threads of its own, behind a queue that drops what is too much. So one that hangs, or fails, costs
spans and nothing else; that is reported once, when the command ends.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import Thread
from typing import TYPE_CHECKING, Final

import attrs

from engine.config.telemetry_config import TelemetryConfig
from engine.core.errors import ConfigError
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.nursery.cleanup import close_bounded
from engine.telemetry.open_telemetry import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

MISSING: Final = (
    "[telemetry] is enabled, and needs the extra 'otlp'\nNext: pip install 'nursery-engine[otlp]'\n"
    "or: engine config set telemetry.enabled false"
)
# Seconds for what was not sent when a command ends. A collector on this machine needs some milliseconds.
LAST_EXPORT: Final = 2.0
_EXPORTERS: Final = ("otlp", "none")
_PROTOCOL: Final = "http/protobuf"
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"


@asynccontextmanager
async def exporting_telemetry(
    config: TelemetryConfig, environ: Mapping[str, str], report: Callable[[str], None]
) -> AsyncGenerator[OpenTelemetry | None]:
    """Export what is made in the block; None: nothing is to be exported. A checkpoint at the end; shielded, for `LAST_EXPORT`.

    *report* gets one line at the end if spans could not be sent. Raises `ConfigError`.
    """
    export = None if not config.enabled or _is_true(environ.get("OTEL_SDK_DISABLED")) else _open(config, environ)
    if export is None:
        yield None
        return
    try:
        yield export.telemetry
    finally:
        # In a thread: it waits for the collector, and the user's Ctrl-C must not wait for both.
        is_done = await close_bounded(export.close, LAST_EXPORT)  # noqa: ASYNC102  # bounded: see cleanup.py
        if line := export.problem(is_done=is_done):
            report(line)


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() == "true"


@attrs.define(eq=False, kw_only=True)
class _Export:
    """The providers of a command.

    Attributes:
        telemetry: makes the spans and metrics.
    """

    telemetry: OpenTelemetry
    _shutdowns: Sequence[Callable[[], None]] = attrs.field(alias="shutdowns")
    _spans: _CountingExporter | None = attrs.field(alias="spans")

    async def close(self) -> None:
        """Send what is left. A checkpoint; if cancelled, its thread is left behind, and does not outlive the process."""

        def close_all() -> None:
            # Side by side: the second one must not wait for a collector that the first one did not reach.
            threads = [Thread(target=shutdown, daemon=True) for shutdown in self._shutdowns]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        await to_thread(close_all)

    def problem(self, *, is_done: bool) -> str:
        """Return a line about spans that could not be sent; empty if all were."""
        spans = self._spans
        if spans is None or (is_done and not spans.lost):
            return ""
        count = f"{spans.lost:,} spans" if spans.lost else "some spans"
        return f"{count} could not be sent to {spans.endpoint}: {spans.reason or 'it does not answer, or refuses them'}"


def _open(config: TelemetryConfig, environ: Mapping[str, str]) -> _Export | None:
    """Return the providers; None: the environment turns off both traces and metrics. Raises `ConfigError`."""
    kinds = {kind: _exporter_of(environ, kind) for kind in ("TRACES", "METRICS")}
    if "otlp" not in kinds.values():
        return None
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise ConfigError(MISSING) from error
    # It logs each failure, some of them often, and without a handler of ours that goes to the terminal.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    # The environment's names count: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`.
    own = {"service.version": __version__}
    if not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own["service.name"] = "engine"
    resource = Resource.create(own)
    spans = None if kinds["TRACES"] == "none" else _CountingExporter.of(config, environ)
    tracers = None if spans is None else _tracers(spans, resource)
    meters = None if kinds["METRICS"] == "none" else MeterProvider([_reader(config)], resource, shutdown_on_exit=False)
    return _Export(
        telemetry=OpenTelemetry(
            tracer_provider=tracers,
            meter_provider=meters,
            content=config.content,
            children=config.children,
            user=config.user,
        ),
        shutdowns=[provider.shutdown for provider in (tracers, meters) if provider is not None],
        spans=spans,
    )


def _exporter_of(environ: Mapping[str, str], kind: str) -> str:
    name = f"OTEL_{kind}_EXPORTER"
    exporter = environ.get(name, "").strip() or "otlp"
    if exporter not in _EXPORTERS:
        raise ConfigError(f"{name} is {exporter!r}; engine knows {' and '.join(_EXPORTERS)}\nNext: unset {name}")
    for variable in (f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environ.get(variable, "").strip() or _PROTOCOL
        if exporter == "otlp" and protocol != _PROTOCOL:
            raise ConfigError(f"{variable} is {protocol!r}; engine knows {_PROTOCOL}\nNext: unset {variable}")
    return exporter


def _tracers(spans: _CountingExporter, resource: Resource) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(spans))  # type: ignore[arg-type]  # it has the methods
    return tracers


def _reader(config: TelemetryConfig) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    return PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=_path(config, "v1/metrics")))


def _path(config: TelemetryConfig, path: str) -> str | None:
    """Return the address of a signal; None: the exporter takes the environment's."""
    return f"{config.endpoint.rstrip('/')}/{path}" if config.endpoint else None


@attrs.define(eq=False)
class _CountingExporter:
    """An exporter that notes what could not be sent (the SDK's `SpanExporter`).

    Attributes:
        endpoint: where spans go, for the user.
        lost: how many could not be sent.
        reason: why the first of them could not.
    """

    _exporter: SpanExporter
    endpoint: str
    lost: int = 0
    reason: str = ""

    @classmethod
    def of(cls, config: TelemetryConfig, environ: Mapping[str, str]) -> _CountingExporter:
        """Return the exporter that the settings and the environment name. Raises `ConfigError`."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise ConfigError(MISSING) from error
        named = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""
        return cls(OTLPSpanExporter(endpoint=_path(config, "v1/traces")), config.endpoint or named or _DEFAULT_ENDPOINT)

    def export(self, spans: Sequence[ReadableSpan]) -> object:
        """Send a batch. In the processor's thread."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001  # a library's; in its thread no one would see it
            self.reason = self.reason or type(error).__name__
            result = SpanExportResult.FAILURE
        if result is not SpanExportResult.SUCCESS:
            self.lost += len(spans)
        return result

    def shutdown(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is buffered."""
        return self._exporter.force_flush(timeout_millis)
