"""Figure `tracing`: what telemetry adds to a step, switched off, and with spans and metrics in batches."""

from __future__ import annotations

import time
from collections.abc import Sequence

import trio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import engine
from benchmarks.kit import echo, goodbye, one_call, scripted
from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.core.events import Durable, StepStarted
from engine.core.ids import CallId, MessageId, SessionId, TurnId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import Transcript, Usage
from engine.core.protocols import NoTrace
from engine.journal.log import Journal
from engine.journal.span_port import NO_TELEMETRY
from engine.journal.system_clock import SystemClock
from engine.options import Ports
from engine.store.memory import MemoryStore
from engine.telemetry import OpenTelemetry
from engine.testing.script import Answer

STEPS = 200
ROUNDS = 7
# The shortest step that counts: no host answers sooner. The engine's own share of it is less than a hundredth.
HOST_SECONDS = 0.05
# Of each step: events, blocks, and the request.
EVENTS, WORKERS, FLUSHES = 11, 2, 1


class _Dropped(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


def per_step(ports: Ports) -> float:
    """Return the CPU time of a step with one call."""
    marks: list[float] = []

    def answer(n: int) -> Answer:
        marks.append(time.process_time())
        return one_call("echo", n) if n < STEPS else goodbye()

    async def main() -> None:
        async with engine.open_engine(model=scripted(answer), tools=[echo], ports=ports) as eng:
            result = await (await eng.create_session()).run("go")
            assert result.stop_reason == "completed", result

    trio.run(main)
    return (marks[-1] - marks[4]) / (len(marks) - 5)


def exported() -> float:
    """Return the CPU time of a step whose spans and metrics are exported, the exporting threads included."""
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(_Dropped()))
    meters = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    try:
        return per_step(Ports(telemetry=OpenTelemetry(tracer_provider=tracers, meter_provider=meters)))
    finally:
        tracers.shutdown()
        meters.shutdown()


def switched_off() -> float:
    """Return the CPU time of what a step calls of telemetry that is off."""
    journal = Journal(
        session_id=SessionId("s"),
        path=(SessionId("s"),),
        store=MemoryStore(),
        clock=SystemClock(),
        trace=NoTrace(),
    )
    spans, turn, call = NO_TELEMETRY.follow(journal, time.time), TurnId("t"), CallId("c")
    info, request = ModelInfo(name="a/b"), ModelRequest(model="a/b", system="", transcript=Transcript())
    event: Durable = StepStarted(step=1, attempt=1, message_id=MessageId("m"), model="a/b")
    usage, rounds = Usage(), 2_000
    began = time.process_time()
    for _ in range(rounds):
        for _ in range(EVENTS):
            spans.note(event)
        for _ in range(WORKERS):
            with spans.work(turn, call):
                pass
        for _ in range(FLUSHES):
            with spans.flush(turn):
                pass
        chat = spans.chat(turn, info, request)
        with chat:
            pass
        chat.finish(usage, 0.0, "stop", "")
    return (time.process_time() - began) / rounds


def measure() -> list[Row]:
    per_step(Ports())
    off, on, seams = interleaved(ROUNDS, lambda: per_step(Ports()), exported, switched_off)
    step, added = median(off), median(b - a for a, b in zip(off, on, strict=True))
    share = added / (HOST_SECONDS + step)
    return [
        Row(
            name="tracing: switched off, CPU of its calls in a step",
            measured=seconds(median(seams)),
            baseline=seconds(step),
            ratio=median(seams) / step,
            target="ratio ≤ 0.01",
            ok=median(seams) / step <= 0.01,
        ),
        Row(
            name="tracing: on, added to a step of a host that takes 50 ms",
            measured=seconds(added),
            baseline=seconds(HOST_SECONDS + step),
            ratio=share,
            target="ratio ≤ 0.03",
            ok=share <= 0.03,
        ),
        Row(
            name="tracing: on, versus the engine's own CPU of a step",
            measured=seconds(added),
            baseline=seconds(step),
            ratio=added / step,
        ),
    ]


FIGURE = Figure(
    name="tracing",
    about="what telemetry adds to a step",
    measure=measure,
    workload=exported,
)
