"""The tree of a turn's spans: with sub-agents, a wait for a person, a retry, a call of an MCP server, and a cancel."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.agents import AgentConfig
from engine.core.hooks import PromptDecision, Prompted
from engine.core.settings import RetryPolicy, Settings
from engine.events import CallProgress, CallStarted, PermissionAsked, TurnStarted
from engine.mcp import McpConfig, McpServer, McpServers
from engine.mcp.approvals import Approvals
from engine.mcp.server_memory import ServerMemory
from engine.options import PermissionOptions, Ports
from engine.providers import ModelRequest
from engine.session.engine import Engine
from engine.telemetry import OpenTelemetry, joining_trace
from engine.testing import Answer, HttpFailure, ScriptedProvider, call, done, text
from engine.tools import Tool
from tests.support.recorded_spans import Facts, RecordedSpans, Tree

SERVER = """
from mcp.server.mcpserver import Context, MCPServer
import json

server = MCPServer("demo")

@server.tool()
def meta(ctx: Context) -> str:
    "Return what came with the request."
    return json.dumps(dict(ctx.request_context.meta or {}))

server.run("stdio")
"""
FLUSHES = frozenset({"engine.store.flush"})


@attrs.frozen
class Task:
    """Work for somebody."""

    text: str


@engine.tool(read_only=True)
async def delegate(args: Task, ctx: engine.ToolContext) -> str:
    return (await ctx.run_agent(args.text, agent=AgentConfig(), name="helper")).text


@engine.tool
async def change(args: Task, ctx: engine.ToolContext) -> str:
    del ctx
    return f"changed {args.text}"


@engine.tool(read_only=True)
async def hang(args: Task, ctx: engine.ToolContext) -> str:
    del args
    # The model has finished by then, so what is cut short is this call, and nothing else.
    await trio.testing.wait_all_tasks_blocked()
    ctx.progress("at work")
    await trio.sleep_forever()


def _asks(request: ModelRequest) -> Answer | None:
    """Return what a sub-agent's model answers; None for the model of the session."""
    first = json.dumps([str(message) for message in request.transcript])
    return [*text("Found."), *done()] if "Look for" in first and "Begin." not in first else None


def scripted(*answers: Sequence[object]) -> ScriptedProvider:
    """Return a model whose sub-agents answer at once, whichever of them is asked when."""
    left = list(answers)

    def answer(request: ModelRequest) -> Answer:
        return _asks(request) or left.pop(0)  # type: ignore[return-value]

    return ScriptedProvider([answer], repeat=True)


def opened(
    spans: RecordedSpans,
    model: ScriptedProvider,
    *tools: Tool,
    source: McpServers | None = None,
    rules: Sequence[str] = (),
    options: Mapping[str, object] | None = None,
) -> Engine:
    return engine.open_engine(
        model=model,
        tools=tools,
        settings=Settings(retry=RetryPolicy(base=0.0), headless="wait"),
        permissions=PermissionOptions(rules=rules),
        ports=Ports(telemetry=spans.telemetry(**(options or {})), sources=[] if source is None else [source]),
    )


async def play(session: engine.Session) -> engine.TurnResult:
    """Run a turn; its questions are answered with yes, and it is cancelled in the tool that hangs."""
    async with session.prompt("Begin.") as turn:
        async for event in turn:
            if isinstance(event, PermissionAsked):
                await turn.reply(event.request_id, engine.Once())
            if isinstance(event, CallProgress):
                turn.cancel()
    return turn.result


