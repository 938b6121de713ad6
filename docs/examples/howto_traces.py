"""How to see a trace: a receiver that prints the tree of each trace, and an engine that sends one to it.

python howto_traces.py                   runs a turn, and prints its tree
python howto_traces.py --listen 4318     prints what other programs send, until Ctrl-C
"""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs
import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import engine
from engine.options import PermissionOptions, Ports
from engine.telemetry import OpenTelemetry
from engine.testing import ScriptedProvider, call, done, text


def lines_of(spans: list[Span], *, with_times: bool) -> Iterator[str]:
    """Yield the lines of the tree of a trace."""
    below = defaultdict[bytes, list[Span]](list)
    known = {span.span_id for span in spans}
    for span in sorted(spans, key=lambda span: span.start_time_unix_nano):
        below[span.parent_span_id if span.parent_span_id in known else b""].append(span)

    def walk(parent: bytes, depth: int) -> Iterator[str]:
        for span in below[parent]:
            facts = {each.key: each.value for each in span.attributes}
            seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
            time = f"  {seconds:.3f} s" if with_times else ""
            error = f"  {facts['error.type'].string_value}" if "error.type" in facts else ""
            yield f"{'  ' * depth}{span.name}{time}{error}"
            yield from (f"{'  ' * (depth + 1)}* {event.name}" for event in span.events)
            yield from walk(span.span_id, depth + 1)

    return walk(b"", 0)


@contextmanager
def receiver(port: int, show: Callable[[list[Span]], None]) -> Generator[int]:
    """Receive spans on the loopback; call *show* with all spans of a trace once its top span has come."""
    traces = defaultdict[bytes, list[Span]](list)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":  # not metrics
                self.take(body)
            # Only now: the sender may be this program, which ends once all is sent.
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def take(self, body: bytes) -> None:
            received = ExportTraceServiceRequest.FromString(body).resource_spans
            spans = [span for resource in received for scope in resource.scope_spans for span in scope.spans]
            for span in spans:
                traces[span.trace_id].append(span)
            for trace_id in dict.fromkeys(span.trace_id for span in spans if span.name.startswith("invoke_agent")):
                # A sub-agent's turn may be sent before the turn above it.
                if any(not span.parent_span_id for span in traces[trace_id]):
                    show(traces[trace_id])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def listen(port: int) -> None:
    """Print what is sent to that port, until Ctrl-C."""
    with receiver(port, lambda spans: print(*lines_of(spans, with_times=True), sep="\n", flush=True)) as own:
        print(f"listening on http://127.0.0.1:{own}", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


@attrs.frozen
class Look:
    """Look for a word."""

    word: str


@engine.tool(read_only=True)
async def look(args: Look, ctx: engine.ToolContext) -> str:
    await trio.sleep(0.01)
    return f"{args.word} is in a.py"


async def turn(port: int) -> None:
    """Run a turn whose spans are sent to that port."""
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"http://127.0.0.1:{port}/v1/traces")))
    model = ScriptedProvider([[*call("look", {"word": "spam"}, id="1"), *done("calls")], [*text("In a.py."), *done()]])
    async with engine.open_engine(
        model=model,
        tools=[look],
        permissions=PermissionOptions(profile="full"),
        ports=Ports(telemetry=OpenTelemetry(tracer_provider=tracers)),
    ) as eng:
        session = await eng.create_session()
        print((await session.run("Where is spam?")).text)
    # The provider is the program's own: what is left in its queue is sent now.
    await trio.to_thread.run_sync(tracers.shutdown)


def main() -> None:
    with receiver(0, lambda spans: print(*lines_of(spans, with_times=False), sep="\n")) as port:
        trio.run(turn, port)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--listen"]:
        listen(int(sys.argv[2]))
    else:
        main()
