"""An engine whose sub-agent hangs in a tool, until the process is killed. Its spans go to standard output, as JSON."""

import json
import sys
from collections.abc import Sequence

import attrs
import trio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import engine
from engine.agents import AgentConfig
from engine.options import PermissionOptions, Ports
from engine.permission import AllowAll
from engine.telemetry import OpenTelemetry, joining_trace
from engine.testing import ScriptedProvider, call, done

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@attrs.frozen
class Task:
    """Work."""

    text: str


class Printed(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            assert span.context is not None
            parent = None if span.parent is None else f"{span.parent.span_id:x}"
            print(json.dumps([span.name, f"{span.context.span_id:x}", parent]), flush=True)
        return SpanExportResult.SUCCESS


@engine.tool(read_only=True)
async def delegate(args: Task, ctx: engine.ToolContext) -> str:
    return (await ctx.run_agent(args.text, agent=AgentConfig(), name="helper")).text


# Not `read_only`: what only reads is not in the store when it begins.
@engine.tool
async def hang(args: Task, ctx: engine.ToolContext) -> str:
    del args, ctx
    print("hangs", flush=True)
    await trio.sleep_forever()


async def main(database: str) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(Printed()))
    model = ScriptedProvider(
        [
            [*call("delegate", {"text": "Look."}, id="1"), *done("calls")],
            [*call("hang", {"text": "x"}, id="2"), *done("calls")],
        ]
    )
    async with engine.open_engine(
        model=model,
        tools=[delegate, hang],
        store=database,
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(telemetry=OpenTelemetry(tracer_provider=tracers)),
    ) as eng:
        session = await eng.create_session(session_id="ses_crash")
        with joining_trace({"traceparent": CALLER}):
            await session.run("Begin.")


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