@pytest.mark.os
async def test_tree_of_a_whole_turn(tmp_path: Path) -> None:
    spans = RecordedSpans()
    demo = McpServer(command=(sys.executable, "-c", SERVER), origin="host")
    source = McpServers(
        McpConfig(servers={"demo": demo}, required=("demo",), required_wait=30.0),
        approvals=Approvals(tmp_path / "approved"),
        memory=ServerMemory(tmp_path / "memory"),
    )
    model = scripted(
        [HttpFailure(529)],
        [
            *call("delegate", {"text": "Look for a."}, id="1"),
            *call("delegate", {"text": "Look for b."}, id="2"),
            *done("calls"),
        ],
        [*call("demo_meta", {}, id="3"), *call("change", {"text": "c"}, id="4"), *done("calls")],
        [*call("hang", {"text": "d"}, id="5"), *done("calls")],
    )
    rules = ("allow mcp:demo/* *", "ask change *", "allow hang *", "allow delegate *")
    async with opened(spans, model, delegate, change, hang, source=source, rules=rules) as eng:
        session = await eng.create_session(cwd=tmp_path)
        result = await play(session)
        results = [settled for m in session.state.transcript for settled in getattr(m, "results", ())]
    assert result.stop_reason == "aborted"

    helper: Tree = ("invoke_agent helper", (("chat model", ()),))
    assert spans.tree(without=FLUSHES) == (
        "invoke_agent",
        (
            ("chat model", ()),
            ("chat model", ()),
            ("chat model", ()),
            ("engine.permission_wait", ()),
            ("execute_tool change", ()),
            ("execute_tool delegate", (helper,)),
            ("execute_tool delegate", (helper,)),
            ("execute_tool demo_meta", ()),
            ("execute_tool hang", ()),
        ),
    )
    assert (len(spans.roots), spans.orphans, len(spans.begun)) == (1, [], len(spans.ended))
    assert {span.name for span in spans.ended if span.name in FLUSHES} == FLUSHES

    # The retry is an event of one request, and the cancel is an error of what it cut short, and of nothing else.
    retried = [span for span in spans.named("chat model") if span.events]
    assert [event.name for span in retried for event in span.events] == ["engine.retry"]
    errors = {span.name: Facts(span).error for span in spans.ended if Facts(span).error}
    assert errors == {"execute_tool hang": "cancelled", "invoke_agent": "aborted"}

    # The server is in the trace: the request carries the span of the call, which says what it was.
    (called,) = spans.named("execute_tool demo_meta")
    assert called.context is not None
    sent = next(each.settlement.text for each in results if each.tool == "demo_meta")
    assert f'"traceparent": "00-{called.context.trace_id:032x}-{called.context.span_id:016x}-' in sent
    assert Facts(called)["mcp.method.name"] == "tools/call"
    assert Facts(called)["mcp.protocol.version"]


