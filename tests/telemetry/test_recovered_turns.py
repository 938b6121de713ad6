"""A turn whose process was killed: the next engine exports the spans that were open, with the ids they had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

import engine
from engine.core.settings import Settings
from engine.events import PermissionAsked, TurnStarted
from engine.options import PermissionOptions, Ports
from engine.testing import ScriptedProvider, call, done, text
from engine.tools import builtin_tools
from tests.support.processes import python_process, read_line
from tests.support.recorded_spans import Facts, RecordedSpans
from tests.telemetry.crashing_process import CALLER


@pytest.mark.os
async def test_crashed_turn_gets_its_root_and_calls(tmp_path: Path) -> None:
    database = str(tmp_path / "s.db")
    exported: list[tuple[str, str, str | None]] = []
    with python_process("-m", "tests.telemetry.crashing_process", database) as process:
        while (line := await trio.to_thread.run_sync(read_line, process)) != "hangs":
            exported.append(tuple(json.loads(line)))
        process.kill()
        process.wait()
    spans = RecordedSpans()
    async with engine.open_engine(
        model=ScriptedProvider([[*text("Yes."), *done()]]), store=database, ports=Ports(telemetry=spans.telemetry())
    ) as eng:
        session = await eng.open_session("ses_crash")
        (started,) = [event for event in session.events() if isinstance(event, TurnStarted)]

        # The turn after it has ids of its own: the SDK hands out one tracer for each name.
        await session.run("Go on.")
    (fresh,) = spans.roots
    assert fresh.context is not None
    assert f"{fresh.context.span_id:x}" not in {own for _, own, _ in exported}
    for span in [*spans.below(fresh), fresh]:
        spans.ended.remove(span)

    # All that was below the lost spans is in one trace again, whose top is the caller's span.
    for span in spans.ended:
        assert span.context is not None
        parent = None if span.parent is None else f"{span.parent.span_id:x}"
        exported.append((span.name, f"{span.context.span_id:x}", parent))
    known = {own for _, own, _ in exported}
    assert len(known) == len(exported)
    assert {parent for _, _, parent in exported} - known == {"b7ad6b7169203331"}
    assert {span.name for span in spans.ended} == {
        "invoke_agent",
        "execute_tool delegate",
        "invoke_agent helper",
        "execute_tool hang",
    }
    (root,) = spans.named("invoke_agent")
    assert root.context is not None
    assert started.caller == CALLER
    assert started.traceparent.split("-")[1:3] == [CALLER.split("-")[1], f"{root.context.span_id:016x}"]
    assert (root.start_time, Facts(root).error, Facts(root)["engine.recovered"]) == (
        int(started.time * 1e9),
        "crashed",
        True,
    )
    (hung,) = spans.named("execute_tool hang")
    assert Facts(hung).error == "interrupted_by_crash"
    assert "engine.recoveries" in spans.metrics()


@pytest.mark.os
async def test_parked_turn_has_one_root_in_the_end(tmp_path: Path) -> None:
    database, before, after = str(tmp_path / "s.db"), RecordedSpans(), RecordedSpans()
    settings = Settings(park=True, headless="wait")
    asks = [*call("bash", {"command": "touch x"}, id="1"), *done("calls")]
    rules = PermissionOptions(rules=("ask bash *",))
    async with engine.open_engine(
        model=ScriptedProvider([asks]),
        tools=builtin_tools(),
        settings=settings,
        store=database,
        permissions=rules,
        ports=Ports(telemetry=before.telemetry()),
    ) as eng:
        session = await eng.create_session(cwd=tmp_path, session_id="ses_parked")
        turn = eng.start_turn(session, "Begin.")
        async for event in turn:
            if isinstance(event, PermissionAsked):
                break
        while session.state.turn is None or session.state.turn.step is None or session.state.turn.step.received is None:
            await trio.lowlevel.checkpoint()
    assert before.named("invoke_agent") == []
    async with engine.open_engine(
        model=ScriptedProvider([[*text("Done."), *done()]]),
        tools=builtin_tools(),
        settings=settings,
        store=database,
        permissions=rules,
        ports=Ports(telemetry=after.telemetry()),
    ) as eng:
        session = await eng.open_session("ses_parked")
        async with session.resume() as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
    (root,) = after.named("invoke_agent")
    (first, *_) = before.named("chat model")
    assert root.context is not None
    assert first.parent is not None
    assert (root.context.span_id, root.parent, Facts(root).error) == (first.parent.span_id, None, None)
    assert (after.orphans, len(after.named("execute_tool bash"))) == ([], 1)
