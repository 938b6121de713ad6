"""Exporters and processors that hang or raise: no turn notices, and one line says so."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import engine
from engine.config.telemetry_config import TelemetryConfig
from engine.core.errors import ConfigError
from engine.options import Ports
from engine.telemetry import OpenTelemetry
from engine.telemetry.otlp_export import exporting_telemetry
from engine.testing import ScriptedProvider, done, text
from tests.support.json_server import JsonServer
from tests.support.recorded_spans import RecordedSpans


class Hanging(SpanExporter):
    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.may_go_on = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        self.is_asked.set()
        self.may_go_on.wait()
        return SpanExportResult.SUCCESS


class Raising(SpanProcessor):
    def __init__(self, place: str) -> None:
        self.place = place

    def on_start(self, span: Span, parent_context: object = None) -> None:
        del span, parent_context
        if self.place == "start":
            raise RuntimeError("a broken processor")

    def on_end(self, span: ReadableSpan) -> None:
        del span
        if self.place == "end":
            raise RuntimeError("a broken processor")


async def run(telemetry: OpenTelemetry, turns: int = 1) -> list[engine.TurnResult]:
    model = ScriptedProvider([[*text("Yes."), *done()]], repeat=True)
    async with engine.open_engine(model=model, ports=Ports(telemetry=telemetry)) as eng:
        session = await eng.create_session()
        return [await session.run("Begin.") for _ in range(turns)]


@pytest.mark.os
async def test_exporter_that_hangs_delays_no_turn() -> None:
    exporter, tracers = Hanging(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=8, max_export_batch_size=2))
    try:
        # More spans than the queue holds, while its thread hangs in the first batch.
        results = await run(OpenTelemetry(tracer_provider=tracers), turns=20)
        # Its thread may not have run yet.
        assert await trio.to_thread.run_sync(exporter.is_asked.wait, 60)
        assert [result.stop_reason for result in results] == ["completed"] * 20
    finally:
        exporter.may_go_on.set()
        # Not a checkpoint: the exporter hangs no longer.
        tracers.shutdown()


@pytest.mark.parametrize("place", ["start", "end"])
async def test_processor_that_raises_is_reported_once(place: str, caplog: pytest.LogCaptureFixture) -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(Raising(place))
    with caplog.at_level(logging.WARNING, "engine.telemetry"):
        (*_, last) = await run(OpenTelemetry(tracer_provider=tracers), turns=3)
    assert last.stop_reason == "completed"
    (line,) = [record.getMessage() for record in caplog.records if record.name == "engine.telemetry"]
    assert "a broken processor" in line


@pytest.mark.os
async def test_collector_that_fails_is_reported_once() -> None:
    lines: list[str] = []
    async with trio.open_nursery() as nursery:
        url = await nursery.start(JsonServer({}).serve)
        config = TelemetryConfig(enabled=True, endpoint=url)
        async with exporting_telemetry(config, {"OTEL_METRICS_EXPORTER": "none"}, lines.append) as telemetry:
            assert telemetry is not None
            await run(telemetry, turns=3)
        nursery.cancel_scope.cancel()
    (line,) = lines
    assert f"{url}: it does not answer, or refuses them" in line


@pytest.mark.parametrize(
    "environ", [{"OTEL_SDK_DISABLED": "true"}, dict.fromkeys(("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"), "none")]
)
async def test_environment_turns_telemetry_off(environ: dict[str, str]) -> None:
    async with exporting_telemetry(TelemetryConfig(enabled=True), environ, print) as telemetry:
        assert telemetry is None
    await trio.lowlevel.checkpoint()


def test_telemetry_needs_a_provider() -> None:
    with pytest.raises(ConfigError, match="needs a tracer_provider"):
        OpenTelemetry()


@pytest.mark.parametrize(
    "endpoint", ["localhost:4318", "ftp://x", "http://", "http://h:99999", "http://[", "grpc://x:4317"]
)
def test_endpoint_is_a_url(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="endpoint must be a URL"):
        TelemetryConfig(endpoint=endpoint)


async def test_metrics_name_no_session() -> None:
    spans = RecordedSpans()
    (result,) = await run(spans.telemetry(user="u1"))
    labels = [point for points in spans.metrics().values() for point in points]
    assert result.stop_reason == "completed"
    assert labels
    assert not [value for point in labels for value in point.values() if str(value).startswith(("ses_", "turn_", "u1"))]