async def test_waits_are_apart_from_work(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    spans = RecordedSpans()
    model = scripted([*call("change", {"text": "c"}, id="1"), *done("calls")], [*text("Done."), *done()])
    async with opened(spans, model, change, rules=("ask change *",)) as eng:
        session = await eng.create_session()
        async with session.prompt("Begin.") as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
    (wait,), (work,) = spans.named("engine.permission_wait"), spans.named("execute_tool change")
    assert wait.end_time is not None
    assert work.start_time is not None
    assert wait.end_time <= work.start_time
    assert Facts(wait)["engine.answer"] == "once"
    assert "engine.wait.duration" in spans.metrics()


async def test_denied_call_has_a_span_too() -> None:
    spans = RecordedSpans()
    model = scripted([*call("change", {"text": "c"}, id="1"), *done("calls")], [*text("Pity."), *done()])
    async with opened(spans, model, change, rules=("deny change *",)) as eng:
        await (await eng.create_session()).run("Begin.")
    (work,) = spans.named("execute_tool change")
    assert (Facts(work).error, Facts(work).seconds) == ("denied", 0.0)


async def test_wait_that_is_cancelled_ends_as_an_error() -> None:
    spans = RecordedSpans()
    model = scripted([*call("change", {"text": "c"}, id="1"), *done("calls")])
    async with opened(spans, model, change, rules=("ask change *",)) as eng:
        session = await eng.create_session()
        async with session.prompt("Begin.") as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    turn.cancel()
    (wait,), (work,) = spans.named("engine.permission_wait"), spans.named("execute_tool change")
    assert (Facts(wait).error, Facts(wait)["engine.answer"]) == ("cancelled", "withdrawn")
    assert (Facts(work).error, Facts(work).seconds) == ("not_executed", 0.0)
    assert "engine.cancel.duration" in spans.metrics()


async def test_flushes_are_within_their_turn() -> None:
    spans = RecordedSpans()
    async with opened(spans, scripted([*text("Yes."), *done()])) as eng:
        await (await eng.create_session()).run("Begin.")
    (turn,) = spans.named("invoke_agent")
    ends = [span.end_time or 0 for span in spans.named("engine.store.flush")]
    assert len(ends) == 2
    assert max(ends) <= (turn.end_time or 0)
    assert spans.ended[-1] is turn


async def test_spans_of_others_are_below_ours() -> None:
    spans = RecordedSpans()
    tracer = spans.tracers.get_tracer("other")

    def answer(request: ModelRequest) -> Answer:
        with tracer.start_as_current_span("by the model"):
            if len(request.transcript) > 1:
                return [*text("Done."), *done()]
            return [*call("look", {"text": "x"}, id="1"), *done("calls")]

    @engine.tool(read_only=True)
    async def look(args: Task, ctx: engine.ToolContext) -> str:
        del args, ctx
        with tracer.start_as_current_span("by the tool"):
            await trio.lowlevel.checkpoint()
        return "seen"

    async def prompted(prompt: Prompted) -> PromptDecision | None:
        del prompt
        with tracer.start_as_current_span("by the hook"):
            await trio.lowlevel.checkpoint()
        return None

    async with engine.open_engine(
        model=ScriptedProvider([answer], repeat=True),
        tools=[look],
        hooks=engine.Hooks(user_prompt=(prompted,)),
        ports=Ports(telemetry=spans.telemetry()),
    ) as eng:
        await (await eng.create_session()).run("Begin.")
    chat: Tree = ("chat model", (("by the model", ()),))
    tool: Tree = ("execute_tool look", (("by the tool", ()),))
    assert spans.tree(without=FLUSHES) == ("invoke_agent", (("by the hook", ()), chat, chat, tool))


async def test_turn_joins_its_callers_trace() -> None:
    spans = RecordedSpans()
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with opened(spans, scripted([*text("Yes."), *done()])) as eng:
        session = await eng.create_session()
        with joining_trace({"TRACEPARENT": caller, "HOME": "/"}):
            await session.run("Begin.")
    (turn,) = spans.named("invoke_agent")
    assert turn.parent is not None
    assert f"00-{turn.parent.trace_id:032x}-{turn.parent.span_id:016x}-01" == caller


async def test_hosts_span_is_above_the_turn() -> None:
    spans = RecordedSpans()
    with spans.tracers.get_tracer("host").start_as_current_span("web request"):
        async with opened(spans, scripted([*text("Yes."), *done()])) as eng:
            await (await eng.create_session()).run("Begin.")
    assert spans.tree(without=FLUSHES) == ("web request", (("invoke_agent", (("chat model", ()),)),))


async def test_ids_of_a_span_that_is_not_ours_are_not_recorded() -> None:
    spans = RecordedSpans()
    only_metrics = OpenTelemetry(meter_provider=spans.meters)
    model = scripted([*call("change", {"text": "c"}, id="1"), *done("calls")], [*text("Done."), *done()])
    with spans.tracers.get_tracer("host").start_as_current_span("web request"):
        async with engine.open_engine(
            model=model,
            tools=[change],
            permissions=PermissionOptions(profile="full"),
            ports=Ports(telemetry=only_metrics),
        ) as eng:
            session = await eng.create_session()
            await session.run("Begin.")
            ids = [event.traceparent for event in session.events() if isinstance(event, (CallStarted, TurnStarted))]
    assert ids == ["", ""]
    assert "gen_ai.execute_tool.duration" in spans.metrics()


async def test_queued_turn_is_no_part_of_the_one_before() -> None:
    spans = RecordedSpans()
    async with opened(spans, scripted([*text("One."), *done()], [*text("Two."), *done()])) as eng:
        session = await eng.create_session()
        turn = eng.start_turn(session, "Begin.")
        session.inputs.queue("And then?")
        await turn.wait()
        while session.state.turns < 2:
            await trio.lowlevel.checkpoint()
    assert [spans.tree(root, without=FLUSHES) for root in spans.roots] == [("invoke_agent", (("chat model", ()),))] * 2


@pytest.mark.parametrize("children", [True, False])
@pytest.mark.os
async def test_commands_join_the_trace_if_asked_for(children: bool) -> None:
    from engine.tools import builtin_tools

    spans = RecordedSpans()
    model = scripted(
        [*call("bash", {"command": "echo [$TRACEPARENT]"}, id="1"), *done("calls")],
        [*text("Done."), *done()],
    )
    async with opened(spans, model, *builtin_tools(), rules=("allow bash *",), options={"children": children}) as eng:
        session = await eng.create_session()
        await session.run("Begin.")
        (result,) = [settled for m in session.state.transcript for settled in getattr(m, "results", ())]
    (called,) = spans.named("execute_tool bash")
    assert called.context is not None
    assert (f"{called.context.span_id:016x}" in result.settlement.text) == children
